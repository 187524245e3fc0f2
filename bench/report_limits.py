# SPDX-License-Identifier: Apache-2.0
"""What was tried for goals that were missed, what was measured, and what limits them. A row speaks
for the missed rows of a section whose name, with the kernels that missed it, its pattern finds; the
first that does counts. core/kernels/KERNELS.md has the details."""
import re

# section, pattern, what was tried and what limits it
LIMITS = (
    ("shapes", r"^(window|documents)", "a strip of 12 rows computes 280 scores and 267 products "
     "with values for 256 that are seen: 0.94 of the visible area's time, for the 0.85 that "
     "products are of the full shape's; exponentials and what a softmax costs beside them, in two "
     "blocks, are 0.15, and reading, packing, hiding and storing rows, 370 cycles each, 0.32. Runs "
     "of keys kept per task, exact sums, wider transposition and strips classified at once took "
     "one thread from 1.52 to 1.41 by AVX-512 and from 1.35 to 1.26 by AVX2 for a window, from "
     "1.20 to 1.155 and from 1.14 to 1.094 for documents; sums of many rows in one tree and lower "
     "strips brought nothing."),
    ("shapes", r"^full-1024-64 by fused-avx512$", "seen at 244 GFLOP/s, which is one thread's "
     "rate: the second worker computed next to nothing in those rounds, though nobody else used "
     "the processors; among the peers the same call ran at 410."),
    ("shapes", r"fused-avx2$", "at D=64 exponentials are 8 % of the time, and 87 % of the rest are "
     "the two products, at 0.95 of the AVX2 peak; the yardstick does nothing but a product, and "
     "runs at the peak itself."),
    ("naive", r"fused-avx2$", "there is to win what the two products leave: here they run near "
     "the peak of AVX2, where the goals were set they ran at 0.8 of it; and the softmax between "
     "them has AVX-512."),
    ("naive", r"fused-avx512$", "where OpenBLAS knows the processor the two products of the other "
     "side use AVX-512 too, at 0.93 of the peak: there is to win what they leave, the softmax and "
     "the scores' way to memory and back."),
    ("float64", r"", "a double takes the room of two floats: 0.5 of sgemm is the most there is."),
    ("decode", r"DRAM$", "each line is asked for 8 KiB ahead, which took one thread from 17 to "
     "32 GB/s of float16 and from 30 to 33 of float32, D=64, where a plain read gets 42 and two "
     "threads share 54; 4 KiB and 12 KiB were slower. What is left of a call of 0.3 ms is to wake "
     "a thread, 25 us, and 32 chunks that each begin with lines that nobody asked for."),
    ("decode", r"cache$", "at D=64 a score is four multiply-adds per lane and then a tree of "
     "shuffles: scores run at 0.6 to 0.75 of the peak in the second cache, output at 0.92, and "
     "softmax, 8 %, and reading from the third cache come to that; one thread alone reaches 0.56 "
     "with four float16 heads and 0.61 with eight. Eight rows by two keys at once were slower."),
    ("scaling", r"", "two workers take 1 % more CPU time than one (causal, n=2048, D=64), and a "
     "head's lightest tasks come last, so neither memory nor a ragged end is it: what two lose is "
     "waiting, half a millisecond of a call at most, which longer calls do not show."),
    ("sessions", r"G=1", "0.92 to 1.06 was seen from run to run, of a plain read that itself "
     "differs by as much."),
    ("steps", r"end to end$", "the echo and its client have one processor between them, where the "
     "one wakes as the other sleeps; the daemon waits awake on another, and then the client is "
     "woken there, which takes 20 to 30 us: twice the echo on one processor."),
    ("steps", r"from read to write$", "a long step is the workers', and two threads have to be "
     "woken for it, and the I/O thread after it: 20 to 30 us each."),
    ("service", r"fused", "the same bytes cost 1.5 ms around 10.1 ms of blas, which meets the "
     "goal, and 2.3 ms around 5.2 ms of fused (n=1024, D=64): most of it are the loopback's own "
     "copies of 6.3 MB up and 2.1 MB down, which no faster kernel shortens."),
    ("service", r"by blas", "1.16 to 1.29 was seen from run to run at n=1024: 0.4 ns a byte up and "
     "down, of which 0.26 are what a server that only counts takes for them."),
    ("encodings", r"^1 MB.*JSON$", "3.9 to 5.8 was seen from run to run. Of 7.5 ms two workers "
     "read for 3.6 and print for 1.8; the rest is the loopback's."),
    ("encodings", r"^1 MB", "bytes that go there and back without a look at them take 0.5 to "
     "0.9 ms, safetensors 0.5 to 0.8 in the same runs, FastAPI 1.3 to 1.7: nobody can be five "
     "times as quick."),
    ("encodings", r"npz$", "zip has a checksum for each member, which the peers verify and make "
     "too: CRC-32 at 14 GB/s over what comes and what goes, 2.4 of 11 ms at 16 MB."),
    ("encodings", r"binary$", "tensors stand behind a JSON document of any length, hence rarely "
     "where floats may lie, and are copied, 1 ms of 11 at 16 MB; all else is the loopback's: bytes "
     "there and back alone take 11 ms."),
    ("encodings", r"", "bytes there and back without a look at them take as long as this: 11 ms at "
     "16 MB, 44 to 57 at 64."),
    ("peers", r"^step n=\d+ D=\d+ G=1 f32", "with one query to a key both sides read the same "
     "bytes from memory once, and wait for it: 32 MiB in 1.3 ms are what a plain read takes."),
    ("peers", r"^decode.*ggml$", "the smallest and the largest of the rounds are a factor of two "
     "to fifteen apart, nothing being discarded here; from memory both wait for it."),
    ("peers", r"^causal.*ggml$", "ggml has AVX-512 here too, and its causal calls take 0.78 of its "
     "full ones' time (n=2048 and 4096, D=64), where they took as long when the goals were set."),
    ("peers", r"^full.*ggml$", "ggml has AVX-512 here as ours does, where neither had it when the "
     "goals were set; with D=128 products are more of both sides' time, and there is less to win."),
    ("peers", r"onnxruntime$", "onnxruntime's products use AVX-512 as ours do, and its flash "
     "attention works in tiles too; the goals were set where neither side had AVX-512."),
)

UNEXPLAINED = "nothing is said about it yet."


def limit_of(section, row):
    for where, pattern, words in LIMITS:
        if where == section and re.search(pattern, row):
            return words
    return UNEXPLAINED


def section(judge):
    """A paragraph per limit, with the rows that it holds for."""
    text = "## What is missed, and what limits it\n\n"
    if judge.undecided:
        text += f"{len(judge.undecided)} goals are not decided by this run.\n\n"
    if not judge.missed:
        return text + "None of the others is missed.\n\n"
    groups = {}
    for where, row in judge.missed:
        groups.setdefault((where, limit_of(where, row)), []).append(row)
    for (where, words), rows in groups.items():
        text += f"* `{where}`: {'; '.join(rows)}: {words}\n"
    return text + "\n"

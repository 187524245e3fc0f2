# SPDX-License-Identifier: Apache-2.0
"""What was tried for goals that were missed, what was measured, and what limits them. A row speaks
for the missed rows of a section whose name, with the kernels that missed it, its pattern finds; the
first that does counts. core/kernels/KERNELS.md has the details."""
import re

# section, pattern, what was tried and what limits it
LIMITS = (
    ("shapes", r"^(window|documents)", "a strip of 12 rows computes 280 scores and 267 products "
     "with values for 256 that are seen, in two blocks: products are 0.75 of the time, "
     "exponentials 0.08, reading, packing and writing rows 0.15. A head to each thread, rows "
     "stepped through where they lie, one pass over the output and runs of keys found in one loop "
     "took a window from 1.78 to 1.29; queries on whole vectors, rows asked for further ahead, "
     "sums of many rows in one tree and lower strips brought nothing."),
    ("shapes", r"", "by samples of one thread (AVX-512) the two products are 86 % of the time at "
     "D=64, full, which is the FMA peak's pace; exponentials are 9 %, reading, packing and writing "
     "rows 3 % at 1024 tokens and 6 at 512, and under a causal mask a strip of rows computes 3 % "
     "more scores than it sees (1024 tokens). The yardstick, at 0.92 of the peak, does nothing but "
     "a product. What two threads lost by working at the same head, 3 % at 1024 tokens and 20 at "
     "512, causal, is gone."),
    ("naive", r"fused-avx2$", "there is to win what the two products leave: here they run near the "
     "peak of AVX2, where the goals were set they ran at 0.8 of it; and the softmax between them "
     "has AVX-512."),
    ("naive", r"fused-avx512$", "where OpenBLAS knows the processor the two products of the other "
     "side use AVX-512 too, at 0.93 of the peak: there is to win what they leave, the softmax and "
     "the scores' way to memory and back."),
    ("float64", r"", "a double takes the room of two floats: 0.5 of sgemm is the most there is, "
     "and OpenBLAS's dgemm is 0.93 of it on tiles of this size. By samples it is 77 % of the time, "
     "its copies of P and of keys 7, clearing the tile 1, exponentials, of which each takes 16 "
     "multiply-adds, 11, and widening keys and values 2, for which it was 4: 0.393 since, at rest. "
     "Tiles of 256 keys bring 1 % and take 4 from causal calls."),
    ("decode", r"DRAM$", "keys read one after the other, 4 KiB ahead, took float32 from 0.70 to "
     "0.93 of a plain read and float16 from 0.43 to 0.65, or from 0.66 to 0.90 in minutes in which "
     "that read is no faster than one thread's; 2 to 32 KiB ahead are the same to 5 %. What is "
     "left: a thread that widens halves takes in 20 GB/s where one that only reads takes 31, for "
     "at the end of each run of keys or values, 64 KiB, the softmax of 256 scores stands between, "
     "0.5 us in which nothing is asked for; and 25 us to wake a thread."),
    ("forkjoin", r"", "1.6 to 2.3 us was seen from run to run, of two processors that share no "
     "cache below the third."),
    ("decode", r"cache$", "at D=64 a score is four multiply-adds per lane and then a tree of "
     "shuffles: scores run at 0.6 to 0.75 of the peak in the second cache, output at 0.92, and "
     "softmax, 8 %, and reading from the third cache come to that; one thread alone reaches 0.56 "
     "with four float16 heads and 0.61 with eight. Eight rows by two keys at once were slower."),
    ("scaling", r"", "two workers take 1 % more CPU time than one (causal, n=2048, D=64), and a "
     "head's lightest tasks come last, so neither memory nor a ragged end is it: what two lose is "
     "waiting, half a millisecond of a call at most, which longer calls do not show."),
    ("sessions", r"G=1", "the plain read itself has two paces here, 35 and 60 GB/s, by minutes: at "
     "the first a step has 0.94 to 0.98 of it, for all types, at the second 0.65 to 0.90, where "
     "each thread takes in 20 to 26 GB/s: widening and the softmax of each 256 scores, 0.5 us, are "
     "then not hidden behind memory. Asking further ahead, into the second cache or for values "
     "before the softmax was no better."),
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
    ("encodings", r"^1 MB.*JSON$", "3.6 to 5.8 was seen from run to run. Of 7.5 ms two workers "
     "read for 3.6 and print for 1.8; the rest is the loopback's."),
    ("encodings", r"^1 MB", "bytes that go there and back without a look at them take 0.5 to 0.9 "
     "ms, safetensors 0.5 to 0.8 in the same runs, FastAPI 1.3 to 1.7: nobody can be five times as "
     "quick."),
    ("encodings", r"npz$", "zip has a checksum for each member, which the peers verify and make "
     "too: CRC-32 at 14 GB/s over what comes and what goes, 2.4 of 11 ms at 16 MB."),
    ("encodings", r"binary$", "tensors stand behind a JSON document of any length, hence rarely "
     "where floats may lie, and are copied, 1 ms of 11 at 16 MB; all else is the loopback's: bytes "
     "there and back alone take 11 ms."),
    ("encodings", r"", "bytes there and back without a look at them take as long as this: 11 ms at "
     "16 MB, 44 to 57 at 64."),
    ("peers", r"^step n=\d+ D=\d+ G=1", "both sides read the same bytes from memory once. A step "
     "has 0.94 to 0.98 of a plain read there (see Sessions), so what is left to win is little more "
     "than the rounds differ by; of half a millisecond, waking a thread is 25 us."),
    ("peers", r"^decode.*ggml$", "keys and values of these calls, 34 to 134 MB, do not fit the "
     "third cache, so both sides wait for memory; ours goes from keys to values and back every 256 "
     "keys, with a softmax between in which nothing is asked for, 0.5 us of each 8."),
    ("peers", r"^causal.*ggml$", "ggml has AVX-512 here too, and its causal calls take 0.78 of its "
     "full ones' time (n=2048 and 4096, D=64), where they took as long when the goals were set."),
    ("peers", r"^full.*ggml$", "ggml has AVX-512 here as ours does, where neither had it when the "
     "goals were set. Our calls run at 0.86 to 0.90 of the FMA peak at D=64 and at 0.88 to 0.97 at "
     "D=128 (first table): at the peak itself the ratio would be 1.7 and 1.6."),
    ("peers", r"^full.*onnxruntime$", "onnxruntime's products use AVX-512 as ours do, where "
     "neither had it when the goals were set. Our calls run at 0.86 to 0.90 of the FMA peak at "
     "D=64 and at 0.88 to 0.97 at D=128 (first table): at the peak itself the ratio would be 1.2."),
    ("peers", r"^causal.*onnxruntime$", "the quickest of them is GroupQueryAttention, which skips "
     "hidden tiles as ours does, by products that use AVX-512 too. Our calls run at 0.81 to 0.88 "
     "of the FMA peak at D=64 and at 0.86 to 0.93 at D=128 (first table): at the peak itself the "
     "ratio would be 1.7 at n=4096, D=64, and 1.4 at D=128."),
    ("peers", r"^decode.*G=1, onnxruntime$", "both sides wait for memory, but at n=4096, D=64, "
     "where keys and values fit the third cache; ours goes from keys to values and back every 256 "
     "keys, with a softmax between in which nothing is asked for."),
    ("peers", r"onnxruntime$", "onnxruntime's products use AVX-512 as ours do; the goals were set "
     "where neither side had it. Where keys and values fit the third cache these calls take 60 to "
     "230 us, of which waking the second thread is 25; at n=16384, D=128, G=4 they do not fit it."),
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

# SPDX-License-Identifier: Apache-2.0
"""docs/performance.md from what the benchmarks printed."""
import os
import platform
import re
import subprocess
from pathlib import Path

import report_limits
import report_parse as parse
from report_judge import BUSY, Judge

HEAD = """# Performance

`make bench` writes this page, and the plot, from what its programs print: nothing here is typed in.
{machine}.

![Ratios of this page as bars, with a tick at each goal](images/performance.svg)

Shared machines swing by a factor of two, so nothing but ratios counts: both sides run in turn in
the same rounds, and a ratio is the median over the rounds. A loop of multiply-adds in registers,
the FMA peak, runs in each round too; a round in which it is more than 10 % below its best was
disturbed and is discarded. "Rounds" says how many were kept: a row with few is worth little. Each
section says which share of the processors others used while it was measured.

{caveat}A goal that is not reached is **missed**. Fewer than three rounds do not decide it, nor does
a run in which others used more than {busy:.0%} of the processors.

"""

CAVEAT = """\
This processor has AVX-512, but the yardstick's OpenBLAS uses its {core} kernels here, which are
AVX2. So `fused-avx512` is compared with products of half the width, and the goals in sgemm are easy
for it. `fused-avx2` compares like with like, but not with what the goals were set for: they come
from a machine whose sgemm reached 0.8 of its FMA peak, and here it reaches {sgemm:.2f} of the AVX2
peak (median of {count} shapes), so that 0.97 of sgemm is {peak:.2f} of the peak. Shares of the FMA
peak by the kernel's own vectors stand beside, with the goals that were set for them.

"""

# The sections whose programs print bench/figure.h's lines: title and what it is about.
FIGURES = {
    "float64": ("Double precision", "Useful FLOPs of calls with `precision: float64` to those of "
                "sgemm; a processor does half as many in double as in float."),
    "naive": ("Against two products and a softmax", "How many times as fast ours is as OpenBLAS's "
              "products with a vectorised softmax between, head by head on two threads, that keep "
              "the square of scores; under a causal mask hidden scores are computed too. Its "
              "softmax uses the widest vectors of the processor, its products OpenBLAS's."),
    "scaling": ("The second worker", "How much faster a call gets by a second worker, as a share "
                "of what a second thread brings to the FMA loop."),
    "forkjoin": ("Handing work to the workers", "What it takes until both of two steps are done, "
                 "when calls follow each other. Steps that meet wait for each other, so both "
                 "workers have to come."),
    "memory": ("Memory", "What a call adds in RAM to operands and answer, workers' stacks and all. "
               "The goal is the packed keys and values of as many heads as there are workers, and "
               "4 MiB per worker."),
    "maps": ("Maps beside the output", "The time of a call that returns a map or statistics too."),
    "preempt": ("Small calls beside a long one", "The daemon's own time, from the end of a small "
                "call's head to the last byte of its answer, while a call of 8 heads and 16,384 "
                "tokens is in flight: its 99th percentile over that beside a process that burns "
                "the same CPU at the same priority."),
    "captures": ("Captures", "A kept call of one head, 32,768 tokens and 64 dimensions, causal: "
                 "how soon parts of its map are there over HTTP, as float16 tiles of 512 x 512; "
                 "and the 99th percentile of small calls while its overview is made, over that "
                 "before."),
    "sessions": ("Sessions", "One query of each of 8 key/value heads, D = 128, over the pages of a "
                 "session's cache, or of many sessions in one call, against a plain vectorised "
                 "read of as many bytes by two threads; with G queries to a head."),
    "steps": ("Steps of sessions over HTTP", "One token of 8 heads, D = 128, float32 in "
              "safetensors, over a connection that stays: the daemon's own time, and the whole "
              "call against a libmicrohttpd server that reads and answers as many bytes, both "
              "without what the daemon says that its arithmetic took."),
    "service": ("What HTTP costs around the arithmetic", "Uploads, and whole calls in safetensors "
                "with 8 heads."),
    "kernels": ("The portable kernel", "`blas`, which leaves the products to OpenBLAS, on prefill "
                "with 8 heads, in useful FLOPs."),
    "encodings": ("Encodings, and other services", "One call whose query tensor and output are as "
                  "large as each row says, over a connection that stays, from the first byte sent "
                  "to the last one read, less what the service says its arithmetic took; the "
                  "second of two calls in a row counts, which finds memory and caches as it left "
                  "them. FastAPI reads JSON with orjson and bytes with numpy or safetensors; "
                  "MLServer has JSON alone. Both compute with numpy."),
    "numbers": ("Numbers in JSON", "What a number costs, in turn with others who read and write "
                "them."),
}
# Those without rounds whose figures a busy machine does not change.
STEADY = ("memory",)
TABLES = ("shapes", "shapes-avx2", "decode", "peers", *FIGURES)
# What those without a table, whose output is shown as it is, are about.
ABOUT = {
    "additive": "Additive scores against the scaled dot product. ",
    "products": "The decode kernel's two products alone, on one thread, from the second-level "
                "cache: shares of that thread's multiply-adds. ",
    "tiles": "The share of a product that the kernel `blas` reaches on one thread, in CPU time. ",
}


def processor():
    text = Path("/proc/cpuinfo").read_text()
    fields = dict(re.findall(r"^(model name|cpu family|model|flags)\s*: (.*)$", text, re.M))
    return {"name": fields.get("model name", platform.machine()),
            "family": fields.get("cpu family"), "model": fields.get("model"),
            "avx512": "avx512f" in fields.get("flags", "").split()}


def machine(cpu):
    compiler = subprocess.run(["cc", "-dumpfullversion"], capture_output=True, text=True)
    generation = ", Zen 5" if "AMD" in cpu["name"] and cpu["family"] == "26" else ""
    width = "AVX-512" if cpu["avx512"] else "no AVX-512"
    return (f"Machine: {cpu['name']} (family {cpu['family']}, model {cpu['model']}{generation}, "
            f"{width}), {os.cpu_count()} cores of a shared machine, cc {compiler.stdout.strip()}")


def table(head, body):
    lines = [head, ["---"] * len(head), *body]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines) + "\n"


def command(parts, name, text):
    part = parts.get(name)
    if part is None:
        return f"Not measured: `{text}`.\n\n"
    busy = ": **too busy to read much into it**" if part["others"] > BUSY else ""
    return (f"`{text}`, {part['seconds']:.0f} s; others used {part['others']:.0%} of the "
            f"processors meanwhile{busy}.\n\n")


def kept(row):
    return f"{row['rounds']:.0f} of {row['rounds'] + row['discarded']:.0f}"


def first_line(parts, name):
    return parts.get(name, {"text": "\n"})["text"].split("\n")[0]


def prefill(parts, judge):
    default = parse.rows(parse.SHAPE, parts, "shapes")
    other = {row["name"]: row for row in parse.rows(parse.SHAPE, parts, "shapes-avx2")}
    body, areas = [], []
    for row in default:
        sides = [(row, "shapes"), (other.get(row["name"]), "shapes-avx2")]
        sides = [(side, part) for side, part in sides if side]
        rounds = min(judge.counting(part, side["rounds"]) for side, part in sides)

        def verdict(key, goal, least=True, row=row, sides=sides, rounds=rounds):
            values = [(side["kernel"], side[key]) for side, _ in sides]
            return judge.verdict("shapes", row["name"], values, row[goal], rounds, least)
        cells = [side for side, _ in sides] + [None] * (2 - len(sides))
        body.append([
            row["name"], f"{row['gflops']:.0f}",
            *(f"{side['ratio']:.2f}" if side else "" for side in cells), verdict("ratio", "goal"),
            *(f"{side['of_peak']:.2f}" if side else "" for side in cells),
            verdict("of_peak", "peak_goal"), "; ".join(kept(side) for side, _ in sides)])
        if row["area"]:
            areas.append([row["name"], *(f"{side['area']:.2f}" for side, _ in sides),
                          verdict("area", "area_goal", False)])
    kernel = default[0]["kernel"] if default else "the default kernel"
    text = "## Prefill against sgemm and FMA peak\n\n"
    text += command(parts, "shapes", "make bench BENCH=shapes")
    text += command(parts, "shapes-avx2", "build/release/bench/shapes 0 fused-avx2")
    text += (f"{first_line(parts, 'shapes')}. Names are mask, n, D; 8 heads, B = 1, but "
             "sentences: 12 heads, B = 8. Useful FLOPs, 4 D per visible score, against two threads "
             "each at an sgemm of 2048³, and against the FMA loop with the kernel's own "
             "vectors.\n\n")
    text += table(["shape", "GFLOP/s", f"{kernel} to sgemm", "fused-avx2 to sgemm", "goal",
                   f"{kernel} of FMA peak", "fused-avx2 of FMA peak", "goal", "rounds"], body)
    text += ("What hides something, as time over that of its visible area at the rate of "
             "full-8192-64 (less is better): a window of 256, documents of 512, half of "
             "the keys padded.\n\n")
    return text + table(["shape", kernel, *(["fused-avx2"] if other else []), "goal"], areas)


def decode(parts, judge):
    body = []
    for row in parse.rows(parse.DECODE, parts, "decode"):
        name = (f"{row['keys']:.0f} keys, D={row['D']:.0f}, G={row['group']:.0f}, {row['dtype']}, "
                f"{row['where']}")
        value = row["of_read"] if row["goal_of"] == "read" else row["of_peak"]
        goal = judge.verdict("decode", name, [("", value)], row["goal"],
                             judge.counting("decode", row["rounds"]))
        body.append([f"{row['keys']:.0f}", f"{row['D']:.0f}", f"{row['group']:.0f}", row["dtype"],
                     row["where"], f"{row['ms']:.3f}", f"{row['read']:.0f}",
                     f"{row['of_read']:.2f}", f"{row['of_peak']:.2f}",
                     f"{row['goal_of']} {goal}" if goal else "", kept(row)])
    text = "## Decoding against read bandwidth and FMA peak\n\n"
    text += command(parts, "decode", "make bench BENCH=decode")
    text += (f"{first_line(parts, 'decode')}; G of them share a key/value head. Read is a plain "
             "vectorised read of the same buffers by two threads. With G = 1 memory is the limit, "
             "so the goal is a share of the read from DRAM; with more it is one of the FMA peak, "
             "from cache. Times hold what it takes to hand a call to two sleeping threads.\n\n")
    return text + table(["keys", "D", "G", "type", "from", "ms", "read GB/s", "of read",
                         "of FMA peak", "goal", "rounds"], body)


def peer_table(parts, judge, owns):
    every = [row for row in parse.rows(parse.PEER, parts, "peers") if row["own"] in owns]
    goals = [row for row in parse.rows(parse.BEST, parts, "peers") if row["own"] in owns]
    best = {(row["case"], row["family"]): row for row in goals}
    families = list(dict.fromkeys(row["family"] for row in goals))
    peers = list(dict.fromkeys(row["peer"] for row in every))
    body = []
    for case in dict.fromkeys(row["case"] for row in every):
        cells = {row["peer"]: row for row in every if row["case"] == case}
        first = next(iter(cells.values()))
        line = [case, f"{first['own_ms']:.2f}"]
        for peer in peers:
            row = cells.get(peer)
            line.append(f"{row['ratio']:.2f} ({row['least']:.2f}–{row['most']:.2f})" if row else "")
        for family in families:
            goal = best.get((case, family))
            line.append(judge.verdict(
                "peers", f"{case}, {family}", [(goal["own"], goal["ratio"])], goal["goal"],
                judge.counting("peers", first["rounds"])) if goal else "")
        body.append([*line, f"{first['rounds']:.0f}"])
    return table(["case", "ours, ms", *(peer.replace("onnxruntime ", "") for peer in peers),
                  *(f"goal, {family}" for family in families), "rounds"], body)


def peers(parts, judge):
    text = "## Against others\n\n"
    text += command(parts, "peers", "build/venv/bin/python bench/peers/peers.py")
    who = [line for line in parts.get("peers", {"text": ""})["text"].splitlines()
           if ": " not in line or "not measured" in line]
    text += ("How many times as long they take as ours (smallest and largest of the rounds); "
             "float32, 8 query heads, two threads, each with the widest vectors that it has for "
             "this processor. MultiHeadAttention, Attention-23 and GroupQueryAttention are "
             "onnxruntime's, whose goal is for the best of them; the last also copies the keys of "
             "a prefill to its cache. Inputs and outputs are bound to memory of their own, a "
             "decoding cache in place. Its threads spin within a run and sleep after it, as ours "
             "and ggml's sleep. ggml takes a causal mask as numbers to add. A step appends a row "
             "to a cache in place, of the type that is named, and attends over it, ours with all "
             "that a session's step does below HTTP; of onnxruntime queries are of that type too, "
             "for it takes no others. \"DRAM\" goes around more caches than a processor's cache "
             "holds. Turns last 50 ms, for a machine that was idle may take 10 to give two threads "
             "a processor each. Disturbed rounds are not discarded here.\n\n")
    text += "".join(f"* {line}\n" for line in who) + "\n"
    for owns in parse.families(parts):
        text += f"Ours by {' and '.join(f'`{own}`' for own in owns)}:\n\n"
        text += peer_table(parts, judge, owns)
    return text


def figures(parts, judge, name):
    title, about = FIGURES[name]
    rows = parse.rows(parse.FIGURE, parts, name)
    text = f"## {title}\n\n" + command(parts, name, f"make bench BENCH={name}")
    text += f"{about} {first_line(parts, name)}.\n\n"
    counted = any(row["rounds"] is not None for row in rows)
    body = []
    for row in rows:
        rounds = row["rounds"] if row["rounds"] is not None else judge.DECIDES
        if name not in STEADY:
            rounds = judge.counting(name, rounds)
        goal = judge.verdict(name, row["what"], [("", row["value"])], row["goal"], rounds,
                             row["way"] != "most")
        body.append([row["what"], f"{row['value']:.2f} {row['unit']}", goal,
                     *([kept(row) if row["rounds"] is not None else ""] if counted else []),
                     row["beside"] or ""])
    return text + table(["", "measured", "goal", *(["rounds"] if counted else []), "beside it"],
                        body)


def verbatim(parts):
    text = "## The others, as they print it\n\n"
    for name in parts:
        if name not in TABLES:
            text += ABOUT.get(name, "") + command(parts, name, f"make bench BENCH={name}")
            text += f"```text\n{parts[name]['text'].rstrip()}\n```\n\n"
    return text


def caveat(parts, cpu):
    core = re.search(r"OpenBLAS for (\w+)", first_line(parts, "shapes"))
    shares = sorted(row["sgemm"] for row in parse.rows(parse.SHAPE, parts, "shapes-avx2"))
    if not (cpu["avx512"] and core and core.group(1) in ("Haswell", "Zen") and shares):
        return ""
    sgemm = shares[len(shares) // 2]
    return CAVEAT.format(core=core.group(1), sgemm=sgemm, peak=0.97 * sgemm, count=len(shares))


def page(parts):
    cpu, judge = processor(), Judge(parts)
    text = HEAD.format(machine=machine(cpu), busy=BUSY, caveat=caveat(parts, cpu))
    text += prefill(parts, judge) + decode(parts, judge) + peers(parts, judge)
    for name in FIGURES:
        text += figures(parts, judge, name)
    text += verbatim(parts) + report_limits.section(judge)
    return text.rstrip() + "\n"

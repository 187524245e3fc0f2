# SPDX-License-Identifier: Apache-2.0
"""docs/performance.md from what the benchmarks printed."""
import os
import platform
import re
import subprocess
from pathlib import Path

import report_parse as parse

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
AVX2. So `fused-avx512` is compared with products of half the width, and the goals in sgemm, which
were set where there is no AVX-512, are easy for it; `fused-avx2` compares like with like. Both are
shown.

"""

ROUNDS_LEAST = 3  # that a verdict needs
BUSY = 0.15  # share of the processors that others may use

TABLES = ("shapes", "shapes-avx2", "decode", "peers")
# What those without a table, whose output is shown as it is, are about.
ABOUT = {
    "kernels": "The portable kernel `blas`, which leaves the products to OpenBLAS, on prefill. ",
    "maps": "What a map costs beside the output. ",
    "additive": "Additive scores against the scaled dot product. ",
    "preempt": "What a small call waits for beside a long one. ",
    "service": "What HTTP costs around the arithmetic. ",
    "numbers": "Numbers in JSON, both ways. ",
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


def verdict(values, goal, rounds):
    """"0.97, met"; of several kernels, which missed it. Few rounds decide nothing."""
    if rounds < ROUNDS_LEAST:
        return f"{goal:g}, not decided"
    missed = [name for name, value in values if not parse.met(value, goal)]
    if not missed:
        return f"{goal:g}, met"
    return f"{goal:g}, **missed**" + (f" by {', '.join(missed)}" if len(values) > 1 else "")


def counting(parts, name, rounds):
    """How many of the rounds may decide something: none where the machine was too busy."""
    return 0 if parts[name]["others"] > BUSY else rounds


def kept(row):
    return f"{row['rounds']:.0f} of {row['rounds'] + row['discarded']:.0f}"


def first_line(parts, name):
    return parts.get(name, {"text": "\n"})["text"].split("\n")[0]


def prefill(parts):
    default = parse.rows(parse.SHAPE, parts, "shapes")
    other = {row["name"]: row for row in parse.rows(parse.SHAPE, parts, "shapes-avx2")}
    body, areas = [], []
    for row in default:
        beside = other.get(row["name"])
        values = [(row["kernel"], row["ratio"])] + (
            [(beside["kernel"], beside["ratio"])] if beside else [])
        rounds = counting(parts, "shapes", row["rounds"])
        if beside:
            rounds = min(rounds, counting(parts, "shapes-avx2", beside["rounds"]))
        body.append([row["name"], f"{row['gflops']:.0f}", f"{row['ratio']:.2f}",
                     f"{row['of_peak']:.2f}", f"{beside['ratio']:.2f}" if beside else "",
                     verdict(values, row["goal"], rounds) if row["goal"] else "",
                     kept(row) + (f"; {kept(beside)}" if beside else "")])
        if row["area"]:
            shares = [(side["kernel"], -side["area"]) for side in (row, beside) if side]
            areas.append([row["name"], *(f"{-share:.2f}" for _, share in shares),
                          verdict(shares, -row["area_goal"], rounds).lstrip("-")])
    kernel = default[0]["kernel"] if default else "the default kernel"
    text = "## Prefill against sgemm and FMA peak\n\n"
    text += command(parts, "shapes", "make bench BENCH=shapes")
    text += command(parts, "shapes-avx2", "build/release/bench/shapes 0 fused-avx2")
    text += (f"{first_line(parts, 'shapes')}. Names are mask, n, D; 8 heads, B = 1, but "
             "sentences: 12 heads, B = 8. Useful FLOPs, 4 D per visible score, against two threads "
             "each at an sgemm of 2048³. The goal is in sgemm.\n\n")
    text += table(["shape", "GFLOP/s", f"{kernel} to sgemm", "of FMA peak", "fused-avx2 to sgemm",
                   "goal", "rounds"], body)
    text += ("What hides something, as time over that of its visible area at the rate of "
             "full-8192-64 (less is better): a window of 256, documents of 512, half of "
             "the keys padded.\n\n")
    return text + table(["shape", kernel, *(["fused-avx2"] if other else []), "goal"], areas)


def decode(parts):
    body = []
    for row in parse.rows(parse.DECODE, parts, "decode"):
        goal = ""
        if row["goal"]:
            value = row["of_read"] if row["goal_of"] == "read" else row["of_peak"]
            goal = f"{row['goal_of']} " + verdict(
                [("", value)], row["goal"], counting(parts, "decode", row["rounds"]))
        body.append([f"{row['keys']:.0f}", f"{row['D']:.0f}", f"{row['group']:.0f}", row["dtype"],
                     row["where"], f"{row['ms']:.3f}", f"{row['read']:.0f}",
                     f"{row['of_read']:.2f}", f"{row['of_peak']:.2f}", goal, kept(row)])
    text = "## Decoding against read bandwidth and FMA peak\n\n"
    text += command(parts, "decode", "make bench BENCH=decode")
    text += (f"{first_line(parts, 'decode')}; G of them share a key/value head. Read is a plain "
             "vectorised read of the same buffers by two threads. With G = 1 memory is the limit, "
             "so the goal is a share of the read from DRAM; with more it is one of the FMA peak, "
             "from cache. Times hold what it takes to hand a call to two sleeping threads.\n\n")
    return text + table(["keys", "D", "G", "type", "from", "ms", "read GB/s", "of read",
                         "of FMA peak", "goal", "rounds"], body)


def peer_table(parts, owns):
    every = [row for row in parse.rows(parse.PEER, parts, "peers") if row["own"] in owns]
    best = {row["case"]: row for row in parse.rows(parse.BEST, parts, "peers")
            if row["own"] in owns}
    peers = list(dict.fromkeys(row["peer"] for row in every))
    body = []
    for case in dict.fromkeys(row["case"] for row in every):
        cells = {row["peer"]: row for row in every if row["case"] == case}
        first = next(iter(cells.values()))
        line = [case, f"{first['own_ms']:.2f}"]
        for peer in peers:
            row = cells.get(peer)
            line.append(f"{row['ratio']:.2f} ({row['least']:.2f}–{row['most']:.2f})" if row else "")
        goal = best.get(case)
        rounds = counting(parts, "peers", first["rounds"])
        line += [verdict([("", goal["ratio"])], goal["goal"], rounds) if goal else "",
                 f"{first['rounds']:.0f}"]
        body.append(line)
    return table(["case", "ours, ms", *(peer.replace("onnxruntime ", "") for peer in peers),
                  "goal, best of onnxruntime", "rounds"], body)


def peers(parts):
    text = "## Against others\n\n"
    text += command(parts, "peers", "build/venv/bin/python bench/peers/peers.py")
    who = [line for line in parts.get("peers", {"text": ""})["text"].splitlines()
           if ": " not in line or "not measured" in line]
    text += ("How many times as long they take as ours (smallest and largest of the rounds); "
             "float32, 8 query heads, two threads. MultiHeadAttention, Attention-23 and "
             "GroupQueryAttention are onnxruntime's; the last of them also copies the keys of a "
             "prefill to its cache. Its threads spin within a run and sleep after it, as ours "
             "sleep. numpy is two products and a softmax per head, the softmax on one thread. "
             "Disturbed rounds are not discarded here.\n\n")
    text += "".join(f"* {line}\n" for line in who) + "\n"
    for owns in parse.families(parts):
        text += f"Ours by {' and '.join(f'`{own}`' for own in owns)}:\n\n" + peer_table(parts, owns)
    return text


def verbatim(parts):
    text = "## The others, as they print it\n\n"
    for name in parts:
        if name not in TABLES:
            text += ABOUT.get(name, "") + command(parts, name, f"make bench BENCH={name}")
            text += f"```text\n{parts[name]['text'].rstrip()}\n```\n\n"
    return text


def page(parts):
    cpu = processor()
    core = re.search(r"OpenBLAS for (\w+)", first_line(parts, "shapes"))
    narrow = cpu["avx512"] and core and core.group(1) in ("Haswell", "Zen")
    text = HEAD.format(machine=machine(cpu), busy=BUSY,
                       caveat=CAVEAT.format(core=core.group(1)) if narrow else "")
    text += prefill(parts) + decode(parts) + peers(parts) + verbatim(parts)
    return text.rstrip() + "\n"

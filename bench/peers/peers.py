#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our kernels against what else computes attention on a CPU: onnxruntime's operators and, where
they are installed, ggml's flash attention and torch. 8 query heads, two threads each; float32, but
for steps, whose caches are of each type that a peer has too (steps.py). Between two contestants a
pause, in which threads go to sleep. In every round each contestant runs, the short ones several
times for a median, in an order that turns; a ratio is the median over the rounds of theirs over
ours, with the smallest and the largest beside it.

  bench/peers/peers.py [--own build/release/bench/peers] [--rounds 7] [--only 'causal n=1024']
"""
import argparse
import importlib.util
import os
import statistics
import subprocess
import time

import ggml
import ort
import steps

THREADS = 2
os.environ["OMP_NUM_THREADS"] = str(THREADS)

HEADS = 8
LENGTHS, WIDTHS = (512, 1024, 2048, 4096), (64, 128)
CACHES, GROUPS = (4096, 16384), (1, 4, 8)
LONG, LONG_ROUNDS = 4096, 3  # a round of all contestants takes seconds
SETTLE = 0.01  # seconds between two contestants
TURN = 0.05  # seconds that a turn lasts at least, within limits: a machine that was idle takes
             # up to 10 ms to give two threads a processor each
CALLS_MAX = 1000
# How many times as fast as the best of a family of peers.
GOALS = {
    "onnxruntime": {"full": 1.25, "causal": 2.0, "decode": 1.5, "decode grouped": 4.5},
    "ggml": {"full": 1.8, "causal": 3.5, "decode": 1.1, "decode grouped": 4.0},
}


class Case:
    """One shape: prefill of n tokens, full or causal, or the decoding of one query."""

    def __init__(self, kind, n, width, group=1):
        self.kind, self.n, self.width, self.group = kind, n, width, group
        self.queries = 1 if kind == "decode" else n
        self.kv_heads = HEADS // group
        self.name = f"{kind} n={n} D={width}" + (f" G={group}" if kind == "decode" else "")

    def goal(self, family):
        grouped = self.kind == "decode" and self.group > 1
        return GOALS[family]["decode grouped" if grouped else self.kind]

    def own(self, folder):
        """Our program and its arguments."""
        return [f"{folder}/own", HEADS, self.kv_heads, self.queries, self.n, self.width,
                int(self.kind == "causal")]

    def peers(self):
        return ((name, there, lambda make=make: make(self)) for name, there, make in PEERS)


class Own:
    """A process that runs our kernel as often as a line says, as peers are run: without a word in
    between, by which threads would fall asleep."""

    def __init__(self, command):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.name = self.process.stdout.readline().strip()
        if not self.name:
            raise SystemExit(f"{command[0]} did not start: make bench builds it")

    def seconds(self, calls=1):
        """Of each call."""
        self.process.stdin.write(f"{calls}\n")
        self.process.stdin.flush()
        return [float(self.process.stdout.readline()) for _ in range(calls)]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Timed:
    """A peer in this process."""

    def __init__(self, name, run):
        self.name, self.run = name, run

    def once(self):
        begin = time.perf_counter()
        self.run()
        return time.perf_counter() - begin

    def seconds(self, calls=1):
        """Of each call."""
        return [self.once() for _ in range(calls)]

    def close(self):
        self.run = None


def uniform(*shape):
    import numpy
    return numpy.random.default_rng(3).random(shape, numpy.float32) * 2 - 1


def onnx_run(operator, domain, opset, feeds, outputs, attributes, shared=()):
    """A function that runs it; `outputs` has shapes by name."""
    import numpy
    outputs = {name: (shape, numpy.float32) for name, shape in outputs.items()}
    made = ort.session(operator, domain, opset, feeds, outputs, attributes, THREADS)
    return ort.bind(made, feeds, outputs, shared)[0]


def onnx_multi_head(case):
    if case.kind == "decode":
        return None
    rows = (1, case.n, HEADS * case.width)
    feeds = {name: uniform(*rows) for name in ("q", "k", "v")}
    return onnx_run("MultiHeadAttention", "com.microsoft", 17, feeds, {"y": rows},
                    {"num_heads": HEADS, "unidirectional": int(case.kind == "causal")})


def onnx_attention(case):
    query = (1, HEADS, case.queries, case.width)
    keys = (1, case.kv_heads, case.n, case.width)
    feeds = {"q": uniform(*query), "k": uniform(*keys), "v": uniform(*keys)}
    return onnx_run("Attention", "", 23, feeds, {"y": query},
                    {"is_causal": int(case.kind == "causal")})


def onnx_group_query(case):
    """Always causal. It appends its keys to a cache; when decoding, in place."""
    import numpy
    if case.kind == "full":
        return None
    decoding = case.kind == "decode"
    rows = (1, case.queries, HEADS * case.width)
    new = (1, case.queries, case.kv_heads * case.width)
    cache = (1, case.kv_heads, case.n, case.width)
    feeds = {"q": uniform(*rows), "k": uniform(*new), "v": uniform(*new),
             "past_k": uniform(*cache) if decoding else None,
             "past_v": uniform(*cache) if decoding else None,
             "last": numpy.array([case.n - 1], numpy.int32),
             "total": numpy.array(case.n, numpy.int32)}
    return onnx_run("GroupQueryAttention", "com.microsoft", 17, feeds,
                    {"y": rows, "present_k": cache, "present_v": cache},
                    {"num_heads": HEADS, "kv_num_heads": case.kv_heads},
                    (("present_k", "past_k"), ("present_v", "past_v")) if decoding else ())


def ggml_attention(case):
    return ggml.attention(uniform(HEADS, case.queries, case.width),
                          *(uniform(case.kv_heads, case.n, case.width) for _ in range(2)),
                          case.kind == "causal", THREADS)


def torch_attention(case):
    import torch
    torch.set_num_threads(THREADS)
    q = torch.from_numpy(uniform(1, HEADS, case.queries, case.width))
    k, v = (torch.from_numpy(uniform(1, case.kv_heads, case.n, case.width)) for _ in range(2))
    k, v = (x.repeat_interleave(case.group, 1) for x in (k, v))

    def run():
        with torch.no_grad():
            torch.nn.functional.scaled_dot_product_attention(q, k, v,
                                                             is_causal=case.kind == "causal")
    return run


def installed(module):
    return importlib.util.find_spec(module) is not None


# name, whether it is there, how to make its run for a case; None where it has no such case
PEERS = (
    ("onnxruntime MultiHeadAttention", installed("onnxruntime"), onnx_multi_head),
    ("onnxruntime Attention-23", installed("onnxruntime"), onnx_attention),
    ("onnxruntime GroupQueryAttention", installed("onnxruntime"), onnx_group_query),
    ("ggml flash_attn_ext", ggml.installed(), ggml_attention),
    ("torch scaled_dot_product_attention", installed("torch"), torch_attention),
)


def say_who():
    for module in ("onnxruntime", "torch"):
        if installed(module):
            print(f"{module} {importlib.import_module(module).__version__}")
        else:
            print(f"{module} is not installed here: not measured")
    if ggml.installed():
        ggml.check(THREADS)
        print(ggml.version())
    else:
        print("ggml is not installed here: not measured (make bench-peers installs it)")
    steps.check(THREADS, installed("onnxruntime"))
    print("onnxruntime GroupQueryAttention takes no bfloat16 on a processor: not measured")


def measure(case, rounds, folder):
    own = Own(case.own(folder))
    theirs = []
    for name, there, make in case.peers():
        run = make() if there else None
        if run:
            theirs.append(Timed(name, run))
    all_of_them = [own, *theirs]
    seconds = {contestant.name: [] for contestant in all_of_them}
    calls = {}
    for contestant in all_of_them:
        contestant.seconds()
        calls[contestant.name] = max(1, min(CALLS_MAX, int(TURN / contestant.seconds()[0])))
    for turn in range(rounds):
        first = turn % len(all_of_them)
        for contestant in all_of_them[first:] + all_of_them[:first]:
            time.sleep(SETTLE)
            seconds[contestant.name].append(
                statistics.median(contestant.seconds(calls[contestant.name])))
    for contestant in all_of_them:
        contestant.close()
    report(case, own.name, seconds, [peer.name for peer in theirs])


def report(case, own, seconds, peers):
    best = {}
    for peer in peers:
        ratios = [b / a for a, b in zip(seconds[own], seconds[peer])]
        ratio = statistics.median(ratios)
        print(f"{case.name}: {peer} {1e3 * statistics.median(seconds[peer]):.3f} ms, {own} "
              f"{1e3 * statistics.median(seconds[own]):.3f} ms: {ratio:.2f} times as long "
              f"({min(ratios):.2f} to {max(ratios):.2f}), {len(ratios)} rounds", flush=True)
        family, operator = peer.split()
        if family in GOALS:
            best[family] = min(best.get(family, (ratio, operator)), (ratio, operator))
    for family, (ratio, operator) in best.items():
        goal = case.goal(family)
        print(f"{case.name}: best of {family}, {operator}, to {own}: {ratio:.2f} "
              f"(goal {goal:g}{'' if ratio >= goal else ', MISSED'})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--own", default="build/release/bench/peers",
                        help="the folder of our programs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="a part of the cases' names")
    given = parser.parse_args()
    say_who()
    cases = [Case(kind, n, width) for kind in ("full", "causal") for width in WIDTHS
             for n in LENGTHS]
    cases += [Case("decode", n, width, group) for n in CACHES for width in WIDTHS
              for group in GROUPS]
    cases += steps.cases(HEADS, THREADS, GROUPS, CACHES, WIDTHS)
    for case in cases:
        if given.only in case.name:
            long = case.queries > 1 and case.n >= LONG
            measure(case, min(given.rounds, LONG_ROUNDS) if long else given.rounds, given.own)


if __name__ == "__main__":
    main()

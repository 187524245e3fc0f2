# SPDX-License-Identifier: Apache-2.0
"""A session's step beside what others do with a cache in place: one row is appended, converted to
the cache's type, and the queries of one token attend over all of it. Ours through the library:
append, view, plan, compute, commit. ggml's: a copy into a view of each cache, then flash_attn_ext.
onnxruntime's: GroupQueryAttention whose past and present are the same memory; queries are of the
cache's type then, for it takes no others. From "cache" one cache is used again and again, where it
fits one; from "DRAM" a step goes to the next of more caches than a processor's cache holds."""
import functools
import itertools

import ggml
import numpy
import ort

NAMES = ("f32", "f16", "bf16")
BYTES = {"f32": 4, "f16": 2, "bf16": 2}
ROUND = 192 << 20  # bytes that "DRAM" goes around
CACHED = 16 << 20  # bytes that "cache" is measured up to
WIDEST = 128  # "cache" is measured of this width alone
GOAL = 1.0  # ahead of the best of a family


class Step:
    """One shape: n tokens with the new one, in a cache of a type."""
    kind, queries = "step", 1

    def __init__(self, heads, threads, n, width, group, dtype, place):
        self.heads, self.threads, self.kv_heads = heads, threads, heads // group
        self.n, self.width, self.group, self.dtype = n, width, group, dtype
        self.bytes = 2 * self.kv_heads * n * width * BYTES[dtype]
        self.sets = 1 if place == "cache" else -(-ROUND // self.bytes)
        self.name = f"step n={n} D={width} G={group} {dtype} {place}"

    def goal(self, family):
        return GOAL

    def own(self, folder):
        return [f"{folder}/step", self.heads, self.kv_heads, self.n, self.width, self.dtype,
                self.sets]

    def peers(self):
        import importlib.util
        there = importlib.util.find_spec("onnxruntime") is not None
        yield ("onnxruntime GroupQueryAttention", there and self.dtype != "bf16",
               lambda: around(Onnx(self).caches))
        yield "ggml flash_attn_ext", ggml.installed(), lambda: around(Ggml(self).caches)


def cases(heads, threads, groups, caches, widths):
    shapes = itertools.product(caches, widths, groups, NAMES, ("DRAM", "cache"))
    found = [(Step(heads, threads, *shape), shape) for shape in shapes]
    return [step for step, (_, width, _, _, place) in found
            if place == "DRAM" or (width == WIDEST and step.bytes <= CACHED)]


def around(runs):
    turns = itertools.cycle(runs)
    return lambda: next(turns)()


@functools.cache
def operands(step):
    """q [H,D], a new row [Hkv,D], the same for keys and values, and the rows before it."""
    random = numpy.random.default_rng(3)
    shapes = ((step.heads, step.width), (step.kv_heads, step.width),
              (step.kv_heads, step.n, step.width))
    return [random.random(shape, numpy.float32) * 2 - 1 for shape in shapes]


class Onnx:
    def __init__(self, step):
        kind = {"f32": numpy.float32, "f16": numpy.float16}[step.dtype]
        q, new, kept = (x.astype(kind) for x in operands(step))
        outputs = {"y": ((1, 1, q.size), kind),
                   **dict.fromkeys(("present_k", "present_v"), ((1, *kept.shape), kind))}

        def feeds():
            return {"q": q.reshape(1, 1, -1), "k": new.reshape(1, 1, -1),
                    "v": new.reshape(1, 1, -1), "past_k": kept[None].copy(),
                    "past_v": kept[None].copy(), "last": numpy.array([step.n - 1], numpy.int32),
                    "total": numpy.array(step.n, numpy.int32)}
        made = ort.session("GroupQueryAttention", "com.microsoft", 17, feeds(), outputs,
                           {"num_heads": step.heads, "kv_num_heads": step.kv_heads}, step.threads)
        shared = (("present_k", "past_k"), ("present_v", "past_v"))
        bound = [ort.bind(made, feeds(), outputs, shared) for _ in range(step.sets)]
        self.caches, self.values = [run for run, _ in bound], bound[0][1]

    def result(self):
        return self.values["y"].numpy().reshape(-1)


class Ggml:
    def __init__(self, step):
        q, new, kept = operands(step)
        self.caches = [ggml.step(q, new, kept, step.dtype, step.threads)
                       for _ in range(step.sets)]

    def result(self):
        return self.caches[0].result().reshape(-1)


def check(threads, there):
    """Ends the program unless the peers that are there take the step that they are taken to: twice,
    for what is not in place would be left out or stand there twice."""
    for dtype in NAMES:
        step = Step(4, threads, 96, 64, 2, dtype, "cache")
        q, new, kept = operands(step)
        rows = numpy.repeat(numpy.concatenate([kept[:, :-1], new[:, None]], 1), step.group, 0)
        weights = numpy.exp(numpy.einsum("hd,hnd->hn", q, rows) * step.width ** -0.5)
        expected = numpy.einsum("hn,hnd->hd", weights, rows) / weights.sum(1, keepdims=True)
        makers = ((Ggml, ggml.installed()), (Onnx, there and dtype != "bf16"))
        for make in (make for make, is_there in makers if is_there):
            made = make(step)
            for _ in range(2):
                made.caches[0]()
            off = abs(made.result() - expected.reshape(-1)).max()
            if not off < (1e-5 if dtype == "f32" else 1e-2):
                raise SystemExit(f"{make.__name__}'s step over {dtype} is not what "
                                 f"bench/peers/steps.py takes it for: it is off by {off}")

# SPDX-License-Identifier: Apache-2.0
"""ggml's flash attention through its C interface, from the prebuilt libraries in build/peers, which
`make bench-peers` installs. The thread pool is kept between calls, and its threads sleep then, as
ours do."""
import ctypes
import functools
from pathlib import Path

import numpy

PACKAGE = "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64"
FOLDER = Path(__file__).resolve().parents[2] / "build" / "peers" / PACKAGE
FLOAT32, FLOAT16 = 0, 1  # enum ggml_type
KINDS = {"f32": FLOAT32, "f16": FLOAT16, "bf16": 30}
SLACK = 64 << 20  # bytes beyond the tensors' own
POINTER, REAL, LONG = ctypes.c_void_p, ctypes.c_float, ctypes.c_int64


class ContextParameters(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("memory", POINTER), ("no_alloc", ctypes.c_bool)]


class PoolParameters(ctypes.Structure):
    _fields_ = [("cpus", ctypes.c_bool * 512), ("threads", ctypes.c_int),
                ("priority", ctypes.c_int), ("poll", ctypes.c_uint32), ("strict", ctypes.c_bool),
                ("paused", ctypes.c_bool)]


def installed():
    return (FOLDER / "libggml-base.so").exists()


def declare(library, name, result, *arguments):
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function


def best_for_this_processor():
    """Of the libraries for kinds of processors, the one that calls itself best here; 0: unfit."""
    scores = {}
    for path in sorted(FOLDER.glob("libggml-cpu-*.so")):
        score = getattr(ctypes.CDLL(str(path)), "ggml_backend_score", None)
        scores[path] = score() if score else 0
    return max(scores, key=scores.get)


class Library:
    def __init__(self):
        base = ctypes.CDLL(str(FOLDER / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
        self.path = best_for_this_processor()
        cpu = ctypes.CDLL(str(self.path))
        self.version = declare(base, "ggml_version", ctypes.c_char_p)
        self.context = declare(base, "ggml_init", POINTER, ContextParameters)
        self.free = declare(base, "ggml_free", None, POINTER)
        self.tensor = declare(base, "ggml_new_tensor_4d", POINTER, POINTER, ctypes.c_int, LONG,
                              LONG, LONG, LONG)
        self.flash = declare(base, "ggml_flash_attn_ext", POINTER, POINTER, POINTER, POINTER,
                             POINTER, POINTER, REAL, REAL, REAL)
        self.view = declare(base, "ggml_view_3d", POINTER, POINTER, POINTER, LONG, LONG, LONG,
                            ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)
        self.into = declare(base, "ggml_cpy", POINTER, POINTER, POINTER, POINTER)
        self.graph = declare(base, "ggml_new_graph", POINTER, POINTER)
        self.expand = declare(base, "ggml_build_forward_expand", None, POINTER, POINTER)
        self.data = declare(base, "ggml_get_data", POINTER, POINTER)
        self.compute = declare(base, "ggml_backend_graph_compute", ctypes.c_int, POINTER, POINTER)
        self.pool_defaults = declare(base, "ggml_threadpool_params_init", None, POINTER,
                                     ctypes.c_int)
        self.pool = declare(cpu, "ggml_threadpool_new", POINTER, POINTER)
        self.backend = declare(cpu, "ggml_backend_cpu_init", POINTER)
        self.set_threads = declare(cpu, "ggml_backend_cpu_set_n_threads", None, POINTER,
                                   ctypes.c_int)
        self.set_pool = declare(cpu, "ggml_backend_cpu_set_threadpool", None, POINTER, POINTER)


@functools.cache
def library():
    return Library()


@functools.cache
def backend(threads):
    lib, parameters = library(), PoolParameters()
    lib.pool_defaults(ctypes.byref(parameters), threads)
    parameters.poll = 0
    made = lib.backend()
    lib.set_threads(made, threads)
    lib.set_pool(made, lib.pool(ctypes.byref(parameters)))
    return made


def version():
    return f"ggml {library().version().decode()}, {library().path.stem.removeprefix('lib')}"


def causal_mask(queries, keys):
    return numpy.triu(numpy.full((queries, keys), -numpy.inf, numpy.float16), 1 + keys - queries)


class Graph:
    """Operators in memory of their own, computed in the order in which they were added."""

    def __init__(self, size, threads):
        self.lib, self.backend = library(), backend(threads)
        self.memory = self.lib.context(ContextParameters(size, None, False))
        self.steps = self.lib.graph(self.memory)

    def copy(self, operand, kind=None):
        if kind is None:
            kind = FLOAT16 if operand.itemsize == 2 else FLOAT32
        sizes = (*reversed(operand.shape), 1, 1)[:4]
        tensor = self.lib.tensor(self.memory, kind, *sizes)
        ctypes.memmove(self.lib.data(tensor), operand.ctypes.data, operand.nbytes)
        return tensor

    def add(self, tensor):
        self.lib.expand(self.steps, tensor)

    def __call__(self):
        if self.lib.compute(self.backend, self.steps) != 0:
            raise SystemExit("ggml did not compute")

    def result(self):
        count = int(numpy.prod(self.shape))
        values = (REAL * count).from_address(self.lib.data(self.output))
        return numpy.frombuffer(values, numpy.float32).reshape(self.shape)

    def __del__(self):
        self.lib.free(self.memory)


class Attention(Graph):
    """A graph of one operator over copies of q [H,Tq,D], k and v [Hkv,Tk,D]."""

    def __init__(self, q, k, v, causal, threads):
        operands = [q, k, v, *([causal_mask(q.shape[1], k.shape[1])] if causal else [])]
        super().__init__(sum(x.nbytes for x in operands) + 2 * q.nbytes + SLACK, threads)
        self.shape = (q.shape[1], q.shape[0], v.shape[2])  # of the output: [Tq,H,D]
        tensors = [self.copy(operand) for operand in operands] + [None] * (not causal)
        self.output = self.lib.flash(self.memory, *tensors, q.shape[2] ** -0.5, 0, 0)
        self.add(self.output)


def packed(values, dtype):
    """float32 as bytes of the type, bfloat16 cut off."""
    if dtype == "bf16":
        return (values.view(numpy.uint32) >> 16).astype(numpy.uint16)
    return values.astype({"f32": numpy.float32, "f16": numpy.float16}[dtype])


class Step(Graph):
    """A new row [Hkv,D] goes in the last place of caches [Hkv,n,D], and q [H,D] attends over
    them."""

    def __init__(self, q, new, kept, dtype, threads):
        caches = packed(kept, dtype)
        super().__init__(2 * caches.nbytes + SLACK // 16, threads)
        kind, (heads, width), n = KINDS[dtype], q.shape, kept.shape[1]
        self.shape = (heads, width)
        row, rows = width * caches.itemsize, width * caches.itemsize * n
        tensors = [self.copy(caches, kind) for _ in range(2)]
        for tensor in tensors:
            place = self.lib.view(self.memory, tensor, width, 1, len(new), row, rows,
                                  (n - 1) * row)
            self.add(self.lib.into(self.memory, self.copy(new[:, None]), place))
        self.output = self.lib.flash(self.memory, self.copy(q[:, None]), *tensors, None,
                                     width ** -0.5, 0, 0)
        self.add(self.output)


def step(q, new, kept, dtype, threads):
    return Step(q, new, kept, dtype, threads)


def attention(q, k, v, causal, threads):
    """A function that computes it once; its result() is [Tq,H,D], in memory of its own."""
    return Attention(q, k, v, causal, threads)


def check(threads):
    """Ends the program unless the library computes attention as it is declared here."""
    q, k, v = numpy.random.default_rng(1).random((3, 2, 64, 32), numpy.float32)
    run = attention(q, k, v, True, threads)
    run()
    weights = numpy.exp(q @ k.transpose(0, 2, 1) * 32 ** -0.5 + causal_mask(64, 64))
    expected = weights @ v / weights.sum(2, keepdims=True)
    if abs(run.result() - expected.transpose(1, 0, 2)).max() > 1e-5:
        raise SystemExit("ggml's flash attention is not what bench/peers/ggml.py takes it for")

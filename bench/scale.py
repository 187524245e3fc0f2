#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call costs, and what replicas answer: the numbers of docs/scaling.md, about a minute.

    build/venv/bin/python bench/scale.py [--seconds 0.7] [--price 0.04]

A replica has one worker and one I/O thread, and a core of its own. Its time on the processor per
call is measured, the client's apart. Four shapes give the four constants of

    core-seconds = CALL + BYTE bytes + FLOP flops + KEPT bytes of a session's keys and values

and the others, and the rates of one replica and of two, are held against what follows from them.
Time on the processor is told whatever else runs; rates are only worth something at rest.
"""
import argparse
import json
import multiprocessing
import os
import socket
import statistics
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples" / "python"), str(ROOT / "tests")]

import tensorfile  # noqa: E402
from support.daemon import Daemon  # noqa: E402

CONNECTIONS = 2  # to a replica, so that the next call is there when one is answered
ROUNDS = 3
CONSTANTS = ("CALL", "BYTE", "FLOP", "KEPT")
SETTINGS = ("--threads", "1", "--io-threads", "1", "--log", "off", "--sessions-memory", "2GiB")
RNG = np.random.default_rng(7)


@dataclass(frozen=True)
class Shape:
    name: str
    path: str
    tensors: dict
    options: dict
    flops: float = 0     # 2 (D + Dv) for each score that is visible
    kept: float = 0      # bytes of keys and values that a step reads in its session
    down: int = 0        # bytes of the answer's tensors
    gives: str = ""      # the constant that this shape is for

    def request(self):
        body = tensorfile.dumps(self.tensors, {"attention": json.dumps(self.options)})
        return post(self.path, "vnd.safetensors", body)

    def bytes(self):
        return sum(x.nbytes for x in self.tensors.values()) + self.down

    def row(self):
        return np.array([1, self.bytes(), self.flops, self.kept])


def post(path, kind, body):
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/{kind}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def random(*shape):
    return RNG.standard_normal(shape, np.float32)


def call(name, heads, queries, keys, D, causal=False, gives=""):
    q, k, v = random(heads, queries, D), random(heads, keys, D), random(heads, keys, D)
    seen = queries * (queries + 1) // 2 if causal else queries * keys
    return Shape(name, "/v1/attention", {"q": q, "k": k, "v": v},
                 {"mask": "causal"} if causal else {}, 4 * D * heads * seen, 0, q.nbytes, gives)


def step(name, tokens, gives=""):
    """A query of each of 8 heads over a session that has so many tokens; nothing is appended."""
    q = random(8, 1, 128)
    return Shape(name, f"/v1/sessions/of-{tokens}/attention", {"q": q},
                 {"layer": 0, "append": False, "position": tokens - 1}, 0, 2 * 8 * tokens * 128 * 4,
                 q.nbytes, gives)


def merge(name, partials, queries):
    outputs, lses = random(partials, 1, 8, queries, 64), random(partials, 1, 8, queries)
    return Shape(name, "/v1/merge", {"outputs": outputs, "lses": lses}, {}, 0, 0,
                 outputs[0].nbytes + lses[0].nbytes)


def shapes():
    return [call("one query, one key", 1, 1, 1, 64, gives="CALL"),
            call("2048 queries, 16 keys", 8, 2048, 16, 64, gives="BYTE"),
            call("2048 x 2048", 8, 2048, 2048, 64, gives="FLOP"),
            step("a step over 16384 tokens", 16384, gives="KEPT"),
            call("12 heads, 128 x 128", 12, 128, 128, 64),
            call("512 x 512", 8, 512, 512, 64),
            call("1024 x 1024, causal", 8, 1024, 1024, 64, causal=True),
            call("64 queries, 4096 keys", 8, 64, 4096, 64),
            step("a step over 4096 tokens", 4096),
            merge("merge of 8 partials, 64 queries", 8, 64)]


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(1 << 20)

    def exchange(self, request):
        self.socket.sendall(request)
        got = self.socket.recv_into(self.buffer)
        head, _, _ = bytes(self.buffer[:got]).partition(b"\r\n\r\n")
        lines = head.decode("latin-1").lower().split("\r\n")
        if lines[0].split()[1] not in ("200", "201"):
            sys.exit(f"scale: {bytes(self.buffer[:got])[:600]!r}")
        fields = dict(line.split(": ", 1) for line in lines[1:])
        left = int(fields["content-length"]) + len(head) + 4 - got
        while left > 0:
            left -= self.socket.recv_into(self.buffer)


def prepare(port, sizes):
    """The sessions that steps go over."""
    connection = Connection(port)
    for tokens in sizes:
        body = json.dumps({"id": f"of-{tokens}", "layers": 1, "kv_heads": 8, "head_dim": 128,
                           "dtype": "float32", "capacity": tokens}).encode()
        connection.exchange(post("/v1/sessions", "json", body))
        rows = Shape("", f"/v1/sessions/of-{tokens}/attention",
                     {"q": random(8, 0, 128), "k": random(8, tokens, 128),
                      "v": random(8, tokens, 128)}, {"layer": 0})
        connection.exchange(rows.request())


def processor_time(process):
    """Seconds of all its threads, by its clock (clock_getcpuclockid(3))."""
    return time.clock_gettime((~process << 3) | 2)


def drive(port, core, request, seconds, results):
    """Calls back to back over a few connections; leaves (calls, own seconds on the processor)."""
    os.sched_setaffinity(0, core)
    end = time.perf_counter() + seconds
    counts = [0] * CONNECTIONS

    def loop(index):
        connection = Connection(port)
        while time.perf_counter() < end:
            connection.exchange(request)
            counts[index] += 1

    threads = [threading.Thread(target=loop, args=(index,)) for index in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put((sum(counts), time.process_time()))


@dataclass
class Measured:
    rate: float     # calls per second, of all replicas
    replica: float  # core-seconds of a call
    client: float


def measure(daemons, cores, shape, seconds):
    """`cores`: where each replica's client runs."""
    results = multiprocessing.Queue()
    request = shape.request()
    used = [processor_time(daemon.process.pid) for daemon in daemons]
    begin = time.perf_counter()
    clients = [multiprocessing.Process(target=drive, args=(d.port, core, request, seconds, results))
               for d, core in zip(daemons, cores)]
    for client in clients:
        client.start()
    told = [results.get(timeout=seconds + 60) for _ in clients]
    took = time.perf_counter() - begin
    for client in clients:
        client.join()
    calls = sum(count for count, _ in told)
    own = sum(processor_time(d.process.pid) - was for d, was in zip(daemons, used))
    return Measured(calls / took, own / calls, sum(seconds for _, seconds in told) / calls)


def median(runs):
    """Of each member by itself."""
    return Measured(*(statistics.median(values) for values in zip(*map(astuple, runs))))


def constants(table):
    """From the shapes that give one each."""
    given = [(shape, alone) for shape, alone, _ in table if shape.gives]
    return np.linalg.solve([shape.row() for shape, _ in given],
                           [alone.replica for _, alone in given])


def others(began):
    """The share of the processors that all others used since then."""
    busy, now = processors(), time.perf_counter()
    return (busy - began[0] - (own_time() - began[2])) / (os.cpu_count() * (now - began[1]))


def processors():
    fields = [int(x) for x in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def own_time():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def replica(stack, core):
    """A daemon on a core of its own, with the sessions."""
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    daemon = stack.enter_context(Daemon(*SETTINGS))
    os.sched_setaffinity(0, everywhere)
    prepare(daemon.port, (4096, 16384))
    return daemon


def measure_all(seconds):
    """(shape, one replica, two of them) for each shape; the client of one has the other core, those
    of two share their replicas'."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        sys.exit("scale: needs two processors: one for a replica, one for its client")
    with ExitStack() as stack:
        daemons = [replica(stack, core) for core in cores]
        drawn = shapes()
        rounds = [[(measure(daemons[:1], [{cores[1]}], shape, seconds),
                    measure(daemons, [{core} for core in cores], shape, seconds))
                   for shape in drawn] for _ in range(ROUNDS)]
    return [(shape, *(median(runs) for runs in zip(*pairs)))
            for shape, pairs in zip(drawn, zip(*rounds))]


def report(table, price):
    costs = constants(table)
    for name, value, unit in zip(CONSTANTS, costs, ("call", "byte", "flop", "byte kept")):
        print(f"{name:5} {value:.3g} core-seconds a {unit}")
    print("\n| call | MB | GFLOP | core-ms | by the model | beside another | one, calls/s | "
          "by the model | two, calls/s | by the model | $ a million |\n" + "| --- " * 11 + "|")
    for shape, alone, both in table:
        model = float(shape.row() @ costs)
        one = 1 / max(model, alone.client)
        two = 2 / (model + alone.client)
        print(f"| {shape.name} | {shape.bytes() / 1e6:.3g} | {shape.flops / 1e9:.3g} | "
              f"{alone.replica * 1e3:.3g} | {'' if shape.gives else f'{model * 1e3:.3g}'} | "
              f"{both.replica * 1e3:.3g} | "
              f"{alone.rate:.0f} | {one:.0f} | {both.rate:.0f} | {two:.0f} | "
              f"{alone.replica * 1e6 / 3600 * price:.3g} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.7, help="of each of sixty runs")
    parser.add_argument("--price", type=float, default=0.04, help="of a core for an hour, in $")
    asked = parser.parse_args()
    began = processors(), time.perf_counter(), own_time()
    table = measure_all(asked.seconds)
    report(table, asked.price)
    print(f"\nothers used {max(0, others(began)):.0%} of the processors meanwhile")


if __name__ == "__main__":
    main()

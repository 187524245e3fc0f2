# SPDX-License-Identifier: Apache-2.0
"""Rows 19, 32, 33, 81, 82, 84 and 86 to 89: clients that do not read or leave, more work, memory or
connections than there is, and the end of the process."""
import json
import os
import resource
import signal
import socket
import struct
import threading
import time

import numpy as np
import pytest
from support import raw, safetensors
from support.client import SAFETENSORS_TYPE
from support.daemon import BINARY

from catalogue.row import BUSY, HASTY, Input, Row, accepted, refused, shut, typed

GONE = 'attention_http_requests_total{route="/v1/attention",method="POST",code="499"}'
KERNEL_CALLS = "attention_kernel_calls_total"
SANITIZED = "san/" in BINARY
FEW = ("--max-connections", "64")
FULL = (*BUSY, "--queue-limit", "2")


def slow(length=12288, **options):
    """A call of seconds: the oracle kernel on a long sequence."""
    q = np.ones((length, 64), np.float32)
    options = json.dumps({"kernel": "reference", **options})
    return typed(safetensors.write({"q": q, "k": q, "v": q}, {"attention": options}),
                 SAFETENSORS_TYPE)


def begun(scene, request):
    """Waits until the answer has its memory too, beside the body: a worker has the call then."""
    scene.until("attention_in_flight_bytes", len(request) * 5 / 4)


def big_answer():
    """A call whose answer is larger than what sockets buffer."""
    ones = np.ones((2048, 1), np.float32)
    body = safetensors.write({"q": ones, "k": ones, "v": ones}, {"attention": '{"weights":true}'})
    return typed(body, SAFETENSORS_TYPE)


def never_reads(scene):
    scene.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    scene.connection.send(big_answer())
    begun_at = time.monotonic()
    scene.until("attention_in_flight_bytes", 1)
    raw.until(lambda: scene.samples()["attention_in_flight_bytes"] == 0, 10)
    assert time.monotonic() - begun_at < 5
    scene.connection.close()


def flood_of_connections(scene):
    """A hundred where 64 are taken: the rest wait in the kernel, and each is answered."""
    others = [raw.Connection(scene.port, 20) for _ in range(100)]
    for other in others:
        other.send(raw.get("/healthz", "Connection: close"))
    assert {other.answer().status for other in others} == {200}
    for other in others:
        other.close()
    return scene.connection.ask(raw.get())


def reset(scene):
    """In the middle of a computation, which stops."""
    before = scene.samples().get(GONE, 0)
    request = slow()
    scene.connection.send(request)
    begun(scene, request)
    scene.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                       struct.pack("ii", 1, 0))
    scene.connection.close()
    raw.until(lambda: scene.samples().get(GONE, 0) == before + 1, 2)


def million(**options):
    """10^6 queries and keys of no elements: they cost their sender nothing."""
    none = {"shape": [1_000_000, 0], "dtype": "float32", "data": []}
    body = json.dumps({"q": none, "k": none, "v": none, **options}).encode()
    return raw.post(body, f"Accept: {SAFETENSORS_TYPE}")


def grew_little(scene):
    """Refused before memory is taken for it."""
    before = scene.samples()["process_resident_memory_bytes"]
    answer = scene.connection.ask(scene.bytes())
    assert scene.samples()["process_resident_memory_bytes"] < before + (32 << 20)
    return answer


def ten_times(scene):
    """A worker with a line of two, and thirty calls at once: those beyond are refused before any
    other is answered, and soon; the rest is served, and afterwards all is as before."""
    assert scene.connection.ask(raw.get()).status == 200  # later it waits only between two
    waits, answers = [], []
    connections = [raw.Connection(scene.port, 60) for _ in range(30)]
    request = slow(1536)

    def ask(connection):
        begin = time.monotonic()
        answers.append(connection.ask(request))
        waits.append((answers[-1].status, time.monotonic() - begin))

    threads = [threading.Thread(target=ask, args=(one,)) for one in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for connection in connections:
        connection.close()
    refusals = [answer for answer in answers if answer.status == 503]
    assert {answer.status for answer in answers} == {200, 503}
    assert {answer.problem for answer in refusals} == {"overloaded"}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refusals)
    took = sorted(seconds for status, seconds in waits if status == 503)
    assert took[len(took) // 2] < 0.5, took
    scene.counted = {"overloaded": len(refusals)}
    return scene.connection.ask(raw.post())


def deadline_before_compute(scene):
    """Its time is over while it waits behind another; no kernel is called for it."""
    before = sum_of(scene.samples(), KERNEL_CALLS)
    with raw.Connection(scene.port, 60) as first:
        request = slow(timeout_ms=700)
        first.send(request)
        begun(scene, request)
        answer = scene.connection.ask(slow(timeout_ms=50))
        assert first.answer().status == 504
    scene.counted = {"deadline-exceeded": 2}
    assert sum_of(scene.samples(), KERNEL_CALLS) <= before + 1
    return answer


def sum_of(samples, family):
    return sum(value for name, value in samples.items() if name.startswith(family))


def limited(which, limit):
    """Runs the block with another limit of the daemon's; its own comes back afterwards."""
    class Limit:
        def __init__(self, scene):
            self.pid = scene.running.process.pid

        def __enter__(self):
            self.old = resource.prlimit(self.pid, which)
            resource.prlimit(self.pid, which, (limit(self.pid), self.old[1]))

        def __exit__(self, *failure):
            resource.prlimit(self.pid, which, self.old)
    return Limit


def address_space(pid):
    """What it has, and 16 MiB more."""
    with open(f"/proc/{pid}/statm") as text:
        return int(text.read().split()[0]) * resource.getpagesize() + (16 << 20)


def no_memory(scene):
    """64 MiB of body where 16 MiB are to be had; a small call passes, and later a large one."""
    q = np.ones((1 << 16, 85), np.float32)
    large = typed(safetensors.write({"q": q[:1], "k": q, "v": q}), SAFETENSORS_TYPE)
    if SANITIZED:
        pytest.skip("a sanitizer's shadow memory needs more than any limit")
    with limited(resource.RLIMIT_AS, address_space)(scene):
        scene.connection.send(large)
        answer = scene.connection.answer()
        with raw.Connection(scene.port) as another:
            assert another.ask(raw.post()).status == 200
    with raw.Connection(scene.port, 60) as another:
        assert another.ask(large).status == 200
    return answer


def open_files(pid):
    """What it has, and four more."""
    return len(os.listdir(f"/proc/{pid}/fd")) + 4


def no_descriptors(scene):
    """Twenty clients where four more can be had: nobody is refused, who waits is answered when
    others have left, and a connection that is open works meanwhile."""
    with limited(resource.RLIMIT_NOFILE, open_files)(scene):
        others = [raw.Connection(scene.port, 20) for _ in range(20)]
        for other in others:
            other.send(raw.get("/healthz", "Connection: close"))
        assert scene.connection.ask(raw.post()).status == 200
        assert {other.answer().status for other in others} == {200}
    for other in others:
        other.close()
    return scene.connection.ask(raw.post())


def lost_lines(scene, answer):
    scene.until("attention_log_lines_lost_total", 1)


def drained(stage):
    """SIGTERM in the middle of a request, which is answered; the process ends with 0."""
    def play(scene):
        request = big_answer() if stage == "answer" else slow(2048)
        sent = 1000 if stage == "upload" else len(request)
        scene.connection.send(request[:sent])
        if stage == "compute":
            begun(scene, request)
        elif stage == "answer":
            scene.connection.rest = scene.connection.socket.recv(1 << 16)
        else:
            scene.until("attention_http_requests_in_flight", 2)
        scene.running.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        scene.connection.send(request[sent:])
        answer = scene.connection.answer()
        assert scene.running.process.wait(20) == 0
        if stage == "answer":  # its head had left before anybody knew that the connection ends
            assert scene.connection.ended()
            scene.connection.close()
        return answer
    return play


ROWS = [
    Row(19, "client that does not read its answer", {
        "": Input(status=None, stays=False, daemon=HASTY, play=never_reads)}),
    Row(32, "more connections than are taken", {
        "": accepted(b"", play=flood_of_connections, daemon=FEW, alone=True,
                     note="those beyond wait")}),
    Row(33, "reset in the middle of a computation", {
        "": Input(status=None, stays=False, problem="cancelled", daemon=BUSY, play=reset,
                  note="499 `cancelled` in the log and the metrics")}),
    Row(81, "10^6 keys and queries with the map", {
        "": refused(million(weights=True), 413, "result-too-large", play=grew_little)}),
    Row(82, "10^6 keys and queries without it", {
        "late": refused(million(timeout_ms=300), 504, "deadline-exceeded"),
        "too much": refused(million(), 413, "too-much-work", play=grew_little,
                            daemon=("--max-flops", "1e12")),
        "hidden": accepted(million(mask={"type": "window", "left": 0, "right": 0}),
                           note="where a mask hides most")}),
    Row(84, "ten times the load", {
        "": accepted(b"", play=ten_times, daemon=FULL, alone=True, note="503 `overloaded` for "
                     "what is too much, at once")}),
    Row(86, "deadline that has passed", {
        "": refused(b"", 504, "deadline-exceeded", play=deadline_before_compute, daemon=BUSY,
                    alone=True, note="not computed")}),
    Row(87, "no memory", {
        "": Input(status=503, problem="out-of-memory", play=no_memory, alone=True,
                  stays=False)}),
    Row(88, "no descriptors, no room for the log", {
        "descriptors": accepted(b"", play=no_descriptors, alone=True, note="those beyond wait"),
        "log": accepted(raw.post(), lost_lines, log="/dev/full", note="lost lines are counted")}),
    Row(89, "SIGTERM in the middle of a request", {
        stage: shut(b"", 200, None, play=drained(stage), daemon=(*BUSY, "--drain-timeout", "1m"),
                    alone=True) for stage in ("upload", "compute", "answer")}),
]

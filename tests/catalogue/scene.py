# SPDX-License-Identifier: Apache-2.0
"""One input sent to a daemon, and what "nothing lost" means: the process is up; calls of others
beside it have the bits that they always have; requests, bytes, queue and connections are those of a
daemon at rest again; its refusal was counted, once, under its reason; and the connection takes
another request, or is closed with nothing behind the input executed."""
import json
import threading
import time

import numpy as np
from support import library, raw, safetensors
from support.client import SAFETENSORS_TYPE, pack

from catalogue.row import typed

HIDDEN = raw.get("/v1")  # stands behind what closes; its answer would have the kernels
AT_REST = {"attention_http_requests_in_flight": 1, "attention_in_flight_bytes": 0,
           "attention_queue_depth": 0, "attention_backlog_seconds": 0,
           "attention_http_connections": 1}
REFUSED = "attention_rejections_total"


def reference():
    """A call of some microseconds."""
    rng = np.random.default_rng(7)
    q, k, v = rng.standard_normal((3, 1, 2, 64, 16)).astype(np.float32)
    return pack(q, k, v, {"mask": "causal", "return": ["output", "lse"]})[0]


class Neighbour(threading.Thread):
    """Calls of another client, one after the other for as long as it is asked to."""
    body = reference()

    def __init__(self, running):
        super().__init__()
        self.running, self.begun, self.over = running, threading.Event(), threading.Event()
        self.bits, self.failure = set(), None

    def ask(self, connection):
        answer = connection.ask(typed(self.body, SAFETENSORS_TYPE, *self.running.key_lines))
        assert answer is not None and answer.status == 200, answer and answer.body
        tensors, _ = safetensors.parse(answer.body)
        self.bits.add(tensors["output"].tobytes() + tensors["lse"].tobytes())

    def run(self):
        try:
            with raw.Connection(self.running.port, 60) as connection:
                while not self.over.is_set():
                    self.ask(connection)
                    self.begun.set()
                    time.sleep(0.001)
                self.ask(connection)
        except Exception as failure:
            self.failure = failure
            self.begun.set()

    def __enter__(self):
        self.start()
        self.begun.wait()
        return self

    def __exit__(self, *failure):
        self.over.set()
        self.join()
        assert self.failure is None, repr(self.failure)


class Scene:
    def __init__(self, running, item, connection):
        self.running, self.input, self.connection = running, item, connection
        self.port, self.keys = running.port, running.keys
        self.counted = item.refusals

    def bytes(self):
        sent = self.input.sent
        return sent(self) if callable(sent) else sent

    def send(self, data):
        """Whether all of it could be sent, with a request behind it that must not be executed."""
        try:
            self.connection.send(data if self.input.stays else data + HIDDEN)
        except ConnectionError:
            return False
        return True

    def samples(self):
        return self.running.samples()

    def until(self, name, value):
        """Waits until a sample is at least this."""
        raw.until(lambda: self.samples().get(name, 0) >= value, 20)


def refusals(samples):
    return {name: value for name, value in samples.items() if name.startswith(REFUSED)}


def judge_end(scene, answer):
    item, connection = scene.input, scene.connection
    if item.stays:
        after = connection.ask(raw.get())
        assert after is not None and after.status == 200, "the connection is not usable"
        return
    assert item.by_library or answer is None or answer.closes
    rest = connection.rest + read_to_the_end(connection)
    assert b'"kernels"' not in rest, "what stands behind the input was executed"
    assert item.by_library or rest == b"", rest[:200]


def read_to_the_end(connection):
    text = b""
    try:
        while piece := connection.socket.recv(65536):
            text += piece
    except ConnectionError:
        pass
    return text


def judge(scene, answer):
    item = scene.input
    if item.status is None:
        assert answer is None, (answer.status, answer.body[:300])
        return
    assert answer is not None, "there was no answer"
    if item.by_library and library.is_newer() and item.status >= 400:
        assert answer.status >= 400  # in other words than 0.9.75's
        return
    assert answer.status == item.status, (answer.status, answer.body[:300])
    if item.oip:
        assert list(json.loads(answer.body)) == ["error"]
    elif not item.by_library:
        assert answer.problem == item.problem, answer.body[:300]
    if item.status in (429, 503):
        assert int(answer.headers["retry-after"]) >= 1
    item.check(scene, answer)


def is_below(scene, answer):
    """Newer versions of the library refuse some broken heads before the daemon sees them."""
    return scene.input.maybe_below and library.is_newer() and (
        answer is None or answer.status >= 400 and answer.problem is None)


def perform(running, item):
    """Plays the input and judges all of what "nothing lost" says."""
    running.wait_for_rest()
    before = refusals(running.samples())
    with raw.Connection(running.port, 60) as connection:
        scene = Scene(running, item, connection)
        if item.alone:
            answer = item.play(scene)
        else:
            with Neighbour(running) as neighbour:
                answer = item.play(scene)
            assert neighbour.bits == {running.reference}
        below = is_below(scene, answer)
        if not below:
            judge(scene, answer)
            if connection.socket.fileno() >= 0:
                judge_end(scene, answer)
    if running.process.poll() is not None:
        assert item.alone and running.process.returncode == 0, running.output()[-5000:]
        return
    running.wait_for_rest()
    after = refusals(running.samples())
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    counted = {} if below else scene.counted
    assert grown == {f'{REFUSED}{{reason="{problem}"}}': count
                     for problem, count in counted.items()}
    running.assert_bits()

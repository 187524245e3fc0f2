# SPDX-License-Identifier: Apache-2.0
"""Rows 83 and 96 to 102: sessions that are too many, over, another's, full or interrupted."""
import json
import socket
import struct
import threading
import time

import numpy as np
from support import raw, safetensors
from support.client import SAFETENSORS_TYPE

from catalogue.row import BUSY, Input, Row, accepted, refused, typed

SHAPE = {"layers": 1, "kv_heads": 1, "head_dim": 8, "dtype": "float32", "capacity": 100000}
MOST, TRIED = 1000, 10000
STEP = 'route="/v1/sessions/{id}/attention",method="POST",code="499"'
GONE = f"attention_http_requests_total{{{STEP}}}"


def lines(scene, name):
    return [f"Authorization: Bearer {scene.keys[name]}"] if scene.keys else []


def make(scene, name="bob", **shape):
    """The path of a new session."""
    body = json.dumps({**SHAPE, **shape}).encode()
    answer = scene.connection.ask(raw.post(body, *lines(scene, name), path="/v1/sessions"))
    assert answer.status == 201, answer.body
    return answer.headers["location"]


def step(path, rows=3, seed=1, **options):
    """The bytes of a step."""
    q, k, v = np.random.default_rng(seed).standard_normal((3, 1, rows, 8)).astype(np.float32)
    tensors = {"q": q} if options.get("append") is False else {"q": q, "k": k, "v": v}
    body = safetensors.write(tensors, {"attention": json.dumps(options)})
    return typed(body, SAFETENSORS_TYPE, path=path + "/attention")


def slow(path):
    """One of seconds."""
    return step(path, 9000, kernel="reference")


def state(scene, path):
    """All that the session keeps."""
    answer = scene.connection.ask(raw.get(path + "/kv"))
    assert answer.status == 200, answer.body
    return answer.body


def delete(scene, path):
    with raw.Connection(scene.port, 60) as another:
        assert another.ask(raw.get(path, method="DELETE")).status == 204


def begun(scene, path):
    pages = scene.samples()["attention_session_pages"]
    scene.connection.send(slow(path))
    scene.until("attention_session_pages", pages + 2)


# ---- 83 ----

def too_many(scene):
    body = json.dumps(SHAPE).encode()
    request = raw.post(body, *lines(scene, "hoarder"), path="/v1/sessions")
    most = 50 if scene.keys else MOST
    answers = [scene.connection.ask(request) for _ in range(TRIED if not scene.keys else 60)]
    assert [answer.status for answer in answers[:most]] == [201] * most
    kinds = {(answer.status, answer.problem) for answer in answers[most:]}
    assert kinds == {(answers[-1].status, answers[-1].problem)}
    scene.counted = {answers[-1].problem: len(answers) - most}
    return answers[-1]


# ---- 96 ----

def after_delete(scene):
    path = make(scene)
    delete(scene, path)
    return scene.connection.ask(step(path))


def after_its_time(scene):
    path = make(scene, ttl_s=0.1)
    time.sleep(0.3)
    return scene.connection.ask(step(path))


# ---- 97 ----

def at_once(scene, count, **options):
    """Steps of as many clients; the answers, and the path."""
    path, answers = make(scene), []

    def ask(number):
        with raw.Connection(scene.port, 60) as connection:
            answers.append(connection.ask(step(path, seed=number, **options)))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return path, answers


def one_after_the_other(scene):
    path, answers = at_once(scene, 8)
    assert {answer.status for answer in answers} == {200}
    metas = [json.loads(safetensors.parse(answer.body)[1]["meta"]) for answer in answers]
    assert sorted(meta["session"]["position"] for meta in metas) == list(range(0, 24, 3))
    delete(scene, path)
    return answers[0]


def one_of_all(scene):
    path, answers = at_once(scene, 8, position=0)
    refusals = [answer for answer in answers if answer.status == 409]
    assert len(refusals) == 7
    assert all(json.loads(answer.body)["length"] == 3 for answer in refusals)
    scene.counted = {"session-length": 7}
    delete(scene, path)
    return refusals[0]


# ---- 98 ----

def deleted_meanwhile(scene):
    """The step ends as it would have; its pages go with it."""
    path = make(scene)
    begun(scene, path)
    delete(scene, path)
    answer = scene.connection.answer()
    raw.until(lambda: scene.samples()["attention_session_pages"] == 0, 20)
    return answer


# ---- 99 ----

def anothers(scene):
    """What is another's is answered as what is nobody's."""
    path = make(scene, "bob")
    theirs, nobodys = (scene.connection.ask(raw.get(one, *lines(scene, "carol")))
                       for one in (path, "/v1/sessions/" + "0" * 32))
    assert nobodys.status == 404
    texts = [json.loads(answer.body)["detail"].split('"') for answer in (theirs, nobodys)]
    assert texts[0][::2] == texts[1][::2]
    listed = scene.connection.ask(raw.get("/v1/sessions", *lines(scene, "carol")))
    assert json.loads(listed.body) == {"sessions": []}
    scene.counted = {"session-not-found": 2}
    scene.connection.ask(raw.get(path, *lines(scene, "bob"), method="DELETE"))
    return theirs


# ---- 100 ----

def beyond(scene):
    path = make(scene, capacity=5)
    assert scene.connection.ask(step(path)).status == 200
    before = state(scene, path)
    answer = scene.connection.ask(step(path))
    assert state(scene, path) == before
    delete(scene, path)
    return answer


# ---- 101 ----

def sent_twice(scene):
    """It is refused, and the answer that was lost can be had."""
    path = make(scene)
    first = scene.connection.ask(step(path, position=0))
    again = scene.connection.ask(step(path, position=0))
    lost = scene.connection.ask(step(path, position=0, append=False))
    outputs = [safetensors.parse(answer.body)[0]["output"] for answer in (first, lost)]
    assert outputs[0].tobytes() == outputs[1].tobytes()
    delete(scene, path)
    return again


# ---- 102 ----

def leaves(scene):
    path = make(scene)
    assert scene.connection.ask(step(path)).status == 200
    before = state(scene, path)
    counted = scene.samples().get(GONE, 0)
    begun(scene, path)
    scene.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                       struct.pack("ii", 1, 0))
    scene.connection.close()
    raw.until(lambda: scene.samples().get(GONE, 0) == counted + 1, 20)
    with raw.Connection(scene.port, 60) as another:
        assert another.ask(raw.get(path + "/kv")).body == before
        assert another.ask(step(path, position=3)).status == 200
    delete(scene, path)


ROWS = [
    Row(83, "10,000 sessions", {
        "of a key": refused(b"", 429, "session-limit", play=too_many, with_keys=True),
        "of all": refused(b"", 503, "too-many-sessions", play=too_many,
                          daemon=("--max-sessions", str(MOST)))}),
    Row(96, "session used after its end", {
        "deleted": refused(b"", 404, "session-not-found", play=after_delete),
        "expired": refused(b"", 410, "session-expired", play=after_its_time)}),
    Row(97, "appends to a session at once", {
        "": accepted(b"", play=one_after_the_other, note="one after the other"),
        "at one position": refused(b"", 409, "session-length", play=one_of_all,
                                   note="but for one")}),
    Row(98, "session deleted in the middle of a computation", {
        "": accepted(b"", play=deleted_meanwhile, daemon=BUSY, note="then it is gone")}),
    Row(99, "guessed session", {
        "": refused(b"", 404, "session-not-found", play=anothers, with_keys=True)}),
    Row(100, "append beyond a session's capacity", {
        "": refused(b"", 409, "session-full", play=beyond, note="nothing changed")}),
    Row(101, "append sent twice", {
        "": refused(b"", 409, "session-length", play=sent_twice, note="with the length")}),
    Row(102, "client that leaves in the middle of an append", {
        "": Input(status=None, stays=False, problem="cancelled", daemon=BUSY, play=leaves,
                  note="499 `cancelled` in the log and the metrics, nothing appended")}),
]

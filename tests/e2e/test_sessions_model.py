# SPDX-License-Identifier: Apache-2.0
"""Clients that do random things to the same sessions, and a model that has to explain every answer.

Each token is a number that nobody else appends, put into its value, so that a session's snapshot is
the list of its tokens. Whatever was cut, forked, kept and brought back since: what stands before a
token is what stood there when it was appended, the same wherever the token is seen. Every output is
the mean of just these tokens, and no token is seen whose step was not answered with 200.
"""
import itertools
import json
import os
import random
import threading
from contextlib import closing

import numpy as np
import pytest
from support import safetensors
from support.client import SAFETENSORS_TYPE, Client, pack_operands
from support.daemon import Daemon
from support.sessions import ask

SHAPE = {"layers": 1, "kv_heads": 1, "head_dim": 2, "dtype": "float64", "capacity": 4000}
CLIENTS = 4
CALLS = int(os.environ.get("SESSION_CALLS", "600"))
FINE = {"append": {200, 409}, "look": {200, 409}, "cut": {200, 409}, "fork": {201, 409},
        "drop": {204}, "keep": {200}, "back": {200, 201, 409}}
OVER = {404, 410}


def step(client, name, tokens, options):
    """Keys are zero, so all weights are equal and the output is the mean of the tokens."""
    zeros = np.zeros((1, max(len(tokens), 1), 2))
    tensors = {"q": zeros}
    if len(tokens):
        tensors |= {"k": zeros, "v": np.repeat(np.array(tokens)[None, :, None], 2, 2)}
    body, kind = pack_operands(tensors, options)
    return client.send("POST", f"/v1/sessions/{name}/attention", body, {"Content-Type": kind})


class Worker(threading.Thread):
    """One client; `log` has what it did and what came of it."""

    def __init__(self, port, seed, names, tokens):
        super().__init__()
        self.client, self.random = Client(port), random.Random(seed)
        self.names, self.tokens, self.log, self.failure = names, tokens, [], None

    def run(self):
        try:
            with closing(self.client):
                for _ in range(CALLS):
                    self.act(self.random.choice(self.names))
        except Exception as failure:
            self.failure = failure

    def act(self, name):
        kind = self.random.choices(("append", "look", "cut", "fork", "drop", "keep", "back"),
                                   (10, 4, 2, 1, 0.3, 2, 0.6))[0]
        answer = getattr(self, kind)(name)
        assert answer.status in FINE[kind] | OVER, (kind, answer.status, answer.body[:500])

    def note(self, kind, answer, *what):
        if answer.status < 300:
            self.log.append((kind, *what))
        return answer

    def append(self, name):
        tokens = [float(next(self.tokens)) for _ in range(self.random.choice((1, 1, 2, 70)))]
        options = {}
        if self.random.random() < 0.3:
            options["position"] = self.random.choice((0, 1, 2, 70, 71, 72, 140))
        answer = step(self.client, name, tokens, options)
        if answer.status == 200:
            self.note("append", answer, name, answer.meta["session"]["position"], tokens,
                      answer["output"][0, :, 0].tolist())
        return answer

    def look(self, name):
        answer = step(self.client, name, [], {"append": False, "position": 0, "causal": False})
        if answer.status == 200:
            self.note("look", answer, name, answer.meta["shape"]["Tk"], answer["output"][0, 0, 0])
        return answer

    def cut(self, name):
        length = self.random.choice((0, 1, 5, 64, 100))
        answer = ask(self.client, "POST", f"/v1/sessions/{name}/truncate", {"length": length})
        return self.note("cut", answer, name, length)

    def fork(self, name):
        other = self.random.choice(self.names)
        answer = ask(self.client, "POST", f"/v1/sessions/{name}/fork", {"id": other})
        return self.note("fork", answer, other)

    def drop(self, name):
        return self.note("drop", ask(self.client, "DELETE", f"/v1/sessions/{name}"), name)

    def keep(self, name):
        answer = self.client.get(f"/v1/sessions/{name}/kv")
        if answer.status == 200:
            self.kept = answer.body
            self.note("keep", answer, name, tokens_of(answer.body))
        return answer

    def back(self, name):
        body = getattr(self, "kept", None)
        if body is None:
            return self.keep(name)
        return self.note("back", self.client.send("POST", f"/v1/sessions?id={name}", body,
                                                  {"Content-Type": SAFETENSORS_TYPE}),
                         name, tokens_of(body))


def tokens_of(snapshot):
    tensors, metadata = safetensors.parse(snapshot)
    values = tensors["layers.0.v"][0, :, 0].tolist()
    assert json.loads(metadata["session"])["lengths"] == [len(values)]
    return values


class History:
    """What every answer says of the tokens that stood before one: each token's predecessor is the
    same wherever it appears, for it was appended once."""

    def __init__(self):
        self.before = {}

    def take(self, line):
        """A list of tokens from position 0 on."""
        for position, token in enumerate(line):
            path = tuple(line[:position])
            assert self.before.setdefault(token, path) == path, f"{token} stands in two places"

    def line(self, token):
        return [*self.before[token], token]


def check_appends(log, history):
    """Each output is the mean of the tokens up to it, which are known where it was seen."""
    known = 0
    for kind, *what in log:
        if kind != "append":
            continue
        name, position, tokens, outputs = what
        for n, (token, output) in enumerate(zip(tokens, outputs, strict=True)):
            if token not in history.before:
                continue
            line = history.line(token)
            assert len(line) == position + n + 1, (name, position, n)
            assert line[position:] == tokens[:n + 1]
            assert output == pytest.approx(np.mean(line), rel=1e-12), (name, token)
            known += 1
    return known


def together(daemon, seed):
    """(what all did, what is left)"""
    names, tokens = ["a", "b", "c", "short"], itertools.count(1)
    for name, ttl in zip(names, (60, 60, 60, 0.03), strict=True):
        made = ask(daemon.client, "POST", "/v1/sessions", {**SHAPE, "id": name, "ttl_s": ttl})
        assert made.status == 201
    workers = [Worker(daemon.port, seed * 100 + n, names, tokens) for n in range(CLIENTS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    failures = [repr(worker.failure) for worker in workers if worker.failure is not None]
    assert not failures, failures
    left = {one["id"]: tokens_of(daemon.client.get(f"/v1/sessions/{one['id']}/kv").body)
            for one in daemon.client.get("/v1/sessions").json["sessions"] if one["ttl_s"] > 1}
    return [entry for worker in workers for entry in worker.log], left


@pytest.mark.parametrize("arguments", [("--inline-microseconds", "0"), ()])
def test_every_answer_fits_one_order(arguments):
    seed = int(os.environ.get("SESSION_SEED", "1"))
    with Daemon("--threads", "2", *arguments) as running:
        log, left = together(running, seed)
    history = History()
    lists = [entry[-1] for entry in log if entry[0] in ("keep", "back")] + list(left.values())
    for line in lists:
        assert len(set(line)) == len(line), "a token was appended twice"
        history.take(line)
    appended = {token for kind, *what in log if kind == "append" for token in what[2]}
    for line in lists:
        assert set(line) <= appended, "a token that nobody got an answer for"
    means = {(len(line[:end]), round(float(np.mean(line[:end])), 9))
             for line in lists for end in range(1, len(line) + 1)}
    assert check_appends(log, history) > 0
    assert any((entry[2], round(entry[3], 9)) in means for entry in log if entry[0] == "look")
    kinds = {entry[0] for entry in log}
    assert kinds >= {"append", "look", "cut", "fork", "keep"}


def test_alone_the_order_is_that_of_the_calls():
    """One client, whose model is a list per session: every answer is exactly foreseen."""
    chance = random.Random(int(os.environ.get("SESSION_SEED", "1")))
    model, tokens = {}, itertools.count(1)
    with Daemon() as running:
        for _ in range(4 * CALLS):
            foresee(running.client, chance, model, tokens)
        left = running.client.get("/v1/sessions").json["sessions"]
        assert {one["id"]: one["lengths"] for one in left} == {
            name: [len(line)] for name, line in model.items()}


def foresee(client, chance, model, tokens):
    name, other = chance.choices("abcd", k=2)
    line = model.get(name)
    kind = chance.choices((make, append, look, cut, fork, drop, snapshot),
                          (2, 10, 4, 2, 2, 1, 2))[0]
    kind(client, chance, model, tokens, name, other, line)


def make(client, chance, model, tokens, name, other, line):
    answer = ask(client, "POST", "/v1/sessions", {**SHAPE, "id": name})
    assert answer.status == (201 if line is None else 200)
    model.setdefault(name, [])
    assert answer.json["lengths"] == [len(model[name])]


def append(client, chance, model, tokens, name, other, line):
    new = [float(next(tokens)) for _ in range(chance.choice((1, 1, 3, 65)))]
    position = chance.choice((None, None, 0, len(line or ()), 5))
    options = {} if position is None else {"position": position}
    answer = step(client, name, new, options)
    if line is None:
        assert answer.status == 404
    elif position not in (None, len(line)):
        assert (answer.status, answer.json["length"]) == (409, len(line))
    elif len(line) + len(new) > SHAPE["capacity"]:
        assert (answer.status, answer.json["limit"]) == (409, SHAPE["capacity"])
    else:
        line.extend(new)
        means = np.cumsum(line) / np.arange(1, len(line) + 1)
        np.testing.assert_allclose(answer["output"][0, :, 0], means[-len(new):], rtol=1e-12)


def look(client, chance, model, tokens, name, other, line):
    position = chance.randrange(200)
    answer = step(client, name, [], {"append": False, "position": position})
    if line is None:
        assert answer.status == 404
    elif position > len(line):
        assert (answer.status, answer.json["length"]) == (409, len(line))
    else:
        seen = line[:position + 1]
        assert answer["output"][0, 0, 0] == pytest.approx(np.mean(seen) if seen else 0, rel=1e-12)


def cut(client, chance, model, tokens, name, other, line):
    length = chance.randrange(150)
    answer = ask(client, "POST", f"/v1/sessions/{name}/truncate", {"length": length})
    if line is None:
        assert answer.status == 404
    elif length > len(line):
        assert (answer.status, answer.json["length"]) == (409, len(line))
    else:
        assert answer.json["lengths"] == [length]
        del line[length:]


def fork(client, chance, model, tokens, name, other, line):
    answer = ask(client, "POST", f"/v1/sessions/{name}/fork", {"id": other})
    wanted = 404 if line is None else 409 if other in model else 201
    assert answer.status == wanted
    if wanted == 201:
        model[other] = list(line)


def drop(client, chance, model, tokens, name, other, line):
    answer = ask(client, "DELETE", f"/v1/sessions/{name}")
    assert answer.status == (404 if line is None else 204)
    model.pop(name, None)


def snapshot(client, chance, model, tokens, name, other, line):
    answer = client.get(f"/v1/sessions/{name}/kv")
    if line is None:
        assert answer.status == 404
        return
    assert tokens_of(answer.body) == line
    back = client.send("POST", f"/v1/sessions?id={other}", answer.body,
                       {"Content-Type": SAFETENSORS_TYPE})
    assert back.status == (409 if other in model else 201)
    model.setdefault(other, list(line))

# SPDX-License-Identifier: Apache-2.0
"""Requests about sessions. Each finds the session as it always is, and leaves it as it was where it
was refused: nothing of a step that failed is kept."""
import dataclasses
import json

import numpy as np
from support import raw
from support.client import JSON_TYPE, pack_operands
from support.sessions import SHAPE, batch, rows

from torture.exchanges import get, post

NAMES = ("one", "two", "made")
PATH = "/v1/sessions/one"


def bytes_of(path, body=b"{}", kind=JSON_TYPE):
    return post("", body, path=path, kind=kind).sent


def step_of(name, new, wire="safetensors", **options):
    body, kind = pack_operands(new, options, None, wire)
    return post(name, body, path=f"{PATH}/attention", kind=kind)


def made(name):
    return bytes_of("/v1/sessions", json.dumps({**SHAPE, "id": name}).encode())


def exchanges():
    rng = np.random.default_rng(14)
    first, new, many = rows(rng, 3), rows(rng, 2), batch(rng, 2)
    gone = tuple(raw.get(f"/v1/sessions/{name}", method="DELETE") for name in NAMES)
    begun = (made("one"), made("two"), step_of("", first).sent)
    snapshot = get(f"{PATH}/kv", name="session: a snapshot")
    steps, kind = pack_operands(many, {"sessions": ["one", "two"]})
    found = [
        post("session: make one", json.dumps({**SHAPE, "id": "made"}).encode(),
             path="/v1/sessions", status=201),
        post("session: make one that there is", json.dumps({**SHAPE, "id": "one"}).encode(),
             path="/v1/sessions"),
        *(step_of(f"session: a step in {wire}", new, wire) for wire in
          ("nested", "safetensors", "npz")),
        step_of("session: a step that is refused", new, position=7),
        post("session: a step of two", steps, path="/v1/sessions/attention", kind=kind),
        post("session: cut short", b'{"length": 1}', path=f"{PATH}/truncate"),
        post("session: fork", b'{"id": "made"}', path=f"{PATH}/fork", status=201),
        get("/v1/sessions", name="session: the list"),
        get(PATH, name="session: look"),
        snapshot,
        get(PATH, name="session: end it", method="DELETE", status=204),
        get("/v1/sessions/nobody", name="session: no such", status=404),
    ]
    found[5] = dataclasses.replace(found[5], status=409)
    state = (snapshot.sent, raw.get("/v1/sessions"), raw.get("/v1/sessions/two/kv"))
    for row in found:
        yield dataclasses.replace(row, before=(*gone, *begun), state=state, after=gone)

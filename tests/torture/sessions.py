# SPDX-License-Identifier: Apache-2.0
"""Requests about sessions. Each finds the session as it always is, and leaves it as it was where it
was refused: nothing of a step that failed is kept."""
import dataclasses
import gzip
import json

import numpy as np
from support import raw, safetensors
from support.client import JSON_TYPE, SAFETENSORS_TYPE, pack_operands
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


def snapshot_of(name, given, **changes):
    """What GET /v1/sessions/{id}/kv gives of a session with so many tokens in each layer."""
    rng, heads, D = np.random.default_rng(16), SHAPE["kv_heads"], SHAPE["head_dim"]
    said = {**SHAPE, "id": name, "layers": len(given), "capacity": 5000, "ttl_s": 600,
            "lengths": given, "gap_keys": [0] * len(given), "gap_counts": [0] * len(given)}
    tensors = {f"layers.{layer}.{part}": rng.standard_normal((heads, length, D)).astype(np.float32)
               for layer, length in enumerate(given) for part in "kv"}
    return safetensors.write(tensors, {"session": json.dumps({**said, **changes})})


def restore(name, snapshot, *headers, query="", status=201):
    return dataclasses.replace(
        post(name, snapshot, *headers, path=f"/v1/sessions{query}", kind=SAFETENSORS_TYPE),
        status=status)


def restored():
    """(requests that bring a session back, those that go on with it)"""
    few, whole = snapshot_of("made", [3, 300]), snapshot_of("made", [0, 2500, 5000])
    brought = [
        restore("session: brought back", few),
        restore("session: brought back by a worker", whole),
        restore("session: brought back from a packed snapshot", gzip.compress(few),
                "Content-Encoding: gzip"),
        restore("session: brought back under a name", snapshot_of("other", [3, 3]),
                query="?id=made"),
        restore("session: brought back where there is one", few, query="?id=one", status=409),
        restore("session: brought back too long", snapshot_of("made", [3], lengths=[4]),
                status=422),
        restore("session: brought back with junk", b"\0" * 16, status=400),
    ]
    new = rows(np.random.default_rng(17), 2)
    further = [
        *(step_of(f"session: a step after it was brought back, in {wire}", new, wire, layer=1)
          for wire in ("nested", "safetensors", "npz")),
        post("session: a fork after it was brought back", b'{"id": "made"}', path=f"{PATH}/fork",
             status=201),
        post("session: cut short after it was brought back", b'{"length": 1}',
             path=f"{PATH}/truncate"),
        get(f"{PATH}/kv", name="session: a snapshot after it was brought back"),
    ]
    return brought, further


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
    brought, further = restored()
    again = (restore("", snapshot_of("one", [3, 300])).sent,)
    state = (raw.get("/v1/sessions"), *(raw.get(f"/v1/sessions/{name}/kv") for name in NAMES))
    for rows_of, before in (((*found, *brought), begun), (further, again)):
        for row in rows_of:
            yield dataclasses.replace(row, before=(*gone, *before), state=state, after=gone)

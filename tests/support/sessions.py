# SPDX-License-Identifier: Apache-2.0
"""Sessions as tests use them, over any client."""
import json

import numpy as np

from support import safetensors
from support.client import JSON_TYPE, SAFETENSORS_TYPE, pack_operands

SHAPE = {"layers": 1, "kv_heads": 2, "head_dim": 8, "dtype": "float32", "capacity": 1000}


def ask(client, method, path, body=None, kind=JSON_TYPE, **headers):
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    given = headers if data is None else {"Content-Type": kind, **headers}
    return client.send(method, path, data, given)


def problem(answer):
    """The last part of the type of the problem that an answer is."""
    assert answer.headers["Content-Type"] == "application/problem+json", answer.body[:300]
    return answer.json["type"].rsplit("/", 1)[-1]


class Session:
    """One session of the daemon's."""

    def __init__(self, client, wire="safetensors", **shape):
        self.client, self.wire = client, wire
        answer = ask(client, "POST", "/v1/sessions", {**SHAPE, **shape})
        assert answer.status == 201, answer.body
        self.shape, self.id = answer.json, answer.json["id"]
        self.path = f"/v1/sessions/{self.id}"

    def post(self, what, body=None, **headers):
        return ask(self.client, "POST", f"{self.path}/{what}", body, **headers)

    def send(self, tensors, options, **more):
        """A step that may fail; `tensors` are q, k and v, of which the last two may lack."""
        body, kind = pack_operands(tensors, options, more.get("extra"), self.wire)
        return self.client.send("POST", f"{self.path}/attention", body, {"Content-Type": kind})

    def step(self, tensors, **options):
        answer = self.send(tensors, options)
        assert answer.status == 200, answer.body[:1000]
        return answer

    def facts(self):
        answer = self.client.get(self.path)
        assert answer.status == 200, answer.body
        return answer.json

    def lengths(self):
        return self.facts()["lengths"]

    def snapshot(self):
        answer = self.client.get(f"{self.path}/kv")
        assert answer.status == 200, answer.body[:1000]
        return answer.body

    def delete(self):
        assert ask(self.client, "DELETE", self.path).status == 204


def rows(rng, count, heads=4, dtype=np.float32, shape=SHAPE):
    """q, k and v of so many new tokens."""
    D, Hkv = shape["head_dim"], shape["kv_heads"]
    Dv = shape.get("value_dim", D)
    return {name: rng.standard_normal((H, count, width)).astype(dtype)
            for name, H, width in (("q", heads, D), ("k", Hkv, D), ("v", Hkv, Dv))}


def join(steps):
    """What steps appended, as the tensors of one call."""
    return {name: np.concatenate([step[name] for step in steps], axis=1) for name in ("k", "v")}


def restore(client, snapshot, query=""):
    return ask(client, "POST", f"/v1/sessions{query}", snapshot, SAFETENSORS_TYPE)


def rewrite(snapshot, change):
    """A snapshot whose tensors and whose session's text `change` has changed."""
    tensors, metadata = safetensors.parse(snapshot)
    session = json.loads(metadata["session"])
    change(tensors, session)
    return safetensors.write(tensors, {"session": json.dumps(session)})


def plain(client, q, before, **options):
    """The answer of one call over all rows; queries stand at the end."""
    offset = before["k"].shape[1] - q.shape[1]
    return client.attention(q, before["k"], before["v"],
                            {"mask": "causal", "q_offset": offset, **options})


def many(client, names, new, wire="safetensors", **options):
    body, kind = pack_operands(new, {"sessions": names, **options}, wire=wire)
    return client.send("POST", "/v1/sessions/attention", body, {"Content-Type": kind})


def batch(rng, count=3):
    new = rows(rng, count)
    return {name: np.ascontiguousarray(x.swapaxes(0, 1)[:, :, None]) for name, x in new.items()}

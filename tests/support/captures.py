# SPDX-License-Identifier: Apache-2.0
"""Calls to keep, and what a daemon that keeps them is asked."""
import numpy as np

B, HQ, HKV, TQ, TK, D = 2, 4, 2, 150, 210, 16
MASK = {"all": [{"type": "causal", "align": "bottom_right"},
                {"type": "window", "left": 90, "right": -1}]}
HIDDEN = 0x7E00


def operands(dtype=np.float32, seed=5):
    rng = np.random.default_rng(seed)
    shapes = [(B, HQ, TQ, D), (B, HKV, TK, D), (B, HKV, TK, D)]
    return [(2 * rng.standard_normal(shape)).astype(dtype) for shape in shapes]


def keep(client, options=None, wire="safetensors", dtype=np.float32, name="a", **capture):
    """(the answer, with whole maps; the path of the capture)"""
    asked = {"mask": MASK, "return": ["output", "weights", "scores", "stats", "lse"],
             **(options or {}), "capture": {"name": name, **capture}}
    answer = client.attention(*operands(dtype), asked, wire=wire)
    assert set(answer.meta["capture"]) == {"id", "url"}, answer.meta
    return answer, answer.meta["capture"]["url"]


def get(client, path, status=200):
    answer = client.get(path)
    assert answer.status == status, (answer.status, answer.body[:500])
    return answer


def tile(answer):
    shape = [int(n) for n in answer.headers["X-Map-Shape"].split(",")]
    return np.frombuffer(answer.body, "<u2").reshape(shape)


def compare(client, url, body, kind="application/json", query=""):
    answer = client.send("POST", f"{url}/compare{query}", body, {"Content-Type": kind})
    assert answer.status == 200, answer.body
    return answer.json

# SPDX-License-Identifier: Apache-2.0
"""Calls about a handful of sessions that all clients share, so that anybody may end one while
another's step is computed; and a session's whole life, whose answers never change."""
import json

import numpy as np
from catalogue import row
from support import raw, safetensors
from support.client import SAFETENSORS_TYPE, encode

from stress.calls import Call

NAMES = [f"shared-{n}" for n in range(4)]
SHAPE = {"layers": 2, "kv_heads": 2, "head_dim": 16, "dtype": "float32", "capacity": 600}
GONE, CONFLICT, FULL = 404, 409, 503
PATH = "/v1/sessions"
ROWS = (1, 1, 1, 7, 70)  # of a step


def draw(seed, count):
    tensors = np.random.default_rng(seed).standard_normal((3, 2, count, 16)).astype(np.float32)
    return dict(zip("qkv", tensors))


def post(path, value):
    return raw.post(json.dumps(value).encode(), path=path)


def make(name):
    return Call("create", post(PATH, {"id": name, **SHAPE}), {201, 200, CONFLICT}, judged=False)


def step(name, count, layer=0, **more):
    """In safetensors, which workers read where it lies."""
    options = {"attention": json.dumps({"layer": layer, **more})}
    body = safetensors.write(draw(count, count), options)
    return Call("step", row.typed(body, SAFETENSORS_TYPE, path=f"{PATH}/{name}/attention"),
                {200, GONE, CONFLICT}, judged=False)


def step_of_many(names):
    tensors = {name: encode(np.ones((len(names), 2, 1, 16), np.float32), "nested")
               for name in "qkv"}
    asked = {"layer": 1, "sessions": names, **tensors}
    return Call("step of many", post(f"{PATH}/attention", asked), {200, GONE, CONFLICT},
                judged=False)


def others(name, target):
    """What else can be done with it."""
    at = f"{PATH}/{name}"
    return [Call("fork", post(f"{at}/fork", {"id": target}), {201, GONE, CONFLICT}, judged=False),
            Call("truncate", post(f"{at}/truncate", {"length": 5}), {200, GONE, CONFLICT},
                 judged=False),
            Call("snapshot", raw.get(f"{at}/kv"), {200, GONE}, judged=False),
            Call("look", raw.get(at), {200, GONE}, judged=False),
            Call("delete", raw.get(at, method="DELETE"), {204, GONE}, judged=False)]


def shared():
    found = [Call("list", raw.get(PATH), {200}, judged=False), step_of_many(NAMES[:2])]
    for name, target in zip(NAMES, NAMES[1:] + NAMES[:1]):
        found += [make(name)] * 6 + others(name, target)
        found += [step(name, count, layer) for count in ROWS for layer in (0, 1)]
    return found


def deletions(*lines):
    return [raw.get(f"{PATH}/{name}", *lines, method="DELETE") for name in NAMES]


def life(name):
    """One session from its beginning to its end, in order."""
    at = f"{PATH}/{name}"
    calls = [Call("create", post(PATH, {"id": name, **SHAPE}), {201}, judged=False)]
    for number, count in enumerate((70, 1, 1, 3, 1)):
        body = json.dumps({"layer": 0, **{key: encode(value, "nested") for key, value in
                                          draw(number, count).items()}}).encode()
        calls.append(Call(f"step {number}", raw.post(body, path=f"{at}/attention"), {200}))
    return [*calls, Call("snapshot", raw.get(f"{at}/kv"), {200}, judged=False),
            Call("delete", raw.get(at, method="DELETE"), {204}, judged=False)]

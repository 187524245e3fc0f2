# SPDX-License-Identifier: Apache-2.0
"""Where a decoder's keys and values are kept while it writes: in a session of attentiond, or here
in numpy. Both turn queries and keys by their positions, and attend causally."""
import time

import numpy as np
from client_package import attentiond

GONE = (404, 410)  # nobody has it, or it has ended
PAUSE = 0.05
SCORES_AT_ONCE = 1 << 22  # a long prompt's rows are gone through in parts


class SessionCache:
    """A session with a layer for each of the model's; a step of it appends and attends at once.

    group: what balancers hash on. patience: seconds in which a session that is gone may come back,
    as one does that is on its way to another replica; after them it is Lost.
    """

    def __init__(self, client, shape, capacity, group=None, patience=0.0):
        self.client, self.group, self.patience = client, group, patience
        self.asked = {"layers": shape.layers, "kv_heads": shape.kv_heads,
                      "head_dim": shape.head_size, "dtype": "float32", "capacity": capacity,
                      "rope": {"theta": shape.theta, "interleaved": True}}
        self.calls, self.seconds = 0, 0.0
        self.session = None
        self.begin()

    def begin(self):
        """A new session, with nothing in it."""
        if self.session is not None:
            self.session.delete()
        self.session = self.client.session(**self.asked, group=self.group)
        nothing = np.empty((1, 0, 1), np.float32)
        self.newest = [(nothing,) * 3] * self.asked["layers"]  # the last q, k and v of each layer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session.delete()

    def step(self, layer, q, k, v):
        """[Hq,T,D], [Hkv,T,D] twice -> [Hq,T,D]"""
        begin = time.perf_counter()
        try:
            output = self.session.step(q, k, v, layer=layer).output
        except attentiond.Refused as refused:
            if refused.status not in GONE and refused.name != "session-length":
                raise
            self.find()
            output = self.session.step(q, k, v, layer=layer).output
        self.newest[layer] = q, k, v
        self.seconds += time.perf_counter() - begin
        self.calls += 1
        return output

    def find(self):
        """Waits until the session is there, with all that it had; what it lacks is sent again."""
        had, end = self.session.lengths, time.monotonic() + self.patience
        while True:
            try:
                self.session.refresh()
                return self.catch_up(had)
            except attentiond.Refused as refused:
                if refused.status not in GONE:
                    raise
            if time.monotonic() >= end:
                raise Lost
            time.sleep(PAUSE)

    def catch_up(self, had):
        """Makes the last step of a layer once more where it came too late to be moved."""
        for layer, (length, known) in enumerate(zip(self.session.lengths, had, strict=True)):
            if length == known:
                continue
            if length + self.newest[layer][1].shape[1] != known:
                raise Lost
            self.session.step(*self.newest[layer], layer=layer)


class Lost(Exception):
    """A session that has ended: its tokens have to go through again."""


class LocalCache:
    """The same in this process."""

    def __init__(self, shape, capacity):
        size = (shape.layers, shape.kv_heads, capacity, shape.head_size)
        self.k, self.v = np.empty(size, np.float32), np.empty(size, np.float32)
        self.lengths = [0] * shape.layers
        self.frequencies = shape.theta ** (-np.arange(0, shape.head_size, 2) / shape.head_size)
        self.calls, self.seconds = 0, 0.0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def step(self, layer, q, k, v):
        begin = time.perf_counter()
        at, end = self.lengths[layer], self.lengths[layer] + k.shape[1]
        angles = np.arange(at, end)[:, None] * self.frequencies
        self.k[layer, :, at:end], self.v[layer, :, at:end] = turn(k, angles), v
        self.lengths[layer] = end
        output = attend(turn(q, angles), self.k[layer, :, :end], self.v[layer, :, :end], at)
        self.seconds += time.perf_counter() - begin
        self.calls += 1
        return output


def turn(x, angles):
    """x [H,T,D] with each pair of neighbours turned by its angle [T,D/2]."""
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    left, right = x[..., 0::2], x[..., 1::2]
    return np.stack([left * cos - right * sin, left * sin + right * cos], -1).reshape(x.shape)


def attend(q, k, v, first):
    """softmax(q.k / sqrt(d)) . v, query t seeing the keys up to first + t."""
    grouped = q.reshape(len(k), -1, *q.shape[1:])
    rows = max(1, SCORES_AT_ONCE // (grouped.shape[1] * k.shape[1]))
    parts = []
    for at in range(0, q.shape[1], rows):
        part = grouped[:, :, at:at + rows]
        scores = part @ k[:, None].swapaxes(-1, -2) / np.float32(np.sqrt(q.shape[-1]))
        hidden = np.arange(k.shape[1]) > first + at + np.arange(part.shape[2])[:, None]
        weights = np.exp(np.where(hidden, np.float32(-np.inf), scores)
                         - scores.max(axis=-1, keepdims=True))
        parts.append(weights / weights.sum(axis=-1, keepdims=True) @ v[:, None])
    return np.concatenate(parts, axis=2).reshape(q.shape)


class Recorder:
    """Passes steps on to a SessionCache and remembers their queries, for maps of the whole text:
    that of a step of one token would be a row."""

    def __init__(self, cache):
        self.cache = cache
        self.queries = [[] for _ in range(cache.asked["layers"])]

    def begin(self):
        self.queries = [[] for _ in self.queries]
        self.cache.begin()

    def step(self, layer, q, k, v):
        self.queries[layer].append(q)
        return self.cache.step(layer, q, k, v)

    def send(self, run, labels):
        """All queries of a layer once more, over the keys that the session has, as a call that is
        kept as a capture of this run. Why one was not kept comes back as a sentence, else None."""
        for layer, queries in enumerate(self.queries):
            answer = self.cache.session.attend(
                np.concatenate(queries, axis=1), layer=layer, position=0, wanted=["lse"],
                labels={"q": labels, "k": labels},
                capture={"name": f"layer {layer}", "run": run, "layer": layer})
            kept = answer.meta["capture"]
            if isinstance(kept, str):
                return kept
        return None

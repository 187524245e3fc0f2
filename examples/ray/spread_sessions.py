#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions on many replicas: each where the hash of its id says, moved when one leaves.

    build/ray-venv/bin/python examples/ray/spread_sessions.py http://A:8080 http://B:8080 ...

An actor of Ray's stands beside each replica and makes the steps of the sessions there, so that
replicas work side by side. Halfway the last replica leaves: its sessions move to those that stay,
and no other does. At the end every output is held against one causal call over the whole text.
"""
import argparse
import hashlib
import os
import sys

import numpy as np
from cluster import attentiond, cluster, ray
from move_session import move
from split_keys import tolerance

SHAPE = {"layers": 1, "kv_heads": 2, "head_dim": 64, "dtype": "float32", "capacity": 4096}
PROMPT = 32  # tokens of the first step; every other brings one


@ray.remote(num_cpus=0)
class Replica:
    """Makes steps of the sessions that are at one replica."""

    def __init__(self, url, key):
        self.client, self.known = attentiond.Client(url, api_key=key), {}

    def make(self, name):
        self.known[name] = self.client.session(**SHAPE, id=name)

    def find(self, name):
        """One that has come from another replica."""
        facts, = (facts for facts in self.client.sessions() if facts["id"] == name)
        self.known[name] = attentiond.Session(self.client, facts)

    def step(self, steps):
        """The outputs of the sessions that are named, whose next rows are given."""
        return {name: self.known[name].step(*rows).output for name, rows in steps.items()}

    def delete(self):
        for session in self.known.values():
            session.delete()


def home(name, replicas):
    """The replica that of all draws the largest lot for this session. When one leaves, only its
    sessions draw anew (rendezvous hashing)."""
    return max(replicas, key=lambda replica: hashlib.sha256(f"{name} {replica}".encode()).digest())


def steps(actors, homes, texts, first, end):
    """The rows from `first` to `end` of every text; the replicas work at the same time."""
    wanted = {}
    for name, text in texts.items():
        wanted.setdefault(homes[name], {})[name] = [x[:, first:end] for x in text]
    done = ray.get([actors[replica].step.remote(rows) for replica, rows in wanted.items()])
    return {name: output for outputs in done for name, output in outputs.items()}


def leave(urls, actors, homes, leaving):
    """Moves what is at a replica to the others; gives the new homes."""
    staying = {name: home(name, [r for r in urls if r != leaving]) for name in homes}
    moving = [name for name in homes if homes[name] == leaving]
    with attentiond.Client(urls[leaving]) as old:
        facts = {facts["id"]: facts for facts in old.sessions()}
        for name in moving:
            with attentiond.Client(urls[staying[name]]) as new:
                print(f"{leaving} to {staying[name]}: {move(facts[name], old, new)}")
            ray.get(actors[staying[name]].find.remote(name))
    assert all(staying[name] == homes[name] for name in homes if name not in moving)
    return staying


def write(urls, texts, tokens):
    """The outputs of all texts, token by token."""
    key = os.environ.get("ATTENTION_KEY")
    actors = {replica: Replica.remote(url, key) for replica, url in urls.items()}
    homes = {name: home(name, urls) for name in texts}
    ray.get([actors[homes[name]].make.remote(name) for name in texts])
    outputs = {name: [] for name in texts}
    ends = [PROMPT, *range(PROMPT + 1, tokens + 1)]
    for first, end in zip([0, *ends], ends):
        if end == (PROMPT + tokens) // 2:
            homes = leave(urls, actors, homes, list(urls)[-1])
        for name, output in steps(actors, homes, texts, first, end).items():
            outputs[name].append(output)
    for replica in set(homes.values()):
        ray.get(actors[replica].delete.remote())
    return {name: np.concatenate(parts, axis=1) for name, parts in outputs.items()}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("replicas", nargs="+", metavar="URL", help="a replica, two at least")
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64, help=f"of each, more than {PROMPT + 1}")
    parser.add_argument("--save", metavar="FILE", help="q, k, v and output of each, as .npz")
    asked = parser.parse_args()
    if len(asked.replicas) < 2 or asked.tokens < PROMPT + 2:
        parser.error(f"two replicas at least, and {PROMPT + 2} tokens")
    return asked


def main():
    asked = arguments()
    rng = np.random.default_rng(7)
    urls = {f"replica-{number}": url for number, url in enumerate(asked.replicas, 1)}
    texts = {f"chat-{number}": [rng.standard_normal((heads, asked.tokens, 64), np.float32)
                                for heads in (8, 2, 2)] for number in range(asked.sessions)}
    with cluster(), attentiond.Client(asked.replicas[0]) as client:
        outputs = write(urls, texts, asked.tokens)
        wrong = []
        for name, (q, k, v) in texts.items():
            whole = client.attention(q, k, v, wanted=["output", "lse"], mask="causal")
            difference = np.abs(outputs[name] - whole.output).max()
            wrong += [name] if difference > tolerance(whole.output, whole.lse) else []
    if asked.save:
        np.savez(asked.save, **{f"{name}/{what}": array for name, text in texts.items()
                                for what, array in zip(("q", "k", "v", "output"),
                                                       (*text, outputs[name]))})
    sys.exit(f"not as one call says it: {', '.join(wrong)}" if wrong else None)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One attention whose keys are too many for one machine: replicas have a range of them each.

    build/ray-venv/bin/python examples/ray/split_keys.py http://A:8080 http://B:8080 ...

An actor of Ray's stands beside each replica and keeps the range: keys and values never travel
between machines. Queries go to all, a partial comes back from each, the output over its range and
the logarithm of what its softmax was divided by (lse), and POST /v1/merge makes one of them. The
last queries of a causal text are asked, then the same of one replica that is given all keys.
"""
import argparse
import os
import sys
import time

import numpy as np
from cluster import attentiond, cluster, ray


@ray.remote(num_cpus=0)  # it waits for its replica, and computes nothing
class Range:
    """The keys from `first` on, and the replica that attends over them."""

    def __init__(self, url, key, first, k, v):
        self.client = attentiond.Client(url, api_key=key)
        self.first, self.k, self.v = first, k, v

    def attend(self, q, position):
        """The partial of queries whose first stands at this position of the text."""
        answer = self.client.attention(q, self.k, self.v, wanted=["output", "lse"], mask="causal",
                                       q_offset=position - self.first)
        return answer.output, answer.lse


def ranges(urls, k, v):
    """One actor for each replica; the keys are spread evenly."""
    ends = np.linspace(0, k.shape[2], len(urls) + 1).astype(int)
    key = os.environ.get("ATTENTION_KEY")
    return [Range.remote(url, key, int(first), k[:, :, first:end], v[:, :, first:end])
            for url, first, end in zip(urls, ends, ends[1:])]


def attend(actors, client, q, position):
    """(output, lse) over the keys of all ranges."""
    shared = ray.put(q)
    partials = ray.get([actor.attend.remote(shared, position) for actor in actors])
    outputs, lses = (np.stack(parts) for parts in zip(*partials))
    merged = client.merge(outputs, lses)
    return merged.output, merged.lse


def tolerance(output, lse):
    """The lse of a partial is rounded to float32, and is off by half a unit: its weight, exp(lse),
    by as many of 2**-24 as lse is large, and so is the sum of weights that it is divided by.
    Partials and the two kernels' own sums have a few more. All are shares of the output."""
    return 2.0**-24 * (2 * np.abs(lse).max() + 8) * np.abs(output).max()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("replicas", nargs="+", metavar="URL", help="a replica of the daemon")
    parser.add_argument("--keys", type=int, default=16384, help="tokens of the text")
    parser.add_argument("--queries", type=int, default=64, help="how many of the last ones ask")
    parser.add_argument("--save", metavar="FILE", help="q, k, v, output and lse as .npz")
    return parser.parse_args()


def main():
    asked = arguments()
    rng = np.random.default_rng(7)
    q = rng.standard_normal((1, 8, asked.queries, 64), np.float32)
    k, v = rng.standard_normal((2, 1, 2, asked.keys, 64), np.float32)
    position = asked.keys - asked.queries
    with cluster(), attentiond.Client(asked.replicas[0]) as client:
        actors = ranges(asked.replicas, k, v)
        output, lse = attend(actors, client, q, position)
        begin = time.perf_counter()
        attend(actors, client, q, position)
        took = time.perf_counter() - begin
        whole = client.attention(q, k, v, wanted=["output", "lse"], mask="causal",
                                 q_offset=position)
    if asked.save:
        np.savez(asked.save, q=q, k=k, v=v, output=output, lse=lse)
    difference, allowed = np.abs(output - whole.output).max(), tolerance(output, lse)
    print(f"{asked.keys} keys on {len(actors)} replicas, {asked.queries} queries: {took * 1e3:.1f} "
          f"ms; from the answer of one replica it differs by at most {difference:.1e}, "
          f"{allowed:.1e} are allowed")
    sys.exit(None if difference <= allowed else "the merged answer is not that of one replica")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A soak: a million mixed requests to one daemon, one in five of them hostile, over connections
that stay and ones of their own, with TLS and without. After each round nobody asks: then requests,
connections, queue, reserved bytes and descriptors are exactly those of the beginning, and once the
daemon is warm its memory must not grow with the requests.

    tests/stress/soak.py --requests 1000000 [--seed 1] [--processes 2]
"""
import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from stress import figures, traffic
from stress.life import TlsDaemon
from support import raw

ROUNDS = 25  # at most; of ten thousand requests or more
WARM = 0.3  # of all rounds: pools, arenas and tables have grown to what this traffic takes
SLOPE = 1.0  # bytes a request
LINGER = 8  # seconds, in which connections that were refused are closed for good
AGED = 6.5  # seconds, after which what nobody wants has gone back to the system
PATIENT = ("--queue-work", "0", "--queue-timeout", "2m")  # no answer depends on others' load
GRAIN = 4 << 20  # below this, growth is that of pages that happen to be touched


def work(pipe, doors, seed):
    """A process of clients: for each count that it is sent, so many requests."""
    clients = traffic.Clients(doors, random.Random(seed))
    try:
        while (count := pipe.recv()) is not None:
            pipe.send(clients.run(count))
    except Exception as failure:
        pipe.send(failure)
        raise


class Crowd:
    def __init__(self, doors, processes, seed):
        self.pipes, self.processes = [], []
        for number in range(processes):
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.Process(target=work, args=(theirs, doors, f"{seed} {number}"),
                                              daemon=True)
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)

    def run(self, count):
        """{what: how often}, once all are done."""
        for pipe in self.pipes:
            pipe.send(count // len(self.pipes))
        answers = [pipe.recv() for pipe in self.pipes]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return sum(answers[1:], answers[0])

    def end(self):
        for pipe, process in zip(self.pipes, self.processes):
            pipe.send(None)
            process.join()


def soak(daemon, crowd, requests):
    """[(requests so far, resident bytes)] after each round, and what was answered."""
    pid, rows, seen = daemon.process.pid, [], None
    daemon.settle()
    descriptors = figures.descriptors(pid)
    rounds = max(4, min(ROUNDS, requests // 10000))
    for count in range(1, rounds + 1):
        found = crowd.run(requests // rounds)
        seen = found if seen is None else seen + found
        daemon.settle()
        raw.until(lambda: figures.descriptors(pid) == descriptors, LINGER)
        time.sleep(AGED)
        rows.append((sum(seen.values()), figures.resident(pid)))
        if count % 5 == 0:
            print(f"  {rows[-1][0]} requests, {rows[-1][1] / 1e6:.2f} MB", flush=True)
    return rows, seen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    asked = parser.parse_args()
    print(f"--seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, \
            TlsDaemon(Path(folder), *PATIENT, log="/dev/null") as daemon:
        begin = time.monotonic()
        daemon.client.close()  # else the crowd's processes would hold its connection too
        crowd = Crowd(daemon.doors, asked.processes, asked.seed)
        rows, seen = soak(daemon, crowd, asked.requests)
        crowd.end()
        took = time.monotonic() - begin
    warm = rows[int(WARM * len(rows)):]
    slope, growth = figures.slope(warm), figures.growth(warm)
    print(f"{rows[-1][0]} requests in {took:.0f} s; " + ", ".join(
        f"{key}: {seen[key]}" for key in sorted(seen, key=str)))
    print(f"resident: {rows[0][1] / 1e6:.2f} MB after {rows[0][0]} requests, "
          f"{warm[0][1] / 1e6:.2f} MB after {warm[0][0]}, {rows[-1][1] / 1e6:.2f} MB at the end; "
          f"slope once warm {slope:.3f} bytes a request")
    requests = warm[-1][0] - warm[0][0]
    assert growth <= SLOPE * requests + GRAIN, f"{growth:.0f} bytes in {requests} requests"
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Fails the daemon's calls of the C library one after another, each once and, where that can be,
with all after it: its allocations in every exchange, the calls that move bytes in some, and all
that it does to start and to read its files again. After each the daemon has to be up, at rest, and
to answer as before.

    build/venv/bin/python tests/torture/run.py [--only WORD] [--share 0.05] [--seed N]

`--share` takes that part of all failures that there are, drawn by the seed.
"""
import argparse
import collections
import random
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from torture import (  # noqa: E402
    captures, exchanges, faults, reload, routes, sessions, spans, start)
from torture.victim import Victim  # noqa: E402

MOST_REPORTED = 20
PLAIN = [*exchanges.PLAIN, *sessions.exchanges()]
PLACES = {"plain": (), "captures": ("--captures",),
          "full": ("--captures", "--capture-bytes", captures.FULL_BYTES,
                   "--capture-dtype", "float16"),
          "keys": (), "tls": ()}
# Those whose bytes, and not only their allocations, meet failures.
MOVED = ("attention nested to json", "attention safetensors to vnd.safetensors", "chunked",
         "by workers, safetensors", "in gzip, by a worker", "GET /docs", "GET /metrics",
         "with a key", "under TLS, attention", "session: a step in safetensors",
         "session: brought back by a worker", "captures: a kept step in safetensors",
         "captures: a map as f16")


class Report:
    """What went how, and what went wrong."""

    def __init__(self):
        self.wrong, self.outcomes, self.played, self.lost = [], collections.Counter(), set(), 0

    def __call__(self, wrong):
        self.wrong.append(wrong)
        print(wrong, flush=True)
        if len(self.wrong) == MOST_REPORTED:
            sys.exit("enough is wrong")

    def add(self, name, fault, outcomes, seconds):
        self.played.add(name)
        self.outcomes.update({(fault.name, word): count for word, count in outcomes.items()})
        if outcomes:
            words = ", ".join(f"{count} {word}" for word, count in sorted(outcomes.items()))
            print(f"{name:44} {fault.name:20} {seconds:5.1f} s  {words}", flush=True)

    def print(self):
        table = collections.defaultdict(list)
        for (fault, word), count in sorted(self.outcomes.items()):
            table[fault].append(f"{count} {word}")
        for fault, words in table.items():
            print(f"{fault:20}", ", ".join(words))
        if self.lost:
            print(f"GnuTLS lost {self.lost} blocks of memory in handshakes that it had to end")
        names = self.played - {start.NAME, reload.NAME, spans.NAME}
        print(f"{sum(self.outcomes.values())} failures in {len(names)} exchanges, the start, "
              f"the reload and the spans, {len(self.wrong)} of them wrong")


def rows_of(victim):
    return {"plain": lambda: PLAIN, "captures": captures.exchanges, "full": captures.in_little_room,
            "keys": lambda: exchanges.with_keys(victim.key),
            "tls": exchanges.with_tls}[victim.place]()


def pairs_of(rows):
    """(exchange, fault)"""
    for exchange in rows:
        yield exchange, faults.MEMORY
        for fault in faults.OTHERS if exchange.name in MOVED else ():
            yield exchange, fault


def draw(victim, pairs, generator, share):
    """(exchange, fault, number, persists): that share of all that there are."""
    cases = [(exchange, fault, number, persists) for exchange, fault in pairs
             for number in range(1, faults.count(victim, exchange, fault) + 1)
             for persists in fault.modes]
    return generator.sample(cases, round(share * len(cases)))


def play_drawn(victim, pairs, arguments, report):
    generator = random.Random(f"{arguments.seed} {victim.place}")
    for exchange, fault, number, persists in draw(victim, pairs, generator, arguments.share):
        try:
            word, _ = faults.fail(victim, exchange, fault, number, persists)
        except faults.Wrong as wrong:
            report(wrong)
            word = "wrong"
        report.played.add(exchange.name)
        report.outcomes[fault.name, word] += 1


def play_all(victim, pairs, report):
    for exchange, fault in pairs:
        begin = time.monotonic()
        outcomes = faults.torture(victim, exchange, fault, report)
        report.add(exchange.name, fault, outcomes, time.monotonic() - begin)


def serve(folder, arguments, report):
    for place, options in PLACES.items():
        with Victim(place, folder, *options) as victim:
            rows = list(rows_of(victim))
            pairs = list(pairs_of(row for row in rows if arguments.only in row.name))
            victim.learn(rows)
            if arguments.share < 1:
                play_drawn(victim, pairs, arguments, report)
            else:
                play_all(victim, pairs, report)
            if place == "keys" and arguments.only in reload.NAME:
                reload.torture(victim, rows[0], arguments.share, arguments.seed, report)
            report.lost += victim.lost


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="exchanges whose names have this in them")
    parser.add_argument("--share", type=float, default=1, help="of all failures, drawn")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    routes.assert_all_are_asked([*PLAIN, *captures.exchanges()])
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        serve(Path(folder), arguments, report)
        if arguments.only in reload.NAME:
            reload.play_change(Path(folder), report)
        if arguments.only in spans.NAME:
            spans.torture(Path(folder), arguments.share, arguments.seed, report)
        if arguments.only in start.NAME:
            start.torture(Path(folder), arguments.share, arguments.seed, report)
    report.print()
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients behind a bad network, some of them with a quota, and one behind none beside them: its
answers have the same bits throughout, and so have those that come whole through the bad network.
Afterwards nothing is held for anybody: requests, connections, bytes and descriptors are those of a
daemon at rest. First without TLS, then with it.

    tests/stress/chaos.py --seconds 60 [--seed 1]
"""
import argparse
import asyncio
import collections
import random
import ssl
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from catalogue.scene import Neighbour
from stress import calls, wire
from stress.life import TlsDaemon, Watched
from support.bad_network import BadNetwork
from support.client import Client
from support.daemon import Daemon, free_port
from support.keys import KeyFile

CLIENTS = 24
PATIENCE = "1500ms"
TIMES = [word for name in ("header", "body", "send", "idle")
         for word in (f"--{name}-timeout", PATIENCE)]
GIVE_UP = 8  # seconds after which a client leaves
LIMITED = ("requests_per_second=3", "burst=5")


class Place(Watched):
    """A daemon, and how to reach it: directly without TLS, and at a port of its own."""

    def __init__(self, folder, is_tls):
        self.folder, self.ops = folder, free_port()
        file = KeyFile(folder / "keys")
        self.key, self.limited = file.add("alice"), file.add("limited", "infer", *LIMITED)
        arguments = [*TIMES, "--key-file", str(file.path), "--queue-work", "0",
                     "--ops-listen", f"127.0.0.1:{self.ops}"]
        self.daemon = TlsDaemon(folder, *arguments) if is_tls else Daemon(*arguments)
        self.port = self.daemon.doors[0] if is_tls else self.daemon.port  # of the neighbour
        self.context = ssl.create_default_context(cafile=self.daemon.doors[2]) if is_tls else None
        self.daemon.client = Client(self.ops)
        self.key_lines = [f"Authorization: Bearer {self.key}"]


class Sufferer:
    """A client that opens one connection after the other, asks, and counts what comes of it."""

    def __init__(self, place, port, draw, generator, seen):
        self.place, self.port, self.draw, self.generator = place, port, draw, generator
        self.seen, self.is_limited = seen, generator.random() < 0.2

    async def open(self):
        if self.place.context is None:
            return await asyncio.open_connection("127.0.0.1", self.port)
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.place.context,
                                             server_hostname="localhost")

    async def ask(self, reader, writer):
        call = self.draw()
        key = self.place.limited if self.is_limited else self.place.key
        writer.write(call.bytes(f"Authorization: Bearer {key}"))
        answer = await wire.answer_of(reader)
        call.judge(answer.status, answer.headers, answer.body,
                   (408, 429) if self.is_limited else (408,))
        self.seen[answer.status] += 1
        return answer.stays

    async def talk(self):
        reader, writer = await self.open()
        try:
            while await self.ask(reader, writer) and self.generator.random() < 0.8:
                pass
        finally:
            wire.leave(writer, self.generator)

    async def run(self, until):
        while time.monotonic() < until:
            try:
                await asyncio.wait_for(self.talk(), GIVE_UP * self.generator.random())
            except TimeoutError:
                self.seen["gave up"] += 1
            except wire.CUT:
                self.seen["cut"] += 1


async def suffer(place, deck, seconds, seed, seen):
    async with BadNetwork(place.daemon.port, seed) as network:
        until = time.monotonic() + seconds
        await asyncio.gather(*(
            Sufferer(place, network.port, deck, random.Random(f"{seed} {n}"), seen).run(until)
            for n in range(CLIENTS)))
        seen.update(network.seen)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    asked = parser.parse_args()
    print(f"--seed {asked.seed}", flush=True)
    deck = calls.chooser(asked.seed, (10, calls.of_folders("valid")), (5, calls.of_workers()),
                         (3, calls.of_folders("invalid")), (2, calls.late()))
    for is_tls in (False, True):
        seen, seed = collections.Counter(), f"{asked.seed} {is_tls}"
        with tempfile.TemporaryDirectory() as folder, Place(Path(folder), is_tls) as place:
            with Neighbour(place) as neighbour:
                asyncio.run(suffer(place, deck, asked.seconds / 2, seed, seen))
            begin = time.monotonic()
            place.wait_for_rest()
            took = time.monotonic() - begin
        assert len(neighbour.bits) == 1, "the client beside got other bits"
        assert seen[200] > 0 and seen["cut"] > 0
        print(f"{'with' if is_tls else 'without'} TLS: at rest {took:.1f} s after the end; "
              + ", ".join(f"{key}: {seen[key]}" for key in sorted(seen, key=str)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

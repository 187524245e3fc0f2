#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ThreadSanitizer is to see: many clients that leave at random moments (in the head, the body,
while their call is computed, while its answer is sent), calls whose deadlines pass anywhere,
sessions that one client ends under another's step, keys and certificates that are read again
meanwhile, small budgets, and daemons that are told to stop in the middle of all that, one after the
other until the requests are done. Whole answers have the status and the bits that they always have,
and every daemon ends with 0, which a report prevents.

    ATTENTIOND=build/tsan/attentiond tests/stress/races.py --requests 100000 [--seed 1]
"""
import argparse
import asyncio
import collections
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from stress import calls, sessions, wire
from stress.life import Life
from support import raw

CLIENTS = 32
PATIENCE = 120


class Deck:
    """What clients may ask for, the same for all daemons: so bits are compared between them."""

    def __init__(self, seed):
        self.draw = calls.chooser(
            seed, (10, calls.of_folders("valid")), (5, calls.of_folders("invalid")),
            (3, calls.of_workers()), (2, calls.late()), (1, calls.of_operators()),
            (5, sessions.shared()))
        self.large = calls.tensors(512, 8, {"weights": True}, "a large answer")


class Client:
    """One client of a daemon: it makes one random move after the other."""

    def __init__(self, life, deck, generator, seen):
        self.life, self.deck, self.generator, self.seen = life, deck, generator, seen
        self.reader = self.writer = None

    async def run(self, requests):
        while not self.life.is_over and next(requests, None) is not None:
            try:
                if self.writer is None:
                    self.reader, self.writer = await self.life.open(self.generator)
                move = self.generator.choices(MOVES, WEIGHTS)[0]
                await asyncio.wait_for(move(self), PATIENCE)
            except wire.CUT:
                self.drop()
                self.seen["cut"] += 1
                assert self.life.may_cut, "a connection was cut while nobody stops the daemon"
        self.drop()

    def drop(self):
        if self.writer is not None:
            wire.leave(self.writer, self.generator)
        self.reader = self.writer = None

    def request(self, call):
        """The call's bytes with a key, and the statuses that this key brings."""
        key, also = self.life.key(self.generator)
        return call.bytes(f"Authorization: Bearer {key}"), also

    def judge(self, call, answer, also):
        call.judge(answer.status, answer.headers, answer.body, {*also, *self.life.also})
        self.seen[answer.status] += 1
        if not answer.stays:
            self.drop()

    # ---- moves ----

    async def ask(self):
        call = self.deck.draw()
        data, also = self.request(call)
        self.writer.write(data)
        self.judge(call, await wire.answer_of(self.reader), also)

    async def ask_several(self):
        """One behind the other; what comes after an answer that closes is not answered."""
        asked = [(call, *self.request(call)) for call in
                 (self.deck.draw() for _ in range(self.generator.randrange(2, 6)))]
        self.writer.write(b"".join(data for _, data, _ in asked))
        for call, _, also in asked:
            answer = await wire.answer_of(self.reader)
            self.judge(call, answer, also)
            if self.writer is None:
                return

    async def leave_in_request(self):
        data, _ = self.request(self.deck.draw())
        self.writer.write(data[:self.generator.randrange(1, len(data))])
        await asyncio.sleep(self.generator.choice((0, 0.001, 0.03)))
        self.seen["left in a request"] += 1
        self.drop()

    async def leave_while_computed(self):
        data, _ = self.request(self.deck.draw())
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(self.generator.random() ** 3 * 0.1)
        self.seen["left while computed"] += 1
        self.drop()

    async def leave_while_sent(self):
        data, _ = self.request(self.deck.large)
        self.writer.write(data)
        await self.reader.read(self.generator.randrange(1, 200_000))
        self.seen["left while sent"] += 1
        self.drop()

    async def end_and_read(self):
        """The client's side ends with its request; its answer comes all the same."""
        if not self.writer.can_write_eof():
            return await self.ask()
        call = self.deck.draw()
        data, also = self.request(call)
        self.writer.write(data)
        self.writer.write_eof()
        self.judge(call, await wire.answer_of(self.reader), also)
        self.drop()

    async def stall(self):
        """For longer than the daemon waits, now and then."""
        data, _ = self.request(self.deck.draw())
        self.writer.write(data[:self.generator.randrange(1, len(data))])
        try:
            await asyncio.wait_for(self.reader.read(1 << 20), self.generator.choice((0.2, 4)))
        except TimeoutError:
            pass
        self.seen["stalled"] += 1
        self.drop()


MOVES, WEIGHTS = zip(
    (Client.ask, 60), (Client.ask_several, 6), (Client.leave_in_request, 10),
    (Client.leave_while_computed, 10), (Client.leave_while_sent, 3), (Client.end_and_read, 6),
    (Client.stall, 1))


async def scrape(life):
    """As Prometheus does, only more often."""
    while not life.is_over:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", life.ops)
            writer.write(raw.get("/metrics", "Connection: close"))
            await wire.answer_of(reader)
            writer.close()
        except wire.CUT:
            assert life.may_cut
        await asyncio.sleep(0.05)


async def reload(life, generator):
    while not life.is_over:
        await asyncio.sleep(generator.uniform(0.05, 0.5))
        life.change_files(generator)
        if generator.random() < 0.7 and not life.may_cut:
            life.signal(signal.SIGHUP)


async def stop_in_the_middle(life, requests, generator):
    """Once there are few requests left for this life."""
    while requests.__length_hint__() > life.last:
        await asyncio.sleep(0.01)
    life.may_cut = True
    for _ in range(generator.choice((1, 1, 1, 2, 3))):
        life.signal(signal.SIGTERM)
        await asyncio.sleep(generator.uniform(0, 0.1))
    while life.process.poll() is None:
        await asyncio.sleep(0.01)
    life.is_over = True


async def live(life, deck, count, seed, seen):
    """All clients of one daemon, until their requests are done or it has ended."""
    generator = random.Random(seed)
    requests = iter(range(count))
    clients = [Client(life, deck, random.Random(f"{seed} {n}"), seen) for n in range(CLIENTS)]
    beside = [scrape(life), reload(life, generator)]
    if life.is_cut_short:
        beside.append(stop_in_the_middle(life, requests, generator))
    beside = [asyncio.create_task(one) for one in beside]
    await asyncio.gather(*(client.run(requests) for client in clients))
    if not life.is_cut_short:
        life.is_over = True
    await asyncio.gather(*beside)
    return count - requests.__length_hint__()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--each", type=int, default=1500, help="requests of one daemon")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    asked = parser.parse_args()
    print(f"--seed {asked.seed}", flush=True)
    deck, seen, begin, done, lives = Deck(asked.seed), collections.Counter(), time.monotonic(), 0, 0
    while done < asked.requests:
        seed = f"{asked.seed} {lives}"
        with tempfile.TemporaryDirectory() as folder, \
                Life(Path(folder), random.Random(seed)) as life:
            count = min(asked.each, asked.requests - done)
            done += asyncio.run(live(life, deck, count, seed, seen))
            if not life.is_cut_short:
                life.settle()
        lives += 1
        if lives % 10 == 0:
            print(f"  {done} requests, {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{done} requests of {CLIENTS} clients to {lives} daemons in "
          f"{time.monotonic() - begin:.0f} s: every daemon ended well. "
          + ", ".join(f"{key}: {seen[key]}" for key in sorted(seen, key=str)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

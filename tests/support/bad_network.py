# SPDX-License-Identifier: Apache-2.0
"""A bad network: a proxy that delays, cuts at any byte, ends one direction, resets, stalls,
throttles and tears into pieces what goes through it. What happens to the n-th connection follows
from the seed."""
import asyncio
import random
import socket
import struct

RESET = struct.pack("ii", 1, 0)
PIECE = 1 << 16


class Fate:
    """What happens to a connection, and after how many bytes in that direction."""

    def __init__(self, generator):
        self.kind = generator.choice(KINDS)
        self.up = generator.random() < 0.6
        self.after = int(generator.choice((100, 1000, 100_000, 1_000_000)) * generator.random())
        self.rate = generator.choice((2_000, 50_000, 1_000_000))
        self.delay = generator.random() * 0.1
        self.piece = generator.randrange(1, 1400)


class Ended(Exception):
    """The connection is to be closed."""


async def nothing(fate, pipe, data):
    pipe.write(data)


async def delays(fate, pipe, data):
    await asyncio.sleep(fate.delay)
    pipe.write(data)


async def throttles(fate, pipe, data):
    step = max(1, fate.rate // 50)
    for at in range(0, len(data), step):
        pipe.write(data[at:at + step])
        await asyncio.sleep(0.02)


async def tears(fate, pipe, data):
    """Into pieces of a few bytes, of which each travels alone."""
    for at in range(0, min(len(data), 50 * fate.piece), fate.piece):
        pipe.write(data[at:at + fate.piece])
        await pipe.drain()
        await asyncio.sleep(0)
    pipe.write(data[50 * fate.piece:])


async def cuts(fate, pipe, data):
    raise Ended


async def resets(fate, pipe, data):
    pipe.reset()
    raise Ended


async def ends_one_side(fate, pipe, data):
    pipe.end()
    await asyncio.sleep(3600)


async def stalls(fate, pipe, data):
    await asyncio.sleep(3600)


KINDS = (nothing, delays, throttles, tears, cuts, resets, ends_one_side, stalls)
AT_ONCE = (delays, throttles, tears)  # not only from a byte on


class Pipe:
    """One direction of a connection."""

    def __init__(self, reader, writer, fate, is_struck):
        self.reader, self.writer, self.fate, self.is_struck = reader, writer, fate, is_struck
        self.passed = 0

    def write(self, data):
        if self.writer.transport.is_closing():
            raise Ended
        self.writer.write(data)

    async def drain(self):
        await self.writer.drain()

    def end(self):
        if self.writer.can_write_eof():
            self.writer.write_eof()

    def reset(self):
        opened = self.writer.get_extra_info("socket")
        if opened.fileno() >= 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.writer.transport.abort()

    async def run(self):
        fate = self.fate
        while data := await self.reader.read(PIECE):
            before = len(data) if not self.is_struck else \
                0 if fate.kind in AT_ONCE else max(0, fate.after - self.passed)
            self.write(data[:before])
            if data[before:]:
                await fate.kind(fate, self, data[before:])
            self.passed += len(data)
            await self.drain()
        self.end()


class BadNetwork:
    """Passes what comes to `port` on to 127.0.0.1 at `target`. `seen` counts what it did."""

    def __init__(self, target, seed):
        self.target, self.generator, self.tasks, self.seen = target, random.Random(seed), set(), {}

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.take, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *failure):
        self.server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def take(self, reader, writer):
        task = asyncio.current_task()
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        fate = Fate(self.generator)
        self.seen[fate.kind.__name__] = self.seen.get(fate.kind.__name__, 0) + 1
        writers = [writer]
        try:
            far, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
            writers.append(far_writer)
            pipes = (Pipe(reader, far_writer, fate, fate.up), Pipe(far, writer, fate, not fate.up))
            both = [asyncio.ensure_future(pipe.run()) for pipe in pipes]
            try:
                await asyncio.gather(*both)
            finally:
                for one in both:
                    one.cancel()
        except (OSError, Ended):
            pass
        finally:
            for one in writers:
                one.close()

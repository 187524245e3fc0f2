# SPDX-License-Identifier: Apache-2.0
"""Requests as fast as a client in Python can make them: bytes prepared beforehand, several behind
each other on a connection, and no more of an answer looked at than its status and the results."""
import collections
import os
import re
import socket
import ssl

from support import raw

from stress import calls, sessions

LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.I)
AT_ONCE = 8       # requests behind each other
CONNECTIONS = 4   # of a process, at a time
RENEWED = 200     # bunches, after which a connection is opened anew
HIDDEN = b'"kernels"'


class Prepared:
    """A call as bytes. What its answer has before `"meta"` never changes."""

    def __init__(self, call):
        self.call, self.data, self.results = call, call.bytes(), None
        self.is_judged = call.is_judged and b"json" in self.data[:200]

    def judge(self, status, body):
        assert status in self.call.statuses, f"{self.call.name}: {status}: {body[:500]}"
        if status != 200 or not self.is_judged:
            return
        results = body[:body.index(b'"meta"')]
        self.results = self.results or results
        assert results == self.results, f"{self.call.name}: the same call gave other bits"


def good():
    small = calls.of_folders("valid") + [calls.Call("small", raw.post(), {200})]
    return ((49, [Prepared(call) for call in small]),
            (1, [Prepared(call) for call in calls.of_operators()]))


def of_workers():
    return [Prepared(call) for call in calls.of_workers() if call.name != "scaling"]


class Stream:
    """One connection."""

    def __init__(self, doors, is_tls):
        path, port, authority = doors
        self.is_tls = is_tls
        if is_tls:
            context = ssl.create_default_context(cafile=authority)
            opened = socket.create_connection(("127.0.0.1", port), timeout=60)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket = context.wrap_socket(opened, server_hostname="localhost")
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(60)
            self.socket.connect(path)
        self.rest = bytearray()

    def send(self, data):
        self.socket.sendall(data)

    def send_all_of(self, data):
        """False when it was refused before it had sent all: then the answer may be lost, too."""
        try:
            self.send(data)
        except (ConnectionError, ssl.SSLError):
            return False
        return True

    def answer(self):
        """(status, body); None when the connection has ended."""
        while (end := self.rest.find(b"\r\n\r\n")) < 0:
            if not self.more():
                return None, b""
        length = LENGTH.search(self.rest, 0, end + 2)
        end += 4
        whole = end + (int(length.group(1)) if length else 0)
        while len(self.rest) < whole:
            assert self.more(), "the answer ended early"
        status, body = int(self.rest[9:12]), bytes(self.rest[end:whole])
        del self.rest[:whole]
        return status, body

    def more(self):
        try:
            piece = self.socket.recv(1 << 18)
        except (ConnectionError, ssl.SSLError):
            return False
        self.rest += piece
        return len(piece) > 0

    def close(self):
        self.socket.close()


class Clients:
    """The connections of a process. `doors`: path without TLS, port with it, authority."""

    def __init__(self, doors, generator):
        self.doors, self.generator, self.streams = doors, generator, []
        refused = [Prepared(call) for call in calls.of_folders("invalid")]
        hostile = calls.hostile()
        self.draw = calls.chooser(generator.random(), *good())
        self.draw_long = calls.chooser(generator.random(), (1, of_workers()))
        self.draw_refused = calls.chooser(generator.random(), (1, refused))
        self.draw_hostile = calls.chooser(
            generator.random(), (1, [item for item in hostile if item.is_large]),
            (400, [item for item in hostile if not item.is_large and not item.item.stays]),
            (1600, [item for item in hostile if not item.is_large and item.item.stays]))
        self.seen = collections.Counter()
        self.life = [Prepared(call) for call in sessions.life(f"of-{os.getpid()}")]

    def open(self):
        return Stream(self.doors, self.generator.random() < 0.2)

    def bunch(self):
        """Requests for a connection that stays: one in ten is wrong."""
        random = self.generator.random
        return [self.draw() if random() < 0.9 else self.draw_refused() for _ in range(AT_ONCE)]

    def ask_long(self, stream):
        """A long request, alone: who sends one behind others has not read their answers."""
        one = self.draw_long()
        stream.send(one.data)
        self.read(stream, [one])
        return 1

    def run(self, count):
        """Makes that many requests and leaves nothing open; {what: how often}."""
        self.seen.clear()
        streams = [self.open() for _ in range(CONNECTIONS)]
        done, bunches = 0, 0
        while done < count:
            asked = [self.bunch() for _ in streams]
            for stream, bunch in zip(streams, asked):
                stream.send(b"".join(one.data for one in bunch))
            for stream, bunch in zip(streams, asked):
                self.read(stream, bunch)
            done += CONNECTIONS * AT_ONCE + self.attack(CONNECTIONS * AT_ONCE // 8)
            if self.generator.random() < 0.3:
                done += self.ask_long(streams[0])
            if self.generator.random() < 0.1:
                done += self.live(streams[0])
            bunches += 1
            if bunches % RENEWED == 0:
                streams.pop(0).close()
                streams.append(self.open())
        for stream in streams:
            stream.close()
        return self.seen.copy()

    def live(self, stream):
        """A session from its beginning to its end; its steps have the bits that they always had."""
        for one in self.life:
            stream.send(one.data)
            self.read(stream, [one])
        return len(self.life)

    def read(self, stream, bunch):
        for one in bunch:
            status, body = stream.answer()
            one.judge(status, body)
            self.seen[status] += 1

    def attack(self, count):
        """The catalogue's inputs: on a connection as long as it stays. Who is cut off may not be
        told, if by TLS or in the middle of sending."""
        stream = self.open()
        for _ in range(count):
            hostile = self.draw_hostile()
            is_told = stream.send_all_of(hostile.data) and \
                (hostile.item.stays or not stream.is_tls)
            status, _ = stream.answer()
            if is_told or status is not None:
                hostile.judge(status)
            self.seen[status] += 1
            if not hostile.item.stays:
                while stream.more():
                    pass
                assert HIDDEN not in stream.rest, f"{hostile.name}: what stood behind was executed"
                stream.close()
                stream = self.open()
        stream.close()
        return count

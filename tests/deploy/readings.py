# SPDX-License-Identifier: Apache-2.0
"""What the daemon and a strict proxy before it each make of the same bytes: requests sent straight,
and through HAProxy with docker/haproxy's configuration, whose own words to the daemon are kept."""
import concurrent.futures
import contextlib
import json
import os
import re
import socket
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field

from deploy.replicas import CONFIGURATION, is_ready, wait_until
from support.daemon import Daemon, bound, free_port

SILENCE = 3  # what has not come by then is waited for on the other side
AT_ONCE = 32
TAKEN = (200, 204, 422)  # answered by what is in it, right or wrong


@dataclass(frozen=True)
class Request:
    """As the proxy passes it on, or as it stands in the daemon's log."""
    id: str
    method: str
    body: int
    status: int = 0


@dataclass
class Reading:
    """Of one case: whether the other side said something or ended, what the proxy passed on of it,
    and what the daemon has in its log."""
    id: str
    statuses: list
    ended: bool
    passed: list = field(default_factory=list)
    logged: list = field(default_factory=list)

    def own(self, requests):
        return next((one for one in requests if one.id == self.id), None)

    @property
    def waits(self):
        return not self.statuses and not self.ended

    @property
    def taken(self):
        """The request as the daemon took it: answered by what is in it, or as one whose body ends
        somewhere, with another behind it."""
        own = self.own(self.logged)
        is_followed = any(one.id != self.id for one in self.logged)
        if own is None or not (own.status in TAKEN or (own.body > 0 and is_followed)):
            return None
        return own


class Relay:
    """Between the proxy and the daemon: it keeps what the proxy says, a connection at a time."""

    def __init__(self, target):
        self.target, self.streams = target, []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                self.streams.append(bytearray())
                for ends in ((near, far, self.streams[-1]), (far, near, bytearray())):
                    threading.Thread(target=self.carry, args=ends, daemon=True).start()

    @staticmethod
    def carry(source, sink, kept):
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                kept += piece
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)

    def requests(self):
        return [one for stream in self.streams for one in split(bytes(stream))]


def unchunk(rest):
    """(bytes of the body, what is behind it); the proxy writes its chunks plainly."""
    count = 0
    while True:
        size, rest = rest.split(b"\r\n", 1)
        length = int(size, 16)
        if length == 0:
            while not rest.startswith(b"\r\n"):
                rest = rest.split(b"\r\n", 1)[1]
            return count, rest[2:]
        assert rest[length:length + 2] == b"\r\n"
        count, rest = count + length, rest[length + 2:]


def split(rest):
    """The requests in what the proxy says, which writes all of them alike."""
    while b"\r\n\r\n" in rest:
        head, rest = rest.split(b"\r\n\r\n", 1)
        first, *lines = head.split(b"\r\n")
        named = dict(line.split(b": ", 1) for line in lines if b": " in line)
        if b"transfer-encoding" in named:
            length, rest = unchunk(rest)
        else:
            length = int(named.get(b"content-length", 0))
            rest = rest[length:]
        yield Request(named.get(b"x-request-id", b"").decode("latin-1"),
                      first.split(b" ")[0].decode("latin-1"), length)


def statuses(text, has_body):
    """Of the answers in it, one behind the other; `has_body`: the first one."""
    found = []
    while b"\r\n\r\n" in text:
        head, text = text.split(b"\r\n\r\n", 1)
        length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.I)
        text = text[int(length[1]) if length and (has_body or found) else 0:]
        found.append(int(head.split(b" ", 2)[1]))
    return found


def send(port, ident, data):
    text, ended = b"", False
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(SILENCE)
        try:
            connection.sendall(data)
            while piece := connection.recv(1 << 16):
                text += piece
            ended = True
        except TimeoutError:
            pass
        except ConnectionError:
            ended = True
    return Reading(ident, statuses(text, not data.startswith(b"HEAD")), ended)


def log_of(daemon):
    rows = [json.loads(line) for line in daemon.output().splitlines() if line.startswith("{")]
    return [Request(row["id"], row.get("method", ""), row.get("body_bytes", 0), row["status"])
            for row in rows if row["event"] == "request"]


def read_all(cases, port, daemon, relay=None):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda case: send(port, *case), cases.values()))
    logged, passed = log_of(daemon), relay.requests() if relay else []
    for reading in found:
        names = (reading.id, reading.id + "-behind")
        reading.logged = [one for one in logged if one.id in names]
        reading.passed = [one for one in passed if one.id in names]
    return dict(zip(cases, found, strict=True))


@contextlib.contextmanager
def proxy(target):
    """The port of HAProxy before that one, which is both its replicas."""
    port = free_port()
    variables = {"LISTEN": f"127.0.0.1:{port}", "METRICS": f"127.0.0.1:{free_port()}",
                 "REPLICA_1": f"127.0.0.1:{target}", "REPLICA_2": f"127.0.0.1:{target}"}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(bound(["haproxy", "-db", "-f", str(CONFIGURATION)]), stdout=log,
                                   stderr=log, env={**os.environ, **variables})
        try:
            wait_until(lambda: is_ready(port))
            yield port
        finally:
            process.kill()
            process.wait()


def both(cases):
    """{case: Reading} straight, and the same through the proxy."""
    arguments = ("--log", "all")
    with Daemon(*arguments) as daemon:
        straight = read_all(cases, daemon.port, daemon)
    with Daemon(*arguments) as daemon:
        relay = Relay(daemon.port)
        with proxy(relay.port) as port:
            proxied = read_all(cases, port, daemon, relay)
        relay.listener.close()
    return straight, proxied

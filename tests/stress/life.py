# SPDX-License-Identifier: Apache-2.0
"""A daemon from its start to its end with options drawn at random, and how its clients reach it."""
import asyncio
import ssl
import time

from stress import sessions
from support import raw
from support.certificates import Authority
from support.client import Client
from support.daemon import Daemon, free_port
from support.keys import KeyFile

IDLE = {"attention_http_requests_in_flight": 1, "attention_in_flight_bytes": 0,
        "attention_queue_depth": 0, "attention_http_connections": 1}
AT_REST = {**IDLE, "attention_sessions": 0, "attention_session_bytes": 0}
WRONG = "attn_" + "a" * 43


def settle(client, rest=None, seconds=30):
    """Waits until nothing of what clients left behind is held any more."""
    rest, deadline = rest or AT_REST, time.monotonic() + seconds
    client.close()  # it may have been idle for too long
    while True:
        values = raw.samples(client)
        held = {name: values[name] for name in rest if values[name] != rest[name]}
        if not held:
            return
        assert time.monotonic() < deadline, f"held after {seconds} s: {held}"
        time.sleep(0.01)


class Watched:
    """A daemon, `self.daemon`, that has to be left as it was before anybody came."""

    def __enter__(self):
        self.daemon.__enter__()
        settle(self.daemon.client)
        self.descriptors = self.open_descriptors()
        return self

    def __exit__(self, *failure):
        self.daemon.stop()

    def open_descriptors(self):
        return raw.samples(self.daemon.client)["process_open_fds"]

    def wait_for_rest(self):
        settle(self.daemon.client)
        raw.until(lambda: self.open_descriptors() == self.descriptors)


class Life:
    """`may_cut`: connections may end without an answer; `also`: statuses that any call may get."""

    def __init__(self, folder, generator):
        self.folder, self.path, self.ops = folder, folder / "socket", free_port()
        self.is_tls, self.is_cut_short = generator.random() < 0.5, generator.random() < 0.7
        is_tight, is_hasty = generator.random() < 0.3, generator.random() < 0.3
        self.last = generator.randrange(20, 400)
        self.may_cut, self.is_over = False, False
        self.also = {503} if is_tight or self.is_cut_short else set()
        if is_hasty:  # a machine that is busy with others' work may be late for some
            self.also, self.may_cut = {*self.also, 408}, True
        arguments = self.keys() + self.certificates() * self.is_tls + [
            "--threads", str(generator.randrange(1, 5)),
            "--io-threads", str(generator.randrange(1, 4)),
            "--inline-microseconds", generator.choice(("0", "50", "1000")),
            "--drain-timeout", generator.choice(("0", "50ms", "30s")),
            "--reload-interval", generator.choice(("100ms", "10s")),
            "--queue-timeout", "2m",
            "--queue-work", generator.choice(("20ms", "10s")) if is_tight else "0",
            "--ops-listen", f"127.0.0.1:{self.ops}"]
        if is_tight:
            arguments += ["--memory-budget", "16MiB", "--queue-limit", "8",
                          "--max-sessions", "3", "--sessions-memory", "128KiB"]
        if is_hasty:
            arguments += ["--header-timeout", "1s", "--body-timeout", "1s", "--send-timeout", "1s"]
        self.daemon = Daemon(*arguments, path=self.path)
        self.daemon.client = Client(self.ops)
        self.process, self.signal = self.daemon.process, self.daemon.process.send_signal

    def keys(self):
        self.file = KeyFile(self.folder / "keys")
        self.alice, self.guest = self.file.add("alice", "infer,sessions"), self.file.add("guest")
        self.lines = list(self.file.lines)
        return ["--key-file", str(self.file.path)]

    def certificates(self):
        authority = Authority(self.folder)
        self.pairs = [authority.sign("service"), authority.sign("service", "renewed")]
        self.context = ssl.create_default_context(cafile=authority.certificate)
        self.pair = [self.folder / "in-force.crt", self.folder / "in-force.key"]
        self.renew(self.pairs[0])
        return ["--tls-certificate", str(self.pair[0]), "--tls-key", str(self.pair[1])]

    def renew(self, pair):
        for source, target in zip(pair, self.pair):
            fresh = target.with_suffix(".new")
            fresh.write_bytes(source.read_bytes())
            fresh.rename(target)

    def change_files(self, generator):
        """Another certificate, a guest more or less, or a file that cannot be read."""
        self.file.lines = generator.choice((self.lines, self.lines[:1], [*self.lines, "nonsense"]))
        self.file.write()
        if self.is_tls:
            self.renew(generator.choice(self.pairs))

    def key(self, generator):
        """A key, and the statuses that it may bring beside those of the call."""
        return generator.choices(((self.alice, ()), (self.guest, (401, 403)), (WRONG, (401,))),
                                 (90, 7, 3))[0]

    async def open(self, generator):
        if generator.random() < 0.3:
            return await asyncio.open_unix_connection(self.path)
        if self.is_tls:
            return await asyncio.open_connection("127.0.0.1", self.daemon.port, ssl=self.context,
                                                 server_hostname="localhost")
        return await asyncio.open_connection("127.0.0.1", self.daemon.port)

    def settle(self):
        """Nothing is held once the sessions of all have been ended, too. They are when no call can
        make one any more."""
        settle(self.daemon.client, IDLE)
        with raw.Connection(self.path) as connection:
            for request in sessions.deletions(f"Authorization: Bearer {self.alice}"):
                assert connection.ask(request).status in (204, 404)
        settle(self.daemon.client)

    def __enter__(self):
        self.daemon.__enter__()
        return self

    def __exit__(self, *failure):
        self.is_over = True
        self.daemon.stop()


class TlsDaemon(Daemon):
    """One whose port speaks TLS and whose Unix socket does not; `doors` say where they are."""

    def __init__(self, folder, *arguments, **more):
        authority = Authority(folder)
        certificate, key = authority.sign("service")
        path = folder / "socket"
        super().__init__("--tls-certificate", str(certificate), "--tls-key", str(key), *arguments,
                         path=path, **more)
        self.client = Client(None, path=path)
        self.doors = (str(path), self.port, str(authority.certificate))

    def settle(self):
        settle(self.client)

# SPDX-License-Identifier: Apache-2.0
"""The daemons that inputs are sent to, one for each list of arguments, started when first needed.
"""
from support import raw
from support.certificates import Authority
from support.client import Client
from support.daemon import Daemon
from support.keys import KeyFile

from catalogue.scene import AT_REST, Neighbour

KEYS = {"alice": ("infer",), "scraper": ("metrics",), "slow": ("infer", "requests_per_second=0.001",
                                                                "burst=3"),
        "bob": ("sessions",), "carol": ("sessions",), "hoarder": ("sessions", "sessions=50")}


class Running:
    """A daemon, the keys that it was given, and the bits of the reference call. `port` is where it
    is asked without TLS: the path of a Unix socket for one that has TLS."""

    def __init__(self, item, folder):
        self.keys, arguments, path = {}, item.daemon, None
        if item.with_keys:
            file = KeyFile(folder / "keys")
            self.keys = {name: file.add(name, *rest) for name, rest in KEYS.items()}
            arguments = (*arguments, "--key-file", str(file.path))
        if item.tls:
            path = folder / "socket"
            certificate, key = Authority(folder).sign("service")
            arguments = (*arguments, "--tls-certificate", str(certificate), "--tls-key", str(key))
        self.daemon = Daemon(*arguments, log=item.log, path=path)
        self.port = self.tls_port = self.daemon.port
        if item.tls:
            self.daemon.client, self.port = Client(None, path=path), path
        self.daemon.__enter__()
        self.daemon.client.close()
        self.process, self.output = self.daemon.process, self.daemon.output
        self.reference = self.bits()

    @property
    def key_lines(self):
        return [f"Authorization: Bearer {self.keys['alice']}"] if self.keys else []

    def samples(self):
        """/metrics over a connection of its own: an old one may have been idle for too long."""
        lines = [f"Authorization: Bearer {self.keys['scraper']}"] if self.keys else []
        with raw.Connection(self.port, 60) as connection:
            answer = connection.ask(raw.get("/metrics", "Connection: close", *lines))
        return raw.parse_samples(answer.body)

    def bits(self):
        with raw.Connection(self.port, 60) as connection:
            neighbour = Neighbour(self)
            neighbour.ask(connection)
        bits, = neighbour.bits
        return bits

    def assert_bits(self):
        assert self.bits() == self.reference

    def wait_for_rest(self):
        def is_at_rest():
            values = self.samples()
            return {name: values[name] for name in AT_REST} == AT_REST

        raw.until(is_at_rest, 20)

    def stop(self):
        self.daemon.stop()


class Company:
    """All of them; stop() has each end with 0."""

    def __init__(self, folder):
        self.folder, self.running = folder, {}

    def get(self, item):
        key = (item.daemon, item.with_keys, item.log, item.tls)
        if key not in self.running or self.running[key].process.poll() is not None:
            folder = self.folder / str(len(self.running))
            folder.mkdir(exist_ok=True)
            self.running[key] = Running(item, folder)
        return self.running[key]

    def stop(self):
        for running in self.running.values():
            running.stop()

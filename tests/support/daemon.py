# SPDX-License-Identifier: Apache-2.0
"""Starts the daemon for tests and stops it again, in a way that lets no failure pass: it has to
become ready, to end on SIGTERM and to exit with 0, which a sanitizer's report prevents."""
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from support.client import Client

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("ATTENTIOND", str(ROOT / "build" / "attentiond"))
START_SECONDS = 60  # a sanitizer build on a busy machine; a release build needs a fraction of one
STOP_SECONDS = 60


def free_port():
    """Below the range that the system hands to outgoing connections, so none takes it meanwhile."""
    while True:
        port = random.SystemRandom().randrange(20000, 32768)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def environment():
    """The tests' environment without settings of the daemon's own."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("ATTENTIOND")}


def bound(command):
    """The command as one that ends with this process, however this one ends: tests that are killed
    must not leave a daemon behind. setpriv becomes the command, so the process is the same."""
    return ["setpriv", "--pdeathsig", "KILL", *command]


class Daemon:
    def __init__(self, *arguments, path=None, tcp=True, host="127.0.0.1", log=None,
                 variables=None):
        """`path`: a Unix socket to listen on, beside the port or alone. `log`: where its log goes,
        a temporary file by default. `variables`: more of its environment."""
        self.port = free_port() if tcp else None
        addresses = [f"{host}:{self.port}"] * tcp + [f"unix:{path}"] * (path is not None)
        self.log = tempfile.TemporaryFile() if log is None else open(log, "wb+", buffering=0)
        self.command = [BINARY, "--listen", ",".join(addresses), *arguments]
        self.process = subprocess.Popen(bound(self.command), stdout=self.log, stderr=self.log,
                                        env={**environment(), **(variables or {})})
        self.client = Client(self.port, path=None if tcp else path)

    def output(self):
        # Not through the file object: the daemon writes at the position that both share.
        descriptor = self.log.fileno()
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")

    def wait_until_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n" + \
                self.output()
            try:
                if self.client.get("/readyz").status == 200:
                    return self
            except OSError:
                self.client.close()
                time.sleep(0.02)
        raise AssertionError(f"not ready after {START_SECONDS} s:\n" + self.output())

    def stop(self):
        """SIGTERM; exit code 0 or the log."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = f"no exit within {STOP_SECONDS} s"
        text = self.output()
        self.log.close()
        assert code == 0, f"{self.command} ended with {code}:\n{text[-20000:]}"

    def __enter__(self):
        try:
            return self.wait_until_ready()
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def __exit__(self, *failure):
        self.stop()

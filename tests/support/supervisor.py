# SPDX-License-Identifier: Apache-2.0
"""What a supervisor does for the daemon: hands over listening sockets and listens to what it says
of itself, as systemd does (sd_listen_fds(3), sd_notify(3))."""
import fcntl
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from support.daemon import BINARY, START_SECONDS, bound, environment


def listening(address="127.0.0.1"):
    opened = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.bind((address, 0))
    opened.listen(512)
    return opened


class Supervised:
    """A daemon with these sockets; `names` has a word for each, "ops" for operators'."""

    def __init__(self, folder, sockets, names=None, *arguments, watchdog_ms=None):
        self.said, self.arrived = [], []
        self.ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.path = Path(tempfile.mkdtemp(dir=folder)) / "notify"
        self.ear.bind(str(self.path))
        self.ear.settimeout(0.1)
        variables = {**environment(), "NOTIFY_SOCKET": str(self.path),
                     "LISTEN_FDS": str(len(sockets))}
        if names:
            variables["LISTEN_FDNAMES"] = ":".join(names)
        if watchdog_ms:
            variables["WATCHDOG_USEC"] = str(1000 * watchdog_ms)
        # Out of the way first, for the places begin at 3; and only bash knows so high ones.
        high = [fcntl.fcntl(one.fileno(), fcntl.F_DUPFD, 50) for one in sockets]
        places = " ".join(f"{3 + n}<&{one} {one}<&-" for n, one in enumerate(high))
        script = f'LISTEN_PID=$$ exec "$0" "$@" {places}'
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            bound(["bash", "-c", script, BINARY, *arguments]), env=variables, stdout=self.log,
            stderr=self.log, pass_fds=high)
        for one in high:
            os.close(one)

    def listen(self, word, seconds=START_SECONDS):
        """Waits until it says this."""
        deadline = time.monotonic() + seconds
        while not any(word in text for text in self.said):
            assert time.monotonic() < deadline, f"{word} was not said: {self.said}"
            assert self.process.poll() is None or word == "STOPPING=1", self.output()
            self.hear()
        return self

    def hear(self):
        try:
            self.said.append(self.ear.recv(4096).decode())
            self.arrived.append(time.monotonic())
        except TimeoutError:
            pass

    def output(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def stop(self, seconds=60):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(seconds)
        self.listen("STOPPING=1", 5)
        self.ear.close()
        assert code == 0, self.output()

    def __enter__(self):
        return self.listen("READY=1")

    def __exit__(self, *failure):
        if self.process.poll() is None:
            self.stop()

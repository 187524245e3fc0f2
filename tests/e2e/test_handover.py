# SPDX-License-Identifier: Apache-2.0
"""Under a supervisor: sockets that are handed over, what the daemon says of itself, and upgrades
that lose no connection. HANDOVERS=100 makes it so many."""
import os
import signal
import socket
import threading
import time

import pytest
from support import raw
from support.supervisor import Supervised, listening

HANDOVERS = int(os.environ.get("HANDOVERS", "8"))
CLIENTS = 8


def status(port, path="/healthz"):
    with raw.Connection(port) as opened:
        return opened.ask(raw.get(path)).status


def port_of(opened):
    return opened.getsockname()[1]


def test_it_serves_what_is_handed_over(tmp_path):
    with listening() as main, listening() as ops, \
            Supervised(tmp_path, [ops, main], ["ops", "main"]) as daemon:
        assert "is not used" not in daemon.output()
        assert status(port_of(main), "/v1") == status(port_of(ops), "/metrics") == 200
        assert status(port_of(main), "/metrics") == status(port_of(ops), "/v1") == 404
        assert f"STATUS=http://127.0.0.1:{port_of(main)}" in daemon.said[0]
        assert f"http://127.0.0.1:{port_of(main)}" in daemon.output()


def test_addresses_that_are_not_used_are_told(tmp_path):
    with listening() as main, \
            Supervised(tmp_path, [main], None, "--listen", "127.0.0.1:0") as daemon:
        assert "listen is not used: the sockets were handed over" in daemon.output()
        assert "ops_listen is not used" not in daemon.output()


def test_a_path_that_is_handed_over_stays(tmp_path):
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))
        opened.listen()
        with Supervised(tmp_path, [opened]) as daemon, raw.Connection(path) as connection:
            assert connection.ask(raw.get()).status == 200
            said = daemon.output()
            assert f"curl --unix-socket {path} http://localhost/v1\n" in said
            assert "dashboard" not in said  # no browser goes to a path
        assert path.exists()


def test_what_does_not_listen_is_let_be(tmp_path):
    with listening() as main, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other, \
            Supervised(tmp_path, [other, main]):
        assert status(port_of(main)) == 200


@pytest.mark.parametrize("flags, code", (([], 1), (["--insecure"], None)))
def test_an_open_socket_is_not_served_by_an_oversight(tmp_path, flags, code):
    with listening("0.0.0.0") as main:
        daemon = Supervised(tmp_path, [main], None, *flags)
        if code is None:
            daemon.listen("READY=1").stop()
            return
        assert daemon.process.wait(60) == code
        assert "--insecure" in daemon.output()


def test_signs_of_life(tmp_path):
    with listening() as main, Supervised(tmp_path, [main], watchdog_ms=200) as daemon:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            daemon.hear()
        assert 5 <= sum("WATCHDOG=1" in text for text in daemon.said) <= 30


def test_no_sign_of_life_when_it_hangs(tmp_path):
    with listening() as main, Supervised(tmp_path, [main], watchdog_ms=100) as daemon:
        daemon.listen("WATCHDOG=1")
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        for _ in range(5):
            daemon.hear()
        daemon.said.clear()
        for _ in range(5):
            daemon.hear()
        assert daemon.said == []
        daemon.process.send_signal(signal.SIGCONT)
        daemon.listen("WATCHDOG=1")


class Load:
    """Clients that connect anew for each call; what fails is kept."""

    def __init__(self, port):
        self.port, self.failures, self.answered, self.over = port, [], 0, threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(CLIENTS)]

    def run(self):
        while not self.over.is_set():
            try:
                with raw.Connection(self.port) as opened:
                    answer = opened.ask(raw.post())
                if answer.status != 200:
                    self.failures.append((answer.status, answer.body))
            except (OSError, AssertionError) as error:
                self.failures.append(error)
            self.answered += 1

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *failure):
        self.over.set()
        for thread in self.threads:
            thread.join()


def settle(load, calls):
    until = load.answered + calls
    raw.until(lambda: load.answered >= until, 60)


@pytest.mark.parametrize("successor_first", (True, False))
def test_no_connection_is_lost(tmp_path, successor_first):
    """An upgrade starts the successor before its predecessor ends; in a restart connections wait in
    the socket meanwhile."""
    with listening() as main:
        running = Supervised(tmp_path, [main]).listen("READY=1")
        with Load(port_of(main)) as load:
            for _ in range(HANDOVERS):
                settle(load, 50)
                before = running
                if not successor_first:
                    before.stop()
                running = Supervised(tmp_path, [main]).listen("READY=1")
                if successor_first:
                    before.stop()
            settle(load, 50)
        running.stop()
    assert load.failures == []
    assert load.answered > 50 * HANDOVERS

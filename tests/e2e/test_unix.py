# SPDX-License-Identifier: Apache-2.0
"""A Unix socket beside TCP, and alone: the same service, its file, and who may connect."""
import fcntl
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
from support import raw
from support.daemon import BINARY, Daemon, bound, environment

STALL_SECONDS = 5  # as in test_lock_step.py


@pytest.fixture
def path(tmp_path):
    return tmp_path / "attentiond.sock"


@pytest.fixture(scope="module", params=("beside TCP", "alone"))
def served(request, tmp_path_factory):
    """(daemon, path of its socket)"""
    path = tmp_path_factory.mktemp("unix") / "attentiond.sock"
    with Daemon("--io-threads", "1", path=path, tcp=request.param != "alone") as daemon:
        yield daemon, path


def test_curl(served):
    _, path = served
    body = raw.BODY.decode()
    ran = subprocess.run(["curl", "-s", "--unix-socket", path, "http://localhost/v1/attention",
                          "-H", "Content-Type: application/json", "-d", body],
                         capture_output=True, check=True)
    assert "output" in json.loads(ran.stdout)


def test_the_same_bits_over_both(tmp_path):
    path = tmp_path / "a.sock"
    with Daemon(path=path) as daemon, raw.Connection(path) as local, \
            raw.Connection(daemon.port) as remote:
        outputs = [json.loads(connection.ask(raw.post()).body)["output"]
                   for connection in (local, remote)]
        assert outputs[0] == outputs[1]


def test_the_log_says_unix(served):
    daemon, path = served
    with raw.Connection(path) as connection:
        connection.ask(raw.get("/healthz", "X-Request-Id: over-the-socket"))
    raw.until(lambda: "over-the-socket" in daemon.output())
    line = next(line for line in daemon.output().splitlines() if "over-the-socket" in line)
    assert json.loads(line)["remote"] == "unix"
    assert f"unix:{path}" in daemon.output()


@pytest.mark.parametrize("clients", (127, 128, 129))
@pytest.mark.parametrize("request_bytes", (raw.get(), raw.post()), ids=("get", "post"))
def test_no_stall(served, clients, request_bytes):
    connections = [raw.Connection(served[1], STALL_SECONDS) for _ in range(clients)]
    try:
        for _ in range(10):
            for connection in connections:
                connection.send(request_bytes)
            for connection in connections:
                assert connection.answer().status == 200
    finally:
        for connection in connections:
            connection.close()


def test_the_limit_of_connections_holds_over_both(path):
    """The 65th waits until another closes, over whichever address it came."""
    with Daemon("--max-connections", "64", "--io-threads", "1", path=path) as daemon:
        daemon.client.close()
        raw.until(lambda: is_alone(path))
        held = [raw.Connection(path if number % 2 else daemon.port) for number in range(64)]
        for connection in held:
            assert connection.ask(raw.get()).status == 200
        for address in (path, daemon.port):
            late = raw.Connection(address, 0.5)
            late.send(raw.get())
            with pytest.raises(TimeoutError):
                late.answer()
            held.pop().close()
            late.socket.settimeout(20)
            assert late.answer().status == 200
            held.insert(0, late)
        for connection in held:
            connection.close()


def is_alone(path):
    """Whether no other connection is open."""
    with raw.Connection(path) as connection:
        text = connection.ask(raw.get("/metrics")).body.decode()
    return "\nattention_http_connections 1\n" in text


@pytest.mark.parametrize("mode, bits", ((None, 0o660), ("0600", 0o600), ("0666", 0o666)))
def test_permissions(mode, bits, path):
    arguments = ("--socket-mode", mode) if mode else ()
    before = os.umask(0o077)
    try:
        with Daemon(*arguments, path=path, tcp=False):
            assert stat.S_IMODE(path.stat().st_mode) == bits
    finally:
        os.umask(before)


def test_removed_at_the_end(path):
    with Daemon(path=path, tcp=False):
        assert stat.S_ISSOCK(path.stat().st_mode)
    assert not path.exists()


def run(path):
    return subprocess.run([BINARY, "--listen", f"unix:{path}"], capture_output=True, text=True,
                          check=False, env=environment(), timeout=60)


def test_a_socket_that_nobody_listens_on_is_replaced(path):
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
        left.listen()
    with Daemon(path=path, tcp=False) as daemon:
        assert daemon.client.get("/healthz").status == 200


def test_after_a_kill_it_starts_again(path):
    with Daemon(path=path) as daemon:
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait(20)
        assert path.exists()
        with Daemon(path=path) as next_one:
            assert next_one.client.get("/healthz").status == 200
        daemon.process.returncode = 0  # that it was killed is no failure here


def test_a_live_one_is_refused_and_left_alone(path):
    with Daemon(path=path, tcp=False) as daemon:
        ended = run(path)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert f"unix:{path}: another program listens there" in ended.stderr
        assert daemon.client.get("/healthz").status == 200


def test_one_that_is_about_to_listen_is_left_alone(path):
    """Two that start at once: who is bound and does not listen yet looks like one who has ended, so
    each locks the folder until it listens."""
    folder = os.open(path.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        command = bound([BINARY, "--listen", f"unix:{path}"])
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, env=environment()) as second:
            time.sleep(0.5)
            other.listen()
            os.close(folder)
            try:
                second.wait(10)
            finally:
                second.kill()
            assert "another program listens there" in second.stderr.read()


def test_another_file_is_left_alone(path):
    path.write_text("precious")
    ended = run(path)
    assert ended.returncode == 1
    assert "no socket" in ended.stderr
    assert path.read_text() == "precious"


@pytest.mark.parametrize("above, words", [
    (lambda folder: folder / "nowhere", "No such file or directory; its folder does not exist"),
    (lambda _: Path(__file__), "Not a directory; what stands before its last / is no folder"),
])
def test_a_folder_that_is_none(above, words, tmp_path):
    ended = run(above(tmp_path) / "a.sock")
    assert ended.returncode == 1
    assert words in ended.stderr


def test_a_folder_that_may_not_be_written_to():
    """Root may write anywhere, so it becomes somebody else for this, with a copy in reach."""
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(shutil.copy(BINARY, folder))
        Path(folder).chmod(0o555)
        who = {"user": 65534} if os.geteuid() == 0 else {}
        ended = subprocess.run([binary, "--listen", f"unix:{folder}/a.sock"], capture_output=True,
                               text=True, check=False, env=environment(), timeout=60, **who)
        Path(folder).chmod(0o755)
    assert ended.returncode == 1
    assert "Permission denied; name a path in a folder that the daemon's user may" in ended.stderr


def test_drain(path):
    """What is asked is answered; then nobody can connect, and a successor may take the path."""
    rows = [[1.0] * 64] * 2500
    body = json.dumps({"q": rows, "k": rows, "v": rows, "kernel": "reference"}).encode()
    with Daemon("--threads", "1", path=path, tcp=False) as daemon:
        with raw.Connection(path, 60) as connection:
            answers = []
            asker = threading.Thread(target=lambda: answers.append(connection.ask(raw.post(body))))
            asker.start()
            raw.until(lambda: raw.samples(daemon.client)["attention_in_flight_bytes"] > 0)
            daemon.client.close()
            daemon.process.send_signal(signal.SIGTERM)
            asker.join(60)
            assert (answers[0].status, answers[0].closes) == (200, True)
        assert daemon.process.wait(20) == 0
        with pytest.raises(OSError):
            raw.Connection(path)


def test_a_client_that_goes_away_ends_its_call(path):
    rows = [[1.0] * 64] * 4000
    body = json.dumps({"q": rows, "k": rows, "v": rows, "kernel": "reference"}).encode()
    with Daemon("--threads", "1", path=path, tcp=False) as daemon:
        with raw.Connection(path) as connection:
            connection.send(raw.post(body))
            raw.until(lambda: raw.samples(daemon.client)["attention_in_flight_bytes"] > 0)
        raw.until(lambda: raw.samples(daemon.client)["attention_in_flight_bytes"] == 0, 20)
        assert '"status":499' in daemon.output()

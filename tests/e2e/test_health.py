# SPDX-License-Identifier: Apache-2.0
"""`attentiond --health`: the question of who watches a daemon and has nothing else to ask with."""
import signal
import socket
import subprocess
import threading

import pytest
from support.certificates import Authority
from support.daemon import BINARY, Daemon, environment, free_port


def ask(*arguments, **variables):
    """The exit status, and what is said about it."""
    asked = subprocess.run([BINARY, "--health", *arguments], capture_output=True, text=True,
                           timeout=30, env={**environment(), **variables})
    assert asked.stdout == ""
    return asked.returncode, asked.stderr


def test_where_the_daemon_listens(daemon, tmp_path):
    for host in ("127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]"):
        assert ask("--listen", f"{host}:{daemon.port}") == (0, ""), host
    assert ask(ATTENTIOND_LISTEN=f"127.0.0.1:{daemon.port}") == (0, "")
    with Daemon(path=tmp_path / "a.sock", tcp=False):
        assert ask("--listen", f"unix:{tmp_path}/a.sock") == (0, "")


def test_where_operators_ask_if_there_is_such_a_place(tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.sign("service")
    port = free_port()
    files = ["--tls-certificate", str(certificate), "--tls-key", str(key)]
    ops = ["--ops-listen", f"127.0.0.1:{port}"]
    status, text = ask("--listen", "127.0.0.1:8443", *files)
    assert status == 1 and "--ops-listen" in text
    assert ask("--listen", "127.0.0.1:8443", *files, *ops)[0] == 1
    with Daemon(*ops):
        assert ask("--listen", "127.0.0.1:8443", *files, *ops) == (0, "")


def test_keys_are_not_needed(daemon, tmp_path):
    assert ask("--listen", f"127.0.0.1:{daemon.port}", "--key-file", str(tmp_path / "none"))[0] == 0


def test_a_daemon_that_stands_still_is_not_healthy():
    with Daemon() as daemon:
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            status, text = ask("--listen", f"127.0.0.1:{daemon.port}")
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        assert status == 1 and "no good answer" in text
        assert ask("--listen", f"127.0.0.1:{daemon.port}")[0] == 0


@pytest.mark.parametrize("answer", (b"", b"HTTP/1.1 2", b"HTTP/1.1 503 Unavailable\r\n\r\n"))
def test_another_answer_is_not_a_good_one(answer):
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        status, text = ask("--listen", f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert status == 1 and "no good answer" in text


def test_what_cannot_be_asked_is_said(tmp_path):
    for nowhere in (f"127.0.0.1:{free_port()}", f"unix:{tmp_path}/none"):
        assert ask("--listen", nowhere) == (1, "attentiond: health: nothing listens there.\n")
    status, text = ask("--listen=127.0.0.1:0")
    assert status == 1 and "name a port" in text
    assert ask("--listen=nonsense")[0] == 2

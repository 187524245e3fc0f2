# SPDX-License-Identifier: Apache-2.0
"""Start and stop: what the process says and returns, and that SIGTERM loses no request."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support import raw, safetensors
from support.client import SAFETENSORS_TYPE
from support.daemon import BINARY, Daemon, environment, free_port


def slow(length, **options):
    q = np.ones((length, 64), np.float32)
    body = safetensors.write({"q": q, "k": q, "v": q},
                             {"attention": json.dumps({"kernel": "reference", **options})})
    return raw.post(body).replace(b"application/json", SAFETENSORS_TYPE.encode())


def terminate(daemon):
    daemon.process.send_signal(signal.SIGTERM)


def events(text):
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line["event"] for line in lines if line["event"] != "request"]


def test_start_and_stop_are_said():
    with Daemon() as daemon:
        url = f"http://127.0.0.1:{daemon.port}"
        text = daemon.output()
        assert events(text) == ["listening"]
        curl = next(line for line in text.splitlines() if line.strip().startswith("curl"))
        answer = subprocess.run(curl, shell=True, capture_output=True, check=True)
        assert "weights" in json.loads(answer.stdout)
        assert f"{url}/openapi.yaml" in text
        terminate(daemon)
        assert daemon.process.wait(20) == 0
        assert events(daemon.output()) == ["listening", "stopping", "stopped"]


@pytest.mark.parametrize("host", ("0.0.0.0", "[::]"))
def test_who_listens_everywhere_is_asked_at_localhost(host):
    with Daemon("--insecure", host=host) as daemon:
        text = daemon.output()
        address = f"http://localhost:{daemon.port}"
        curl = next(line for line in text.splitlines() if line.strip().startswith("curl"))
        assert f"on http://{host}:{daemon.port}\n" in text and f"dashboard   {address}/\n" in text
        answer = subprocess.run(curl, shell=True, capture_output=True, check=True)
        assert address in curl and "weights" in json.loads(answer.stdout)


def test_the_greeting_is_in_one_piece_on_a_terminal():
    ours, its = os.openpty()
    process = subprocess.Popen([BINARY, "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"],
                               stdout=its, stderr=its, env=environment())
    text = b""
    while b"curl" not in text:
        text += os.read(ours, 4096)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    kinds = [line.startswith(b"{") for line in text.splitlines()]
    assert kinds[:2] == [True, True] and not any(kinds[2:])
    os.close(ours)
    os.close(its)


def test_what_is_computed_is_answered():
    with Daemon("--threads", "1", "--drain-timeout", "10m") as daemon, \
            raw.Connection(daemon.port, 120) as connection:
        connection.send(slow(3584))
        raw.until(lambda: raw.samples(daemon.client)["attention_in_flight_bytes"] > 0)
        time.sleep(0.1)
        terminate(daemon)
        answer = connection.answer()
        assert (answer.status, answer.closes) == (200, True)
        assert connection.ended()
        assert daemon.process.wait(20) == 0


def test_lame_duck():
    with Daemon("--lame-duck", "1s") as daemon, raw.Connection(daemon.port) as connection:
        assert connection.ask(raw.get("/readyz")).status == 200
        terminate(daemon)
        raw.until(lambda: daemon.client.get("/readyz").status == 503)
        with raw.Connection(daemon.port) as probe:
            answer = probe.ask(raw.get("/readyz"))
            assert (answer.status, answer.problem, answer.closes) == (503, "shutting-down", True)
            assert answer.headers["retry-after"] == "1"
        with raw.Connection(daemon.port) as another:
            answer = another.ask(raw.post())
            assert (answer.status, answer.closes) == (200, True)
        assert daemon.process.wait(20) == 0


def test_a_connection_brings_one_more_call_while_draining():
    with Daemon("--threads", "1", "--drain-timeout", "10m") as daemon, \
            raw.Connection(daemon.port, 120) as busy, \
            raw.Connection(daemon.port) as idle, raw.Connection(daemon.port) as fresh:
        assert idle.ask(raw.get()).status == 200
        busy.send(slow(3584))
        raw.until(lambda: raw.samples(daemon.client)["attention_in_flight_bytes"] > 0)
        time.sleep(0.1)
        terminate(daemon)
        time.sleep(0.2)
        for connection in (idle, fresh):
            answer = connection.ask(raw.post())
            assert (answer.status, answer.closes) == (200, True)
            assert connection.ended()
        with pytest.raises(OSError):
            raw.Connection(daemon.port)
        assert busy.answer().status == 200
        assert daemon.process.wait(20) == 0


@pytest.mark.parametrize("hurry", ("deadline", "second signal"))
def test_calls_that_do_not_end_are_cut(hurry):
    patience = "300ms" if hurry == "deadline" else "60s"
    with Daemon("--threads", "1", "--drain-timeout", patience) as daemon, \
            raw.Connection(daemon.port, 60) as connection:
        connection.send(slow(24576))
        raw.until(lambda: raw.samples(daemon.client)["attention_in_flight_bytes"] > 0)
        time.sleep(0.1)
        begin = time.monotonic()
        terminate(daemon)
        if hurry == "second signal":
            time.sleep(0.3)
            terminate(daemon)
        answer = connection.answer()
        assert (answer.status, answer.problem) == (503, "shutting-down")
        assert daemon.process.wait(20) == 0
        assert time.monotonic() - begin < 10


class Asker(threading.Thread):
    """Asks on one connection until it is closed; an answer that does not come is a loss."""

    def __init__(self, port):
        super().__init__()
        self.connection, self.answered, self.lost = raw.Connection(port), 0, None

    def run(self):
        try:
            while True:
                answer = self.connection.ask(raw.post())
                if answer is None:
                    self.lost = "no answer"
                    return
                if answer.status != 200:
                    self.lost = answer.status
                    return
                self.answered += 1
                if answer.closes:
                    return
        except OSError as error:
            self.lost = repr(error)


def test_no_request_is_lost_under_load():
    for _ in range(5):
        with Daemon("--log", "off") as daemon:
            askers = [Asker(daemon.port) for _ in range(16)]
            for asker in askers:
                asker.start()
            time.sleep(0.3)
            terminate(daemon)
            for asker in askers:
                asker.join(20)
            assert [asker.lost for asker in askers] == [None] * len(askers)
            assert all(asker.answered > 0 for asker in askers)
            assert daemon.process.wait(20) == 0


def run(*arguments):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, check=False,
                          env=environment(), timeout=60)


def test_what_it_says_at_the_start_can_be_pasted():
    """Every address that it names answers, and the call that it offers to try."""
    with Daemon() as daemon:
        said = daemon.output()
        addresses = re.findall(r"http://127\.0\.0\.1:\d+(/\S+?)(?:,|$)", said, flags=re.M)
        assert {"/v1", "/docs", "/openapi.yaml", "/metrics"} <= set(addresses)
        for address in addresses:
            assert daemon.client.get(address).status == 200, address
        tried = subprocess.run(["bash", "-c", said.split("Try it:\n")[1].splitlines()[0]],
                               capture_output=True, check=True, timeout=60)
        assert list(json.loads(tried.stdout)) == ["output", "weights", "meta"]


def test_a_taken_port():
    with Daemon() as daemon:
        ended = run("--listen", f"127.0.0.1:{daemon.port}")
        assert ended.returncode == 1
        assert f"127.0.0.1 port {daemon.port}" in ended.stderr
        assert "with --listen" in ended.stderr


def test_an_address_of_another_machine():
    """No other port mends that, so none is advised."""
    ended = run("--listen", "192.0.2.1:8080", "--insecure")
    assert ended.returncode == 1
    assert "192.0.2.1 port 8080" in ended.stderr
    assert "another port" not in ended.stderr
    assert "0.0.0.0 is every IPv4 address" in ended.stderr


def test_a_port_of_the_privileged():
    """As somebody who is not root, and only where the system keeps low ports back at all."""
    first_free = int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text())
    if first_free <= 1:
        pytest.skip("this system keeps no port back")
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(shutil.copy(BINARY, folder))
        Path(folder).chmod(0o755)
        who = {"user": 65534} if os.geteuid() == 0 else {}
        ended = subprocess.run([binary, "--listen", "127.0.0.1:1"], capture_output=True, text=True,
                               check=False, env=environment(), timeout=60, **who)
    assert ended.returncode == 1
    assert "Permission denied; ports below 1024 take a privilege: name a higher" in ended.stderr


@pytest.mark.parametrize("arguments, words", (
    (("--threads", "many"), "many"),
    (("--kernel", "quantum"), '"quantum" on this machine; there are '),
    (("--kernel", "quantum"), "blas, reference"),
    (("--no-such-option",), "no-such-option"),
))
def test_a_refused_configuration(arguments, words):
    ended = run("--listen", f"127.0.0.1:{free_port()}", *arguments)
    assert ended.returncode == 2
    assert words in ended.stderr
    assert ended.stdout == ""


def test_many_signals_at_once():
    """Only the exit code of a drain, whichever thread a signal comes to."""
    for _ in range(5):
        with Daemon("--log", "off") as daemon:
            for _ in range(3):
                terminate(daemon)
            assert daemon.process.wait(20) == 0


def test_version_and_check():
    said = run("--version").stdout.splitlines()
    assert [line.split()[0] for line in said] == ["attentiond", "commit", "kernels", "OpenBLAS"]
    assert said[2].endswith("reference")
    checked = run("--check-config", "--threads", "3")
    assert (checked.returncode, "threads = 3" in checked.stdout) == (0, True)


def test_the_access_log():
    with Daemon() as daemon:
        with raw.Connection(daemon.port) as connection:
            trace = "0af7651916cd43dd8448eb211c80319c"
            connection.ask(raw.post(raw.BODY, "X-Request-Id: logged",
                                    f"traceparent: 00-{trace}-b7ad6b7169203331-01"))
            connection.ask(raw.get('/"quoted"\\?secret=1', "X-Request-Id: odd"))
        raw.until(lambda: '"odd"' in daemon.output())
        lines = {line.get("id"): line for line in
                 map(json.loads, daemon.output().splitlines()[8:])}
        call, odd = lines["logged"], lines["odd"]
        assert (call["status"], call["method"], call["path"]) == (200, "POST", "/v1/attention")
        assert (call["trace_id"], call["remote"], call["whole"]) == (trace, "127.0.0.1", True)
        assert call["body_bytes"] == len(raw.BODY)
        assert {"ms", "read_ms", "decode_ms", "compute_ms", "encode_ms", "write_ms"} <= set(call)
        assert (odd["path"], odd["status"], odd["problem"]) == ('/"quoted"\\', 404, "not-found")
        assert "secret" not in daemon.output()


def test_the_log_may_be_errors_alone():
    with Daemon("--log", "errors") as daemon:
        with raw.Connection(daemon.port) as connection:
            connection.ask(raw.post(raw.BODY, "X-Request-Id: good"))
            connection.ask(raw.post(b"{", "X-Request-Id: bad"))
        raw.until(lambda: '"bad"' in daemon.output())
        assert '"good"' not in daemon.output()

# SPDX-License-Identifier: Apache-2.0
"""Start and stop: what the process says and returns, and that SIGTERM loses no request."""
import json
import signal
import subprocess
import threading
import time

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


def test_new_calls_are_refused_while_draining():
    with Daemon("--threads", "1", "--drain-timeout", "10m") as daemon, \
            raw.Connection(daemon.port, 120) as busy, \
            raw.Connection(daemon.port) as idle:
        assert idle.ask(raw.get()).status == 200
        busy.send(slow(3584))
        raw.until(lambda: raw.samples(daemon.client)["attention_in_flight_bytes"] > 0)
        time.sleep(0.1)
        terminate(daemon)
        time.sleep(0.2)
        answer = idle.ask(raw.post())
        assert (answer.status, answer.problem, answer.closes) == (503, "shutting-down", True)
        assert answer.headers["retry-after"] == "1"
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
                if answer.status not in (200, 503):
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


def test_a_taken_port():
    with Daemon() as daemon:
        ended = run("--listen", f"127.0.0.1:{daemon.port}")
        assert ended.returncode == 1
        assert f"127.0.0.1 port {daemon.port}" in ended.stderr
        assert "with --listen" in ended.stderr


def test_an_address_of_another_machine():
    """No other port mends that, so none is advised."""
    ended = run("--listen", "192.0.2.1:8080")
    assert ended.returncode == 1
    assert "192.0.2.1 port 8080" in ended.stderr
    assert "another port" not in ended.stderr


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
    assert run("--version").stdout.startswith("attentiond ")
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
                 map(json.loads, daemon.output().splitlines()[7:])}
        call, odd = lines["logged"], lines["odd"]
        assert (call["status"], call["method"], call["path"]) == (200, "POST", "/v1/attention")
        assert (call["trace"], call["remote"], call["whole"]) == (trace, "127.0.0.1", True)
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

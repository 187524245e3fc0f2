# SPDX-License-Identifier: Apache-2.0
"""More calls than the workers can compute or the memory can hold: what is refused and when, and who
is answered all the same."""
import json
import threading
import time

import pytest
from support import raw
from support.client import JSON_TYPE
from support.daemon import Daemon
from support.sentences import faults
from support.slow import rest, settled, slow


def test_the_queue_is_bounded():
    with Daemon("--threads", "1", "--inline-microseconds", "0", "--queue-limit", "1") as daemon:
        connections = [raw.Connection(daemon.port, 60) for _ in range(4)]
        for number, connection in enumerate(connections):
            connection.send(slow(timeout_ms=2500))
            if number == 0:
                raw.until(lambda: raw.samples(daemon.client)["attention_queue_depth"] == 0 and
                          raw.samples(daemon.client)["attention_in_flight_bytes"] > 0)
                time.sleep(0.3)
        answers = [connection.answer() for connection in connections]
        assert sorted({answer.status for answer in answers}) == [503, 504]
        for answer in answers:
            if answer.status == 503:
                assert (answer.problem, answer.headers["retry-after"]) == ("overloaded", "1")
                problem = json.loads(answer.body)
                assert (problem["limit"], faults(problem["detail"])) == (1, [])
        assert raw.samples(daemon.client)['attention_rejections_total{reason="overloaded"}'] >= 1
        rest(daemon)


def test_work_ahead_is_bounded():
    """The worker's speed is known by then: what finds too much ahead of it is refused before its
    body is asked for, what is short is not."""
    with Daemon("--threads", "1", "--inline-microseconds", "0", "--queue-work", "300ms") as daemon:
        with raw.Connection(daemon.port, 60) as connection:
            assert connection.ask(slow(1024)).status == 200
        with raw.Connection(daemon.port, 60) as first, raw.Connection(daemon.port, 60) as second, \
                raw.Connection(daemon.port, 60) as third:
            first.send(slow(16384, timeout_ms=8000))
            raw.until(lambda: raw.samples(daemon.client)["attention_backlog_seconds"] > 4)
            head = slow(16384).split(b"\r\n\r\n")[0]
            answer = second.ask(head + b"\r\nExpect: 100-continue\r\n\r\n")
            settled(answer, 503, "overloaded")
            assert int(answer.headers["retry-after"]) > 2
            assert faults(json.loads(answer.body)["detail"]) == []
            assert raw.samples(daemon.client)["attention_shedding"] == 1
            raw.until(lambda: third.ask(raw.post()).status == 200)
            settled(first.answer(), 504, "deadline-exceeded")
        rest(daemon)


def test_waiting_has_its_own_limit():
    with Daemon("--threads", "1", "--inline-microseconds", "0",
                "--queue-timeout", "300ms") as daemon:
        with raw.Connection(daemon.port, 60) as first, raw.Connection(daemon.port, 60) as second:
            first.send(slow(12288, timeout_ms=4000))
            time.sleep(0.5)
            settled(second.ask(slow(12288, timeout_ms=60000)), 503, "overloaded")
        rest(daemon)


OPS = ("/healthz", "/readyz", "/metrics", "/v2/health/live", "/v2/health/ready")


@pytest.fixture(scope="module")
def full():
    """All of the memory is taken by a body that does not come to its end, and the only place in the
    queue by a call that waits for its share of it."""
    budget = ("--memory-budget", "4MiB", "--max-body", "4MiB", "--json-max-body", "4MiB",
              "--max-result", "4MiB", "--queue-limit", "1", "--queue-timeout", "0")
    with Daemon(*budget) as daemon:
        with raw.Connection(daemon.port, 60) as first, raw.Connection(daemon.port, 60) as second:
            first.send(raw.post(b" " * (4 << 20))[:1000])
            raw.until(lambda: raw.samples(daemon.client)["attention_in_flight_bytes"] == 4 << 20)
            second.send(raw.post())
            raw.until(lambda: raw.samples(daemon.client)["attention_queue_depth"] == 1)
            yield daemon
        rest(daemon)


def test_calls_are_refused_when_all_is_taken(full):
    with raw.Connection(full.port) as connection:
        settled(connection.ask(raw.post()), 503, "overloaded")


@pytest.mark.parametrize("path", OPS)
def test_operators_are_answered_when_all_is_taken(path, full):
    begin = time.monotonic()
    assert full.client.get(path).status == 200
    assert time.monotonic() - begin < 1


@pytest.mark.parametrize("action", ("index", "models/attention/load", "models/attention/unload"))
def test_what_is_kept_answers_when_all_is_taken(action, full):
    """A body of a route that may use what is kept beyond the budget."""
    answer = full.client.send("POST", f"/v2/repository/{action}", b"{}",
                              {"Content-Type": JSON_TYPE})
    assert answer.status == 200


class Callers:
    """So many that ask again as soon as they are answered or refused; they end with the block."""

    def __init__(self, daemon, count):
        self.daemon, self.statuses, self.stop = daemon, [], threading.Event()
        self.threads = [threading.Thread(target=self.call) for _ in range(count)]

    def call(self):
        with raw.Connection(self.daemon.port, 60) as connection:
            while not self.stop.is_set():
                self.statuses.append(connection.ask(slow(320)).status)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def test_operators_are_answered_in_time_under_load():
    """Beside callers that keep asking for more than there is."""
    with Daemon("--threads", "1", "--queue-limit", "8") as daemon:
        with Callers(daemon, 24) as callers:
            raw.until(lambda: 503 in callers.statuses, 20)
            took = []
            for number in range(60):
                begin = time.monotonic()
                assert daemon.client.get(OPS[number % len(OPS)]).status == 200
                took.append(time.monotonic() - begin)
        assert sorted(took)[-3] < 0.5, took
        rest(daemon)


def shedding(daemon):
    return raw.samples(daemon.client)["attention_shedding"]


def depth(daemon):
    return raw.samples(daemon.client)["attention_queue_depth"]


def test_lasting_overload_shortens_the_queue():
    """The limit is 40 calls; as long as some have to be refused there are fewer, and the worker has
    enough to do. Afterwards as many are let in as before."""
    patience = ("--queue-work", "10m", "--queue-timeout", "2m")
    with Daemon("--threads", "1", "--queue-limit", "40", *patience) as daemon:
        with Callers(daemon, 60) as callers:
            raw.until(lambda: shedding(daemon) == 1, 20)
            raw.until(lambda: depth(daemon) < 20, 30)  # who waits since before has been refused
            callers.statuses.clear()
            depths = [depth(daemon) for _ in range(20)]
            raw.until(lambda: callers.statuses.count(200) > 3, 20)
        assert max(depths) < 20, depths
        assert set(callers.statuses) == {200, 503}
        rest(daemon)
        raw.until(lambda: shedding(daemon) == 0, 5)
        with Callers(daemon, 30) as callers:
            raw.until(lambda: len(callers.statuses) > 30, 120)
        assert set(callers.statuses) == {200}
        rest(daemon)

# SPDX-License-Identifier: Apache-2.0
"""What a connection has, and what a thread does between the requests of one."""
import json
import resource
import subprocess
import time

import pytest
from support import raw
from support.daemon import BINARY, Daemon, bound, environment, free_port


@pytest.mark.parametrize("memory, fits, does_not", [
    ("32KiB", 12_000, 40_000), ("128KiB", 60_000, 140_000), ("1MiB", 400_000, 1_100_000)])
def test_a_head_has_the_memory_of_its_connection(memory, fits, does_not):
    with Daemon("--connection-memory", memory) as daemon:
        for length, status in ((fits, 200), (does_not, 431), (fits, 200)):
            with raw.Connection(daemon.port) as connection:
                answer = connection.ask(raw.post(raw.BODY, "X-Long: " + "a" * length))
                assert answer.status == status


def trailed(length):
    head = raw.post(raw.BODY, "Transfer-Encoding: chunked").split(b"\r\n\r\n", 1)[0]
    head = head.replace(b"Content-Length: %d\r\n" % len(raw.BODY), b"")
    return head + b"\r\n\r\n%x\r\n" % len(raw.BODY) + raw.BODY + b"\r\n0\r\nX: " + \
        b"a" * length + b"\r\n\r\n"


@pytest.mark.parametrize("make, lengths", [
    (lambda n: raw.get("/v1", "X: " + "a" * n), range(26_000, 33_000, 60)),
    (lambda n: raw.post(raw.BODY, "X: " + "a" * n), range(26_000, 33_000, 60)),
    (lambda n: raw.get("/v1", *["X:"] * n), range(300, 500, 2)),
    (lambda n: raw.get("/v1", "Cookie: a=" + "b" * n), range(13_000, 17_000, 40)),
    (lambda n: raw.get("/v1", "Cookie: " + "a=b; " * n), range(200, 450, 3)),
    (trailed, range(26_000, 33_000, 60)),
], ids=["GET", "POST", "many", "cookie", "cookies", "trailer"])
def test_a_head_that_just_fits_is_answered(make, lengths):
    """Where it leaves no room for the answer's own head that is said, and nothing is computed."""
    statuses, problems, calls = [], set(), 0
    with Daemon("--connection-memory", "32KiB", "--log", "off") as daemon:
        for length in lengths:
            with raw.Connection(daemon.port) as connection:
                answer = connection.ask(make(length))
                assert answer is not None, f"no answer at {length}"
                statuses.append(answer.status)
                problems.add(answer.problem)
                calls += answer.status == 200 and b'"output"' in answer.body
        samples = raw.samples(daemon.client)
    assert statuses == sorted(statuses) and set(statuses) == {200, 431}
    assert problems <= {None, "head-too-large"} and "head-too-large" in problems
    kernels = [name for name in samples if name.startswith("attention_kernel_calls_total")]
    assert sum(samples[name] for name in kernels) == calls


@pytest.mark.parametrize("memory", ["32KiB", "1MiB"])
def test_bodies_are_read_whole_through_any_memory(memory):
    with Daemon("--connection-memory", memory) as daemon, raw.Connection(daemon.port) as connection:
        for queries in (1, 2_500, 12_000, 90_000, 400_000):
            body = raw.BODY.replace(b"[[1,0],[0,1]]", b"[" + b"[1,0]," * queries + b"[0,1]]", 1)
            answer = connection.ask(raw.post(body))
            assert answer.status == 200
            rows = json.loads(answer.body)["output"]
            assert len(rows) == queries + 1 and rows[0] == rows[-2] != rows[-1]


def test_a_thread_sleeps_after_a_dialogue():
    """It waits awake for the next request of one client, for as long as it may come at once."""
    with Daemon("--log", "off") as daemon, raw.Connection(daemon.port) as connection:
        for _ in range(2000):
            assert connection.ask(raw.post()).status == 200
        before = raw.samples(daemon.client)["process_cpu_seconds_total"]
        time.sleep(2)
        after = raw.samples(daemon.client)["process_cpu_seconds_total"]
        assert after - before < 0.3


def allow(descriptors):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))


def test_no_start_without_descriptors_for_connections():
    """With each number that it takes, it says what it lacks and ends, or answers."""
    ended = 0
    for descriptors in range(6, 28):
        port = free_port()
        with subprocess.Popen(bound([BINARY, "--listen", f"127.0.0.1:{port}", "--log", "off"]),
                              stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(),
                              preexec_fn=allow(descriptors)) as process:
            if process.stdout.readline() == b"":
                said = process.stderr.read().decode()
                assert process.wait() == 1 and said.startswith("attentiond: "), said
                ended = descriptors
                if descriptors > 9:
                    assert f"allows {descriptors} descriptors" in said and "ulimit -n" in said
                continue
            try:
                with raw.Connection(port, 5) as one, raw.Connection(port, 5) as another:
                    assert one.ask(raw.get()).status == another.ask(raw.post()).status == 200
            finally:
                process.terminate()
            assert process.wait() == 0
    assert 10 < ended < 27

# SPDX-License-Identifier: Apache-2.0
"""What a connection has, and what a thread does between the requests of one."""
import json
import time

import pytest
from support import raw
from support.daemon import Daemon


@pytest.mark.parametrize("memory, fits, does_not", [
    ("32KiB", 12_000, 40_000), ("128KiB", 60_000, 140_000), ("1MiB", 400_000, 1_100_000)])
def test_a_head_has_the_memory_of_its_connection(memory, fits, does_not):
    with Daemon("--connection-memory", memory) as daemon:
        for length, status in ((fits, 200), (does_not, 431), (fits, 200)):
            with raw.Connection(daemon.port) as connection:
                answer = connection.ask(raw.post(raw.BODY, "X-Long: " + "a" * length))
                assert answer.status == status


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

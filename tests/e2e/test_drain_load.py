# SPDX-License-Identifier: Apache-2.0
"""SIGTERM under four fifths of the load that a daemon can take, again and again: every request of
which it has received the head - those are in its log - is answered whole, and it ends with 0 before
its deadline. DRAINS=100 makes it so many."""
import json
import os
import random
import signal
import threading
import time

from stress import calls
from support import raw
from support.daemon import Daemon

DRAINS = int(os.environ.get("DRAINS", "5"))
CLIENTS = 16
SHARE = 0.8
DEADLINE = 30  # seconds, --drain-timeout's default
CALL = calls.tensors(160, options={"kernel": "reference"}, name="some milliseconds")


class Asker(threading.Thread):
    """Asks at its times, over one connection or one for each call, until the daemon has gone."""

    def __init__(self, port, number, period=0):
        super().__init__()
        self.port, self.number, self.period = port, number, period
        self.stays, self.over, self.connection = number % 2 == 0, threading.Event(), None
        self.sent, self.answered, self.refused, self.seconds = [], set(), [], 0

    def ask(self, ident):
        if self.connection is None:
            self.connection = raw.Connection(self.port)
        self.sent.append(ident)
        answer = self.connection.ask(CALL.bytes(f"X-Request-Id: {ident}"))
        if answer is None:
            raise ConnectionError("closed")
        if answer.status == 200:
            CALL.judge(answer.status, answer.headers, answer.body)
            self.answered.add(ident)
        else:
            self.refused.append((answer.status, answer.body))
        if answer.closes or not self.stays:
            self.drop()

    def drop(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def run(self):
        begin = time.monotonic() + random.random() * self.period
        for count in range(1 << 30):
            time.sleep(max(0, begin + count * self.period - time.monotonic()))
            if self.over.is_set():
                break
            try:
                self.ask(f"{self.number}-{count}")
            except (OSError, AssertionError):
                self.drop()  # whether it was lost, the log knows
        self.drop()


def load(port, period):
    askers = [Asker(port, number, period) for number in range(CLIENTS)]
    for asker in askers:
        asker.start()
    return askers


def end(askers):
    for asker in askers:
        asker.over.set()
    for asker in askers:
        asker.join()


def capacity():
    """Calls a second, of as many clients as are used later."""
    with Daemon("--log", "off") as daemon:
        askers = load(daemon.port, 0)
        time.sleep(1)
        counted = sum(len(asker.answered) for asker in askers)
        time.sleep(1)
        counted = sum(len(asker.answered) for asker in askers) - counted
        end(askers)
    return counted


def received(daemon):
    """{id: status} of the calls that the daemon knows of."""
    lines = [json.loads(line) for line in daemon.output().splitlines() if line.startswith("{")]
    return {line["id"]: line["status"] for line in lines if line["event"] == "request"}


def drain(rate, generator):
    """(calls answered, calls that were sent to a connection that was already being closed, seconds
    from the signal to the end)"""
    daemon = Daemon().wait_until_ready()
    daemon.client.close()
    askers = load(daemon.port, CLIENTS / (SHARE * rate))
    time.sleep(generator.uniform(0.3, 1))
    begin = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    code = daemon.process.wait(2 * DEADLINE)
    took = time.monotonic() - begin
    end(askers)
    known = received(daemon)
    daemon.log.close()
    answered = set().union(*(asker.answered for asker in askers))
    sent = {ident for asker in askers for ident in asker.sent}
    assert code == 0 and took < DEADLINE
    assert [found for asker in askers for found in asker.refused] == []
    lost = {ident: status for ident, status in known.items()
            if ident in sent and ident not in answered}
    assert lost == {}
    assert answered
    return len(answered), len(sent - answered), took


def test_no_request_that_has_come_is_lost():
    rate, generator = capacity(), random.Random(1)
    found = [drain(rate, generator) for _ in range(DRAINS)]
    print(f"\n{DRAINS} times SIGTERM at {SHARE * rate:.0f} of {rate} calls a second: "
          f"{sum(count for count, _, _ in found)} calls answered, none lost, "
          f"{sum(count for _, count, _ in found)} sent to connections that had ended; "
          f"the longest took {max(took for _, _, took in found):.2f} s to end")

# SPDX-License-Identifier: Apache-2.0
"""Calls that fail while the key file is read again: the old keys go on, and the next time it is
read."""
import collections
import errno
import random
import signal
import time

from support import raw

from torture.faults import Fault, Wrong
from torture.page import SHORT, Kind
from torture.victim import ANSWER_SECONDS, Victim

NAME = "reload"
EVENTS = ('"event":"reload"', '"event":"reload failed"')
FAULTS = [Fault("reload: no memory", Kind.MEMORY, errno.ENOMEM),
          Fault("reload: open EMFILE", Kind.OPEN, errno.EMFILE),
          Fault("reload: read EIO", Kind.READ, errno.EIO, (False,)),
          Fault("reload: read EINTR", Kind.READ, errno.EINTR, (False,)),
          Fault("reload: read one byte", Kind.READ, SHORT, (False,))]


SILENT_SECONDS = 0.1  # without memory there may be no line of the log either


def reload(victim):
    """Waits until it was tried, which the log says when it can."""
    before, begin = victim.daemon.output(), time.monotonic()
    victim.process.send_signal(signal.SIGHUP)
    while True:
        said = victim.daemon.output()[len(before):]
        if any(event in said for event in EVENTS):
            return
        victim.assert_alive()
        if victim.page.failed > 0 and time.monotonic() > begin + SILENT_SECONDS:
            return
        assert time.monotonic() < begin + ANSWER_SECONDS, "the file was not read again"
        time.sleep(0.001)


def has_read(victim):
    return victim.samples()["attention_config_last_reload_successful"] == 1


def play(victim, exchange, fault, number, persists):
    """The word for how it went."""
    victim.page.arm(fault.kinds, fault.error, number, persists)
    reload(victim)
    victim.page.disarm()
    read = has_read(victim)
    assert read or victim.page.failed > 0, "it was not read, though nothing failed"
    connection, answer = victim.ask(exchange)
    assert victim.is_usual(exchange, answer), "the keys are not those of before"
    victim.page.shared.failed = 0
    reload(victim)
    assert has_read(victim), "the file is not read again"
    victim.judge_health(exchange, connection, answer, False)
    return "read" if read else "old keys kept"


def count(victim, fault):
    victim.page.arm(fault.kinds, fault.error, 0)
    reload(victim)
    victim.page.disarm()
    return victim.page.counted


def play_change(folder, report):
    """The file changes while it cannot be opened, and counts as soon as it can be."""
    with Victim("keys", folder, "--reload-interval", "100ms") as victim:
        fault, ask = FAULTS[1], raw.get("/v1", f"Authorization: Bearer {victim.key}")
        victim.page.arm(fault.kinds, fault.error, 1, True)
        victim.keys.lines.clear()
        another = victim.keys.add("bob", "infer")
        raw.until(lambda: EVENTS[1] in victim.daemon.output())
        victim.page.disarm()
        with raw.Connection(victim.port) as connection:
            connection.ask(ask)
            raw.until(lambda: connection.ask(ask).status == 401, 5)
            ask = raw.get("/v1", f"Authorization: Bearer {another}")
            assert connection.ask(ask).status == 200
    report.add(NAME, fault, {"read later": 1}, 0)


def torture(victim, exchange, share, seed, report):
    generator = random.Random(seed)
    for fault in FAULTS:
        begin, outcomes = time.monotonic(), collections.Counter()
        cases = [(number, persists) for number in range(1, count(victim, fault) + 1)
                 for persists in fault.modes]
        for number, persists in generator.sample(cases, max(1, round(share * len(cases)))):
            try:
                word = play(victim, exchange, fault, number, persists)
            except AssertionError as failure:
                victim.page.disarm()
                report(Wrong(NAME, fault, number, persists, victim.page.frames(), failure))
                word = "wrong"
            outcomes[word] += 1
        report.add(NAME, fault, outcomes, time.monotonic() - begin)

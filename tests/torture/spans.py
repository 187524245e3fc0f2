# SPDX-License-Identifier: Apache-2.0
"""Calls that fail while a traced request is answered and its spans are made and sent by libcurl:
the request is answered as any other, its spans are sent or counted as dropped, and later ones are
sent whole."""
import collections
import errno
import random
import time

from support import raw
from support.collector import Collector

from torture.exchanges import post
from torture.faults import MEMORY, Fault, Wrong, judge, may_close
from torture.page import Kind
from torture.victim import ANSWER_SECONDS, Stuck, Victim

NAME = "spans"
FAULTS = [MEMORY,
          Fault("spans: socket ENFILE", Kind.SOCKET, errno.ENFILE),
          Fault("spans: send EPIPE", Kind.SEND, errno.EPIPE),
          Fault("spans: receive ECONNRESET", Kind.RECEIVE, errno.ECONNRESET),
          Fault("spans: poll ENOMEM", Kind.POLL, errno.ENOMEM, (False,))]
TRACED = post("a traced call", raw.BODY, f"traceparent: 00-{'7a' * 16}-{'b3' * 8}-01")
SENT, DROPPED = "attention_trace_spans_sent_total", "attention_trace_spans_dropped_total"
SPANS = 7  # of such a call
QUIET_SECONDS = 0.1
GATHER_SECONDS = 0.5  # the sender's wait for more spans to send with the first


def accounted(victim):
    samples = victim.samples()
    return samples[SENT] + samples[DROPPED]


def wait_for_sender(victim):
    """Until it has done what it does, by the calls that it makes: asking would be one more."""
    time.sleep(GATHER_SECONDS)
    deadline, seen, since = time.monotonic() + 3, victim.page.counted, time.monotonic()
    while time.monotonic() < min(deadline, since + QUIET_SECONDS):
        time.sleep(0.005)
        if victim.page.counted != seen:
            seen, since = victim.page.counted, time.monotonic()


def trace(victim, fault, number, persists=False):
    """(connection, answer) of a traced call, of which that call of the C library failed; of those
    that move bytes only the sender's own."""
    time.sleep(0.01)  # the last request is logged
    victim.page.arm(fault.kinds if fault is MEMORY else Kind(0), fault.error, number, persists)
    connection, answer = victim.ask(TRACED)
    victim.page.shared.kinds = fault.kinds
    wait_for_sender(victim)
    victim.page.disarm()
    return connection, answer


def play(victim, fault, number, persists):
    """The word for how it went."""
    before = accounted(victim)
    connection, answer = trace(victim, fault, number, persists)
    word = judge(victim, TRACED, fault, persists, answer)
    if word == "as always":
        raw.until(lambda: accounted(victim) == before + SPANS, ANSWER_SECONDS)
        dropped, victim.dropped = victim.dropped, victim.samples()[DROPPED]
        word = "sent" if victim.dropped == dropped else "dropped"
    sent = victim.samples()[SENT]
    victim.judge_health(TRACED, connection, answer, may_close(victim, TRACED, fault, persists))
    raw.until(lambda: victim.samples()[SENT] >= sent + SPANS, ANSWER_SECONDS)
    victim.dropped = victim.samples()[DROPPED]
    return word


def play_one(victim, fault, number, persists):
    try:
        return play(victim, fault, number, persists)
    except (Stuck, AssertionError) as failure:
        victim.page.disarm()
        raise Wrong(NAME, fault, number, persists, victim.page.frames(), failure) from None


def assert_sent_whole(victim, collector):
    """A call is traced as ever; what is counted as sent has come, and nothing that is broken."""
    name, sent = "after-all", victim.samples()[SENT]
    with raw.Connection(victim.port) as connection:
        connection.ask(TRACED.sent.replace(b"\r\n", f"\r\nX-Request-Id: {name}\r\n".encode(), 1))
    raw.until(lambda: collector.of(name) is not None and victim.samples()[SENT] == sent + SPANS)
    assert len(collector.of(name)[1]) == SPANS - 1
    # An answer that was lost is for the daemon as one that was never given.
    assert len(collector.spans()) >= victim.samples()[SENT], "not all came that was sent"
    assert not collector.broken, collector.broken


def count(victim, fault):
    """How many such calls there are when none fails."""
    connection, _ = trace(victim, fault, 0)
    connection.close()
    return victim.page.counted


def torture(folder, share, seed, report):
    """That share of all, or where it is a part a third of it: each takes a second."""
    generator = random.Random(f"{seed} {NAME}")
    outcomes, seconds = collections.defaultdict(collections.Counter), collections.Counter()
    share = share if share == 1 else share / 3
    with Collector() as collector, \
            Victim("traced", folder, "--otlp-endpoint", collector.url,
                   "--otlp-sample", "0") as victim:
        victim.learn([TRACED])
        raw.until(lambda: victim.samples()[SENT] >= 2 * SPANS)
        trace(victim, MEMORY, 0)[0].close()
        time.sleep(0.2)  # the connection is closed here too
        victim.blocks, victim.files = victim.page.live, victim.open_files()
        victim.dropped = victim.samples()[DROPPED]
        cases = [(fault, number, persists) for fault in FAULTS for persists in fault.modes
                 for number in range(1, count(victim, fault) + 1)]
        for fault, number, persists in generator.sample(cases, round(share * len(cases))):
            begin = time.monotonic()
            try:
                outcomes[fault][play_one(victim, fault, number, persists)] += 1
            except Wrong as wrong:
                report(wrong)
            seconds[fault] += time.monotonic() - begin
        assert_sent_whole(victim, collector)
    for fault, words in outcomes.items():
        report.add(NAME, fault, words, seconds[fault])

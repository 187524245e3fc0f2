# SPDX-License-Identifier: Apache-2.0
"""What fails while a request is served, and how the request may then end."""
import collections
import errno
from dataclasses import dataclass

from torture import captures
from torture.page import SHORT, Kind
from torture.victim import HELPLESS, Stuck, is_of, is_out_of_memory

# Where these have no memory they close the connection, or answer themselves.
TRANSPORT = ("libmicrohttpd", "libgnutls")


@dataclass(frozen=True)
class Fault:
    name: str
    kinds: Kind
    error: int
    modes: tuple = (False, True)   # whether it persists
    may_close: bool = False        # the connection may end without an answer


MEMORY = Fault("no memory", Kind.MEMORY, errno.ENOMEM)
# Bytes of sockets are not cut short: whoever gets less than asked for waits for the socket to have
# more, which it has already. What is tried again at once would be tried for ever.
ONCE = (False,)
OTHERS = [
    *(Fault(f"accept {errno.errorcode[code]}", Kind.ACCEPT, code, ONCE)
      for code in (errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.ENOMEM, errno.EINTR)),
    Fault("receive EINTR", Kind.RECEIVE, errno.EINTR, ONCE),
    Fault("receive ECONNRESET", Kind.RECEIVE, errno.ECONNRESET, may_close=True),
    Fault("send EINTR", Kind.SEND, errno.EINTR, ONCE),
    Fault("send EPIPE", Kind.SEND, errno.EPIPE, may_close=True),
    Fault("read EINTR", Kind.READ, errno.EINTR, ONCE),
    Fault("write EINTR", Kind.WRITE, errno.EINTR, ONCE),
    Fault("write ENOSPC", Kind.WRITE, errno.ENOSPC),
    Fault("write one byte", Kind.WRITE, SHORT),
    Fault("open EMFILE", Kind.OPEN, errno.EMFILE),
    Fault("epoll ENOSPC", Kind.EPOLL, errno.ENOSPC, may_close=True),
    Fault("poll EINTR", Kind.POLL, errno.EINTR, ONCE),
    Fault("poll ENOMEM", Kind.POLL, errno.ENOMEM, ONCE),
]


class Wrong(Exception):
    """An exchange that went otherwise than it may, with what failed in it."""

    def __init__(self, name, fault, number, persists, frames, failure):
        mode = " and all after it" if persists else ""
        super().__init__(f"{name}: {fault.name}, number {number}{mode}: {failure}\n    " +
                         "\n    ".join(frames))


def may_close(victim, exchange, fault, persists):
    """Without memory a TLS session cannot even say that there is none; and that a session was
    changed cannot be denied when there is none to say so."""
    if fault is not MEMORY:
        return fault.may_close
    return is_of(TRANSPORT, victim.page.frames()) or (persists and exchange.place == "tls") or (
        exchange.state != () and exchange.method != "GET")


def judge(victim, exchange, fault, persists, answer):
    """In a word how the exchange went."""
    if victim.is_usual(exchange, answer):
        return "as always"
    said = "closed" if answer is None else (answer.status, answer.body[:300])
    assert victim.page.failed > 0, ("nothing failed, yet the answer is another", said)
    if fault is MEMORY and is_out_of_memory(exchange, answer):
        return "503"
    if fault is MEMORY and victim.is_not_kept(exchange, answer):
        return "not kept"
    if answer is None and may_close(victim, exchange, fault, persists):
        return "closed"
    raise AssertionError(said)


def judge_state(victim, exchange, word):
    """What was refused has changed nothing, and what was answered all that it should."""
    before, after = victim.states[exchange.name]
    now = victim.read_state(exchange)
    unkept = [old if captures.ALL.encode() in request else new
              for request, old, new in zip(exchange.state, before, after, strict=False)]
    allowed = {"as always": [after], "503": [before], "not kept": [unkept]}.get(
        word, [before, after, unkept])
    assert now in allowed, f"what there is is not as it should be after {word}: " + str(
        [(request.split(b"\r", 1)[0], was[:1], got[:1], got[1] and got[1][:200]) for
         request, was, got in zip(exchange.state, before, now, strict=True) if was != got])


def count(victim, exchange, fault):
    """How many such calls it makes when none fails."""
    victim.prepare(exchange)
    victim.page.arm(fault.kinds, fault.error, 0)
    connection, _ = victim.ask(exchange)
    victim.page.disarm()
    connection.close()
    victim.clear(exchange)
    victim.wait_for_rest()
    return victim.page.counted


def fail(victim, exchange, fault, number, persists):
    """Plays it with that call failing; (how it went, whether one failed at all)."""
    page, connection = victim.page, None
    victim.prepare(exchange)
    page.arm(fault.kinds, fault.error, number, persists)
    try:
        connection, answer = victim.ask(exchange)
        page.disarm()
        if answer is None and victim.is_helpless():
            victim.restart()
            return f"ended by {HELPLESS}", True
        word = judge(victim, exchange, fault, persists, answer)
        judge_state(victim, exchange, word)
        victim.judge_health(exchange, connection, answer,
                            may_close(victim, exchange, fault, persists))
    except (Stuck, AssertionError) as failure:
        page.disarm()
        if connection is not None:
            connection.close()
        raise Wrong(exchange.name, fault, number, persists, page.frames(), failure) from None
    return word, page.failed > 0


def torture(victim, exchange, fault, report):
    """All of its calls of these kinds, until a run in which none failed any more."""
    outcomes = collections.Counter()
    for persists in fault.modes:
        number, clean = 0, False
        while not clean:
            number += 1
            try:
                word, has_failed = fail(victim, exchange, fault, number, persists)
            except Wrong as wrong:
                report(wrong)
                word, has_failed = "wrong", True
            clean = not has_failed
            if has_failed:
                outcomes[word] += 1
    return outcomes

# SPDX-License-Identifier: Apache-2.0
"""W3C trace context: what a traceparent becomes in the answer and in the log."""
import json
import re

import pytest
from support import raw
from support.daemon import Daemon

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
WRITTEN = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])")


@pytest.fixture(scope="module")
def server():
    with Daemon() as daemon:
        yield daemon


def traced(server, parent, request=raw.post, name="t"):
    """The answer's (trace id, span id, flags), which the log has too."""
    lines = (f"traceparent: {parent}", f"X-Request-Id: {name}")
    with raw.Connection(server.port) as connection:
        answer = connection.ask(request(raw.BODY, *lines) if request is raw.post
                                else request("/nowhere", *lines))
    trace, span, flags = WRITTEN.fullmatch(answer.headers["traceparent"]).groups()
    raw.until(lambda: f'"id":"{name}"' in server.output())
    (line,) = (line for line in server.output().splitlines() if f'"id":"{name}"' in line)
    assert json.loads(line)["trace_id"] == trace
    return trace, span, flags


@pytest.mark.parametrize("flags, kept", (("01", "01"), ("00", "00"), ("ff", "01")))
def test_a_trace_goes_on(flags, kept, server):
    trace, span, written = traced(server, f"00-{TRACE}-{PARENT}-{flags}", name=f"on-{flags}")
    assert (trace, written) == (TRACE, kept) and span not in (PARENT, "0" * 16)


def test_so_does_one_of_a_later_version(server):
    assert traced(server, f"cc-{TRACE}-{PARENT}-01-new", name="later")[0] == TRACE


@pytest.mark.parametrize("name, parent", (
    ("word", "-"), ("version", f"ff-{TRACE}-{PARENT}-01"),
    ("upper", f"00-{TRACE.upper()}-{PARENT}-01"),
    ("zero", f"00-{'0' * 32}-{PARENT}-01"), ("orphan", f"00-{TRACE}-{'0' * 16}-01")))
def test_what_is_no_trace_is_replaced(name, parent, server):
    trace, span, flags = traced(server, parent, name=name)
    assert trace not in (TRACE, "0" * 32) and span != PARENT and flags == "00"


def test_errors_belong_to_the_trace_too(server):
    assert traced(server, f"00-{TRACE}-{PARENT}-01", raw.get, "lost")[0] == TRACE


def test_who_brings_none_gets_none(server):
    with raw.Connection(server.port) as connection:
        answer = connection.ask(raw.post(raw.BODY, "X-Request-Id: plain"))
    assert "traceparent" not in answer.headers
    raw.until(lambda: '"id":"plain"' in server.output())
    assert not [line for line in server.output().splitlines()
                if '"id":"plain"' in line and "trace" in line]


def test_pages_may_read_it(server):
    with raw.Connection(server.port) as connection:
        answer = connection.ask(raw.post(raw.BODY, "Origin: http://localhost:3000",
                                         f"traceparent: 00-{TRACE}-{PARENT}-01"))
    assert "traceparent" in answer.headers["access-control-expose-headers"].split(", ")

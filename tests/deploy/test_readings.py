# SPDX-License-Identifier: Apache-2.0
"""No request is read in one way by the daemon and in another by a proxy before it: where a body
ends and the next request begins, and what is refused. docs/reliability.md has the table."""
import collections

import pytest
from deploy import containers, reading_requests, readings
from support import library

# What HAProxy alone refuses, and why that is no other reading.
PROXY_ALONE = {
    ("headers", "200 headers"): "it takes a hundred",
    ("chunks", "CR in an extension"): "both have the same bytes in the chunk",
}


BELOW = {("chunks", "CR in an extension")}  # libmicrohttpd 1.0 refuses it

UNREAD = 204  # the body of an OPTIONS is thrown away, with the connection where it comes straight


def followers(reading):
    """What was executed behind the case's own request."""
    return [one.method for one in reading.logged if one.id != reading.id and one.status < 300]


@pytest.fixture(scope="module")
def both():
    containers.need("haproxy")
    straight, proxied = readings.both(reading_requests.cases())
    return {case: (straight[case], proxied[case]) for case in straight}


def test_behind_the_proxy_each_request_is_the_one_that_it_passed_on(both):
    def pairs(requests):
        return collections.Counter((one.id, one.method) for one in requests)

    for case, (_, proxied) in both.items():
        # Of some that it refuses the library tells nobody.
        assert pairs(proxied.logged) <= pairs(proxied.passed), (case, proxied)
        taken = proxied.taken
        if taken is not None and taken.status != UNREAD:
            assert taken.body == proxied.own(proxied.passed).body, (case, proxied)


def test_what_both_take_ends_at_the_same_byte(both):
    for case, (straight, proxied) in both.items():
        if straight.taken is None or not proxied.passed:
            continue
        own, taken = proxied.own(proxied.passed), straight.taken
        assert own.method == taken.method, case
        if taken.status != UNREAD:
            assert own.body == taken.body, case
            assert followers(straight) == followers(proxied), (case, straight, proxied)


def test_what_the_proxy_refuses_is_refused(both):
    lax = {case for case, (straight, proxied) in both.items()
           if straight.taken is not None and not proxied.passed and not proxied.waits}
    assert lax == set(PROXY_ALONE) - (BELOW if library.is_newer() else set())


def kind(straight, proxied):
    if straight.waits and proxied.waits:
        return "both wait for more"
    takers = [reading.taken is not None for reading in (straight, proxied)]
    return {(True, True): "taken", (False, False): "refused", (False, True): "by the daemon alone",
            (True, False): "by HAProxy alone"}[tuple(takers)]


KINDS = ("taken", "refused", "by the daemon alone", "by HAProxy alone", "both wait for more")


def table(both):
    """As docs/reliability.md has it."""
    counts = collections.defaultdict(collections.Counter)
    for (group, _), pair in both.items():
        counts[group][kind(*pair)] += 1
    return [f"| {group} | {sum(row.values())} | " +
            " | ".join(str(row[name]) for name in KINDS) + " |" for group, row in counts.items()]


@pytest.mark.skipif(library.is_newer(), reason="the table is that of libmicrohttpd 0.9.75")
def test_the_table_is_the_one_of_the_docs(both):
    text = (containers.ROOT / "docs" / "reliability.md").read_text()
    lines = table(both)
    print("\n" + "\n".join(lines))
    assert "\n".join(lines) in text

# SPDX-License-Identifier: Apache-2.0
"""Every documented error, one folder each under tests/cases/invalid, word for word.

error.json says status, type (the last part of the problem's type), detail (the sentence, or
detail_matches where a part of it varies) and, where there are such, pointer, limit, headers,
`daemon`: the arguments of a daemon with lower limits, and `libmicrohttpd_1`: the status with which
version 1 of the library refuses in its own words, before the daemon hears of the request.
"""
import json
import re

import pytest
from support import folders, library, tables
from support.daemon import Daemon
from support.sentences import faults, format_faults, formats

MEMBERS = {"type", "title", "status", "detail", "instance", "pointer", "limit"}
# Nothing of the inside may show: names of the source, paths, addresses, libraries.
INSIDE = re.compile(
    r"attn_(?!mask)|\bstruct\b|\.c:\d|0x[0-9a-f]{6}|/(usr|home|tmp|root)/|jansson|MHD|malloc")


@pytest.fixture(scope="module")
def limited():
    """Daemons by their arguments, started when first asked for."""
    running = {}

    def get(arguments):
        key = tuple(arguments)
        if key not in running:
            running[key] = Daemon(*key).__enter__()
        return running[key].client

    yield get
    for daemon in running.values():
        daemon.stop()


@pytest.mark.parametrize("name", folders.names("invalid"))
def test_refused(name, request):
    folder = folders.CASES / "invalid" / name
    expected = json.loads((folder / "error.json").read_text())
    if "daemon" in expected:
        client = request.getfixturevalue("limited")(expected["daemon"])
    else:
        client = request.getfixturevalue("client")
    answer = folders.send(client, folder)
    if library.is_newer() and "libmicrohttpd_1" in expected:
        assert answer.status == expected["libmicrohttpd_1"], answer.body[:500]
        return
    assert answer.status == expected["status"], answer.body[:500]
    assert answer.headers["Content-Type"].split(";")[0] == "application/problem+json"
    problem = answer.json
    assert set(problem) <= MEMBERS
    assert {"type", "title", "status", "detail", "instance"} <= set(problem)
    assert problem["status"] == answer.status
    assert problem["type"].rsplit("/", 1)[-1] == expected["type"]
    if "detail_matches" in expected:
        assert re.fullmatch(expected["detail_matches"], problem["detail"])
    else:
        assert problem["detail"] == expected["detail"]
    assert not faults(problem["detail"]), problem["detail"]
    for member in ("pointer", "limit"):
        assert problem.get(member) == expected.get(member)
    for header, value in expected.get("headers", {}).items():
        assert answer.headers[header] == value
    assert not INSIDE.search(answer.body.decode())


@pytest.mark.parametrize("name", folders.names("invalid"))
def test_the_daemon_goes_on(name, client):
    """After each refusal, on the same connection, a good call."""
    folder = folders.CASES / "invalid" / name
    folders.send(client, folder)
    answer = client.attention([[1.0]], [[1.0]], [[2.0]], wire="nested")
    assert answer["output"].tolist() == [[2]]


def test_every_sentence_of_the_source_is_one():
    """Those too that take a lack of memory or a race to be said."""
    sources = [*tables.ROOT.glob("core/**/*.c"), *tables.ROOT.glob("server/**/*.c")]
    found = [text for source in sources for text in formats(source.read_text())]
    assert len(found) > 100
    assert not [(text, format_faults(text)) for text in found if format_faults(text)]

# SPDX-License-Identifier: Apache-2.0
"""The dashboard's files as the daemon serves them: what a browser is told, which form it gets, and
that the page names nothing that is missing or elsewhere. What the page does is tests/browser's."""
import gzip
import re

import pytest
from support import raw, tables

DIST = tables.ROOT / "dashboard" / "dist"
INDEX = (DIST / "index.html").read_text()
ASSETS = re.findall(r'(?:href|src)="(assets/[^"]+)"', INDEX)
POLICY = {
    "default-src": "'none'", "script-src": "'self'", "style-src": "'self'",
    "img-src": "'self' blob: data:", "connect-src": "'self'",
    "require-trusted-types-for": "'script'", "trusted-types": "'none'",
    "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}


@pytest.fixture
def connection(daemon):
    with raw.Connection(daemon.port) as opened:
        yield opened


def test_the_page_names_its_two_files_and_nothing_else():
    assert [name.split(".")[-1] for name in ASSETS] == ["css", "js"]
    links = re.findall(r'(?:href|src)="([^"]*)"', INDEX)
    assert sorted(links) == sorted([*ASSETS, "data:,", "docs"])
    assert "<style" not in INDEX and " style=" not in INDEX and " on" not in INDEX.split("<body")[0]


@pytest.mark.parametrize("path", ["/", *(f"/{name}" for name in ASSETS)])
def test_every_file_has_two_forms_with_a_tag_each(connection, path):
    file = DIST / ("index.html" if path == "/" else f"app.{path.split('.')[-1]}")
    plain = connection.ask(raw.get(path))
    packed = connection.ask(raw.get(path, "Accept-Encoding: gzip, deflate, br"))
    assert plain.body == file.read_bytes() == gzip.decompress(packed.body)
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < len(plain.body)
    tags = plain.headers["etag"], packed.headers["etag"]
    assert tags[0] != tags[1]
    for answer in (plain, packed):
        assert "Accept-Encoding" in answer.headers["vary"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert dict(rule.split(" ", 1) for rule in
                    answer.headers["content-security-policy"].split("; ")) == POLICY
    for tag, lines in ((tags[0], []), (tags[1], ["Accept-Encoding: gzip"])):
        again = connection.ask(raw.get(path, f"If-None-Match: {tag}", *lines))
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    # The tag of a form is none of the other's.
    assert connection.ask(raw.get(path, f"If-None-Match: {tags[1]}")).status == 200


def test_files_with_a_hash_are_kept_and_the_page_is_asked_for(connection):
    for name in ASSETS:
        kept = connection.ask(raw.get(f"/{name}")).headers["cache-control"]
        assert kept == "public, max-age=31536000, immutable"
    assert connection.ask(raw.get("/")).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("name", ("app.js", "..%2fapp.js", "index.html", "app-000000000000.js"))
def test_other_names_are_not_there(connection, name):
    answer = connection.ask(raw.get(f"/assets/{name}"))
    assert (answer.status, answer.problem) == (404, "not-found")
    assert "cache-control" not in answer.headers


def test_the_script_is_small():
    assert len(gzip.compress((DIST / "app.js").read_bytes(), 9)) <= 80_000

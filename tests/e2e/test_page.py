# SPDX-License-Identifier: Apache-2.0
"""The page at /docs: what a browser is told about it, that nothing is missing on it, and that all
its links lead somewhere."""
import base64
import hashlib
import html
import re
import subprocess
from html.parser import HTMLParser

import pytest
import yaml
from support import raw, tables

CONTRACT = yaml.safe_load((tables.ROOT / "openapi.yaml").read_text())
VOID = {"meta", "link", "br", "hr", "img", "wbr"}


class Page(HTMLParser):
    """Every tag with its attributes; complains of one that is not closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def answer(daemon):
    return daemon.client.get("/docs")


@pytest.fixture(scope="module")
def page(answer):
    return Page(answer.body.decode())


def test_headers(answer):
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    style = re.search(rb"<style>(.*?)</style>", answer.body, flags=re.S)[1]
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    policy = dict(rule.split(" ", 1) for rule in
                  answer.headers["Content-Security-Policy"].split("; "))
    assert policy == {"default-src": "'none'", "style-src": f"'sha256-{digest}'",
                      "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}


@pytest.mark.parametrize("path", ("/docs", "/openapi.yaml"))
def test_what_is_there_already_is_not_sent_again(path, daemon):
    with raw.Connection(daemon.port) as connection:
        first = connection.ask(raw.get(path))
        tag = first.headers["etag"]
        assert re.fullmatch('"[0-9a-f]{16}"', tag)
        for given in (tag, f"W/{tag}", f'"other", {tag}', f'"other",W/{tag} ', "*"):
            again = connection.ask(raw.get(path, f"If-None-Match: {given}"))
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag), given
        for given in ('"other"', tag.strip('"'), "", tag[:-2] + '"'):
            again = connection.ask(raw.get(path, f"If-None-Match: {given}"))
            assert (again.status, again.body) == (200, first.body), given
        head = connection.ask(raw.get(path, f"If-None-Match: {tag}", method="HEAD"),
                              has_body=False)
        assert head.status == 304


def test_it_loads_nothing(page):
    """Not a script, not a picture, not an attribute that would run or style something."""
    assert {tag for tag, _ in page.tags} <= {
        "html", "head", "meta", "title", "style", "body", "div", "main", "nav", "section", "h1",
        "h2", "h3", "h4", "p", "a", "ul", "li", "dl", "dt", "dd", "code", "pre", "span", "strong",
        "details", "summary", "wbr"}
    for tag, attributes in page.tags:
        assert not {name for name in attributes if name.startswith("on")} | \
            {"style", "src"} & set(attributes), tag


def test_links_lead_somewhere(page, client):
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {attributes["href"] for tag, attributes in page.tags if tag == "a"}
    for link in links:
        if link.startswith("#"):
            assert link[1:] in ids, link
        else:
            assert client.get(link).status == 200, link
    assert "/openapi.yaml" in links


def test_nothing_is_missing(page):
    ids = {attributes.get("id") for _, attributes in page.tags}
    for path, item in CONTRACT["paths"].items():
        for operation in item.values():
            assert operation["operationId"] in ids
            assert path in page.text and operation["summary"].split()[0] in page.text
    for name, schema in CONTRACT["components"]["schemas"].items():
        for member in schema.get("properties", {}):
            assert member in page.text, f"{name}.{member}"
    text = " ".join(page.text.split())
    for name, response in CONTRACT["components"]["responses"].items():
        assert " ".join(response["description"].replace("`", "").split()) in text, name


def test_it_begins_with_a_call_that_works(answer, daemon):
    section = re.search(r'<section id="call">.*?</section>', answer.body.decode(), flags=re.S)
    assert section.start() < answer.body.decode().index("Words")
    command = html.unescape(re.search(r"<code>(curl .*?)</code>", section[0], flags=re.S)[1])
    done = subprocess.run(["sh", "-c", command.replace(":8080", f":{daemon.port}")],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith('{"output":[[16.604769,26.604769]]'), done.stdout + done.stderr


def test_what_is_sent_stands_before_headers(answer):
    """Those that every operation takes would hide what it is about."""
    for section in re.findall(r'<section id="\w+">\n<h3>.*?</section>', answer.body.decode(),
                              flags=re.S):
        parts = re.findall("<h4>(.*?)</h4>", section)
        order = ["Body", "Examples", "Parameters", "Headers", "Answers"]
        assert parts == [part for part in order if part in parts]
        for part in section.split("<h4>")[1:]:
            named = re.findall(r'<span class="must">(header|in the query|in the path)', part)
            assert (set(named) == {"header"}) == part.startswith("Headers</h4>"), section[:60]


def test_examples_stand_on_it(page):
    posts = CONTRACT["paths"]["/v1/attention"]["post"]["requestBody"]["content"]
    for example in posts["application/json"]["examples"].values():
        assert example["summary"].replace("`", "") in page.text

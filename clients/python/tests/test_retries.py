# SPDX-License-Identifier: Apache-2.0
"""Daemons that are busy, fail or are none: a server of the tests' own answers by the script."""
import asyncio
import http.server
import json
import threading
import time
from contextlib import contextmanager
from email.utils import formatdate

import attentiond
import pytest

BUSY = {"type": "/problems/overloaded", "detail": "Try again later.", "status": 503}


@contextmanager
def scripted(*answers):
    """A server that gives (status, headers, body) one after the other, the last one for ever; None
    cuts the connection. Yields its address and the list of paths asked for."""
    asked, script = [], list(answers)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def do_GET(self):
            asked.append(self.path)
            answer = script.pop(0) if len(script) > 1 else script[0]
            if answer is None:
                self.close_connection = True
                self.connection.shutdown(2)
                return
            status, headers, body = answer
            self.send_response(status)
            for name, value in {**headers, "Content-Length": len(body)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def busy(status=503, **headers):
    media_type = {"Content-Type": "application/problem+json"}
    return status, {**media_type, **headers}, json.dumps(BUSY).encode()


FINE = (200, {"Content-Type": "application/json"}, b'{"kernels": []}')


def describe(url, is_async=False, **settings):
    if not is_async:
        with attentiond.Client(url, **settings) as client:
            return client.describe()

    async def call():
        async with attentiond.AsyncClient(url, **settings) as client:
            return await client.describe()

    return asyncio.run(call())


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("first", [busy(429), busy(503), None])
def test_what_says_later_is_tried_again(first, is_async):
    with scripted(first, FINE) as (url, asked):
        assert describe(url, is_async) == {"kernels": []}
        assert len(asked) == 2


@pytest.mark.parametrize("is_date, least", [(False, 0.9), (True, 0)])
def test_retry_after_is_honoured(is_date, least):
    after = formatdate(time.time() + 2, usegmt=True) if is_date else "1"
    with scripted(busy(**{"Retry-After": after}), FINE) as (url, _):
        began = time.monotonic()
        describe(url)
        assert time.monotonic() - began >= least


@pytest.mark.parametrize("is_async", [False, True])
def test_attempts_are_counted(is_async):
    with scripted(busy(**{"Retry-After": "0"})) as (url, asked):
        with pytest.raises(attentiond.Refused, match="Try again later") as refused:
            describe(url, is_async, retries=2)
        assert len(asked) == 3 and refused.value.name == "overloaded"


def test_patience_ends():
    with scripted(busy(**{"Retry-After": "3600"})) as (url, asked):
        with pytest.raises(attentiond.Refused):
            describe(url, retries=5, patience=10)
        assert len(asked) == 1


def test_other_refusals_are_final():
    with scripted(busy(422)) as (url, asked):
        with pytest.raises(attentiond.Refused):
            describe(url)
        assert len(asked) == 1


@pytest.mark.parametrize("answer", [
    (404, {"Content-Type": "text/html"}, b"<h1>Not here</h1>"),
    (500, {}, b""),
    (400, {"Content-Type": "application/problem+json"}, b"nonsense"),
    (400, {"Content-Type": "application/problem+json"}, b"[1]")])
def test_another_server(answer):
    with scripted(answer) as (url, _):
        with pytest.raises(attentiond.NotReachable, match="not attentiond"):
            describe(url)


def test_the_key_is_sent():
    with scripted(FINE) as (url, _), attentiond.Client(url, api_key="k-123") as client:
        assert client._http.headers["Authorization"] == "Bearer k-123"

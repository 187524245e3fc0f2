# SPDX-License-Identifier: Apache-2.0
"""Rows 1 to 31, 34 and 35: heads, lengths, chunks and paths."""
import time

from support import raw

from catalogue.row import (CHUNKED, HASTY, IN_CHUNKS, LENGTH, Row, accepted, head, library, refused,
                           shut)

BODY = raw.BODY


def chunks(body, size=1):
    return b"".join(b"%x\r\n%s\r\n" % (len(body[at:at + size]), body[at:at + size])
                    for at in range(0, len(body), size)) + b"0\r\n\r\n"


def broken_length(text):
    return head(f"Content-Length: {text}") + b"12345"


def bad_chunk(text):
    return head(IN_CHUNKS) + text + b"\r\n12345\r\n0\r\n\r\n"


def million_chunks(scene):
    return head(IN_CHUNKS) + chunks(BODY.ljust(1_000_000))


def in_seconds(limit):
    """A play that also takes no longer than this."""
    def play(scene):
        data = scene.bytes()
        begin = time.monotonic()
        scene.send(data)
        answer = scene.connection.answer()
        assert time.monotonic() - begin < limit
        return answer
    return play


def end_of_sending(scene):
    """The client sends less than it said, and ends its side."""
    scene.connection.send(scene.bytes())
    scene.connection.socket.shutdown(1)
    return scene.connection.answer()


def trickle(scene):
    """One byte every 20 ms, until the other side has had enough."""
    start, rest = scene.bytes()
    scene.connection.send(start)
    begin = time.monotonic()
    try:
        for byte in rest:
            scene.connection.send(bytes([byte]))
            time.sleep(0.02)
            if time.monotonic() - begin > 1:
                break
    except ConnectionError:
        pass
    assert time.monotonic() - begin < 5
    return scene.connection.answer()


def pipelined(count):
    """Calls one behind the other; the answers come in their order."""
    def play(scene):
        ids = [f"call-{number}" for number in range(count)]
        scene.connection.send(b"".join(raw.post(BODY, f"X-Request-Id: {name}") for name in ids))
        answers = [scene.connection.answer() for _ in ids]
        assert [answer.headers["x-request-id"] for answer in answers] == ids
        assert {answer.status for answer in answers} == {200}
        return answers[-1]
    return play


def behind_a_sleeper(scene):
    """The first call sleeps while a worker has it; the second is not taken before it."""
    body = b'{"d_k":[512],"samples":20000}'
    scene.connection.send(raw.post(body, "X-Request-Id: first", path="/v1/experiments/scaling") +
                          raw.get("/healthz", "X-Request-Id: second"))
    first, second = scene.connection.answer(), scene.connection.answer()
    assert [first.headers["x-request-id"], second.headers["x-request-id"]] == ["first", "second"]
    assert first.status == 200
    return second


def no_interim(scene, answer):
    assert answer.status == 413  # the first that comes; 100 would have come before it


def has_allow(scene, answer):
    assert "POST" in answer.headers["allow"]


def allowed(scene, answer):
    assert answer.headers["allow"] and answer.body == b""


def until_refused(scene):
    """Sends 20 MB whatever is said, and only then looks."""
    scene.send(scene.bytes())
    return scene.connection.answer()


def tls_hello(scene):
    """Has no line's end; the line is waited for as any other."""
    scene.connection.send(bytes.fromhex("16030100c8010000c40303") + bytes(range(14, 54)))
    return scene.connection.answer()


def http_0_9(scene):
    """There is no head that an answer could be told by."""
    scene.connection.send(b"GET /v1\r\n\r\n")
    text = b""
    while piece := scene.connection.socket.recv(65536):
        text += piece
    assert text == b"" or b" 400 " in text.split(b"\r\n")[0]
    assert b'"kernels"' not in text


MIB = 1 << 20
TOO_LONG = f"Content-Length: {1 << 31}"
HOST = b"GET /v1 HTTP/1.1\r\nHost: localhost\r\n"

ROWS = [
    Row(1, "Content-Length that is no number", {
        "plus": library(broken_length("+5"), 400), "minus": library(broken_length("-1"), 400),
        "list": library(broken_length("5, 5"), 400), "word": library(broken_length("abc"), 400),
        "empty": library(broken_length(""), 400)}),
    Row(2, "Content-Length beyond 2^64", {
        "": library(broken_length("99999999999999999999"), 413)}),
    Row(3, "Content-Length of 2^64-1, or above the limit", {
        "2^64-1": shut(broken_length(str(2**64 - 1)), 413, "body-too-large", maybe_below=True),
        "above": shut(broken_length(str((256 << 20) + 1)), 413, "body-too-large")}),
    Row(4, "Content-Length and Transfer-Encoding", {
        "length first": shut(head(LENGTH, IN_CHUNKS) + CHUNKED, 400, "bad-framing",
                             maybe_below=True),
        "chunked first": shut(head(IN_CHUNKS, LENGTH) + CHUNKED, 400, "bad-framing",
                              maybe_below=True)}),
    Row(5, "two Content-Lengths", {
        "equal": shut(head(LENGTH, LENGTH) + BODY, 400, "bad-framing"),
        "different": shut(head(LENGTH, "Content-Length: 5") + BODY, 400, "bad-framing")}),
    Row(6, "unknown Transfer-Encoding", {
        name: shut(head(f"Transfer-Encoding: {name}") + CHUNKED, 501, "transfer-coding",
                   maybe_below=True)
        for name in ("xchunked", "gzip, chunked", "gzip", "identity")}),
    Row(7, "space before the colon", {
        "of the length": shut(head("Content-Length : 5") + b"12345", 400, "bad-framing",
                              maybe_below=True),
        "of the coding": shut(head("Transfer-Encoding : chunked") + CHUNKED, 400, "bad-framing",
                              maybe_below=True)}),
    Row(8, "folded length or coding", {
        "length": shut(head("X-A: b", " Content-Length: 5") + b"12345", 400, "bad-framing",
                       unfolded=True),
        "in its value": shut(head("Content-Length:", " 5") + b"12345", 400, "bad-framing",
                             unfolded=True)}),
    Row(9, "NUL in the head", {
        "in a name": library(head("Content-\0Length: 5", LENGTH) + BODY, 400),
        "in a value": shut(head("X-A: b\0c", LENGTH) + BODY, 400, "bad-framing",
                           maybe_below=True)}),
    Row(10, "POST without a length", {"": shut(head(), 411, "length-required")}),
    Row(11, "chunk size that is no number", {
        "zz": library(bad_chunk(b"zz"), 400), "0x5": library(bad_chunk(b"0x5"), 400),
        "no line end": library(head(IN_CHUNKS) + b"5\r\n12345678\r\n0\r\n\r\n", 400)}),
    Row(12, "chunk size beyond 64 bits", {"": library(bad_chunk(b"f" * 40), 413)}),
    Row(13, "a million chunks of one byte", {
        "": accepted(million_chunks, play=in_seconds(20), note="in bounded time")}),
    Row(14, "long chunk extension, many trailers", {
        "extension": shut(bad_chunk(b"5;" + b"a" * 300_000), 400, "bad-framing",
                          maybe_below=True),
        "trailers": library(head(IN_CHUNKS) + CHUNKED[:-2] + b"".join(
            b"X-%d: %d\r\n" % (n, n) for n in range(5000)) + b"\r\n", 431)}),
    Row(15, "body shorter than its length, then the end", {
        "": shut(head("Content-Length: 5000000") + b"12345", None, None, play=end_of_sending)}),
    Row(16, "body longer than its length", {
        "": library(raw.post() + b"surplus\r\n\r\n", 200, note="what follows 400 by the library")}),
    Row(17, "head of one byte at a time", {
        "": shut(lambda scene: (b"GET /healthz HTTP/1.1\r\n", b"X-Long: " + b"a" * 200), 408,
                 "request-timeout", daemon=HASTY, play=trickle)}),
    Row(18, "body of one byte at a time", {
        "": shut(lambda scene: (raw.post(b"", length=1000), b" " * 200), 408, "request-timeout",
                 daemon=HASTY, play=trickle)}),
    Row(20, "5,000 headers", {
        "": library(raw.get("/healthz", *(f"X-{n}: {n}" for n in range(5000))), 431)}),
    Row(21, "path of 300 kB, or of 9 kB", {
        "300": library(raw.get("/" + "a" * 300_000), 414),
        "9": shut(raw.get("/" + "a" * 9_000), 414, "target-too-long")}),
    Row(22, "50 requests at once on one connection", {
        "": accepted(b"", play=pipelined(50), note="in their order")}),
    Row(23, "request behind one that is computed", {
        "": accepted(b"", play=behind_a_sleeper, note="in their order")}),
    Row(24, "HEAD, OPTIONS, TRACE", {
        "HEAD": accepted(raw.get("/healthz", method="HEAD"), has_body=False),
        "OPTIONS": accepted(raw.get("/v1/attention", method="OPTIONS"), allowed, status=204,
                            has_body=False),
        "TRACE": refused(raw.get("/v1/attention", method="TRACE"), 405, "method-not-allowed",
                         check=has_allow)}),
    Row(25, "control bytes in the method", {
        "": refused(raw.get("/v1", method="GE\x01T"), 501, "method-unknown", maybe_below=True)}),
    Row(26, "Expect: 100-continue before too large a body", {
        "": shut(head(TOO_LONG, "Expect: 100-continue"), 413, "body-too-large",
                 check=no_interim)}),
    Row(27, "Expect: teapot", {
        "": refused(head(LENGTH, "Expect: teapot") + BODY, 417, "expectation-failed")}),
    Row(28, "20 MB sent in spite of the refusal", {
        "": shut(lambda scene: head(TOO_LONG) + b" " * 20_000_000, 413, "body-too-large",
                 play=until_refused)}),
    Row(29, "what is not HTTP/1", {
        "HTTP/2": library(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        "TLS": shut(b"", None, None, daemon=HASTY, play=tls_hello),
        "HTTP/0.9": library(b"", None, play=http_0_9)}),
    Row(30, "no Host, two Hosts", {
        "none": shut(b"GET /healthz HTTP/1.1\r\n\r\n", 400, "bad-framing", maybe_below=True),
        "two": shut(head(LENGTH, "Host: elsewhere") + BODY, 400, "bad-framing")}),
    Row(31, "path with NUL, dots, two slashes, overlong UTF-8", {
        name: refused(raw.get(path), 404, "not-found") for name, path in {
            "NUL": "/v1%00", "dots": "/v1/../v1", "slashes": "//v1",
            "overlong": "/%c0%af../v1", "all NUL": "/%00"}.items()}),
    Row(34, "media type that is unknown, or missing", {
        "unknown": refused(raw.post().replace(b"application/json", b"text/csv"), 415,
                           "unsupported-media-type"),
        "missing": accepted(raw.post().replace(b"Content-Type: application/json\r\n", b""),
                            note="recognised by its first bytes")}),
    Row(35, "Accept that nothing satisfies", {
        "": refused(raw.post(BODY, "Accept: text/csv"), 406, "not-acceptable")}),
]

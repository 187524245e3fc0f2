# SPDX-License-Identifier: Apache-2.0
"""Bytes over a socket: for requests that no HTTP client would send, and for answers in pieces."""
import json
import socket
import time

BODY = b'{"q":[[1,0],[0,1]],"k":[[1,0],[0,1]],"v":[[1,2],[3,4]]}'


def post(body=BODY, *headers, path="/v1/attention", length=None):
    """A POST as bytes; `headers` are further lines."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
             f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(path="/healthz", *headers, method="GET"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers]).encode() + \
        b"\r\n\r\n"


class RawAnswer:
    def __init__(self, head, body):
        first, *lines = head.decode("latin-1").split("\r\n")
        self.version, status, _ = first.split(" ", 2)
        self.status, self.body, self.headers = int(status), body, {}
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()

    @property
    def closes(self):
        return self.headers.get("connection", "").lower() == "close"

    @property
    def problem(self):
        """The last part of the problem's type, or None when it is no problem."""
        if self.headers.get("content-type") != "application/problem+json":
            return None
        return json.loads(self.body)["type"].rsplit("/", 1)[-1]


class Connection:
    def __init__(self, address, timeout=20):
        """To a port, or to the path of a Unix socket."""
        self.rest = b""
        if isinstance(address, int):
            self.socket = socket.create_connection(("127.0.0.1", address), timeout=timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(str(address))

    def send(self, data):
        self.socket.sendall(data)

    def _more(self):
        piece = self.socket.recv(1 << 16)
        self.rest += piece
        return piece

    def answer(self, has_body=True):
        """The next answer, or None when the connection ended before it."""
        while b"\r\n\r\n" not in self.rest:
            try:
                if not self._more():
                    return None
            except ConnectionError:
                return None
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        answer = RawAnswer(head, b"")
        length = int(answer.headers.get("content-length", 0)) if has_body else 0
        while len(self.rest) < length:
            assert self._more(), "the answer ended early"
        answer.body, self.rest = self.rest[:length], self.rest[length:]
        return answer

    def ask(self, data, has_body=True):
        self.send(data)
        return self.answer(has_body)

    def ended(self):
        """Whether the other side closes, without having sent anything more."""
        try:
            return self.rest == b"" and self._more() == b""
        except ConnectionError:
            return True

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()


def parse_samples(text):
    """The text of /metrics as {name with labels: value}."""
    rows = (line.rsplit(" ", 1) for line in text.decode().splitlines() if line and line[0] != "#")
    return {name: float(value) for name, value in rows}


def samples(client):
    """/metrics as {name with labels: value}."""
    return parse_samples(client.get("/metrics").body)


def until(condition, seconds=10):
    """Waits until condition() is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)

# SPDX-License-Identifier: Apache-2.0
"""A collector of spans on a port of its own, that can be told to behave badly."""
import contextlib
import json
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Span:
    def __init__(self, item, resource):
        self.item, self.resource = item, resource
        self.id, self.parent = item["spanId"], item.get("parentSpanId")
        self.trace, self.name, self.kind = item["traceId"], item["name"], item["kind"]
        self.began, self.ended = int(item["startTimeUnixNano"]), int(item["endTimeUnixNano"])
        self.attributes = values(item.get("attributes", []))


def values(attributes):
    """[{"key", "value": {type: value}}] as a dict; intValue is a string in OTLP's JSON."""
    return {one["key"]: int(value) if kind == "intValue" else value
            for one in attributes for kind, value in one["value"].items()}


class Odd:
    """One that answers each connection with these bytes, whatever it is told: `pieces` makes them
    anew each time, and may take its time. It then closes."""

    def __init__(self, pieces):
        self.pieces, self.closing = pieces, threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 20)
            for piece in self.pieces(self.closing):
                connection.sendall(piece)

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *failure):
        self.closing.set()
        self.listener.close()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A sender that resets its connection is no fault of the collector's."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Collector:
    """`status`: what it answers; `hangs`: it reads, and answers only when it is closed."""

    def __init__(self, status=200, hangs=False):
        self.status, self.requests, self.closing = status, [], threading.Event()
        self.broken = []  # whole bodies that are no documents
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                if not collector.take(self.path, dict(self.headers), body, length):
                    return
                if hangs:
                    collector.closing.wait()
                self.send_response(collector.status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))

    def take(self, path, headers, body, length):
        """Whether it is a document; what was cut short is the sender's own affair."""
        try:
            self.requests.append((path, headers, json.loads(body)))
        except ValueError:
            self.broken += [body] if len(body) == length else []
            return False
        return True

    def spans(self):
        return [Span(item, values(resource["resource"]["attributes"]))
                for _, _, body in list(self.requests) for resource in body["resourceSpans"]
                for scope in resource["scopeSpans"] for item in scope["spans"]]

    def of(self, request_id):
        """The span of a request and those below it, in the order of time; or None."""
        spans = self.spans()
        for span in spans:
            if span.attributes.get("attentiond.request_id") == request_id:
                return span, [child for child in spans if child.parent == span.id]
        return None

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *failure):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

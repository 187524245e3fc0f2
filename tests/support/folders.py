# SPDX-License-Identifier: Apache-2.0
"""Case folders: tests/cases/{valid,invalid}/<name>/ with one request each.

request.json               the body of a POST to /v1/attention
request.http               a whole request; Host, Content-Length and Connection are added
request.safetensors.json   {"header": object or text, "data": how many zero bytes,
                           "header_length": what the first eight bytes say, when not the truth,
                           null for a body that is too short to say it}
"""
import http.client
import json
import socket
import struct
from pathlib import Path

from support.client import JSON_TYPE, SAFETENSORS_TYPE, Answer

CASES = Path(__file__).resolve().parents[1] / "cases"


def names(kind):
    return sorted(path.name for path in (CASES / kind).iterdir())


def safetensors_body(description):
    header = description["header"]
    text = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    length = description.get("header_length", len(text))
    prefix = b"" if length is None else struct.pack("<Q", length)
    return prefix + text + bytes(description["data"])


def raw_request(text):
    """The file's text as it goes over the wire: CR LF in the head, the body as it is."""
    head, _, body = text.partition("\n\n")
    lines = head.split("\n") + ["Host: localhost", "Connection: close"]
    if body:
        lines.append(f"Content-Length: {len(body.encode())}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body.encode()


def exchange(port, request):
    """Sends bytes, reads one answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return Answer(response.status, response.headers, response.read())


def send(client, folder):
    """The answer to the folder's request."""
    if (folder / "request.http").exists():
        return exchange(client.port, raw_request((folder / "request.http").read_text()))
    described = folder / "request.safetensors.json"
    if described.exists():
        body, kind = safetensors_body(json.loads(described.read_text())), SAFETENSORS_TYPE
    else:
        body, kind = (folder / "request.json").read_bytes(), JSON_TYPE
    return client.send("POST", "/v1/attention", body, {"Content-Type": kind})

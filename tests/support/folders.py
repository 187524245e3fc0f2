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

import numpy as np
import yaml

from support import tables
from support.client import JSON_TYPE, PLACES_OF_TENSORS, SAFETENSORS_TYPE, Answer, decode

# What else stands in a request is a tensor that an option names.
OPTIONS = yaml.safe_load((tables.ROOT / "openapi.yaml").read_text())[
    "components"]["schemas"]["AttentionOptions"]["properties"]
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


# Lists that are read as float64 wherever they stand; other reals are of the operands' own type.
LISTS_OF_REALS = ("alibi", "sink", "inv_freq")


def to_array(value, place, real):
    """What stands in an option as the tensor that it may be: ids, lengths and masks are whole."""
    if place in LISTS_OF_REALS:
        return decode(value, np.float64)
    if place in ("bias", "w"):
        return decode(value, real)
    array = np.array(value)
    return array if array.dtype == bool else array.astype(np.int64)


class Call:
    """A folder's JSON with all that may be a tensor of its own made one, for any encoding."""

    def __init__(self, folder):
        members = json.loads((folder / "request.json").read_text())
        self.real = np.float64 if members.get("precision") == "float64" else np.float32
        self.operands = {name: decode(members.pop(name), self.real) for name in "qkv"}
        self.named = {name: members.pop(name) for name in list(members) if name not in OPTIONS}
        self.tensors = {}
        self.options = self.outline(members)

    def outline(self, value, place=""):
        """The options with the name of a tensor wherever one may stand."""
        if isinstance(value, dict):
            return {key: self.outline(item, key) for key, item in value.items()}
        if place in PLACES_OF_TENSORS and isinstance(value, (str, list)):
            name = value
            if isinstance(value, list):
                name = f"{place} {len(self.named)}"
                self.named[name] = value
            self.tensors[name] = to_array(self.named[name], place, self.real)
            return name
        return [self.outline(item) for item in value] if isinstance(value, list) else value

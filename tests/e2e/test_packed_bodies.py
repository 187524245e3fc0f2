# SPDX-License-Identifier: Apache-2.0
"""Request bodies with a Content-Encoding: the same bits as without, and nothing to be had from
streams that are cut, damaged, or far larger than they look."""
import functools
import json
import random
import re
import threading
import time
import zlib

import numpy as np
import pytest
from support import packing, raw
from support.cases import random_case
from support.client import JSON_TYPE, SAFETENSORS_TYPE, pack
from support.daemon import BINARY, Daemon

WIRES = ("safetensors", "nested", "base64")
OUTPUTS = ["output", "weights", "lse"]


def send(client, body, coding, kind=JSON_TYPE, path="/v1/attention", **headers):
    return client.send("POST", path, body, {"Content-Type": kind, "Content-Encoding": coding,
                                            **headers})


def problem(answer):
    return answer.status, answer.json["type"].rsplit("/", 1)[-1]


def bits(answer):
    return {name: tensor.tobytes() for name, tensor in answer.tensors.items()}


@pytest.mark.parametrize("form", packing.FORMS)
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("Tk", [3, 600])
def test_the_same_bits(client, Tk, wire, form):
    """Small bodies on the I/O thread, larger ones on a worker."""
    case = random_case(Tk, "float32", 80)
    body, kind = pack(case.q, case.k, case.v, {**case.options, "return": OUTPUTS}, case.tensors,
                      wire)
    coding, packed = packing.FORMS[form]
    plain = client.send("POST", "/v1/attention", body, {"Content-Type": kind})
    answer = send(client, packed(body), coding, kind)
    assert answer.status == plain.status == 200, answer.body[:500]
    assert "Content-Encoding" not in answer.headers
    assert bits(answer) == bits(plain)


@pytest.mark.parametrize("coding", ["GZIP", "Gzip", " gzip ", "X-Gzip"])
def test_names_know_no_case(client, coding):
    assert send(client, packing.FORMS["gzip"][1](raw.BODY), coding).status == 200


@pytest.mark.parametrize("kind", ["application/octet-stream", "text/plain"])
@pytest.mark.parametrize("wire", WIRES)
def test_what_is_recognised_is_what_was_packed(client, wire, kind):
    q = np.ones((3, 2), np.float32)
    body, _ = pack(q, q, q, {}, {}, wire)
    answer = send(client, packing.FORMS["gzip"][1](body), "gzip", kind)
    assert answer.status == 200
    assert answer["output"].shape == (3, 2)


def test_every_route_with_a_body(client):
    packed = packing.FORMS["zstd"][1]
    merge = json.dumps({"outputs": [[[3]], [[6]]], "lses": [[0], [0]]}).encode()
    assert send(client, packed(merge), "zstd", path="/v1/merge")["output"].tolist() == [[4.5]]
    scaling = json.dumps({"d_k": [4], "samples": 100}).encode()
    assert send(client, packed(scaling), "zstd", path="/v1/experiments/scaling").status == 200


def test_in_chunks_and_small_pieces(daemon):
    packed = packing.FORMS["gzip"][1](raw.BODY)
    head = raw.post(b"", "Content-Encoding: gzip").replace(b"Content-Length: 0",
                                                          b"Transfer-Encoding: chunked")
    with raw.Connection(daemon.port) as connection:
        connection.send(head)
        for byte in packed:
            connection.send(b"1\r\n" + bytes([byte]) + b"\r\n")
        assert connection.ask(b"0\r\n\r\n").status == 200
        assert connection.ask(raw.post()).status == 200


@pytest.mark.parametrize("lines, words", [
    (("Content-Encoding: br",), "send gzip, deflate or zstd, or the body as it is"),
    (("Content-Encoding: gzip, gzip",), "more than one coding"),
    (("Content-Encoding: identity, deflate",), "more than one coding"),
    (("Content-Encoding: gzip", "Content-Encoding: gzip"), "more than one Content-Encoding"),
])
def test_codings_that_are_not_taken(daemon, lines, words):
    with raw.Connection(daemon.port) as connection:
        answer = connection.ask(raw.post(raw.BODY, *lines))
        assert (answer.status, answer.problem) == (415, "unsupported-media-type")
        assert words in json.loads(answer.body)["detail"]
        assert connection.ask(raw.post()).status == 200


@pytest.mark.parametrize("form, name", [("gzip", "gzip"), ("zstd", "zstd")])
@pytest.mark.parametrize("kind", [JSON_TYPE, SAFETENSORS_TYPE, "application/octet-stream"])
def test_a_header_that_is_missing_is_named(client, kind, form, name):
    packed = packing.FORMS[form][1](raw.BODY)
    answer = client.send("POST", "/v1/attention", packed, {"Content-Type": kind})
    assert problem(answer) == (415, "unsupported-media-type")
    assert f"Content-Encoding: {name}" in answer.json["detail"]


def test_a_safetensors_file_that_begins_like_gzip_is_none(client):
    """The length of its header, 0x088b1f bytes, is what makes it look so."""
    q = np.ones((1, 1), np.float32).tobytes()
    entries = {name: {"dtype": "F32", "shape": [1, 1], "data_offsets": [4 * i, 4 * i + 4]}
               for i, name in enumerate("qkv")}
    header = json.dumps(entries).encode().ljust(0x088b1f)
    body = len(header).to_bytes(8, "little") + header + 3 * q
    assert body[:3] == b"\x1f\x8b\x08"
    answer = client.send("POST", "/v1/attention", body, {"Content-Type": SAFETENSORS_TYPE})
    assert answer.status == 200, answer.body


@pytest.mark.parametrize("form", packing.FORMS)
def test_a_stream_that_is_cut(client, form):
    coding, packed = packing.FORMS[form]
    whole = packed(b" " * 300_000 + raw.BODY)
    for end in random.Random(1).sample(range(1, len(whole)), 40):
        answer = send(client, whole[:end], coding)
        assert problem(answer) == (400, "malformed"), (end, answer.body)
        # A few bytes of a second stream's first ones are not known for such.
        assert re.search("in the middle|Behind the end", answer.json["detail"])


@pytest.mark.parametrize("form", packing.FORMS)
def test_what_follows_a_stream(client, form):
    coding, packed = packing.FORMS[form]
    answer = send(client, packed(raw.BODY) + b"\0", coding)
    assert problem(answer) == (400, "malformed")
    assert "Behind the end" in answer.json["detail"]


@pytest.mark.parametrize("form", packing.FORMS)
def test_a_stream_that_is_damaged(client, form):
    """Whatever a changed bit leads to is an answer."""
    chance = random.Random(2)
    coding, packed = packing.FORMS[form]
    whole = packed(raw.BODY)
    for _ in range(200):
        bad = bytearray(whole)
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        assert send(client, bytes(bad), coding).status in (200, 400, 413, 422)
    assert send(client, whole, coding).status == 200


def test_dictionaries_are_refused(client):
    packer = zlib.compressobj(zdict=raw.BODY)
    answer = send(client, packer.compress(raw.BODY) + packer.flush(), "deflate")
    assert problem(answer) == (400, "malformed")
    assert "dictionary" in answer.json["detail"]


@pytest.fixture(scope="module")
def small():
    with Daemon("--max-body", "64MiB", "--json-max-body", "1MiB", "--threads", "1") as daemon:
        yield daemon


@pytest.mark.parametrize("kind", [JSON_TYPE, "text/plain"])
@pytest.mark.parametrize("form", packing.FORMS)
def test_the_limits_are_those_of_a_plain_body(small, form, kind):
    coding, packed = packing.FORMS[form]
    fits = raw.BODY.ljust(1 << 20)
    assert send(small.client, packed(fits), coding, kind).status == 200
    answer = send(small.client, packed(fits + b" "), coding, kind)
    assert problem(answer) == (413, "body-too-large")
    assert answer.json["limit"] == 1 << 20


def test_a_mask_of_zeros_is_no_bomb(client):
    """16 MiB of zeros, after some hundred KiB of numbers that do not pack."""
    T = 4096
    q = np.random.default_rng(3).standard_normal((T, 16)).astype(np.float32)
    body, kind = pack(q, q, q, {"mask": {"type": "hide", "tensor": "m"}},
                      {"m": np.zeros((T, T), np.bool_)})
    packed = packing.FORMS["gzip"][1](body)
    assert len(packed) < len(body) / 10
    answer = send(client, packed, "gzip", kind)
    assert answer.status == 200, answer.body[:300]
    plain = client.send("POST", "/v1/attention", body, {"Content-Type": kind})
    assert bits(answer) == bits(plain)


BOMBS = {
    "gzip": ("gzip", lambda: packing.bomb("gzip", 10)),
    "deflate": ("deflate", lambda: packing.endless_deflate(10)),
    "zstd": ("zstd", lambda: packing.bomb("zstd", 10)),
}


def peak(daemon):
    with open(f"/proc/{daemon.process.pid}/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_of_ten_gigabytes(small, name):
    """It costs at most what its largest plain body does, here 64 MiB, while that grows; and others
    are answered meanwhile."""
    coding, make = BOMBS[name]
    body, waits, over = make(), [], threading.Event()

    def others():
        with raw.Connection(small.port) as connection:
            while not over.is_set():
                begin = time.monotonic()
                assert connection.ask(raw.post()).status == 200
                waits.append(time.monotonic() - begin)

    before = peak(small)
    beside = threading.Thread(target=others)
    beside.start()
    begin = time.monotonic()
    answer = send(small.client, body, coding, SAFETENSORS_TYPE)
    took = time.monotonic() - begin
    over.set()
    beside.join()
    assert problem(answer) == (413, "body-too-large")
    assert answer.json["limit"] <= 64 << 20
    assert took < 10
    assert len(waits) > 3 and max(waits) < 2
    grown = peak(small) - before
    assert grown < 1.6 * (64 << 20) + len(body) + (16 << 20) or "san/" in BINARY
    raw.until(lambda: raw.samples(small.client)["attention_in_flight_bytes"] == 0)


def many_zeros(numbers):
    """One query and one key; its value, and the output, have so many numbers."""
    one = np.ones((1, 1), np.float32)
    body, _ = pack(one, one, np.zeros((1, numbers), np.float32))
    return packing.FORMS["gzip"][1](body)


def test_the_ratio_is_an_option():
    body = many_zeros(9 << 18)
    with Daemon("--max-compression-ratio", "2") as daemon:
        answer = send(daemon.client, body, "gzip", SAFETENSORS_TYPE)
        assert problem(answer) == (413, "body-too-large")
        assert "max_compression_ratio" in answer.json["detail"]
    with Daemon("--max-compression-ratio", "5000") as daemon:
        assert send(daemon.client, body, "gzip", SAFETENSORS_TYPE).status == 200


@functools.cache
def noise():
    """60 MiB that pack to a half, and take a worker some tenths of a second."""
    numbers = np.random.default_rng(4).integers(0, 16, 60 << 20)
    return zlib.compress(numbers.astype(np.uint8).tobytes(), 1)


def test_a_deadline_ends_it(small):
    """Unpacking looks up every megabyte or so."""
    body = noise()
    begin = time.monotonic()
    answer = send(small.client, body, "deflate", SAFETENSORS_TYPE,
                  path="/v1/attention?timeout_ms=100")
    assert problem(answer) == (504, "deadline-exceeded")
    assert time.monotonic() - begin < 5
    raw.until(lambda: raw.samples(small.client)["attention_in_flight_bytes"] == 0, 5)


def test_a_client_that_goes_ends_it(small):
    body = noise()
    whole = raw.post(body, "Content-Encoding: deflate").replace(JSON_TYPE.encode(),
                                                                SAFETENSORS_TYPE.encode())
    with raw.Connection(small.port) as connection:
        connection.send(whole)
    raw.until(lambda: raw.samples(small.client)["attention_in_flight_bytes"] == 0, 5)


def test_unpacking_waits_in_the_queue():
    with Daemon("--threads", "1", "--inline-microseconds", "0") as daemon:
        answer = send(daemon.client, many_zeros(1 << 20), "gzip", SAFETENSORS_TYPE)
        assert answer.status == 200
        timing = answer.headers["Server-Timing"]
        assert all(stage in timing for stage in ("read", "decode", "queue", "compute", "encode"))
        assert answer.meta["timings_ms"]["decode"] > 1
        assert raw.samples(daemon.client)["attention_queue_depth"] == 0

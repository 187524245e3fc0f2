# SPDX-License-Identifier: Apache-2.0
"""Rows 65 to 75: safetensors, npy and npz, packed bodies, base64, and tensors as bytes behind JSON.
"""
import gzip
import io
import json
import struct
import zipfile

import numpy as np
import pytest
from support import folders, oip, packing, raw
from support.client import JSON_TYPE, NPZ_TYPE, SAFETENSORS_TYPE, savez

from catalogue.json_bodies import case, cases
from catalogue.row import Row, accepted, refused, typed

FLOAT = np.float32(2).tobytes()
SMALL = ("--max-body", "1MiB", "--json-max-body", "1MiB")


def entries(**offsets):
    """A header of one-element tensors at these offsets."""
    return {name: {"dtype": "F32", "shape": [1, 1], "data_offsets": [at, at + 4]}
            for name, at in offsets.items()}


def safetensors(header, data, **more):
    body = folders.safetensors_body({"header": header, "data": data, **more})
    return typed(body, SAFETENSORS_TYPE)


def many_entries(scene):
    return safetensors(entries(**{f"x{n}": 4 * n for n in range(100_000)}), 400_000)


def misaligned():
    """Behind a header of odd length; its tensors are copied."""
    text = json.dumps(entries(q=0, k=4, v=8)).encode()
    text += b" " * (len(text) % 2 == 0)
    return typed(struct.pack("<Q", len(text)) + text + 3 * FLOAT, SAFETENSORS_TYPE)


def npz(**members):
    """An archive of arrays, or of bytes that stand for a member as they are."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for name, member in {"k": np.eye(1), "v": np.eye(1), **members}.items():
            if not isinstance(member, bytes):
                text = io.BytesIO()
                np.save(text, member)
                member = text.getvalue()
            archive.writestr(f"{name}.npy", member)
    return typed(body.getvalue(), NPZ_TYPE)


class Trap:
    """Whoever unpickles it fails the test."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was read",)


def npy(header, length=None, data=bytes(8)):
    """A file of numpy's with this text as its header."""
    text = header.encode()
    return b"\x93NUMPY\x02\0" + struct.pack("<I", len(text) if length is None else length) + \
        text + data


def zeros_that_grow(scene):
    zeros = np.zeros((1, 1, 100, 1 << 16), np.float32)
    return typed(savez(np.savez_compressed, {"q": zeros, "k": zeros, "v": zeros}, {}), NPZ_TYPE)


def bomb(scene):
    return typed(packing.bomb("gzip", 1), SAFETENSORS_TYPE, "Content-Encoding: gzip")


def wrong_checksum():
    """Of a byte of the data, which nothing else protects."""
    body = bytearray(npz(q=np.eye(1)))
    at = body.index(np.float64(1).tobytes())
    body[at] ^= 1
    return bytes(body)


def packed(data, **more):
    return raw.post(data, "Content-Encoding: gzip", **more)


def swapped(x):
    return np.asfortranarray(x.astype(x.dtype.newbyteorder(">")))


def numbers(name):
    return np.random.default_rng(len(name)).standard_normal((2, 3, 4))


def usual_bits(scene, answer):
    """Those of the same tensors in rows and little-endian."""
    members = {name: numbers(name) for name in ("q", "kk", "vvv")}
    plain = scene.connection.ask(npz(q=members["q"], k=members["kk"], v=members["vvv"]))
    found = [np.load(io.BytesIO(one.body))["output"].tobytes() for one in (plain, answer)]
    assert found[0] == found[1]


def infer(change=lambda request: None, extra=b"", length=None):
    """A binary request of the Open Inference Protocol, with its JSON changed."""
    inputs = dict.fromkeys("qkv", np.ones((1, 1), np.float32))
    body, headers = oip.pack(inputs)
    at = int(headers[oip.LENGTH])
    request = json.loads(body[:at])
    change(request)
    text = json.dumps(request).encode()
    stated = len(text) if length is None else length
    return typed(text + body[at:] + extra, JSON_TYPE, f"{oip.LENGTH}: {stated}",
                 path="/v2/models/attention/infer")


def size_of_q(size):
    def change(request):
        request["inputs"][0]["parameters"]["binary_data_size"] = size
    return change


def of_the_protocol(sent, status, problem):
    return refused(sent, status, problem, oip=True)


ROWS = [
    Row(65, "safetensors header of 2^40 bytes, of 0, past the end", {
        "2^40": refused(safetensors(entries(q=0, k=4, v=8), 12, header_length=1 << 40), 400,
                        "malformed"),
        "0": refused(safetensors("", 0), 400, "malformed"),
        **cases("safetensors-header-length-beyond-the-body")}),
    Row(66, "safetensors with overlaps, holes, reversed or misaligned", {
        **cases("safetensors-overlap", "safetensors-hole"),
        "reversed": refused(safetensors({**entries(k=4, v=8), "q": {
            "dtype": "F32", "shape": [1, 1], "data_offsets": [4, 0]}}, 12), 400, "malformed"),
        "misaligned": accepted(misaligned(), note="copied")}),
    Row(67, "safetensors extent that is not shape times dtype", cases("safetensors-size-mismatch")),
    Row(68, "safetensors with 100,000 entries, or a name twice", {
        "many": refused(many_entries, 400, "malformed"), **cases("safetensors-name-twice")}),
    Row(69, "npy in column order and big-endian", {
        "": accepted(npz(q=swapped(numbers("q")), k=swapped(numbers("kk")),
                         v=swapped(numbers("vvv"))), usual_bits, note="the usual bits")}),
    Row(70, "npy of pickled objects", {
        "": refused(npz(q=np.array([[Trap()]], dtype=object)), 422, "bad-dtype",
                    note="not read")}),
    Row(71, "npy header that is huge, has no end, or is code", {
        "huge": refused(npz(q=npy("{", 1 << 31)), 400, "malformed"),
        "no end": refused(npz(q=npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,")), 400,
                          "malformed"),
        "code": refused(npz(q=npy("__import__('os').abort()")), 400, "malformed")}),
    Row(72, "npz or gzip bomb, one in another, wrong checksum", {
        "npz": refused(zeros_that_grow, 413, "body-too-large", daemon=SMALL),
        "gzip": refused(bomb, 413, "body-too-large", daemon=SMALL),
        "nested": refused(packed(gzip.compress(gzip.compress(raw.BODY))), 400,
                          "malformed"),
        "npz checksum": refused(wrong_checksum(), 400, "malformed"),
        "gzip checksum": refused(packed(gzip.compress(raw.BODY)[:-8] + bytes(8)), 400,
                                 "malformed")}),
    Row(73, "base64 with junk, or badly padded", {
        **cases("base64-bad-character"),
        "padding": refused(raw.post(json.dumps({
            "q": {"shape": [1, 1], "dtype": "float32", "base64": "AAAAAA="}, "k": [[1]],
            "v": [[1]]}).encode()), 400, "malformed")}),
    Row(74, "sizes of tensors behind JSON that do not add up", {
        "too much": of_the_protocol(infer(extra=b"1234"), 400, "malformed"),
        "too little": of_the_protocol(infer(size_of_q(8)), 400, "malformed"),
        "negative": of_the_protocol(infer(size_of_q(-4)), 422, "bad-value"),
        "JSON past the end": of_the_protocol(infer(length=1 << 20), 400, "malformed"),
        "JSON of 2^40": of_the_protocol(infer(length=1 << 40), 413, "body-too-large")}),
    Row(75, "length that is no multiple of the dtype's", {
        "safetensors": refused(safetensors({**entries(k=3, v=7), "q": {
            "dtype": "F32", "shape": [1, 1], "data_offsets": [0, 3]}}, 11), 400, "malformed"),
        "base64": case("tensor-base64-length-of-one")}),
]

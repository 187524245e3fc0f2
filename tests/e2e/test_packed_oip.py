# SPDX-License-Identifier: Apache-2.0
"""Compressed bodies in the Open Inference Protocol: gzip and deflate, which its clients know, and
answers by Accept-Encoding alone where it names one coding and nothing else."""
import asyncio
import json
import zlib

import numpy as np
import pytest
import tritonclient.http
import tritonclient.http.aio
from support import packing, raw

INFER = "/v2/models/attention/infer"
LENGTH = "Inference-Header-Content-Length"
FORM_OF = {"gzip": "gzip", "deflate": "zlib", "zstd": "zstd"}
ROWS = [
    (None, None, None),
    (None, "gzip, deflate", None),  # what aiohttp sends unasked
    (None, "gzip, deflate, br", None),
    (None, "gzip", "gzip"),  # response_compression_algorithm of tritonclient
    (None, "deflate", "deflate"),
    (None, "gzip;q=0", None),
    (None, "zstd", None),
    (None, "identity", None),
    (None, "*", None),
    ("gzip", None, None),
    ("gzip", "gzip, deflate", "gzip"),
    ("deflate", "gzip, deflate", "deflate"),
    ("deflate", "gzip", "gzip"),
]


def request(binary):
    """(body, length of its JSON or None) of a call whose answer packs to little."""
    q = np.zeros((1, 1, 200, 4), np.float32)
    tensors = {"q": q, "k": q, "v": q}
    document = {"parameters": {"binary_data_output": binary}, "inputs": [
        {"name": name, "shape": list(tensor.shape), "datatype": "FP32",
         **({"parameters": {"binary_data_size": tensor.nbytes}} if binary
            else {"data": tensor.ravel().tolist()})} for name, tensor in tensors.items()]}
    text = json.dumps(document).encode()
    data = b"".join(tensor.tobytes() for tensor in tensors.values()) if binary else b""
    return text + data, len(text) if binary else None


def ask(daemon, body, length, content=None, accept=None, path=INFER):
    lines = [f"{LENGTH}: {length}"] if length is not None else []
    lines += [f"Accept-Encoding: {accept}"] if accept else []
    if content:
        lines.append(f"Content-Encoding: {content}")
        body = packing.FORMS[FORM_OF[content]][1](body)
    with raw.Connection(daemon.port) as connection:
        return connection.ask(raw.post(body, *lines, path=path))


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("content, accept, expected", ROWS)
def test_when_answers_are_packed(daemon, content, accept, expected, binary):
    body, length = request(binary)
    plain = ask(daemon, body, length)
    answer = ask(daemon, body, length, content, accept)
    assert answer.status == plain.status == 200, answer.body
    assert answer.headers.get("content-encoding") == expected
    assert answer.headers["vary"] == "Accept-Encoding, Origin"
    unpacked = packing.unpack(expected, answer.body) if expected else answer.body
    split = int(answer.headers.get(LENGTH.lower(), len(unpacked)))  # of the unpacked bytes
    assert json.loads(unpacked[:split])["outputs"][0]["shape"] == [1, 1, 200, 4]
    assert unpacked[split:] == (bytes(3200) if binary else b"")


def test_zstd_is_not_known_here(daemon):
    body, length = request(True)
    answer = ask(daemon, body, length, "zstd")
    assert answer.status == 415
    assert "send gzip or deflate" in json.loads(answer.body)["error"]
    answer = ask(daemon, body, length, path=INFER + "?compress=zstd")
    assert answer.status == 422 and "none, gzip or deflate" in json.loads(answer.body)["error"]


def test_refusals_and_metadata_are_never_packed(daemon):
    answer = ask(daemon, b"{", None, "gzip", "gzip")
    assert (answer.status, list(json.loads(answer.body))) == (400, ["error"])
    assert "content-encoding" not in answer.headers
    with raw.Connection(daemon.port) as connection:
        for path in ("/v2", "/v2/health/ready", "/v2/models/attention"):
            answer = connection.ask(raw.get(path, "Accept-Encoding: gzip"))
            assert answer.status == 200 and "content-encoding" not in answer.headers


def test_a_cut_stream_is_named(daemon):
    body, length = request(True)
    with raw.Connection(daemon.port) as connection:
        answer = connection.ask(raw.post(zlib.compress(body)[:-7], "Content-Encoding: deflate",
                                         f"{LENGTH}: {length}", path=INFER))
        assert answer.status == 400 and "in the middle" in json.loads(answer.body)["error"]


ALGORITHMS = (None, "gzip", "deflate")


def triton_inputs(client_library, tensor):
    inputs = [client_library.InferInput(name, list(tensor.shape), "FP32") for name in "qkv"]
    for given in inputs:
        given.set_data_from_numpy(tensor)
    return inputs


@pytest.mark.parametrize("answer_by", ALGORITHMS)
@pytest.mark.parametrize("request_by", ALGORITHMS)
def test_the_triton_client(daemon, request_by, answer_by):
    """Both of its kinds; the one that is asynchronous has aiohttp's own Accept-Encoding."""
    tensor = np.random.default_rng(6).standard_normal((1, 2, 300, 8)).astype(np.float32).round(1)
    how = {"request_compression_algorithm": request_by,
           "response_compression_algorithm": answer_by}
    address = f"127.0.0.1:{daemon.port}"

    async def ask_asynchronously():
        async with tritonclient.http.aio.InferenceServerClient(address) as client:
            return await client.infer("attention", triton_inputs(tritonclient.http, tensor), **how)

    client = tritonclient.http.InferenceServerClient(address)
    answers = [client.infer("attention", triton_inputs(tritonclient.http, tensor), **how),
               asyncio.run(ask_asynchronously())]
    client.close()
    expected = daemon.client.attention(tensor, tensor, tensor)["output"]
    for answer in answers:
        assert answer.as_numpy("output").tobytes() == expected.tobytes()

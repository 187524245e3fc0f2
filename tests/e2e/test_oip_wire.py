# SPDX-License-Identifier: Apache-2.0
"""Requests byte by byte as clients write them, and the bytes of the answers as those read them:
what is particular to each stands in its test. tests/clients runs those that can be installed.
Neither of Go's two that speak HTTP could be had from the proxy of Go's modules: what they send was
written down while they called a daemon. Triton's in C++ is no package.
"""
import gzip
import json
import re
import struct

import pytest
from support import raw

INFER = "POST /v2/models/attention/infer HTTP/1.1"
JSON_INPUTS = (b'{"name":"q","shape":[1,1],"datatype":"FP32","data":[1.0]},'
               b'{"name":"k","shape":[1,1],"datatype":"FP32","data":[1.0]},'
               b'{"name":"v","shape":[1,1],"datatype":"FP32","data":[2.5]}')
BYTE_INPUTS = b",".join(
    b'{"name":"%s","shape":[1,1],"datatype":"FP32","parameters":{"binary_data_size":4}}' % name
    for name in (b"q", b"k", b"v"))
BLOBS = struct.pack("<3f", 1, 1, 2.5)


def ask(daemon, text, blobs, *headers, first=INFER):
    lines = [first, "Host: localhost", *headers, f"Content-Length: {len(text) + len(blobs)}"]
    with raw.Connection(daemon.port) as connection:
        return connection.ask("\r\n".join(lines).encode() + b"\r\n\r\n" + text + blobs)


def check_bytes(answer, id_text):
    """The one output as bytes: Java's client reads members in any order but knows no others, and
    the bytes behind the JSON must be exactly those of the sizes."""
    assert (answer.status, answer.headers["content-type"]) == (200, "application/octet-stream")
    length = int(answer.headers["inference-header-content-length"])
    text = answer.body[:length].decode()
    assert text.startswith('{"model_name":"attention","model_version":"1"' + id_text +
                           ',"parameters":{"request_id":"')
    assert text.endswith('},"outputs":[{"name":"output","datatype":"FP32","shape":[1,1],'
                         '"parameters":{"binary_data_size":4}}]}')
    assert answer.body[length:] == struct.pack("<f", 2.5)
    assert int(answer.headers["content-length"]) == length + 4


def test_cpp_client_always_sends_the_length(daemon):
    """Also where all is JSON; priorities and timeouts are numbers; libcurl accepts anything."""
    text = b'{"id":"1","parameters":{"priority":1,"timeout":5000000},"inputs":[' + JSON_INPUTS + \
        b'],"outputs":[{"name":"output","parameters":{"binary_data":false}}]}'
    answer = ask(daemon, text, b"", "Accept: */*", "Content-Type: application/json",
                 f"Inference-Header-Content-Length: {len(text)}")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert "inference-header-content-length" not in answer.headers
    assert json.loads(answer.body)["outputs"] == [
        {"name": "output", "datatype": "FP32", "shape": [1, 1], "data": [2.5]}]


def test_cpp_client_sends_bytes(daemon):
    text = b'{"id":"","parameters":{"binary_data_output":true},"inputs":[' + BYTE_INPUTS + b"]}"
    check_bytes(ask(daemon, text, BLOBS, "Accept: */*", "Content-Type: application/octet-stream",
                    f"Inference-Header-Content-Length: {len(text)}"), ',"id":""')


def test_cpp_client_takes_outputs_with_parameters_for_bytes(daemon):
    """It reads a binary_data_size wherever there are parameters, and fails where there is none."""
    text = b'{"id":"1","inputs":[' + JSON_INPUTS + b'],"outputs":[' + b",".join(
        b'{"name":"%s","parameters":{"binary_data":false}}' % name
        for name in (b"stats", b"lse", b"col_sums")) + b"]}"
    body = json.loads(ask(daemon, text, b"", "Accept: */*", "Content-Type: application/json",
                          f"Inference-Header-Content-Length: {len(text)}").body)
    assert all(set(output) == {"name", "datatype", "shape", "data"} for output in body["outputs"])
    assert len(body["parameters"]["stats_order"].split(",")) == body["outputs"][0]["shape"][0]


def test_go_client_takes_gzip_that_it_does_not_ask_for(daemon):
    """github.com/Trendyol/go-triton-client: members in the order of the alphabet, no Content-Type,
    and the Accept-Encoding of Go's transport, which unpacks the answer by itself."""
    inputs = b",".join(
        b'{"datatype":"FP32","name":"%s","parameters":{"binary_data_size":4},"shape":[1,1]}' % name
        for name in (b"q", b"k", b"v"))
    text = b'{"inputs":[' + inputs + b'],"outputs":[{"name":"output","parameters":{}},' + \
        b'{"name":"lse","parameters":{"binary_data":true}}],"parameters":{"timeout":5000000}}'
    answer = ask(daemon, text, BLOBS, "User-Agent: Go-http-client/1.1",
                 f"Inference-Header-Content-Length: {len(text)}", "Accept-Encoding: gzip")
    assert (answer.status, answer.headers["content-encoding"]) == (200, "gzip")
    body = gzip.decompress(answer.body)
    length = int(answer.headers["inference-header-content-length"])
    output, lse = json.loads(body[:length])["outputs"]
    assert (output["name"], output["data"], "parameters" in output) == ("output", [2.5], False)
    assert (lse["parameters"], body[length:]) == ({"binary_data_size": 4}, struct.pack("<f", 1))


def test_go_client_asks_for_bytes_where_it_lists_no_outputs(daemon):
    """And sends what it may as parameters of sequences, each of which changes nothing."""
    inputs = BYTE_INPUTS.replace(b'"shape":[1,1],"datatype":"FP32"', b'"datatype":"FP32"').replace(
        b'":4}', b'":4},"shape":[1,1]')
    text = b'{"id":"7","inputs":[' + inputs + b'],"parameters":{"binary_data_output":true,' + \
        b'"priority":1,"sequence_end":true,"sequence_id":3,"sequence_start":true}}'
    check_bytes(ask(daemon, text, BLOBS, "User-Agent: Go-http-client/1.1",
                    f"Inference-Header-Content-Length: {len(text)}"), ',"id":"7"')


@pytest.mark.parametrize(("first", "text", "wanted"), [
    ("GET /v2/health/live", b"", {"live": True}),
    ("GET /v2/models/attention/versions/1/ready", b"", {"name": "attention", "ready": True}),
    ("POST /v2/repository/index", b'{"repository_name":"","ready":true}', [
        {"name": name, "version": "1", "state": "READY", "reason": ""}
        for name in ("attention", "onnx_attention")]),
    ("POST /v2/repository/models/attention/load", b"", {}),
    ("POST /v2/models/attention/versions/1/infer",
     b'{"inputs":[' + JSON_INPUTS + b'],"outputs":[{"name":"output","parameters":{}}]}',
     [{"name": "output", "datatype": "FP32", "shape": [1, 1], "data": [2.5]}])])
def test_go_client_for_numbers_has_a_content_type_everywhere(daemon, first, text, wanted):
    """github.com/sunhailin-Leo/triton-service-go: a version in every path, JSON even where nothing
    is sent, and it reads an answer to load, which Triton leaves empty."""
    answer = ask(daemon, text, b"", "User-Agent: fasthttp", "Content-Type: application/json",
                 first=f"{first} HTTP/1.1")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    body = json.loads(answer.body)
    assert (body["outputs"] if first.endswith("infer") else body) == wanted


def test_java_client_sends_no_content_type(daemon):
    text = b'{"inputs":[' + BYTE_INPUTS + b'],"parameters":{"binary_data_output":true}}'
    check_bytes(ask(daemon, text, BLOBS, f"Inference-Header-Content-Length: {len(text)}",
                    "Connection: Keep-Alive"), "")


def test_kserve_client_writes_the_length_in_small_letters(daemon):
    """And its model's name, a UUID, and null beside the size of an empty tensor."""
    text = b'{"id":"a5c0","model_name":"attention","inputs":[' + BYTE_INPUTS.replace(
        b'"shape":[1,1],"datatype":"FP32","parameters":{"binary_data_size":4}}',
        b'"shape":[0,1],"datatype":"FP32","parameters":{"binary_data_size":0},"data":null}') + b"]}"
    answer = ask(daemon, text, b"", "accept: */*", "accept-encoding: gzip, deflate",
                 "content-type: application/octet-stream",
                 f"inference-header-content-length: {len(text)}")
    assert answer.status == 200 and "content-encoding" not in answer.headers
    body = json.loads(answer.body)
    assert (body["model_name"], body["id"]) == ("attention", "a5c0")
    assert body["outputs"] == [{"name": "output", "datatype": "FP32", "shape": [0, 1], "data": []}]


@pytest.mark.parametrize(("path", "wanted"), [
    ("/v2/health/live", rb'\{"live":true\}\n'),
    ("/v2/health/ready", rb'\{"live":true,"ready":true\}\n'),
    ("/v2/models/attention/ready", rb'\{"name":"attention","ready":true\}\n'),
    ("/v2/models/attention/config", rb'\{"name":"attention",.*"max_batch_size":0,"input":\[\{.*'),
    ("/v2/models/attention/versions/1/stats",
     rb'\{"model_stats":\[\{"name":"attention","version":"1","last_inference":\d+,.*')])
def test_answers_that_perf_analyzer_and_probes_read(daemon, path, wanted):
    with raw.Connection(daemon.port) as connection:
        answer = connection.ask(raw.get(path, "Accept-Encoding: gzip, deflate, br"))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert "content-encoding" not in answer.headers
    assert re.fullmatch(wanted, answer.body, flags=re.S)


@pytest.mark.parametrize("path", ["/v2/repository/index", "/v2/repository/models/attention/load",
                                  "/v2/repository/models/onnx_attention/unload"])
@pytest.mark.parametrize("rest", ["", "Content-Length: 0\r\n", "Content-Length: 14\r\n"])
def test_repository_posts_may_have_no_body_and_no_length(daemon, path, rest):
    body = '{"ready":true}' if "14" in rest else ""
    with raw.Connection(daemon.port) as connection:
        for _ in range(2):  # the connection stays in step
            answer = connection.ask(
                f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{rest}\r\n{body}".encode())
            assert answer.status == 200
            assert (b'"state":"READY"' in answer.body) == path.endswith("index")


def test_errors_have_one_member_and_are_never_compressed(daemon):
    with raw.Connection(daemon.port) as connection:
        answer = connection.ask(raw.post(b'{"inputs":[]}', "Accept-Encoding: gzip",
                                         path="/v2/models/attention/infer"))
    assert (answer.status, answer.headers["content-type"]) == (422, "application/json")
    assert "content-encoding" not in answer.headers
    assert re.fullmatch(rb'\{"error":"[^"]+"\}\n', answer.body)

# SPDX-License-Identifier: Apache-2.0
"""The Open Inference Protocol but for inference: what clients ask before and beside it."""
import json
import socket

import pytest
from support import raw
from support.daemon import Daemon

JSON_TYPE = "application/json"
VERSIONED = "/v2/models/{}/versions/{}"


def error_of(answer, status):
    """The sentence of an error, whose form is exact: KServe's client reads no other."""
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"] == JSON_TYPE
    assert list(answer.json) == ["error"]
    return answer.json["error"]


@pytest.fixture(scope="module")
def models(daemon):
    return daemon.client.get("/v2/models").json["models"]


def test_server(client):
    server = client.get("/v2").json
    assert server == client.get("/v2/").json
    assert server["version"] == client.get("/v1").json["version"]
    assert "binary_tensor_data" in server["extensions"]


def test_models(client, models):
    assert models[0] == "attention"
    for model in models:
        metadata = client.get(f"/v2/models/{model}").json
        assert metadata["name"] == model
        assert metadata == client.get(VERSIONED.format(model, 1)).json
        assert client.get(f"/v2/models/{model}/ready").json == {"name": model, "ready": True}
        assert client.get(VERSIONED.format(model, 1) + "/ready").json["ready"] is True


@pytest.mark.parametrize("path", ["/v2/models/resnet", "/v2/models/resnet/ready",
                                  VERSIONED.format("resnet", 1), "/v2/models/Attention"])
def test_unknown_model(client, models, path):
    sentence = error_of(client.get(path), 404)
    assert f"no model \"{path.split('/')[3]}\"" in sentence
    assert all(model in sentence for model in models)


@pytest.mark.parametrize("version", ["2", "01", "latest"])
def test_unknown_version(client, version):
    sentence = error_of(client.get(VERSIONED.format("attention", version)), 404)
    assert f'no version "{version}"' in sentence and sentence.endswith("version is 1.")


@pytest.mark.parametrize(("method", "path", "status", "hint"), [
    ("GET", "/v2/health/liv", 404, "/v2/health/live"),
    ("GET", "/v2/models/attention/redy", 404, "/v2/models/attention/ready"),
    ("GET", "/v2/models/%61ttention", 404, "/v2/models/attention"),
    ("DELETE", "/v2/models/attention", 405, "it has GET"),
    ("FROB", "/v2", 501, "methods"),
    ("POST", "/v2/models", 405, "it has GET")])
def test_errors_of_every_layer_have_the_protocols_form(client, method, path, status, hint):
    answer = client.send(method, path, headers={"Content-Length": "0"} if method == "POST" else {})
    assert hint in error_of(answer, status)


def test_errors_past_the_library_too(daemon):
    """A request line that is too long is answered before there is an exchange."""
    with raw.Connection(daemon.port) as connection:
        answer = connection.ask(raw.get("/v2?" + "a" * 9000))
    assert (answer.status, answer.headers["content-type"]) == (414, JSON_TYPE)
    assert "8192" in json.loads(answer.body)["error"]


def test_a_late_request_too():
    with Daemon("--header-timeout", "100ms", "--log", "off") as server, \
            socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n")
        head, _, body = connection.makefile("rb").read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ") and b"\r\nContent-Type: application/json\r\n" in head
    assert list(json.loads(body)) == ["error"]

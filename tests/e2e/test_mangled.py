# SPDX-License-Identifier: Apache-2.0
"""Bodies that lost or changed bytes on their way, as curl -d, forms and texts make them: each is
refused with a sentence that says how a file keeps its bytes."""
import gzip
import io
import subprocess

import numpy as np
import pytest
import zstandard
from support import oip
from support.client import JSON_TYPE, NPY_TYPE, NPZ_TYPE, SAFETENSORS_TYPE, pack

FORM_TYPE = "application/x-www-form-urlencoded"
ATTENTION, INFER = "/v1/attention", "/v2/models/attention/infer"
MANGLED = {
    "line ends and NUL bytes dropped": lambda body: body.translate(None, b"\r\n\0"),
    "line ends dropped": lambda body: body.translate(None, b"\r\n"),
    "cut at the first NUL byte": lambda body: body.split(b"\0")[0],
    "as a text": lambda body: body.decode("utf-8", "replace").encode(),
    "as a form": lambda body: b"%7B" + body,
}


def operands():
    return np.random.default_rng(3).standard_normal((3, 5, 200))


def plain(wire):
    body, kind = pack(*operands(), wire=wire)
    return ATTENTION, body, {"Content-Type": kind}


def packed(coding, pack_body):
    path, body, headers = plain("safetensors")
    return path, pack_body(body), {**headers, "Content-Encoding": coding}


def of_the_protocol():
    body, headers = oip.pack(dict(zip("qkv", operands(), strict=True)))
    return INFER, body, headers


BODIES = {
    "safetensors": lambda: plain("safetensors"),
    "npz": lambda: plain("npz"),
    "gzip": lambda: packed("gzip", gzip.compress),
    "zstd": lambda: packed("zstd", zstandard.compress),
    "oip": of_the_protocol,
}


def expect_hint(answer):
    assert answer.status == 400, answer.body
    assert "with curl by --data-binary @file" in answer.json.get("detail", answer.json.get("error"))


# Of the protocol's bodies the header says where the JSON ends, and the sentence is about that.
@pytest.mark.parametrize(("name", "how"), [
    (name, how) for name in BODIES for how in MANGLED if (name, how) != ("oip", "as a form")])
def test_it_is_told_how_to_keep_its_bytes(client, name, how):
    path, body, headers = BODIES[name]()
    mangled = MANGLED[how](body)
    expect_hint(client.send("POST", path, mangled, headers))
    if headers.get("Content-Type") in (SAFETENSORS_TYPE, NPZ_TYPE) and not (
            name == "safetensors" and how.startswith("cut")):  # one byte, which may be any text
        expect_hint(client.send("POST", path, mangled, {**headers, "Content-Type": FORM_TYPE}))


@pytest.mark.parametrize("kind", [NPY_TYPE, FORM_TYPE])
@pytest.mark.parametrize("how", MANGLED)
def test_so_is_a_map_to_compare_with(keeping, how, kind):
    client, body = keeping.client, io.BytesIO()
    answer = client.attention(*operands(), {"capture": {"name": "m"}, "return": ["weights"]})
    np.save(body, answer["weights"])
    path = answer.meta["capture"]["url"] + "/compare"
    assert client.send("POST", path, body.getvalue(), {"Content-Type": kind}).status == 200
    expect_hint(client.send("POST", path, MANGLED[how](body.getvalue()), {"Content-Type": kind}))


@pytest.mark.parametrize("first", [b"7", b"x", b"'", b"\x01", b"8 ", b"[1,2"])
def test_what_is_no_json_and_begins_otherwise_may_have_been_a_file(client, first):
    """The first byte of a safetensors file is the low one of a length, whatever that may be."""
    expect_hint(client.send("POST", ATTENTION, first + b'{"__metadata__":{}}',
                            {"Content-Type": FORM_TYPE}))


@pytest.mark.parametrize("text", [b'{"q":[[1]],}', b' {"q":', b'{"q":[[1]]} x', b"{'q':1}"])
def test_a_slip_in_json_gets_no_such_hint(client, text):
    assert b"--data-binary" not in client.send("POST", ATTENTION, text).body


@pytest.mark.parametrize("name", BODIES)
def test_curl(daemon, tmp_path, name):
    """What curl itself makes of the file with -d, and that --data-binary mends it."""
    path, body, headers = BODIES[name]()
    (tmp_path / "body").write_bytes(body)
    words = ["curl", "-s", "-w", "%{http_code}", f"http://127.0.0.1:{daemon.port}{path}",
             *(word for item in headers.items() for word in ("-H", ": ".join(item)))]
    lost = subprocess.check_output([*words, "-d", f"@{tmp_path}/body"])
    assert lost.endswith(b"400") and b"--data-binary" in lost
    whole = subprocess.check_output([*words, "--data-binary", f"@{tmp_path}/body"])
    assert whole.endswith(b"200")


WIRES = {"json": JSON_TYPE, "safetensors": SAFETENSORS_TYPE, "npz": NPZ_TYPE}


@pytest.mark.parametrize(("sent", "said"), [
    (sent, said) for sent in WIRES for said in WIRES if sent != said])
def test_a_type_that_is_not_the_bodys_is_named(sent, said, client):
    body, _ = pack(*operands(), wire=sent)
    answer = client.send("POST", ATTENTION, body, {"Content-Type": WIRES[said]})
    assert (answer.status, answer.json["type"]) == (400, "/problems/malformed")
    assert answer.json["detail"] == (f"Content-Type says {WIRES[said]}, but the body looks like "
                                     f"{WIRES[sent]}. Send it with that type.")

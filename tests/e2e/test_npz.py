# SPDX-License-Identifier: Apache-2.0
"""numpy's containers: whatever numpy saves is understood, and numpy opens what comes back."""
import io
import json
import re
import select
import struct
import time
import zipfile

import numpy as np
import pytest
from support import raw
from support.cases import random_case
from support.client import NPY_TYPE, NPZ_TYPE, SAFETENSORS_TYPE, pack, savez
from support.daemon import Daemon

RETURN = ["output", "lse", "weights", "scores"]
STATED = {"Content-Type": NPZ_TYPE}


def bits(answer):
    return {name: tensor.tobytes() for name, tensor in answer.tensors.items()}


def big(x):
    return x.astype(x.dtype.newbyteorder(">"))


# How arrays lie in the archive; each has to be read as the same numbers.
FORMS = {
    "as they are": np.asarray,
    "in column order": np.asfortranarray,
    "big-endian": big,
    "big-endian, in column order": lambda x: np.asfortranarray(big(x)),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_every_form_gives_the_same_bits(client, dtype, form, save):
    """Masks and biases too; decoding, where kernels read in place what lies in rows, as well."""
    for number, Tk in enumerate((1, 7, 65, 130, 600)):
        case = random_case(Tk, dtype, 70 + number)
        options = {**case.options, "return": RETURN}
        expected = client.attention(case.q, case.k, case.v, options, case.tensors)
        tensors = {name: FORMS[form](x) for name, x in
                   {"q": case.q, "k": case.k, "v": case.v, **case.tensors}.items()}
        answer = client.send("POST", "/v1/attention", savez(save, tensors, options), STATED)
        assert answer.status == 200, answer.body
        assert bits(answer) == bits(expected), str(case)
        assert answer["output"].dtype == case.q.dtype


@pytest.mark.parametrize("kernel", ["decode", "fused"])
def test_the_same_kernel_gives_the_same_bits_in_column_order(client, kernel):
    rng = np.random.default_rng(5)
    q = rng.standard_normal((1, 4, 2, 64)).astype(np.float32)
    k, v = rng.standard_normal((2, 1, 2, 300, 64)).astype(np.float32)
    options = {"kernel": kernel, "mask": {"type": "causal", "align": "bottom_right"}}
    rows = client.attention(q, k, v, options, wire="npz")
    columns = client.attention(*map(np.asfortranarray, (q, k, v)), options, wire="npz")
    assert columns.meta["kernel"] == rows.meta["kernel"]
    assert columns["output"].tobytes() == rows["output"].tobytes()


def test_the_answer_is_an_archive_of_numpys(client):
    case = random_case(33, "float32", 3)
    options = {**case.options, "return": [*RETURN, "stats"]}
    body, _ = pack(case.q, case.k, case.v, options, case.tensors, "npz")
    answer = client.send("POST", "/v1/attention", body, STATED)
    assert answer.headers["Content-Type"] == NPZ_TYPE
    archive = np.load(io.BytesIO(answer.body), allow_pickle=False)
    assert archive.files == ["output", "weights", "scores", "lse", "stats", "meta"]
    assert json.loads(str(archive["meta"]))["shape"]["Tk"] == 33
    usual = client.attention(case.q, case.k, case.v, options, case.tensors)
    assert bits(answer) == bits(usual)
    assert {name: x.tobytes() for name, x in answer.stats.items()} == {
        name: x.tobytes() for name, x in usual.stats.items()}
    members = zipfile.ZipFile(io.BytesIO(answer.body))
    assert members.testzip() is None
    for member in members.infolist():
        name, extra = struct.unpack_from("<HH", answer.body, member.header_offset + 26)
        data = member.header_offset + 30 + name + extra
        array = data + 10 + struct.unpack_from("<H", answer.body, data + 8)[0]
        assert (array % 64, member.compress_type) == (0, zipfile.ZIP_STORED), member.filename


@pytest.mark.parametrize("options", [
    lambda text: np.array(text), lambda text: np.array(text.encode()),
    lambda text: big(np.array(text)), lambda text: np.array([text])],
    ids=["text", "bytes", "big-endian", "list of one"])
def test_options_are_any_text_of_numpys(client, options):
    body = io.BytesIO()
    np.savez(body, q=np.eye(2), k=np.eye(2), v=np.eye(2),
             options=options(json.dumps({"scale": 0, "kernel": "reference"})))
    answer = client.send("POST", "/v1/attention", body.getvalue(), STATED)
    assert answer["output"].tolist() == [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize("kind", ["", "application/octet-stream", "text/plain",
                                  "application/x-www-form-urlencoded", "Application/X-NPZ; a=b"])
def test_an_archive_is_recognised(client, kind):
    body, _ = pack(*np.ones((3, 2, 2)), wire="npz")
    headers = {"Content-Type": kind} if kind else {}
    answer = client.send("POST", "/v1/attention", body, headers)
    assert (answer.status, answer.headers["Content-Type"]) == (200, NPZ_TYPE)


def test_one_tensor_can_be_one_array(client):
    case = random_case(33, "float16", 4)
    usual = client.attention(case.q, case.k, case.v, case.options, case.tensors)
    body, kind = pack(case.q, case.k, case.v, case.options, case.tensors)
    answer = client.send("POST", "/v1/attention", body, {"Content-Type": kind, "Accept": NPY_TYPE})
    assert answer.headers["Content-Type"] == NPY_TYPE
    array = np.load(io.BytesIO(answer.body), allow_pickle=False)
    assert array.dtype == np.float16
    assert array.tobytes() == usual["output"].tobytes()


def refused(client, body, headers, query=""):
    answer = client.send("POST", "/v1/attention" + query, body, headers)
    problem = answer.json
    return answer.status, problem["type"].rsplit("/")[-1], problem.get("pointer"), problem["detail"]


def test_what_numpy_cannot_hold_is_refused(client):
    body, _ = pack(*np.ones((3, 2, 2), np.float32), wire="npz")
    for accept in (NPZ_TYPE, NPY_TYPE):
        status, kind, pointer, detail = refused(client, body, {**STATED, "Accept": accept},
                                                "?output_dtype=bfloat16")
        assert (status, kind, pointer) == (422, "bad-dtype", "/output_dtype")
        assert SAFETENSORS_TYPE in detail
    status, kind, pointer, detail = refused(client, body, {**STATED, "Accept": NPY_TYPE},
                                            "?return=output,lse")
    assert (status, kind, pointer) == (422, "bad-value", "/return")
    assert NPZ_TYPE in detail


@pytest.mark.parametrize("kind", [NPY_TYPE, "application/octet-stream"])
def test_one_array_is_no_call(client, kind):
    body = io.BytesIO()
    np.save(body, np.eye(2))
    status, kind, _, detail = refused(client, body.getvalue(), {"Content-Type": kind})
    assert (status, kind) == (415, "unsupported-media-type")
    assert "numpy.savez" in detail


def test_bfloat16_as_others_save_it_is_sent_elsewhere(client):
    """The extension types of other packages are saved as two raw bytes."""
    body = io.BytesIO()
    halves = np.zeros((2, 2), np.uint16).view("V2")
    np.savez(body, q=halves, k=halves, v=halves)
    status, kind, pointer, detail = refused(client, body.getvalue(), STATED)
    assert (status, kind, pointer) == (422, "bad-dtype", "q")
    assert "bfloat16" in detail and SAFETENSORS_TYPE in detail


class Trap:
    """Whoever unpickles it fails the test."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was read",)


def test_a_pickle_is_not_read(client):
    body = io.BytesIO()
    np.savez(body, q=np.array([[Trap()]], dtype=object), k=np.eye(1), v=np.eye(1))
    status, kind, pointer, detail = refused(client, body.getvalue(), STATED)
    assert (status, kind, pointer) == (422, "bad-dtype", "q")
    assert "pickle" in detail


@pytest.mark.parametrize("options", [{"mask": "causal"}, [1, 2], 3.5])
def test_options_that_are_no_text(client, options):
    body = io.BytesIO()
    np.savez(body, q=np.eye(1), k=np.eye(1), v=np.eye(1), options=options)
    status, kind, pointer, detail = refused(client, body.getvalue(), STATED)
    assert (status, kind, pointer) == (422, "bad-type", "options")
    assert "options=json.dumps({...})" in detail


@pytest.fixture(scope="module")
def limited():
    with Daemon("--max-body", "1MiB", "--memory-budget", "64MiB") as daemon:
        yield daemon.client


def test_a_bomb_does_not_go_off(limited):
    """A hundred kilobytes that would become a hundred megabytes."""
    zeros = np.zeros((1, 1, 100, 1 << 16), np.float32)
    body = savez(np.savez_compressed, {"q": zeros, "k": zeros, "v": zeros}, {})
    assert len(body) < 1 << 20
    answer = limited.send("POST", "/v1/attention", body, STATED)
    problem = answer.json
    assert (answer.status, problem["type"]) == (413, "/problems/body-too-large")
    assert (problem["pointer"], problem["limit"]) == ("q", 1 << 20)
    assert limited.attention(*np.ones((3, 2, 2)), wire="npz").status == 200
    assert b"\nattention_in_flight_bytes 0\n" in limited.get("/metrics").body


def test_others_are_answered_while_little_becomes_much():
    """A body that an I/O thread would read at once, were it not deflated: 150 KB of 144 MB."""
    N = 12000
    q = np.zeros((1, 1, N, 1), np.float32)
    options = {"mask": {"type": "allow", "tensor": "m"}, "return": ["lse"]}
    body = savez(np.savez_compressed, {"q": q, "k": q, "v": q, "m": np.ones((N, N), bool)}, options)
    assert len(body) < 1 << 18
    with Daemon("--io-threads", "1") as daemon, raw.Connection(daemon.port, 60) as connection:
        connection.send(raw.post(body).replace(b"application/json", NPZ_TYPE.encode()))
        longest = 0
        while not select.select([connection.socket], [], [], 0.001)[0]:
            asked = time.monotonic()
            assert daemon.client.get("/healthz").status == 200
            longest = max(longest, time.monotonic() - asked)
        answer = connection.answer()
    assert answer.status == 200, answer.body
    decode, = re.findall(r"decode;dur=([\d.]+)", answer.headers["server-timing"])
    assert longest < float(decode) / 2000, (longest, decode)

# SPDX-License-Identifier: Apache-2.0
"""Inference in the Open Inference Protocol: the same call as the service's own, in other words."""
import json

import numpy as np
import pytest
from support import oip
from support.cases import DTYPES, random_case
from support.client import JSON_TYPE
from support.daemon import Daemon

RESULTS = ["output", "lse", "weights", "scores"]
INFER = "/v2/models/attention/infer"


def operands(Tq=3, Tk=4, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"q": (2, 4, Tq, 8), "k": (2, 2, Tk, 8), "v": (2, 2, Tk, 6)}
    return {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def native(client, inputs, options=None, tensors=None):
    return client.attention(inputs["q"], inputs["k"], inputs["v"], options, tensors)


def refusal(client, body, headers=None):
    """(status, sentence) of an error in the protocol's form."""
    answer = client.send("POST", INFER, body, headers or {})
    assert answer.headers["Content-Type"] == JSON_TYPE and list(answer.json) == ["error"]
    return answer.status, answer.json["error"]


@pytest.mark.parametrize("Tk", [1, 7, 64, 65, 130])
@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_bits(client, dtype, Tk):
    """Through safetensors and through this protocol, as numbers, as bytes and as both."""
    case = random_case(Tk, dtype, 63)
    usual = client.attention(case.q, case.k, case.v, {**case.options, "return": RESULTS},
                             case.tensors)
    inputs = {"q": case.q, "k": case.k, "v": case.v, **case.tensors}
    mixed = {name: number % 2 == 0 for number, name in enumerate(inputs)}
    for binary in (True, False, mixed):
        for as_bytes in (True, False):
            got = oip.infer(client, inputs, {**case.options, "binary_data_output": as_bytes},
                            RESULTS, binary)
            assert list(got) == RESULTS
            for name in RESULTS:
                assert got[name].dtype == usual[name].dtype and got[name].shape == usual[name].shape
                if as_bytes or not np.isnan(oip.from_bfloat16(got[name]) if
                                            got[name].dtype == np.uint16 else got[name]).any():
                    assert got[name].tobytes() == usual[name].tobytes(), (binary, name)


def test_without_outputs_only_the_output_comes_back(client):
    inputs = operands()
    got = oip.infer(client, inputs)
    assert list(got) == ["output"] and "data" in got.json["outputs"][0]
    assert got["output"].tobytes() == native(client, inputs)["output"].tobytes()


def test_the_head_of_the_answer(client):
    """Java's client refuses members that it does not know; what more there is are scalars."""
    got = oip.infer(client, operands(), {"mask": {"type": "causal", "align": "bottom_right"}},
                    id="né \"1\"", model_name="whatever")
    assert set(got.json) == {"model_name", "model_version", "id", "parameters", "outputs"}
    assert (got.json["model_name"], got.json["model_version"]) == ("attention", "1")
    assert got.json["id"] == "né \"1\""
    meta = got.json["parameters"]
    assert (meta["mask"], meta["precision"]) == ("causal(bottom_right)", "float32")
    assert all(isinstance(value, (str, int, float, bool)) for value in meta.values())
    assert "id" not in oip.infer(client, operands()).json


def test_results_of_the_options(client):
    inputs = operands()
    options = {"weights": {"top_k": 2}, "return": "output,weights,stats,col_sums"}
    got = oip.infer(client, inputs, options)
    assert list(got) == ["output", "col_sums", "col_means", "stats", "top_k_weights",
                         "top_k_indices"]
    usual = native(client, inputs, {**options, "return": options["return"].split(",")})
    for name in ("col_sums", "col_means", "top_k_weights", "top_k_indices"):
        assert got[name].tobytes() == usual[name].tobytes()
        assert got[name].dtype == usual[name].dtype
    assert not any("parameters" in output for output in got.json["outputs"])
    bare = oip.infer(client, inputs, {**options, "binary_data_output": True})
    assert all(set(output["parameters"]) == {"binary_data_size"} for output in bare.json["outputs"])
    assert [array.tobytes() for array in bare.values()] == [x.tobytes() for x in got.values()]
    order = got.json["parameters"]["stats_order"].split(",")
    assert order == list(usual.stats)
    for name, row in zip(order, got["stats"], strict=True):
        np.testing.assert_array_equal(row, usual.stats[name])
    assert list(oip.infer(client, inputs, {"weights": {"top_k": 2}}, ["top_k_indices"])) == [
        "top_k_indices"]


@pytest.mark.parametrize("dtype", ["float16", "uint16"])
def test_halves_as_numbers_round_to_nearest(client, dtype):
    """The values of the one key are the output."""
    numbers = [0.1, 1 / 3, 65503.9, 1e-7, -2.5000001, 0]
    request = {"inputs": [
        {"name": name, "shape": [1, size], "datatype": oip.DATATYPES[dtype], "data": data}
        for name, size, data in (("q", 1, [0]), ("k", 1, [[0]]), ("v", 6, [numbers]))]}
    answer = client.send("POST", INFER, json.dumps(request))
    wanted = np.array([numbers])
    wanted = oip.to_bfloat16(wanted) if dtype == "uint16" else wanted.astype(dtype)
    np.testing.assert_array_equal(oip.Outputs(answer)["output"], wanted)


def test_numbers_that_are_not_finite_are_texts(client):
    inputs = operands(Tq=1, Tk=3)
    bias = np.array([0, -np.inf, 1], np.float32)
    got = oip.infer(client, {**inputs, "bias": bias}, outputs=["scores", "lse"], binary=False)
    usual = native(client, inputs, {"bias": "bias", "return": ["scores", "lse"]}, {"bias": bias})
    assert '"-Infinity"' in json.dumps(got.json)
    for name in ("scores", "lse"):
        assert got[name].tobytes() == usual[name].tobytes()


LENGTHS = np.array([3, 2])
INPUT_MASKS = [
    ({"allow": np.tri(3, 4, dtype=bool)}, {"type": "allow", "tensor": "allow"}),
    ({"hide": np.tri(3, 4, dtype=bool)}, {"type": "hide", "tensor": "hide"}),
    ({"keep": np.array([[1, 1, 0, 1], [0, 1, 1, 1]])}, {"type": "padding", "keep": "keep"}),
    ({"kv_lengths": LENGTHS}, {"type": "padding", "kv_lengths": [3, 2]}),
    ({"kv_lengths": LENGTHS, "q_lengths": LENGTHS.astype(np.uint8)},
     {"type": "padding", "kv_lengths": [3, 2], "q_lengths": [3, 2]}),
    ({"q_segments": np.array([0, 0, 1]), "kv_segments": np.array([0, 0, 1, 1])},
     {"type": "segments", "q": "q_segments", "kv": "kv_segments"}),
]


@pytest.mark.parametrize(("more", "mask"), INPUT_MASKS)
@pytest.mark.parametrize("beside", [None, {"type": "window", "left": 2, "right": 1}])
def test_inputs_that_are_parts_of_the_mask(client, more, mask, beside):
    inputs, options = operands(), {"q_offset": 0}
    named = {name: tensor for name, tensor in more.items() if name in mask.values()}
    usual = native(client, inputs, {**options, "mask": [beside, mask] if beside else mask}, named)
    got = oip.infer(client, {**inputs, **more},
                    options if beside is None else {**options, "mask": beside})
    assert got["output"].tobytes() == usual["output"].tobytes()
    assert got.json["parameters"]["mask"] == usual.meta["mask"]


@pytest.mark.parametrize("name", ["bias", "sink", "alibi", "q_offset"])
def test_inputs_that_are_options(client, name):
    inputs = operands()
    value = {"bias": np.ones((3, 4), np.float16), "sink": np.arange(4.), "alibi": np.arange(4.),
             "q_offset": np.array([2, -1])}[name]
    more = {} if name == "q_offset" else {"q_offset": 1}
    usual = native(client, inputs, {**more, "mask": "causal", name: name}, {name: value})
    got = oip.infer(client, {**inputs, name: value}, {**more, "mask": "causal"})
    assert got["output"].tobytes() == usual["output"].tobytes()


def test_an_input_that_an_option_names_is_only_that(client):
    inputs, allow = operands(), np.tri(3, 4, dtype=bool)
    mask = {"not": {"type": "allow", "tensor": "allow"}}
    usual = native(client, inputs, {"mask": mask}, {"allow": allow})
    got = oip.infer(client, {**inputs, "allow": allow}, {"mask": mask})
    assert got["output"].tobytes() == usual["output"].tobytes()


@pytest.mark.parametrize("spelled", [
    {"scale": 0.5, "softcap": 2}, {"scale": "0.5", "softcap": "2"},
    {"scale": 0.5, "softcap": 2, "mask": ""} | {"mask": "[]"}])
def test_scalars_may_be_texts(client, spelled):
    inputs = operands()
    usual = native(client, inputs, {"scale": 0.5, "softcap": 2})
    assert oip.infer(client, inputs, spelled)["output"].tobytes() == usual["output"].tobytes()


def test_parameters_that_clients_add_by_themselves(client):
    added = {"priority": 3, "sequence_id": 7, "sequence_start": True, "sequence_end": False,
             "triton_enable_empty_final_response": False, "timeout": 60_000_000,
             "binary_data_output": True, "headers": {"a": "b"}, "content_type": "np"}
    assert oip.infer(client, operands(), added)["output"].shape == (2, 4, 3, 6)


@pytest.mark.parametrize("number", [
    2**63 - 1, 2**63, 2**64 - 1, 10**30, -2**63, -2**63 - 1, 10**18])
def test_ids_of_sequences_have_64_bits(client, number):
    """Without a sign, as Triton's have: clients draw them at random."""
    added = {"sequence_id": number, "priority": number, "triton_x": number, "scale": number}
    inputs = operands()
    got = oip.infer(client, inputs, added)
    assert got.json["parameters"]["scale"] == float(number)
    usual = native(client, inputs, {"scale": float(number)})
    assert got["output"].tobytes() == usual["output"].tobytes()


@pytest.mark.parametrize("number", [2**63 - 1, 1234567890123456789, -2**63])
def test_whole_numbers_stay_exact(client, number):
    got = oip.infer(client, operands(), {"q_offset": number, "mask": "causal"})
    usual = native(client, operands(), {"q_offset": number, "mask": "causal"})
    assert got["output"].tobytes() == usual["output"].tobytes()
    window = {"mask": {"type": "window", "left": number, "right": 0}, "q_offset": number}
    if number > 0:
        assert str(number) in oip.infer(client, operands(), window).json["parameters"]["mask"]


@pytest.mark.parametrize(("default", "own", "binary"), [
    (None, None, False), (True, None, True), (False, None, False), (True, False, False),
    (False, True, True), (None, True, True)])
def test_binary_output_is_inherited(client, default, own, binary):
    """As the extension's text has it; Triton itself gives JSON for an output that says nothing."""
    options = {} if default is None else {"binary_data_output": default}
    output = {"name": "output"} if own is None else {"name": "output",
                                                      "parameters": {"binary_data": own}}
    got = oip.infer(client, operands(), options, [output])
    assert ("parameters" in got.json["outputs"][0]) == binary
    assert ("data" in got.json["outputs"][0]) != binary


def test_outputs_of_all_sizes_in_any_order(client):
    """Bytes that would not be aligned in the answer are put there in the end."""
    rng = np.random.default_rng(3)
    inputs = {name: rng.standard_normal((1, 1, 1, 1)).astype(np.float16) for name in "qkv"}
    order = ["output", "stats", "lse", "weights", "scores"]
    got = oip.infer(client, inputs, {"binary_data_output": True}, order)
    usual = native(client, inputs, {"return": order})
    assert list(got) == order
    for name in ("output", "lse", "weights", "scores"):
        assert got[name].tobytes() == usual[name].tobytes()
    assert got["stats"][0] == 1


def test_empty_tensors(client):
    """KServe's client sends null beside the size 0."""
    inputs = operands(Tk=0)
    body, headers = oip.pack(inputs)
    request = json.loads(body[:int(headers[oip.LENGTH])])
    for made in request["inputs"][1:]:
        made["data"] = None
    text = json.dumps(request).encode()
    answer = client.send("POST", INFER, text + inputs["q"].tobytes(),
                         {oip.LENGTH: str(len(text))})
    assert not oip.Outputs(answer)["output"].any()
    assert not oip.infer(client, inputs, binary=False)["output"].any()


@pytest.mark.parametrize("kind", [None, "application/json", "application/octet-stream",
                                  "text/html", "image/png"])
@pytest.mark.parametrize("accept", [None, "image/png", "application/json"])
def test_media_types_are_ignored(client, kind, accept):
    body, headers = oip.pack(operands(), {"binary_data_output": True})
    headers.update({} if kind is None else {"Content-Type": kind})
    headers.update({} if accept is None else {"Accept": accept})
    assert list(oip.Outputs(client.send("POST", INFER, body, headers))) == ["output"]


def test_options_in_the_query_string(client):
    inputs = operands(Tk=3)
    body, headers = oip.pack(inputs)
    answer = client.send("POST", INFER + "?mask=causal", body, headers)
    assert oip.Outputs(answer).json["parameters"]["mask"] == "causal"


def test_the_version_in_the_path(client):
    body, headers = oip.pack(operands())
    answer = client.send("POST", "/v2/models/attention/versions/1/infer", body, headers)
    assert list(oip.Outputs(answer)) == ["output"]
    for path in ("/v2/models/attention/versions/2/infer", "/v2/models/resnet/infer"):
        answer = client.send("POST", path, body, headers)
        assert answer.status == 404 and list(answer.json) == ["error"]


def test_timeout_in_microseconds(client):
    inputs = operands(Tq=2000, Tk=2000)
    assert oip.infer(client, inputs, {"timeout": 0, "timeout_ms": 60000})
    body, headers = oip.pack(inputs, {"timeout": 1, "timeout_ms": 60000, "kernel": "reference"})
    status, sentence = refusal(client, body, headers)
    assert status == 504 and "timeout_ms" in sentence


WHOLE = "The request's JSON"
SIZE = {"parameters": {"binary_data_size": 4}}
Q = {"name": "q", "shape": [1, 1], "datatype": "FP32", "data": [1]}


def altered(**changes):
    """A request of which q is changed; a member that is None is left out."""
    changed = {key: value for key, value in {**Q, **changes}.items() if value is not None}
    return json.dumps({"inputs": [changed, {**Q, "name": "k"}, {**Q, "name": "v"}]}).encode()


REFUSALS = [
    (b"", {}, 400, "empty"),
    (b"[]", {}, 422, "a JSON object with inputs"),
    (b"{", {}, 400, WHOLE),
    (b"{}" + bytes(8), {}, 400, oip.LENGTH),
    (b"{}" + bytes(8), {oip.LENGTH: "3"}, 400, "3 of the body's 10 bytes"),
    (b"{}" + bytes(8), {oip.LENGTH: "2"}, 400, "8 are left over"),
    (b"{}" + bytes(8), {oip.LENGTH: "11"}, 400, f"{oip.LENGTH} should be"),
    (b"{}" + bytes(8), {oip.LENGTH: "-2"}, 400, f"{oip.LENGTH} should be"),
    (b"{}" + bytes(8), {oip.LENGTH: "2x"}, 400, f"{oip.LENGTH} should be"),
    (b"{}" + bytes(8), {oip.LENGTH: "9" * 40}, 413, "JSON"),
    (b"{}" + bytes(8), {oip.LENGTH: "0"}, 400, "is 0"),
    (b'{"inputs":[],"output":[]}', {}, 422, 'no "output"'),
    (b'{"inputs":[]}', {}, 422, "q"),
    (b'{"inputs":{}}', {}, 422, "/inputs: Expected a list"),
    (b'{"inputs":[1]}', {}, 422, "/inputs"),
    (b'{"inputs":[{}]}', {}, 422, "/inputs/0: It needs a name"),
    (b'{"id":7,"inputs":[]}', {}, 422, "/id"),
    (b'{"parameters":7,"inputs":[]}', {}, 422, "/parameters"),
    (b'{"inputs":' + b"[" * 200 + b"]" * 200 + b"}", {}, 400, "too deep"),
    (altered(name="k"), {}, 400, "k: Two inputs"),
    (altered(name="q2"), {}, 422, "q2"),
    (altered(datatype=None), {}, 422, "q: The input needs a datatype"),
    (altered(datatype="BYTES"), {}, 422, 'the text "BYTES"'),
    (altered(shape=None), {}, 422, "q: The input needs a shape"),
    (altered(shape=[1, -1]), {}, 422, "q: Axis 1"),
    (altered(shape=[1, 2]), {}, 422, "needs 2 numbers, but data has 1"),
    (altered(shape=[1] * 6), {}, 422, "6 axes"),
    (altered(shape=[2**40, 2**40]), {}, 422, "more bytes than can be counted"),
    (altered(data=None), {}, 422, "binary_data_size"),
    (altered(data=["a"]), {}, 422, "q"),
    (altered(data=[None]), {}, 422, "q"),
    (altered(data=5), {}, 422, "a list of numbers"),
    (altered(parameters={"shared_memory_region": "x"}), {}, 422, "Shared memory is not served"),
    (altered(**SIZE), {}, 422, "both data and binary_data_size"),
    (altered(data=None, **SIZE), {}, 400, "only 0 are left"),
    (altered(data=None, parameters={"binary_data_size": 3}), {}, 400, "needs 4 bytes"),
    (altered(data=None, parameters={"binary_data_size": -4}), {}, 422, "at least 0"),
    (altered(data=None, parameters={"binary_data_size": 2**63 - 1}), {}, 400, "needs 4 bytes"),
    (altered(data=None, parameters={"binary_data_size": "4"}), {}, 422, "whole number"),
]


@pytest.mark.parametrize(("body", "headers", "status", "words"), REFUSALS,
                         ids=range(len(REFUSALS)))
def test_refusals(client, body, headers, status, words):
    got, sentence = refusal(client, body, headers)
    assert (got, words in sentence) == (status, True), sentence


@pytest.mark.parametrize(("options", "outputs", "words"), [
    ({"msk": "causal"}, None, 'Did you mean "mask"'),
    ({"is_causal": True}, None, "mask"),
    ({"dropout": 0.1}, None, "training"),
    ({"scale": True}, None, "/scale"),
    ({"mask": '{"type":'}, None, "The parameter mask"),
    ({"encoding": "flat"}, None, "binary_data_output"),
    ({"return": "lse"}, ["output"], "/parameters/return"),
    ({"binary_data_output": "yes"}, None, "true or false"),
    ({"timeout": "soon"}, None, "/parameters/timeout"),
    ({"timeout": 2**63}, None, "from 0 to 9223372036854775807, but the number 9.22"),
    ({"q_offset": -2**63 - 1}, None, "/q_offset"),
    ({}, ["attention"], 'no output "attention"; it has output, weights'),
    ({}, ["output", "output"], "output: Two outputs"),
    ({}, ["top_k_weights"], "needs the parameter weights with a top_k"),
    ({"weights": {"top_k": 2}}, ["weights"], "top_k_weights"),
    ({}, [{"name": "output", "parameters": {"classification": 3}}], "Classification"),
    ({}, [{"name": "output", "parameters": {"binary_data": 1}}], "true or false"),
    ({"mask": "causal"}, None, "bottom_right")])
def test_refused_parameters_and_outputs(client, options, outputs, words):
    status, sentence = refusal(client, *oip.pack(operands(), options, outputs))
    assert status in (400, 422) and words in sentence, sentence


def test_limits_are_those_of_json_and_of_bytes():
    with Daemon("--json-max-body", "4KiB", "--max-body", "64KiB", "--log", "off") as server:
        inputs = operands(Tq=64, Tk=64)
        assert oip.infer(server.client, inputs)["output"].size
        status, sentence = refusal(server.client, *oip.pack(inputs, binary=False))
        assert status == 413 and "4096" in sentence and "binary_data_size" in sentence
        body, _ = oip.pack(inputs, binary=False)
        assert refusal(server.client, body)[0] == 413
        status, sentence = refusal(server.client, *oip.pack(operands(Tq=256, Tk=256)))
        assert status == 413 and "65536" in sentence

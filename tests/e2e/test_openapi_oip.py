# SPDX-License-Identifier: Apache-2.0
"""What openapi.yaml says of the Open Inference Protocol's requests and answers is what the daemon
reads and writes: each parameter, output and member is looked at on its own."""
import json
import re

import numpy as np
import pytest
from support import oip, tables
from support.contract import CONTRACT, schema


def source(name):
    return (tables.ROOT / f"server/codecs/{name}.c").read_text()


def test_inference_fits_the_schemas(client):
    rng = np.random.default_rng(5)
    inputs = {name: rng.standard_normal((1, 2, 3, 4)).astype(np.float32) for name in "qkv"}
    options = {"return": "output,weights,stats"}
    body, headers = oip.pack(inputs, options, binary=False, id="7")
    schema("OipRequest").validate(json.loads(body))
    schema("OipResponse").validate(client.send("POST", "/v2/models/attention/infer", body,
                                               headers).json)
    schema("OipResponse").validate(
        oip.infer(client, inputs, {**options, "binary_data_output": True}).json)


# Values of parameters by model: those that are read, and those that are not.
READ = {
    "attention": {
        "layout": ["bhtd", "bthd"], "scale": [0.5, "0.5", "1e-2", "none"], "softcap": [3, "2.5"],
        "precision": ["float64"], "output_dtype": ["float16"], "kernel": ["blas"],
        "q_offset": [3, "3", [3], "[3]"], "alibi": [True, "true", [1, 0.5], "1,0.5"],
        "sink": [0, [0, 1], "0,1", "[0,1]"], "mask": ["causal", ["causal"], '["causal"]',
                                                      '{"type":"window","left":1,"right":0}'],
        "rope": [{}, "{}", '{"theta":100}'], "score": ["scaled_dot", '{"type":"scaled_dot"}'],
        "return": [["lse"], "output,lse", '["lse"]'], "weights": [True, "false", '{"top_k":1}'],
        "labels": ['{"q":["a","b","c"]}'],
        "capture": [{"name": "a"}, '{"name":"a"}'], "timeout_ms": [5000, "5000"],
        "timeout": [0, 5_000_000], "binary_data_output": [True], "priority": [1, "x", None],
        "headers": [{}], "sequence_id": [5], "content_type": ["x"], "triton_x": [[1], None]},
    "onnx_attention": {
        "scale": [0, "1"], "softcap": [0, "0", 2], "is_causal": [0, 1, True, "1", "true"],
        "softmax_precision": [1, 11, "16"], "qk_matmul_output_mode": [0, "3"],
        "left_window_size": [-1, 2, "2"], "right_window_size": [0], "triton_": [1]}}
REFUSED = {
    "attention": {
        "layout": ["BHTD", 1], "scale": ["auto", True, None, " 1", "1."], "softcap": [0, "", None],
        "precision": ["float16"], "output_dtype": ["FP16"], "kernel": [5, None], "mask": ["", 1],
        "rope": [True, "yes"], "score": ["additive", 1], "return": ["lse,", "map", [], ["map"]],
        "weights": ["yes", 1, None], "labels": ["a", ["a"]], "capture": ["a", {}],
        "timeout_ms": [0, "1e3", 1.5], "timeout": [-1, "5", None],
        "binary_data_output": [1, "true", None], "num_heads": ["x", 0], "encoding": ["flat"],
        "is_causal": [True], "compress": ["gzip"], "Triton_x": [1]},
    "onnx_attention": {
        "scale": ["none", None], "softcap": [-1], "is_causal": [-1, "yes"],
        "q_num_heads": [0, True], "kv_num_heads": [0, "x"],
        "softmax_precision": [0, True, "2"], "qk_matmul_output_mode": [4, -1, True, "4"],
        "left_window_size": [-2, "x", False], "timeout_ms": [5], "causal": [1], "mask": ["causal"]}}


def each_parameter(table):
    return [(model, {name: value}) for model, rows in table.items()
            for name, values in rows.items() for value in values]


@pytest.mark.parametrize(("model", "parameters", "read"), [
    *((*row, True) for row in each_parameter(READ)),
    *((*row, False) for row in each_parameter(REFUSED))])
def test_parameters_are_documented_as_they_are_read(client, model, parameters, read):
    names = "qkv" if model == "attention" else "QKV"
    inputs = [oip.entry(name, np.ones((1, 2, 3, 4), np.float32), False) for name in names]
    request = {"inputs": inputs, "parameters": parameters}
    answer = client.send("POST", f"/v2/models/{model}/infer", json.dumps(request))
    assert answer.status == (200 if read else 422), answer.body
    own = {"attention": "OipAttentionParameters", "onnx_attention": "OipOnnxParameters"}[model]
    assert schema(own).is_valid(parameters) == read
    if read:
        schema("OipRequest").validate(request)


def test_every_parameter_is_documented():
    schemas = CONTRACT["components"]["schemas"]
    own = set(schemas["OipAttentionParameters"]["properties"])
    assert own == set(schemas["AttentionOptions"]["properties"]) - {"encoding"}
    rows = re.findall(r'^ +\{"(\w+)", OPTION_\w+, apply_', source("codec_oip_attributes"),
                      flags=re.M)
    assert set(schemas["OipOnnxParameters"]["properties"]) == set(rows)
    table = re.search(r"IGNORED\[\] = \{(.*?)\}", source("codec_oip"), flags=re.S)[1]
    assert set(schemas["OipProtocolParameters"]["properties"]) == set(re.findall(r'"(\w+)"', table))


def test_every_output_is_documented():
    rows = re.findall(r'^ +\{"(\w+)", ATTN_\w+, \d, (?:ATTN_RESULT|OIP_PRESENT)_',
                      source("codec_oip_models"), flags=re.M)
    assert CONTRACT["components"]["schemas"]["OipWanted"]["properties"]["name"]["enum"] == rows


@pytest.mark.parametrize("wrong", [
    {"data": None}, {"data": 1}, {"data": ["inf"]}, {"parameters": {"binary_data_size": 4}},
    {"parameters": {"shared_memory_region": "x"}}, {"parameters": {"classification": 1}},
    {"parameters": 1}, {"datatype": "BYTES"}, {"datatype": None}, {"shape": [-1]}, {"shape": 1},
    {"shape": [1] * 6}, {"name": 1}])
def test_inputs_are_documented_as_they_are_read(client, wrong):
    inputs = [{"name": name, "shape": [1, 1], "datatype": "FP32", "data": [1]} for name in "qkv"]
    schema("OipInput").validate(inputs[2])
    schema("OipInput").validate({**inputs[2], "parameters": {"other": 1}, "other": 1})
    inputs[2] = {**inputs[2], **wrong}
    assert not schema("OipInput").is_valid(inputs[2])
    answer = client.send("POST", "/v2/models/attention/infer", json.dumps({"inputs": inputs}))
    assert answer.status == 422, answer.body

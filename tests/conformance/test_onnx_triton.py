# SPDX-License-Identifier: Apache-2.0
"""Every case of the onnx package through the model `onnx_attention` and Triton's own client, which
sends the node's inputs and attributes as they are. Bounds are those of test_onnx_cases.py."""
import numpy as np
import pytest
import tritonclient.http as triton
from conformance_onnx import CASES, exactly, number
from ml_dtypes import bfloat16
from support.agreement import error
from support.cases import to_dtype
from tritonclient.utils import np_to_triton_dtype


@pytest.fixture(scope="module")
def server(daemon):
    with triton.InferenceServerClient(f"127.0.0.1:{daemon.port}") as opened:
        yield opened


def as_input(name, array, binary):
    array = array.view(bfloat16) if array.dtype == np.uint16 else np.ascontiguousarray(array)
    made = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    return made.set_data_from_numpy(array, binary_data=binary)


def ask(server, attributes, inputs, outputs=None, binary=True):
    """{name: array} of the operator's outputs, bfloat16 as its bits."""
    wanted = None if outputs is None else [triton.InferRequestedOutput(name, binary_data=binary)
                                           for name in outputs]
    plain = {name: value.decode() if isinstance(value, bytes) else value
             for name, value in attributes.items()}
    answer = server.infer("onnx_attention",
                          [as_input(name, x, binary) for name, x in inputs.items()],
                          outputs=wanted, parameters=plain)
    arrays = {output["name"]: answer.as_numpy(output["name"])
              for output in answer.get_response()["outputs"]}
    return {name: x.view(np.uint16) if x.dtype == bfloat16 else x for name, x in arrays.items()}


def is_finite(case):
    return all(np.isfinite(number(x)).all() for x in case.inputs.values() if x.dtype.kind == "f")


def limit(case, name, stored, exact):
    if case.is_half():
        dtype = "bfloat16" if case.inputs["Q"].dtype == np.uint16 else "float16"
        return 2 * error(number(to_dtype(exact, dtype)), exact)
    return 2 * error(number(stored), exact) + 1e-6


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(server, case, binary):
    if case.inputs["Q"].dtype == np.uint16 or not is_finite(case):
        binary = True  # the client cannot write bfloat16 and infinities as JSON
    exact = exactly(case)
    got = ask(server, case.attributes, case.inputs, list(case.expected), binary)
    assert list(got) == list(case.expected)
    for name, stored in case.expected.items():
        assert got[name].shape == stored.shape and got[name].dtype == stored.dtype, name
        assert error(number(got[name]), exact[name]) <= limit(case, name, stored, exact[name]), name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_comes_back_unasked(server, case):
    got = ask(server, case.attributes, case.inputs)
    past = "past_key" in case.inputs
    assert list(got) == (["Y", "present_key", "present_value"] if past else ["Y"])
    everything = ask(server, case.attributes, case.inputs,
                     ["qk_matmul_output", "present_value", "Y", "present_key"])
    assert all(got[name].tobytes() == everything[name].tobytes() for name in got)


@pytest.mark.parametrize("mode", range(4))
def test_modes_without_their_attribute_and_with_it(server, mode):
    rng = np.random.default_rng(mode)
    inputs = {name: rng.standard_normal((1, 2, 3, 4)).astype(np.float32) for name in "QKV"}
    attributes = {"softcap": 0.5, "is_causal": 1}
    told = ask(server, {**attributes, "qk_matmul_output_mode": mode}, inputs, ["qk_matmul_output"])
    silent = ask(server, attributes, inputs, ["qk_matmul_output"])
    assert (told["qk_matmul_output"].tobytes() == silent["qk_matmul_output"].tobytes()) == (
        mode == 0)
    assert (np.isneginf(told["qk_matmul_output"]).any()) == (mode == 2)


@pytest.mark.parametrize(("attributes", "change", "words"), [
    ({"q_num_heads": 2}, {}, "Leave it out"),
    ({"qk_matmul_output_mode": 4}, {}, "qk_matmul_output_mode should be 0"),
    ({"softmax_precision": 2}, {}, "softmax_precision should be 1"),
    ({"causal": 1}, {}, "is_causal"),
    ({"is_causal": "yes"}, {}, "/is_causal"),
    ({}, {"past_key": (1, 2, 1, 4)}, "past_value is missing"),
    ({}, {"past_key": (1, 2, 1, 4), "past_value": (1, 2, 1, 5)}, "but for its length"),
    ({}, {"Q": (1, 3, 8)}, "should all be [B,T,H*D]"),
    ({}, {"Q": (1, 3, 8), "K": (1, 3, 8), "V": (1, 3, 8)}, "need q_num_heads"),
    ({"q_num_heads": 3, "kv_num_heads": 1}, {"Q": (1, 3, 8), "K": (1, 3, 8), "V": (1, 3, 8)},
     "3 heads do not divide"),
    ({}, {"attn_mask": (2, 2, 9)}, "bias"),
    ({}, {"q": (1, 1)}, "Q, K and V")])
def test_refused(server, attributes, change, words):
    shapes = {**dict.fromkeys("QKV", (1, 2, 3, 4)), **change}
    inputs = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    with pytest.raises(triton.InferenceServerException) as caught:
        ask(server, attributes, inputs)
    assert words in caught.value.message()


def test_lengths_exclude_a_past(server):
    inputs = {name: np.zeros((1, 2, 3, 4), np.float32)
              for name in ("Q", "K", "V", "past_key", "past_value")}
    with pytest.raises(triton.InferenceServerException, match="a cache that K and V hold"):
        ask(server, {}, {**inputs, "nonpad_kv_seqlen": np.array([2])})

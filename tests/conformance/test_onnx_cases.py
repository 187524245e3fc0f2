# SPDX-License-Identifier: Apache-2.0
"""Every node case that the onnx package generates for its operator `Attention`, over HTTP.

The bounds are those of docs/semantics.md. What is exact is onnx's own reference on the same inputs
in float64, so that a wrong translation cannot widen what it is held against.

float32   twice what the case's stored numbers, a plain float32 numpy run, are off, plus 1e-6; as
          close to the exact numbers as to the stored ones.
halves    twice the error of rounding the exact numbers once. The stored ones were computed in the
          half type itself, each product and sum rounded to it, and are compared by name.
"""
import numpy as np
import pytest
from conformance_onnx import CASES, evaluate, exactly, number
from support.agreement import error
from support.cases import to_dtype
from support.onnx_call import translate

# onnx 1.23.2 has so many. Another release: look at what came and went, then set them.
ALL, HALVES = 93, 11

# The half cases whose stored numbers are off in the last bits, because the reference rounded on the
# way; the service accumulates in float32 and rounds once. The others are equal bit for bit.
ROUNDED_ON_THE_WAY = {
    "test_attention_4d_fp16", "test_attention_4d_causal_fp16",
    "test_attention_4d_gqa_with_past_and_present_fp16",
    "test_attention_4d_gqa_causal_nonpad_decode_fp16",
    "test_attention_24_qk_matmul_output_mode3_softmax_precision",
    "test_attention_4d_causal_bf16", "test_attention_4d_padded_kv_bf16",
    "test_attention_4d_causal_padded_kv_bf16", "test_attention_4d_attn_mask_causal_bf16",
    "test_attention_3d_causal_bf16",
}
LAST_PLACES = 2


def ask(client, call, kernel, **more):
    options = {**call.options, "kernel": kernel, **more}
    return call.outputs(client.attention(call.q, call.k, call.v, options, call.tensors))


def last_places(x, y):
    """The distance of two arrays of halves, counted in numbers of that type between them."""
    ordered = []
    for half in (x, y):
        bits = half.view(np.uint16).astype(np.int64)
        ordered.append(np.where(bits < 0x8000, bits, 0x8000 - bits))
    return np.abs(ordered[0] - ordered[1])


def test_no_case_went_missing():
    names = [case.name for case in CASES]
    assert len(names) == ALL
    assert all(name.startswith("test_attention_") for name in names)
    assert sum(case.is_half() for case in CASES) == HALVES
    assert set(names) > ROUNDED_ON_THE_WAY


SINGLE = [case for case in CASES if not case.is_half()]
HALF = [case for case in CASES if case.is_half()]


@pytest.mark.parametrize("case", SINGLE, ids=lambda case: case.name)
def test_float32(client, kernels, case):
    call, exact = translate(case.attributes, case.inputs), exactly(case)
    for kernel in kernels:
        got = ask(client, call, kernel)
        for name, stored in case.expected.items():
            assert got[name].dtype == stored.dtype and got[name].shape == stored.shape
            limit = 2 * error(number(stored), exact[name]) + 1e-6
            assert error(number(got[name]), exact[name]) <= limit, f"{kernel} {name}"
            assert error(number(got[name]), number(stored)) <= limit, f"{kernel} {name}"


@pytest.mark.parametrize("case", HALF, ids=lambda case: case.name)
def test_halves(client, kernels, case):
    call, exact = translate(case.attributes, case.inputs), exactly(case)
    for kernel in kernels:
        got = ask(client, call, kernel)
        for name in case.expected:
            limit = 2 * error(number(to_dtype(exact[name], call.dtype())), exact[name])
            assert error(number(got[name]), exact[name]) <= limit, f"{kernel} {name}"


@pytest.mark.parametrize("case", HALF, ids=lambda case: case.name)
def test_halves_as_stored(client, kernels, case):
    call = translate(case.attributes, case.inputs)
    for kernel in kernels:
        got = ask(client, call, kernel)
        apart = {name: last_places(got[name], x).max() for name, x in case.expected.items()}
        assert apart.pop("Y") in ((1, LAST_PLACES) if case.name in ROUNDED_ON_THE_WAY else (0,))
        assert set(apart.values()) <= {0}, apart


# What the reference does against the operator's text, or where the text has two readings. No case
# of the package shows these, so a node is made for each, and the difference is asserted.


@pytest.fixture
def small():
    rng = np.random.default_rng(23)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in (
        ("Q", (2, 4, 3, 8)), ("K", (2, 2, 5, 8)), ("V", (2, 2, 5, 6)))}


def close(x, y):
    np.testing.assert_allclose(x, y, rtol=0, atol=1e-6)


def test_erratum_mode_0_is_capped_in_the_reference(client, kernels, small):
    """The text and the function's body say the product before the softcap; the reference returns
    what stands after it, which is mode 1."""
    attributes = {"softcap": 0.5, "qk_matmul_output_mode": 0}
    theirs = evaluate(attributes, small)["qk_matmul_output"]
    for kernel in kernels:
        mode_0 = ask(client, translate(attributes, small), kernel)["qk_matmul_output"]
        mode_1 = ask(client, translate({**attributes, "qk_matmul_output_mode": 1}, small), kernel)
        close(mode_1["qk_matmul_output"], theirs)
        close(0.5 * np.tanh(mode_0 / 0.5), theirs)
        assert np.abs(mode_0 - theirs).max() > 0.1


@pytest.mark.parametrize("kind", [bool, np.float32])
def test_a_short_mask_hides_what_it_does_not_reach(client, kernels, small, kind):
    """In the package's cases the lengths hide that part as well."""
    inputs = {**small, "attn_mask": (np.arange(9).reshape(3, 3) % 4 < 2).astype(kind)}
    for kernel in kernels:
        close(ask(client, translate({}, inputs), kernel)["Y"], evaluate({}, inputs)["Y"])


def test_erratum_a_mask_of_one_column_is_short_in_the_reference(client, kernels, small):
    """The text allows broadcasting as well as continuing a short mask with -inf. The reference
    continues: every key but the first is hidden. The service broadcasts what it is given, and the
    translation continues the mask first; so both readings can be had, and none by accident."""
    column = np.linspace(-1, 1, 3, dtype=np.float32).reshape(3, 1)
    theirs = evaluate({}, {**small, "attn_mask": column})["Y"]
    call = translate({}, {**small, "attn_mask": column})
    for kernel in kernels:
        close(ask(client, call, kernel)["Y"], theirs)
        close(theirs, np.repeat(small["V"][:, :, :1], 2, axis=1).repeat(3, axis=2))
        told = client.attention(call.q, call.k, call.v, {"bias": "column", "kernel": kernel},
                                {"column": column})["output"]
        close(told, evaluate({}, small)["Y"])


@pytest.mark.parametrize("name", ["K", "V"])
def test_erratum_a_hidden_nan_poisons_the_reference(client, kernels, small, name):
    keep = np.array([[True, True, False, True, True]]).repeat(3, axis=0)
    clean = {**small, "attn_mask": keep}
    poisoned = {**clean, name: small[name].copy()}
    poisoned[name][:, :, 2] = np.nan
    assert np.isnan(evaluate({}, poisoned)["Y"]).all()
    for kernel in kernels:
        close(ask(client, translate({}, poisoned), kernel)["Y"], evaluate({}, clean)["Y"])


def test_erratum_a_negative_scale_is_nan_in_the_reference(client, kernels, small):
    """It multiplies Q and K by the root of the scale."""
    assert np.isnan(evaluate({"scale": -0.5}, small)["Y"]).all()
    flipped = evaluate({"scale": 0.5}, {**small, "Q": -small["Q"]})["Y"]
    for kernel in kernels:
        close(ask(client, translate({"scale": -0.5}, small), kernel)["Y"], flipped)


def test_erratum_a_length_beyond_the_keys_is_let_through_by_the_reference(client, small):
    inputs = {**small, "nonpad_kv_seqlen": np.array([9, 5])}
    close(evaluate({}, inputs)["Y"], evaluate({}, small)["Y"])
    call = translate({}, inputs)
    with pytest.raises(AssertionError, match=r"^422.*kv_lengths"):
        client.attention(call.q, call.k, call.v, call.options, call.tensors)

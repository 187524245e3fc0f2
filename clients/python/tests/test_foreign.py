# SPDX-License-Identifier: Apache-2.0
"""torch's function and a model's layers, with tensors that only behave like torch's."""
import sys
import types

import attentiond
import attentiond.hf
import numpy as np
import pytest
from support import oracle
from support.daemon import Daemon

RNG = np.random.default_rng(6)


class Tensor:
    """What the package may use of a torch tensor, and no more."""

    def __init__(self, array, dtype="float32"):
        self.array, self.dtype = np.asarray(array), dtype
        self.shape = self.array.shape

    def detach(self):
        return self

    def cpu(self):
        return self

    def float(self):
        return Tensor(self.array, "float32")

    def numpy(self):
        if self.dtype == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array

    def new_tensor(self, data):
        return Tensor(np.array(data), self.dtype)


def random(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def by_the_book(q, k, v, visible=None, bias=0.0, scale=None):
    """The function's documentation, in float64; every row sees a key."""
    repeat = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
    if repeat > 1:
        k, v = np.repeat(k, repeat, -3), np.repeat(v, repeat, -3)
    scores = q.astype(float) @ k.astype(float).swapaxes(-1, -2)
    scores = scores * (1 / np.sqrt(q.shape[-1]) if scale is None else scale) + bias
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v.astype(float)


@pytest.mark.parametrize("shape", [(5, 4), (3, 5, 4), (2, 3, 5, 4), (2, 2, 3, 5, 4)])
@pytest.mark.parametrize("kind", ["none", "causal", "boolean", "bias"])
def test_sdpa(served, shape, kind):
    q, k, v = random(*shape), random(*shape), random(*shape)
    T = shape[-2]
    visible = np.tril(np.ones((T, T), bool)) if kind == "causal" else None
    arguments, bias = {}, 0.0
    if kind == "causal":
        arguments["is_causal"] = True
    elif kind == "boolean":
        visible = RNG.random((*shape[:-3], 1, T, T)[-4 if len(shape) > 3 else -2:]) < 0.6
        visible |= np.eye(T, dtype=bool)
        arguments["attn_mask"] = visible
    elif kind == "bias":
        bias = random(T, T)
        arguments["attn_mask"] = bias
    output = attentiond.scaled_dot_product_attention(q, k, v, client=served, **arguments)
    np.testing.assert_allclose(output, by_the_book(q, k, v, visible, bias), atol=2e-6)


@pytest.mark.parametrize("axes", [(2, 1, 1, 6), (1, 6), (5, 1), (2, 3, 5, 6), (3, 1, 6)])
def test_sdpa_broadcasts_masks(served, axes):
    q, k, v = random(2, 3, 5, 4), random(2, 3, 6, 4), random(2, 3, 6, 4)
    visible = RNG.random(axes) < 0.8
    visible[..., 0] = True
    output = attentiond.scaled_dot_product_attention(q, k, v, visible, client=served)
    np.testing.assert_allclose(output, by_the_book(q, k, v, visible), atol=2e-6)
    bias = RNG.normal(size=axes).astype(np.float32)
    output = attentiond.scaled_dot_product_attention(q, k, v, bias, scale=0.2, client=served)
    np.testing.assert_allclose(output, by_the_book(q, k, v, None, bias, 0.2), atol=2e-6)


def test_sdpa_of_grouped_heads_is_said(served):
    q, k, v = random(1, 4, 5, 4), random(1, 2, 5, 4), random(1, 2, 5, 4)
    with pytest.raises(ValueError, match="enable_gqa"):
        attentiond.scaled_dot_product_attention(q, k, v, client=served)
    output = attentiond.scaled_dot_product_attention(q, k, v, enable_gqa=True, client=served)
    np.testing.assert_allclose(output, by_the_book(q, k, v), atol=2e-6)


def test_sdpa_refuses_what_it_cannot_mean(served):
    q = random(1, 1, 2, 2)
    with pytest.raises(ValueError, match="dropout"):
        attentiond.scaled_dot_product_attention(q, q, q, dropout_p=0.1, client=served)
    with pytest.raises(ValueError, match="exclude"):
        attentiond.scaled_dot_product_attention(q, q, q, np.ones((2, 2), bool), is_causal=True,
                                                client=served)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sdpa_gives_tensors_of_the_querys_kind(served, dtype):
    q, k, v = random(1, 2, 3, 4), random(1, 2, 3, 4), random(1, 2, 3, 4)
    output = attentiond.scaled_dot_product_attention(*(Tensor(x, dtype) for x in (q, k, v)),
                                                     client=served)
    assert isinstance(output, Tensor) and output.dtype == dtype
    np.testing.assert_allclose(output.array, by_the_book(q, k, v), atol=2e-6)


def test_the_address_comes_from_the_environment(url, monkeypatch):
    monkeypatch.setenv("ATTENTION_URL", url)
    attentiond.sdpa.default_client.cache_clear()
    q = random(1, 1, 2, 2)
    np.testing.assert_allclose(attentiond.scaled_dot_product_attention(q, q, q),
                               by_the_book(q, q, q), atol=2e-6)
    attentiond.sdpa.default_client.cache_clear()


class Layer:
    training = False

    def __init__(self, layer_idx=None, is_causal=True):
        self.is_causal = is_causal
        if layer_idx is not None:
            self.layer_idx = layer_idx


def layer_call(attend, layer, q, k, v, mask=None, **more):
    output, weights = attend(layer, Tensor(q), Tensor(k), Tensor(v), mask, **more)
    return output.array.swapaxes(1, 2), weights


def test_layers_follow_the_librarys_rules_on_masks(served):
    attend = attentiond.hf.forward(served)
    q, k, v = random(2, 4, 5, 8), random(2, 2, 5, 8), random(2, 2, 5, 8)
    causal = np.tril(np.ones((5, 5), bool))
    output, weights = layer_call(attend, Layer(0), q, k, v, scaling=0.4)
    np.testing.assert_allclose(output, by_the_book(q, k, v, causal, scale=0.4), atol=2e-6)
    assert weights is None
    for layer, more in ((Layer(0, is_causal=False), {}), (Layer(0), {"is_causal": False})):
        output, _ = layer_call(attend, layer, q, k, v, **more)
        np.testing.assert_allclose(output, by_the_book(q, k, v), atol=2e-6)
    output, _ = layer_call(attend, Layer(0), q[:, :, -1:], k, v)  # a step of decoding sees all
    np.testing.assert_allclose(output, by_the_book(q[:, :, -1:], k, v), atol=2e-6)
    visible = causal[None, None] & (np.arange(5) > 0)[None, None, None] | np.eye(5, dtype=bool)
    output, _ = layer_call(attend, Layer(0), q, k, v, Tensor(visible))
    np.testing.assert_allclose(output, by_the_book(q, k, v, visible), atol=2e-6)
    bias = np.where(causal, 0, np.finfo(np.float32).min).astype(np.float32)[None, None]
    output, _ = layer_call(attend, Layer(0), q, k, v, Tensor(bias))
    np.testing.assert_allclose(output, by_the_book(q, k, v, causal), atol=2e-6)


def test_layers_give_maps_sinks_and_caps(served):
    seen = []
    attend = attentiond.hf.forward(served, on_answer=lambda layer, answer: seen.append(
        (layer, answer.weights.shape)))
    q, k, v = random(1, 2, 3, 4), random(1, 2, 3, 4), random(1, 2, 3, 4)
    sink = random(2)
    output, weights = layer_call(attend, Layer(7), q, k, v, s_aux=Tensor(sink), softcap=1.5,
                                 output_attentions=True)
    truth = oracle.attention(q, k, v, {"mask": "causal", "softcap": 1.5, "sink": sink.tolist(),
                                       "return": ["output", "weights"]}, {})
    np.testing.assert_allclose(output, truth["output"], atol=2e-6)
    np.testing.assert_allclose(weights.array, truth["weights"], atol=2e-6)
    assert seen == [(7, (1, 2, 3, 3))]


@pytest.fixture(scope="module")
def keeping():
    """A client of a daemon that keeps captures."""
    with Daemon("--captures") as running, \
            attentiond.Client(f"http://127.0.0.1:{running.port}", retries=0) as client:
        yield client


def captures_of(client):
    return client._http.get("/v1/captures").json()["captures"]


def test_layers_are_captured(keeping, monkeypatch):
    attention = Registry()
    library = types.ModuleType("transformers")
    library.AttentionInterface = attention
    monkeypatch.setitem(sys.modules, "transformers", library)
    attentiond.hf.register(keeping, capture="tuesday")
    attend = attention.entries["attentiond"]
    q, k, v = random(1, 4, 3, 8), random(1, 2, 3, 8), random(1, 2, 3, 8)
    for layer in (Layer(4), Layer(7)):
        output, _ = layer_call(attend, layer, q, k, v)
        np.testing.assert_allclose(output, by_the_book(q, k, v, np.tril(np.ones((3, 3), bool))),
                                   atol=2e-6)
    layer_call(attend, Layer(7), q[:, :, -1:], k, v)  # a step of decoding
    kept = captures_of(keeping)
    assert [(c["name"], c["run"], c["layer"], c["queries"]) for c in kept] == [
        ("layer 7", "tuesday", 7, 3), ("layer 4", "tuesday", 4, 3)]
    assert kept[0]["heads"] == 4 and kept[0]["kv_heads"] == 2


def test_layers_that_nobody_keeps_are_warned_of(served):
    q = random(1, 1, 2, 4)
    with pytest.warns(UserWarning, match="keeps no capture: .*captures"):
        layer_call(attentiond.hf.forward(served, capture="tuesday"), Layer(0), q, q, q)


def test_layers_without_a_number_are_counted(served):
    seen = []
    attend = attentiond.hf.forward(served, on_answer=lambda layer, _: seen.append(layer))
    q = random(1, 1, 2, 4)
    first, second = Layer(), Layer()
    for layer in (first, second, first):
        layer_call(attend, layer, q, q, q)
    assert seen == [0, 1, 0]


def test_training_with_dropout_is_refused(served):
    layer = Layer(0)
    layer.training = True
    q = random(1, 1, 2, 4)
    with pytest.raises(ValueError, match="model.eval"):
        layer_call(attentiond.hf.forward(served), layer, q, q, q, dropout=0.1)


class Registry:
    def __init__(self):
        self.entries = {}

    def register(self, name, function):
        self.entries[name] = function


@pytest.mark.parametrize("has_masks", [True, False])
def test_register(served, monkeypatch, has_masks):
    attention, masks = Registry(), Registry()
    library = types.ModuleType("transformers")
    library.AttentionInterface = attention
    utilities = types.ModuleType("transformers.masking_utils")
    monkeypatch.setitem(sys.modules, "transformers", library)
    monkeypatch.setitem(sys.modules, "transformers.masking_utils", utilities)
    if has_masks:
        library.AttentionMaskInterface = masks
        utilities.sdpa_mask = len
    attentiond.hf.register(served)
    q = random(1, 1, 2, 4)
    output, _ = layer_call(attention.entries["attentiond"], Layer(0), q, q, q)
    np.testing.assert_allclose(output, by_the_book(q, q, q, np.tril(np.ones((2, 2), bool))),
                               atol=2e-6)
    assert masks.entries == ({"attentiond": len} if has_masks else {})

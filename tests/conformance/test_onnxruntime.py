# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's CPU operators as a second opinion: random calls put to both, answers compared.

`Attention` of the standard set and Microsoft's `MultiHeadAttention` and `GroupQueryAttention` are
three implementations with three ways of saying the same. How far apart two answers may be: twice
what docs/semantics.md allows one of them against exact numbers, since both are float32.
"""
from dataclasses import dataclass, field

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from support.agreement import bounds, error
from support.cases import Case
from support.onnx_call import INPUTS, OUTPUTS, translate
from support.oracle import attention

MICROSOFT = "com.microsoft"
MHA_INPUTS = ("query", "key", "value", "bias", "key_padding_mask", "attention_bias", "past_key",
              "past_value")
GQA_INPUTS = ("query", "key", "value", "past_key", "past_value", "seqlens_k",
              "total_sequence_length", "cos_cache", "sin_cache", "position_ids", "attention_bias",
              "head_sink")
CASES_PER_OPERATOR = 40
LOWEST = float(np.finfo(np.float32).min)


@dataclass
class Question:
    """A node with its inputs, and the same call of the service."""
    node: tuple  # operator, domain, names of all inputs, attributes
    inputs: dict
    qkv: tuple
    options: dict
    tensors: dict = field(default_factory=dict)
    results: tuple = (("output", "output"),)  # ours, and the node's output of the same meaning
    rows: object = None  # [B,Tq] of the rows that the operator defines, all when None

    def case(self):
        return Case(("onnxruntime",), "float32", *self.qkv, self.options, self.tensors)

    def defined(self, x):
        return x if self.rows is None else x[self.rows]


def run_node(question):
    operator, domain, formal, attributes = question.node
    names = [name if name in question.inputs else "" for name in formal]
    while not names[-1]:
        names.pop()
    wanted = [theirs for _, theirs in question.results]
    outputs = [name if name in wanted else "" for name in OUTPUTS] if not domain else \
        ["output", "present_key", "present_value"]
    while not outputs[-1]:
        outputs.pop()
    node = helper.make_node(operator, names, outputs, domain=domain, **attributes)
    kind = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in question.inputs.items()}
    graph = helper.make_graph(
        [node], operator,
        [helper.make_tensor_value_info(n, kind[n], x.shape) for n, x in question.inputs.items()],
        [helper.make_tensor_value_info(n, kind[names[0]], None) for n in outputs if n])
    model = helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 25), helper.make_opsetid(MICROSOFT, 1)])
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings,
                                           providers=["CPUExecutionProvider"])
    return dict(zip(wanted, session.run(wanted, question.inputs), strict=True))


class Draw:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, items):
        return items[self.rng.integers(len(items))]

    def whole(self, low, high):
        """An integer in [low, high]."""
        return int(self.rng.integers(low, high + 1))

    def floats(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def sizes(self):
        """Heads and lengths that are odd more often than not, over several tiles at times."""
        self.B, self.Hkv, self.group = self.whole(1, 3), self.whole(1, 3), self.whole(1, 4)
        self.Hq = self.Hkv * self.group
        self.Tk = self.pick((1, 2, 7, 33, 65, self.whole(1, 130), 300))
        self.Tq = self.pick((self.Tk, 1, 5, self.whole(1, 70)))

    def scale(self, D):
        return {"scale": self.pick((0.3, 1.0, 0.05)) / D**0.5} if self.chance(0.4) else {}


def merged(x):
    """[B,H,T,D] -> [B,T,H*D]"""
    B, H, T, D = x.shape
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(B, T, H * D)


def draw_attention(seed):
    """The standard operator; how it is said to the service is the translation's concern."""
    d = Draw((1, seed))
    d.sizes()
    D, Dv = d.pick((1, 3, 8, 16, 59, 64)), d.pick((1, 5, 8, 16, 59))
    inputs = {"Q": d.floats(d.B, d.Hq, d.Tq, D), "K": d.floats(d.B, d.Hkv, d.Tk, D),
              "V": d.floats(d.B, d.Hkv, d.Tk, Dv)}
    attributes = d.scale(D)
    if d.chance(0.3):
        attributes["softcap"] = d.pick((1.0, 3.0))
    if d.chance(0.4):
        attributes["is_causal"] = 1
    if d.chance(0.3):
        past = d.whole(1, 40)
        inputs.update(past_key=d.floats(d.B, d.Hkv, past, D),
                      past_value=d.floats(d.B, d.Hkv, past, Dv))
        d.Tk += past
    elif d.chance(0.4):
        inputs["nonpad_kv_seqlen"] = d.rng.integers(1, d.Tk + 1, d.B)
    if d.chance(0.5):
        shape = d.pick(((d.Tq, d.Tk), (d.Hq, d.Tq, d.Tk), (d.B, 1, d.Tq, d.Tk),
                        (d.B, d.Hq, d.Tq, d.Tk)))
        mask = d.floats(*shape)
        inputs["attn_mask"] = mask > -0.8 if d.chance(0.5) else mask
    if d.chance(0.4):
        attributes["qk_matmul_output_mode"] = d.whole(0, 3)
    if d.chance(0.3):
        for name in "QKV":
            inputs[name] = merged(inputs[name])
        attributes.update(q_num_heads=d.Hq, kv_num_heads=d.Hkv)
    call = translate(attributes, inputs)
    results = [("output", "Y")]
    if "qk_matmul_output_mode" in attributes:
        results.append(("weights", "qk_matmul_output"))
    return Question(("Attention", "", INPUTS, attributes), inputs, (call.q, call.k, call.v),
                    call.options, call.tensors, tuple(results))


def draw_multi_head(seed):
    """Right padding by lengths, padding by a mask, an added bias; causal is top left."""
    d = Draw((2, seed))
    d.sizes()
    H, D, Dv = d.Hq, d.pick((1, 3, 8, 16, 59, 64)), d.pick((1, 5, 8, 16, 59))
    q, k, v = d.floats(d.B, d.Tq, H * D), d.floats(d.B, d.Tk, H * D), d.floats(d.B, d.Tk, H * Dv)
    inputs = {"query": q, "key": k, "value": v}
    attributes = {"num_heads": H, "mask_filter_value": LOWEST, **d.scale(D)}
    options, parts, tensors = {"num_heads": H}, [], {}
    if "scale" in attributes:
        options["scale"] = attributes["scale"]
    how = d.pick(("none", "lengths", "keep", "bias", "keep and bias"))
    if how == "lengths":
        lengths = d.rng.integers(1, d.Tk + 1, d.B).astype(np.int32)
        inputs["key_padding_mask"] = lengths
        parts.append({"type": "padding", "kv_lengths": lengths.tolist()})
    if "keep" in how:
        keep = (d.rng.random((d.B, d.Tk)) < 0.7).astype(np.int32)
        keep[:, 0] = 1  # no row that sees nothing: see below
        inputs["key_padding_mask"] = tensors["keep"] = keep
        parts.append({"type": "padding", "keep": "keep"})
    if "bias" in how:
        shape = (d.pick((1, d.B)), d.pick((1, H)), d.Tq, d.Tk)
        inputs["attention_bias"] = tensors["bias"] = d.floats(*shape)
        options["bias"] = "bias"
    if d.chance(0.4):
        attributes["unidirectional"] = 1
        parts.append({"type": "causal", "align": "top_left"})
    if parts:
        options["mask"] = parts
    rows = np.ones((d.B, d.Tq), bool)
    rows[:, -1] = d.Tq >= d.Tk or "unidirectional" not in attributes  # see below
    return Question(("MultiHeadAttention", MICROSOFT, MHA_INPUTS, attributes), inputs, (q, k, v),
                    options, tensors, rows=rows)


def draw_cache(d, D):
    """(new q, k, v, the cache, new tokens right behind what is valid of it, length per item)"""
    past = d.pick((0, d.whole(1, 60)))
    new = 1 if past and d.B > 1 else d.Tk
    lengths = np.full(d.B, past + new)
    if past and d.chance(0.5):
        lengths[1:] = d.rng.integers(new, past + new + 1, d.B - 1)
    q, *fresh = (d.floats(d.B, H, new, D) for H in (d.Hq, d.Hkv, d.Hkv))
    cache = [d.floats(d.B, d.Hkv, past, D) for _ in fresh]
    joined = [np.zeros((d.B, d.Hkv, past + new, D), np.float32) for _ in fresh]
    for whole, before, x in zip(joined, cache, fresh):
        for b, n in enumerate(lengths):
            whole[b, :, :n] = np.concatenate([before[b, :, :n - new], x[b]], axis=1)
    return q, fresh, cache, joined, lengths


def draw_group_query(seed):
    """A prompt, or new tokens behind a cache, each item as long as it is: seqlens_k is the total
    length less one. Queries are the last tokens. The window's size counts the query's own key."""
    d = Draw((3, seed))
    d.sizes()
    D = d.pick((8, 16, 24, 64, 128))
    q, (k, v), cache, joined, lengths = draw_cache(d, D)
    total, new = joined[0].shape[2], q.shape[2]
    inputs = {"query": merged(q), "key": merged(k), "value": merged(v), "past_key": cache[0],
              "past_value": cache[1], "seqlens_k": (lengths - 1).astype(np.int32),
              "total_sequence_length": np.array(total, dtype=np.int32)}
    attributes = {"num_heads": d.Hq, "kv_num_heads": d.Hkv, **d.scale(D)}
    options = {"num_heads": d.Hq, "num_kv_heads": d.Hkv}
    parts, tensors = [{"type": "padding", "kv_lengths": lengths.tolist()}], {}
    if total == new and d.chance(0.2):
        attributes["causal"] = 0
    else:
        parts.append({"type": "causal", "align": "bottom_right"})
        if d.chance(0.5):
            attributes["local_window_size"] = size = d.whole(1, total + 3)
            parts.append({"type": "window", "left": size - 1, "right": 0})
    if d.chance(0.4):
        attributes["softcap"] = d.pick((1.0, 3.0))
    options.update({name: attributes[name] for name in ("scale", "softcap") if name in attributes})
    if d.chance(0.3):
        bias = d.floats(d.pick((1, d.B)), d.pick((1, d.Hq)), new, total)
        inputs["attention_bias"] = tensors["bias"] = bias
        options["bias"] = "bias"
    extra = d.pick(("none", "sink", "smooth", "none"))
    if extra == "sink":
        inputs["head_sink"] = d.floats(d.Hq)
        options["sink"] = inputs["head_sink"].tolist()
    elif extra == "smooth":
        attributes["smooth_softmax"] = 1
        options["sink"] = [0] * d.Hq
    options["mask"] = parts
    return Question(("GroupQueryAttention", MICROSOFT, GQA_INPUTS, attributes), inputs,
                    (merged(q), merged(joined[0]), merged(joined[1])), options, tensors)


def limits(question):
    case = question.case()
    exact = attention(*case.plain(), case.options, case.tensors)
    return {name: 2 * limit for name, limit in bounds(case, exact).items()}


def check(client, kernels, question):
    theirs, limit = run_node(question), limits(question)
    names = [ours for ours, _ in question.results]
    for kernel in kernels:
        answer = client.attention(*question.qkv, {**question.options, "kernel": kernel,
                                                  "return": names}, question.tensors)
        for ours, name in question.results:
            wrong = error(question.defined(answer[ours]), question.defined(theirs[name]))
            assert wrong <= limit[ours], \
                f"{kernel} {name} is {wrong:.3g} off, allowed {limit[ours]:.3g}: " \
                f"{question.node[3]} {question.case()}"


FEATURES = {
    draw_attention: ("scale", "softcap", "is_causal", "past_key", "nonpad_kv_seqlen", "attn_mask",
                     "qk_matmul_output_mode", "q_num_heads"),
    draw_multi_head: ("scale", "key_padding_mask", "attention_bias", "unidirectional"),
    draw_group_query: ("scale", "softcap", "local_window_size", "attention_bias", "head_sink",
                       "smooth_softmax", "causal"),
}


@pytest.mark.parametrize("draw", FEATURES, ids=lambda draw: draw.__name__)
def test_every_feature_is_drawn(draw):
    questions = [draw(seed) for seed in range(CASES_PER_OPERATOR)]
    for feature in FEATURES[draw]:
        assert sum(feature in q.inputs or feature in q.node[3] for q in questions) >= 3, feature


@pytest.mark.parametrize("seed", range(CASES_PER_OPERATOR))
def test_attention(client, kernels, seed):
    check(client, kernels, draw_attention(seed))


@pytest.mark.parametrize("seed", range(CASES_PER_OPERATOR))
def test_multi_head_attention(client, kernels, seed):
    check(client, kernels, draw_multi_head(seed))


@pytest.mark.parametrize("seed", range(CASES_PER_OPERATOR))
def test_group_query_attention(client, kernels, seed):
    check(client, kernels, draw_group_query(seed))


def heads_of_one(seed, Tq, Tk):
    """Inputs of MultiHeadAttention with one head and one item."""
    d = Draw((4, seed))
    return dict(zip(MHA_INPUTS, (d.floats(1, Tq, 8), d.floats(1, Tk, 8), d.floats(1, Tk, 8))))


def put(inputs, **attributes):
    attributes.update(num_heads=1, mask_filter_value=LOWEST)
    node = ("MultiHeadAttention", MICROSOFT, MHA_INPUTS, attributes)
    return run_node(Question(node, inputs, (), {}))["output"]


def test_the_last_row_of_theirs_is_not_causal(client, kernels):
    """MultiHeadAttention never masks its last query, which is right only when there are no more
    keys than queries. So the sweep leaves that row out where it is wrong."""
    inputs = heads_of_one(1, 3, 5)
    theirs = put(inputs, unidirectional=1)
    for kernel in kernels:
        rows = [client.attention(*inputs.values(), {"num_heads": 1, "kernel": kernel, **mask})
                ["output"] for mask in ({"mask": {"type": "causal", "align": "top_left"}}, {})]
        np.testing.assert_allclose(theirs[:, :2], rows[0][:, :2], rtol=0, atol=3e-6)
        np.testing.assert_allclose(theirs[:, 2], rows[1][:, 2], rtol=0, atol=3e-6)
        assert np.abs(theirs[:, 2] - rows[0][:, 2]).max() > 0.1


def test_a_row_that_sees_nothing_is_the_mean_of_theirs(client, kernels):
    """Hidden is a large negative number there, and equal ones weigh the same. Here it is 0."""
    inputs = heads_of_one(2, 2, 5)
    nothing = np.zeros((1, 5), np.int32)
    theirs = put({**inputs, "key_padding_mask": nothing})
    np.testing.assert_allclose(theirs, inputs["value"].mean(1, keepdims=True).repeat(2, axis=1),
                               rtol=0, atol=1e-6)
    for kernel in kernels:
        options = {"num_heads": 1, "kernel": kernel, "mask": {"type": "padding", "keep": "keep"}}
        ours = client.attention(*inputs.values(), options, {"keep": nothing})["output"]
        assert (ours == 0).all()

# SPDX-License-Identifier: Apache-2.0
"""Translates one node of the ONNX operator `Attention` (opsets 23 to 25) and its inputs into a call
of the service, and the service's answer back into the operator's outputs.

What the client does itself: a cache of past keys and values is joined in front of the new ones, a
mask shorter than the keys is continued as hidden, and a mask of rank 1 gets its missing axes. It
refuses attributes and ranks that it does not know.
"""
from dataclasses import dataclass, field

import numpy as np

from support.cases import to_dtype, widen
from support.oracle import split_heads

INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
OUTPUTS = ("Y", "present_key", "present_value", "qk_matmul_output")
ATTRIBUTES = {"scale", "softcap", "is_causal", "q_num_heads", "kv_num_heads", "softmax_precision",
              "qk_matmul_output_mode", "left_window_size", "right_window_size"}
# The operator multiplies Q and K by the root of the scale first, so its "raw" product is scaled.
STAGE_OF_MODE = ("scaled", "capped", "masked", "weights")
FLOAT, FLOAT16, DOUBLE, BFLOAT16 = 1, 10, 11, 16


@dataclass
class Call:
    """The arguments of client.attention, and what the answer has to be turned into."""
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    present: dict
    options: dict
    tensors: dict = field(default_factory=dict)

    def dtype(self):
        return "bfloat16" if self.q.dtype == np.uint16 else self.q.dtype.name

    def outputs(self, answer):
        """{name of the operator's output: array}, in q's type like the operator's."""
        scores = answer["weights"]
        return {"Y": answer["output"], **self.present,
                "qk_matmul_output": to_dtype(scores.astype(np.float64), self.dtype())}


def plain(x):
    """bfloat16 as its bits, the only form that numpy has for it."""
    return x.view(np.uint16) if x.dtype.name == "bfloat16" else x


def named_inputs(node, arrays):
    """{name of the operator: array} of the inputs that are there."""
    given = [formal for formal, actual in zip(INPUTS, node.input) if actual]
    return {name: plain(np.asarray(x)) for name, x in zip(given, arrays, strict=True)}


def named_outputs(node, arrays):
    wanted = [formal for formal, actual in zip(OUTPUTS, node.output) if actual]
    return {name: plain(np.asarray(x)) for name, x in zip(wanted, arrays, strict=True)}


def four_axes(x, heads):
    return split_heads(x, heads) if x.ndim == 3 else x


def as_given(x, rank):
    """[B,H,T,D] in the rank that the node's own inputs have."""
    if rank == 4:
        return np.ascontiguousarray(x)
    B, H, T, D = x.shape
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(B, T, H * D)


def join_the_past(inputs, attributes):
    """(present_key, present_value) as [B,H,T,D]."""
    heads = attributes.get("kv_num_heads")
    present = []
    for new, past in (("K", "past_key"), ("V", "past_value")):
        x = four_axes(inputs[new], heads)
        if past in inputs:
            x = np.concatenate([inputs[past], x], axis=2)
        present.append(x)
    return present


def full_length(mask, Tk):
    """A mask of all Tk keys: what it does not reach is hidden. Rank 1 gets its other axes."""
    missing = Tk - mask.shape[-1]
    hidden = False if mask.dtype == np.bool_ else to_dtype(
        np.float64(-np.inf), "bfloat16" if mask.dtype == np.uint16 else mask.dtype.name)
    mask = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=hidden)
    return mask.reshape((1, 1, 1, Tk)) if mask.ndim == 1 else mask


def positions(inputs, parts, Tq):
    """Where query 0 stands, as an option, or as the align of the causal mask in `parts`."""
    lengths = inputs.get("nonpad_kv_seqlen")
    if "past_key" in inputs:
        return {"q_offset": inputs["past_key"].shape[2]}
    causal = next((part for part in parts if part["type"] == "causal"), None)
    if causal is not None:
        causal["align"] = "top_left" if lengths is None else "bottom_right"
        return {}
    return {"q_offset": 0 if lengths is None else [int(n) - Tq for n in lengths]}


def mask_parts(inputs, attributes):
    """The declarative parts of the mask, all of which have to hold."""
    parts = []
    if attributes.get("is_causal", 0):
        parts.append({"type": "causal"})
    left, right = (attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    if left != -1 or right != -1:
        parts.append({"type": "window", "left": left, "right": right})
    if "nonpad_kv_seqlen" in inputs:
        parts.append({"type": "padding",
                      "kv_lengths": [int(n) for n in inputs["nonpad_kv_seqlen"]]})
    return parts


def scoring(attributes, dtype):
    """Scale, softcap and precision. Half types are accumulated in float32 whatever is asked."""
    options = {name: attributes[name] for name in ("scale", "softcap") if attributes.get(name)}
    precision = attributes.get("softmax_precision", FLOAT)
    assert precision in (FLOAT, FLOAT16, DOUBLE, BFLOAT16), precision
    if precision == DOUBLE and dtype != "float64":
        options.update(precision="float64", output_dtype=dtype)
    return options


def translate(attributes, inputs):
    unknown = set(attributes) - ATTRIBUTES
    assert not unknown, f"attributes without a translation: {unknown}"
    q, rank = inputs["Q"], inputs["Q"].ndim
    key, value = join_the_past(inputs, attributes)
    Tq, Tk = q.shape[1 if rank == 3 else 2], key.shape[2]
    parts, tensors = mask_parts(inputs, attributes), {}
    options = {"return": ["output", "weights"],
               "weights": {"stage": STAGE_OF_MODE[attributes.get("qk_matmul_output_mode", 0)]}}
    options.update(positions(inputs, parts, Tq))
    if rank == 3:
        options.update(num_heads=attributes["q_num_heads"],
                       num_kv_heads=attributes["kv_num_heads"])
    if "attn_mask" in inputs:
        tensors["attn_mask"] = full_length(inputs["attn_mask"], Tk)
        if inputs["attn_mask"].dtype == np.bool_:
            parts.append({"type": "allow", "tensor": "attn_mask"})
        else:
            options["bias"] = "attn_mask"
    if parts:
        options["mask"] = {"all": parts}
    call = Call(q, as_given(key, rank), as_given(value, rank),
                {"present_key": key, "present_value": value}, options, tensors)
    options.update(scoring(attributes, call.dtype()))
    return call


def widened(inputs):
    """The same inputs with every floating tensor in float64."""
    return {name: x if x.dtype.kind in "bi" else widen(x).astype(np.float64)
            for name, x in inputs.items()}

# SPDX-License-Identifier: Apache-2.0
"""The same tensors and options by every way into the service give the same bits of everything that
can come back: JSON of each form, safetensors, npz, and the Open Inference Protocol as numbers, as
bytes, and as some of each. Every dtype, every kind of mask, every kind of map."""
import numpy as np
import pytest
from support import oip
from support.cases import DTYPES, to_dtype
from support.client import WIRES

B, HQ, HKV, TQ, TK, D, DV = 2, 4, 2, 37, 41, 8, 6
PROTOCOL = ("oip numbers", "oip bytes", "oip mixed")
EVERYTHING = ["output", "weights", "scores", "lse", "col_sums", "stats"]
MASKS = {
    "none": None,
    "causal": {"type": "causal", "align": "bottom_right"},
    "window": {"all": [{"type": "window", "left": 5, "right": 2},
                       {"type": "prefix", "length": 30}]},
    "padding": {"type": "padding", "kv_lengths": [TK, 0], "q_lengths": [TQ, 3]},
    "keep": {"type": "padding", "keep": "kept"},
    "segments": {"type": "segments", "q": "of queries", "kv": "of keys"},
    "sparse": {"any": [{"type": "global", "tokens": [0, 7]},
                       {"type": "dilated", "width": 9, "stride": 3}]},
    "blocks": {"not": {"type": "block_causal", "block": 8}},
    "allow": {"type": "allow", "tensor": "seen"},
    "hide": ["causal", {"type": "hide", "tensor": "seen"}],
}
MAPS = {
    "whole": {"return": EVERYTHING},
    "region": {"return": EVERYTHING, "weights": {"rows": [3, 20], "cols": [5, 40]}},
    "raw": {"return": ["weights", "lse"], "weights": {"stage": "raw", "heads": [3, 0]}},
    "capped": {"softcap": 1.5, "weights": {"stage": "capped", "heads": "max"}},
    "mean": {"return": ["output", "weights", "stats"], "weights": {"heads": "mean"}},
    "pool": {"return": ["scores"], "weights": {"pool": {"rows": 5, "cols": 4, "op": "max"}}},
    "mass": {"weights": {"pool": {"rows": 5, "cols": 4, "op": "mass"}}},
    "top_k": {"return": ["output", "weights", "col_sums"], "weights": {"top_k": 3}},
    "top_scores": {"return": ["scores"], "weights": {"top_k": 2, "heads": [1]}},
    "biased": {"return": EVERYTHING, "bias": "bias", "sink": "sinks", "rope": {"dims": 4}},
}


def operands(dtype):
    rng = np.random.default_rng(11)
    shapes = {"q": (B, HQ, TQ, D), "k": (B, HKV, TK, D), "v": (B, HKV, TK, DV)}
    return {name: to_dtype(rng.standard_normal(shape), dtype) for name, shape in shapes.items()}


def named(dtype):
    """Tensors that options name."""
    rng = np.random.default_rng(12)
    return {"kept": rng.random((B, TK)) < 0.6, "seen": rng.integers(0, 2, (HQ, TQ, TK), np.uint8),
            "of queries": rng.integers(-1, 2, TQ, np.int32),
            "of keys": rng.integers(-1, 2, (B, TK), np.int64),
            "bias": to_dtype(rng.standard_normal((HQ, 1, TK)), dtype),
            "sinks": rng.standard_normal(HQ)}


def results(answer, stats):
    """{name: (dtype, shape, bytes)}, NaN of any kind as one, and the statistics."""
    made = {}
    for name, tensor in answer.items():
        wide = oip.from_bfloat16(tensor) if tensor.dtype == np.uint16 else tensor
        canonical = np.where(np.isnan(wide), np.nan, wide.astype(np.float64))
        made[name] = (str(tensor.dtype), tensor.shape, canonical.tobytes())
    flat = {name: np.ravel(values).astype(float).tolist() for name, values in (stats or {}).items()}
    return made, repr(flat)


def by_the_protocol(client, tensors, options, how):
    binary = {"oip numbers": False, "oip bytes": True,
              "oip mixed": {name: i % 2 == 0 for i, name in enumerate(tensors)}}[how]
    got = oip.infer(client, tensors, {**options, "binary_data_output": how != "oip numbers"},
                    binary=binary)
    stats = got.pop("stats", None)
    order = got.json["parameters"].get("stats_order", "").split(",")
    return results(got, None if stats is None else dict(zip(order, stats, strict=True)))


def by(route, client, q, k, v, options, extra):
    if route in PROTOCOL:
        return by_the_protocol(client, {"q": q, "k": k, "v": v, **extra}, options, route)
    answer = client.attention(q, k, v, options, extra, route)
    return results(answer.tensors, getattr(answer, "stats", None))


def routes_of(dtype):
    """JSON without a dtype is float32, and numpy has no bfloat16."""
    left_out = {"nested"} if dtype != "float32" else set()
    return [route for route in (*WIRES, *PROTOCOL)
            if route not in left_out | ({"npz"} if dtype == "bfloat16" else set())]


@pytest.mark.parametrize("wanted", MAPS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_route_gives_equal_bits(client, dtype, wanted):
    for name, mask in MASKS.items():
        options = {**MAPS[wanted], "mask": mask} if mask else dict(MAPS[wanted])
        if name != "causal":  # whose align says where queries stand
            options["q_offset"] = [4, 0]
        extra = {word: x for word, x in named(dtype).items() if repr(word) in repr(options)}
        answers = {route: by(route, client, *operands(dtype).values(), options, extra)
                   for route in routes_of(dtype)}
        assert len(answers["safetensors"][0]) > 0
        for route, answer in answers.items():
            assert answer == answers["safetensors"], (route, options)

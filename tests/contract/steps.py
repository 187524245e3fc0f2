# SPDX-License-Identifier: Apache-2.0
"""Steps of sessions that mostly make sense; the sessions are made by hooks.py."""
from calls import seldom, values
from hypothesis import strategies as st

SESSIONS = ("chat-7", "chat-8")
SESSION = {"layers": 2, "kv_heads": 1, "head_dim": 4, "dtype": "float32", "capacity": 200,
           "window": [None, {"left": 3, "sinks": 1}]}
OPTIONS = {"causal": False, "scale": 0.5, "softcap": 3.0, "alibi": True, "sink": [0.5, 0.5],
           "return": ["output", "lse", "stats"], "weights": True, "kernel": "reference",
           "precision": "float64", "encoding": "flat", "position": 0}
TOGETHER = ("scale", "softcap", "alibi", "sink", "kernel", "precision", "encoding", "return",
            "weights")


def tensors_of(draw, shapes):
    dtype = draw(st.sampled_from(("float32", "float64", "float16")))
    return {name: values(draw, [size + seldom(draw) for size in shape], dtype)
            for name, shape in shapes.items()}


def chosen(draw, names):
    return {name: OPTIONS[name] for name in draw(st.lists(st.sampled_from(names), max_size=3))}


@st.composite
def step(draw):
    count = draw(st.integers(0, 5))
    tensors = tensors_of(draw, {"q": (2, count, 4), "k": (1, count, 4), "v": (1, count, 4)})
    options = {"layer": draw(st.integers(0, 1)), **chosen(draw, sorted(OPTIONS))}
    if draw(st.integers(0, 3)) == 0:
        options["append"] = False
        tensors = {"q": tensors["q"]}
    return tensors, options


@st.composite
def steps(draw):
    tensors = tensors_of(draw, {"q": (2, 2, 1, 4), "k": (2, 1, 1, 4), "v": (2, 1, 1, 4)})
    names = list(SESSIONS) if draw(st.integers(0, 9)) else ["chat-7", "nowhere"]
    return tensors, {"sessions": names, "layer": draw(st.integers(0, 1)),
                     **chosen(draw, TOGETHER)}

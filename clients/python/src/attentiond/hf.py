# SPDX-License-Identifier: Apache-2.0
"""Every attention layer of a Hugging Face model, served.

    import attentiond.hf
    attentiond.hf.register(client)
    model = AutoModel.from_pretrained(..., attn_implementation="attentiond")

Layers' tensors are seen as the library hands them over, behind projections and rotary positions.
Nothing of torch is imported here: tensors are known by what they can do.
"""
from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from attentiond._foreign import like, to_numpy
from attentiond.client import Client
from attentiond.sdpa import default_client

NAME = "attentiond"


def register(client: Client | None = None, *, name: str = NAME, capture: str | None = None,
             on_answer: Callable[[int, Any], None] | None = None) -> None:
    """Enters the served attention into the library's registry under `name`, for
    attn_implementation, and its masks into that of masks, where it has one.

    capture: a run's name, of 50 characters at most, under which the daemon keeps each call for its
    dashboard, with the layer's number. Steps of decoding, whose maps are one row, are not kept;
    where the daemon keeps nothing, a warning says why.
    on_answer: called with the layer's number and the attentiond.Attention of each call.
    """
    from transformers import AttentionInterface
    AttentionInterface.register(name, forward(client, capture=capture, on_answer=on_answer))
    try:
        from transformers import AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask
    except ImportError:
        return  # older versions hand ready masks over
    AttentionMaskInterface.register(name, sdpa_mask)


def forward(client: Client | None = None, *, capture: str | None = None,
            on_answer: Callable[[int, Any], None] | None = None) -> Callable[..., Any]:
    """The function that `register` enters: (module, query, key, value, attention_mask, …) gives
    the output as [B,T,H,Dv] and the map, if output_attentions asks for it, else None."""
    order = itertools.count()
    numbers: dict[int, int] = {}

    def layer_of(module: Any) -> int:
        """The library's number of the layer, or how many others were seen before it."""
        given = getattr(module, "layer_idx", None)
        if given is not None:
            return int(given)
        if id(module) not in numbers:
            numbers[id(module)] = next(order)
        return numbers[id(module)]

    def attend(module: Any, query: Any, key: Any, value: Any, attention_mask: Any = None,
               scaling: float | None = None, dropout: float = 0.0,
               is_causal: bool | None = None, softcap: float | None = None,
               s_aux: Any = None, output_attentions: bool = False, **_: Any) -> tuple[Any, Any]:
        if dropout and getattr(module, "training", False):
            raise ValueError("dropout belongs to training, which attentiond does not do: call "
                             "model.eval()")
        options: dict[str, Any] = {
            "scale": scaling, "softcap": softcap,
            "sink": None if s_aux is None else to_numpy(s_aux).astype(float),
            "weights": True if output_attentions else None}
        _add_mask(options, module, query, attention_mask, is_causal)
        number = layer_of(module)
        if capture is not None and query.shape[2] > 1:
            options["capture"] = {"name": f"layer {number}", "run": capture, "layer": number}
        answer = (client or default_client()).attention(
            to_numpy(query), to_numpy(key), to_numpy(value),
            wanted=["output", "weights"] if output_attentions else None, **options)
        if on_answer is not None:
            on_answer(number, answer)
        _warn_unless_kept(answer.meta.get("capture"))
        assert answer.output is not None
        output = np.ascontiguousarray(answer.output.swapaxes(1, 2))
        return like(output, query), None if answer.weights is None else like(answer.weights, query)

    return attend


def _warn_unless_kept(kept: Any) -> None:
    """`kept` is what an answer says of its capture: where it is, or why there is none."""
    if isinstance(kept, str):
        warnings.warn(f"attentiond keeps no capture: {kept}", stacklevel=3)


def _add_mask(options: dict[str, Any], module: Any, query: Any, mask: Any,
              is_causal: bool | None) -> None:
    """The library's rule: a mask says everything, and without one several queries of a causal
    layer see the keys up to their own."""
    if mask is not None:
        array = to_numpy(mask)
        if array.dtype == np.bool_:
            options["mask"] = {"type": "allow", "tensor": array}
        else:
            options["bias"] = array
        return
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if causal and query.shape[2] > 1:
        options["mask"] = {"type": "causal", "align": "top_left"}

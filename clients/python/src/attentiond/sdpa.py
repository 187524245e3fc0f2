# SPDX-License-Identifier: Apache-2.0
"""torch.nn.functional.scaled_dot_product_attention, argument for argument, served."""
from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from attentiond._foreign import like, to_numpy
from attentiond._types import Array
from attentiond.client import Client


@functools.cache
def default_client() -> Client:
    """The client of calls that name none."""
    return Client()


def scaled_dot_product_attention(query: Any, key: Any, value: Any, attn_mask: Any = None,
                                 dropout_p: float = 0.0, is_causal: bool = False,
                                 scale: float | None = None, enable_gqa: bool = False, *,
                                 client: Client | None = None) -> Any:
    """The output [..., Hq, Tq, Dv] as a tensor of query's kind: numpy, or torch, on its device.

    As there: a boolean mask is true where a key is visible, a float mask is added, both broadcast
    to [..., Hq, Tq, Tk]; is_causal starts at the top left; key and value may have fewer heads only
    with enable_gqa. Not as there: a query that sees no key gives zeros, and dropout, which belongs
    to training, is refused.
    """
    if dropout_p:
        raise ValueError("dropout belongs to training, which attentiond does not do: leave "
                         "dropout_p at 0")
    if is_causal and attn_mask is not None:
        raise ValueError("is_causal and attn_mask exclude each other in this function: put the "
                         "causal mask into attn_mask, or use Client.attention")
    q, k, v = to_numpy(query), to_numpy(key), to_numpy(value)
    if q.ndim >= 3 and not enable_gqa and q.shape[-3] != k.shape[-3]:
        raise ValueError(f"query has {q.shape[-3]} heads and key {k.shape[-3]}: give "
                         "enable_gqa=True to let query heads share key heads")
    options: dict[str, Any] = {"scale": scale}
    if is_causal:
        options["mask"] = {"type": "causal", "align": "top_left"}
    if attn_mask is not None:
        _add_mask(options, to_numpy(attn_mask), q, k)
    answer = (client or default_client()).attention(*map(_of_rank_four, (q, k, v)), **options)
    assert answer.output is not None
    return like(answer.output.reshape(*q.shape[:-1], v.shape[-1]), query)


def _of_rank_four(x: Array) -> Array:
    """[..., H, T, D] with all leading axes as one; rank 2 is one head."""
    if x.ndim < 2:
        raise ValueError(f"query, key and value need at least 2 axes, one has {x.ndim}")
    heads = x.shape[-3] if x.ndim > 2 else 1
    return x.reshape(math.prod(x.shape[:-3]), heads, *x.shape[-2:])


def _add_mask(options: dict[str, Any], mask: Array, q: Array, k: Array) -> None:
    """The mask as ours, broadcast only over the leading axes that are folded into one."""
    leading = q.shape[:-3]
    if len(leading) > 1 and mask.ndim > 3:
        mask = np.broadcast_to(mask, (*leading, *mask.shape[-3:]))
        mask = mask.reshape(-1, *mask.shape[-3:])
    if mask.dtype == np.bool_:
        # [B,Tk] and the like are ambiguous as an allow mask: all four axes are not.
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
        mask = np.broadcast_to(mask, (*mask.shape[:2], q.shape[-2], k.shape[-2]))
        options["mask"] = {"type": "allow", "tensor": np.ascontiguousarray(mask)}
    else:
        options["bias"] = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)

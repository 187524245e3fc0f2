# SPDX-License-Identifier: Apache-2.0
"""Tensors of other libraries, known by what they can do: no library is imported for them."""
from __future__ import annotations

from typing import Any

import numpy as np

from attentiond._types import Array


def to_numpy(tensor: Any) -> Array:
    """A numpy array of the same values, on the CPU, without a gradient; bfloat16, which numpy has
    not, becomes float32."""
    if isinstance(tensor, np.ndarray):
        return tensor
    for step in ("detach", "cpu"):
        if hasattr(tensor, step):
            tensor = getattr(tensor, step)()
    if not hasattr(tensor, "numpy"):
        return np.asarray(tensor)
    try:
        return np.asarray(tensor.numpy())
    except TypeError:
        return np.asarray(tensor.float().numpy())


def like(array: Array, tensor: Any) -> Any:
    """The array as a tensor of the kind, dtype and device of `tensor`."""
    if hasattr(tensor, "new_tensor"):
        return tensor.new_tensor(array)
    return array.astype(tensor.dtype, copy=False) if isinstance(tensor, np.ndarray) else array

# SPDX-License-Identifier: Apache-2.0
"""What a map is reduced to, by the book, from the whole map.

A map is [B,H,T,keys] of one stage: hidden weights are 0 and hidden masked scores -inf. What has no
element is -inf, but a weight that is hidden counts as 0.
"""
import numpy as np


def edges(n, bins):
    return [r * n // bins for r in range(bins)]


def in_bins(add, whole, rows, cols):
    """`add` over the keys and then the rows of each bin."""
    return add.reduceat(add.reduceat(whole, cols, axis=-1), rows, axis=-2)


def mass(whole, rows, cols, stage):
    """The keys' sum, in the mean of the rows; of masked scores those that are seen, in the mean of
    the rows that see one of them."""
    if stage != "masked":
        height = np.diff([*rows, whole.shape[-2]])[:, None]
        return in_bins(np.add, whole, rows, cols) / height.astype(whole.dtype)
    seen = whole != -np.inf
    seeing = np.add.reduceat(np.logical_or.reduceat(seen, cols, axis=-1).astype(int), rows, axis=-2)
    total = in_bins(np.add, np.where(seen, whole, whole.dtype.type(0)), rows, cols)
    mean = total / np.maximum(seeing, 1).astype(whole.dtype)
    return np.where(seeing == 0, whole.dtype.type(-np.inf), mean)


def pool(whole, pool, stage):
    rows, cols = edges(whole.shape[-2], pool["rows"]), edges(whole.shape[-1], pool["cols"])
    if pool.get("op", "max") == "mass":
        return mass(whole, rows, cols, stage)
    return in_bins(np.maximum, whole, rows, cols)


def over_heads(whole, how):
    """One head in place of all, of no heads none."""
    if how not in ("mean", "max") or whole.shape[1] == 0:
        return whole
    return (whole.mean if how == "mean" else whole.max)(axis=1, keepdims=True)


def top_k(whole, n, first_key, stage):
    """(values, keys): falling, NaN first, of equals the lower key; weight 0 or score -inf pads."""
    values = np.full(whole.shape[:3] + (n,), 0 if stage == "weights" else -np.inf, whole.dtype)
    keys = np.full(values.shape, -1, dtype=np.int32)
    for place in np.ndindex(*whole.shape[:3]):
        row = whole[place]
        listed = np.flatnonzero(~(row <= values[place][0]))
        odd = np.isnan(row[listed])
        order = np.lexsort((listed, np.where(odd, 0, -row[listed]), ~odd))[:n]
        values[place][:len(order)] = row[listed[order]]
        keys[place][:len(order)] = listed[order] + first_key
    return values, keys


def results(whole, choice, stage, name):
    """The results that `weights: choice` makes of a map whose heads, rows and keys are selected;
    `name` is "weights" or "scores"."""
    if "top_k" in choice:
        first = choice.get("cols", [0])[0]
        values, keys = top_k(whole, choice["top_k"], first, stage)
        return {f"top_k_{name}": values, "top_k_indices": keys}
    if "pool" in choice:
        whole = pool(whole, choice["pool"], stage)
    return {name: over_heads(whole, choice.get("heads"))}

# SPDX-License-Identifier: Apache-2.0
"""Statistics of a head by the book, from the whole map. Rows that see no key are left out of every
mean; a head without any has zeros, and -1 as its top key."""
import numpy as np


def entropies(p):
    return -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), p).sum(-1)


def row_stats(p, seen, distance):
    """What is averaged over rows, [T] each, of one head's rows p [T,keys]."""
    entropy, visible = entropies(p), seen.sum(-1)
    square, cube = (p**2).sum(-1), (p**3).sum(-1)
    return {
        "entropy": entropy,
        "normalized_entropy": np.where(visible > 1, entropy / np.log(np.maximum(visible, 2)), 0),
        "confidence": p.max(-1),
        "saturated_share": (p.max(-1) > 0.99).astype(float),
        "gradient_health": 1 - square,
        "jacobian_norm": np.sqrt(np.maximum(square - 2 * cube + square**2, 0)),
        "mean_distance": (p * distance).sum(-1),
        "unassigned_mass": 1 - p.sum(-1),
    }


ROW_STATS = ("entropy", "normalized_entropy", "confidence", "saturated_share", "gradient_health",
             "jacobian_norm", "mean_distance", "unassigned_mass")


def head_stats(p, masked, scaled, distance):
    """All statistics of one head; p, masked and scaled are [T,keys], distance too."""
    seen = masked != -np.inf
    rows = seen.any(-1) if seen.shape[-1] else np.zeros(len(seen), bool)
    stats = {"rows": rows.sum(), "empty_rows": (~rows).sum(), **dict.fromkeys(ROW_STATS, 0.0),
             "first_key_share": 0.0, "top_key": -1, "top_key_share": 0.0, "largest_score": 0.0,
             "mean_score": 0.0, "score_variance": 0.0}
    if not rows.any():
        return stats
    received = p.sum(0)
    top = int(np.argmax(received))
    for name, values in row_stats(p[rows], seen[rows], distance[rows]).items():
        stats[name] = values.mean()
    first = seen[:, 0]
    visible = scaled[seen]
    stats.update(first_key_share=p[first, 0].mean() if first.any() else 0.0, top_key=top,
                 top_key_share=received[top] / rows.sum(), largest_score=np.abs(visible).max(),
                 mean_score=visible.mean(), score_variance=visible.var())
    return stats


def statistics(stages, distance):
    """{name: [B,Hq]} of whole maps [B,Hq,T,keys]; distance broadcasts to them."""
    p, masked, scaled = stages["weights"], stages["masked"], stages["scaled"]
    distance = np.broadcast_to(distance, p.shape)
    B, Hq = p.shape[:2]
    heads = [[head_stats(p[b, h], masked[b, h], scaled[b, h], distance[b, h]) for h in range(Hq)]
             for b in range(B)]
    names = head_stats(*(np.zeros((0, 0)),) * 4)
    return {name: np.array([[head[name] for head in row] for row in heads],
                           dtype=np.float64).reshape(B, Hq) for name in names}


def columns(stages):
    """(col_sums, col_means), [B,Hq,keys]: what keys receive, and by how many rows that see them."""
    sums = stages["weights"].sum(-2)
    rows = (stages["masked"] != -np.inf).sum(-2)
    return sums, np.where(rows == 0, 0, sums / np.maximum(rows, 1).astype(sums.dtype))

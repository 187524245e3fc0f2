# SPDX-License-Identifier: Apache-2.0
"""Attention by the book: an oracle in float64 over whole matrices, independent of the daemon.

    q, k turned by rope -> score = scale*(q.k) -> softcap -> + bias, ALiBi -> hidden := -inf
    -> softmax (+ sink) -> . V

`attention` takes the same options object as the service and returns the same named results, always
in the arithmetic type given (float64 unless a plain float32 run is wanted to compare errors with).
It trusts its input; refusing bad requests is the daemon's business and is tested apart.
"""
import numpy as np

from support import oracle_maps, oracle_stats
from support.oracle_mask import Shape, query_offsets, visible
from support.oracle_rope import rotate_both

STAGES = ("raw", "scaled", "capped", "masked", "weights")


def split_heads(x, heads):
    """[B,T,H*D] -> [B,H,T,D]"""
    B, T, width = x.shape
    return x.reshape(B, T, heads, width // heads).transpose(0, 2, 1, 3)


def to_native(x, options, is_query):
    """Any rank and layout -> [B,H,T,D]."""
    if x.ndim == 2:
        return x[None, None]
    if x.ndim == 3 and "num_heads" in options:
        kv_heads = options.get("num_kv_heads", options["num_heads"])
        return split_heads(x, options["num_heads"] if is_query else kv_heads)
    if x.ndim == 3:
        return x[None]
    return x.transpose(0, 2, 1, 3) if options.get("layout") == "bthd" else x


def from_native(output, q_rank, options):
    """[B,Hq,Tq,Dv] -> q's rank and layout."""
    if q_rank == 2:
        return output[0, 0]
    if q_rank == 3 and "num_heads" in options:
        B, Hq, Tq, Dv = output.shape
        return output.transpose(0, 2, 1, 3).reshape(B, Tq, Hq * Dv)
    if q_rank == 3:
        return output[0]
    return output.transpose(0, 2, 1, 3) if options.get("layout") == "bthd" else output


def squeeze(x, q_rank, options):
    """Leave out the leading axes that q itself lacks."""
    if q_rank == 2:
        return x[0, 0]
    return x[0] if q_rank == 3 and "num_heads" not in options else x


def alibi_slopes(heads):
    """Press et al. 2022: 2^(-8/n), 2^(-16/n), ... for a power of two; otherwise those of the
    power of two below, then every second one of the power of two above."""
    power = 1
    while power * 2 <= heads:
        power *= 2
    slopes = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    between = [2.0 ** (-8.0 * (i + 1) / (2 * power)) for i in range(0, 2 * power, 2)]
    return np.array((slopes + between)[:heads])


def additive_terms(options, shape, tensor, dtype):
    """(bias + ALiBi as [B,Hq,Tq,Tk], the positions that a bias of -inf hides)."""
    total = np.zeros(shape.full, dtype=dtype)
    hidden = np.zeros(shape.full, dtype=bool)
    if "bias" in options:
        bias = np.broadcast_to(np.asarray(tensor(options["bias"]), dtype=dtype), shape.full)
        hidden = bias == -np.inf
        total = total + np.where(hidden, 0, bias)
    alibi = options.get("alibi", False)
    if alibi is not False:
        slopes = alibi_slopes(shape.Hq) if alibi is True else tensor(alibi)
        slopes = np.broadcast_to(np.asarray(slopes, dtype=dtype).reshape(-1), (shape.Hq,))
        distance = np.abs(shape.positions() - shape.keys()).astype(dtype)
        total = total - slopes.reshape(1, shape.Hq, 1, 1) * distance
    return total.astype(dtype), hidden


def additive_scores(q, k, w):
    """Bahdanau's w . tanh(q + k), w [Hq,D]; one dimension at a time, for memory's sake."""
    total = np.zeros(q.shape[:3] + (k.shape[2],), dtype=q.dtype)
    for d in range(q.shape[-1]):
        sums = q[..., d, None] + k[:, :, None, :, d]
        total = total + w[:, d, None, None] * np.tanh(sums)
    return total


def raw_and_scaled(q, k, options, tensor):
    """The first two stages: of the dot product, or of an additive score."""
    D = q.shape[-1]
    score = options.get("score", "scaled_dot")
    additive = isinstance(score, dict) and score["type"] == "additive"
    scale = options.get("scale", 1.0 if D == 0 or additive else 1.0 / np.sqrt(D))
    scale = q.dtype.type(1.0 if scale == "none" else scale)
    if not additive:
        return q @ k.swapaxes(-1, -2), (q * scale) @ k.swapaxes(-1, -2)
    w = np.broadcast_to(np.asarray(tensor(score["w"]), dtype=q.dtype), (q.shape[1], D))
    return additive_scores(q, k, w), additive_scores(q, k, w * scale)


def score_stages(q, k, options, shape, tensor):
    """A dictionary of the four score stages, each [B,Hq,Tq,Tk], and the visible positions."""
    stages = dict(zip(("raw", "scaled"), raw_and_scaled(q, k, options, tensor), strict=True))
    stages["capped"] = stages["scaled"]
    if "softcap" in options:
        cap = q.dtype.type(options["softcap"])
        stages["capped"] = cap * np.tanh(stages["scaled"] / cap)
    bias, hidden_by_bias = additive_terms(options, shape, tensor, q.dtype)
    seen = visible(options.get("mask"), shape, tensor) & ~hidden_by_bias
    stages["masked"] = np.where(seen, stages["capped"] + bias, -np.inf)
    return stages, seen


def softmax(masked, seen, sink):
    """(weights, lse): rows without a key give 0 and -inf; a sink joins the denominator only. A
    visible NaN or +inf makes its row NaN by itself: it is the base, and inf - inf is NaN."""
    join = np.broadcast_to(sink[None, :, None, None], masked.shape[:3] + (1,))
    top = np.max(np.concatenate([masked, join], axis=-1), axis=-1, keepdims=True)
    base = np.where(top == -np.inf, masked.dtype.type(0), top)
    exponentials = np.where(seen, np.exp(masked - base), masked.dtype.type(0))
    total = exponentials.sum(axis=-1, keepdims=True) + np.exp(join - base)
    empty = total == 0
    counts = seen & (masked != -np.inf)  # -inf weighs 0 in a row that is NaN too
    weights = np.where(counts, exponentials / np.where(empty, 1, total), masked.dtype.type(0))
    lse = np.where(empty, -np.inf, base + np.log(np.where(empty, 1, total)))
    return weights, lse[..., 0]


def weighted_sum(weights, v):
    """weights . V where a key of weight 0 is left out rather than multiplied by 0."""
    if np.isfinite(v).all():
        return weights @ v
    output = np.zeros(weights.shape[:3] + (v.shape[-1],), dtype=weights.dtype)
    for j in range(v.shape[2]):
        w = weights[:, :, :, j:j + 1]
        term = w * v[:, :, None, j, :]
        output = output + np.where(w == 0, weights.dtype.type(0), term)
    return output


def select(x, choice, heads):
    """The chosen heads (a list keeps its order), rows [a,b) and keys [c,d) of a map."""
    rows = choice.get("rows", [0, x.shape[2]])
    cols = choice.get("cols", [0, x.shape[3]])
    chosen = choice.get("heads", "all")
    chosen = list(range(heads)) if isinstance(chosen, str) else chosen
    return x[:, chosen][:, :, rows[0]:rows[1], cols[0]:cols[1]]


def sink_logits(options, Hq, tensor, dtype):
    if "sink" not in options:
        return np.full(Hq, -np.inf, dtype=dtype)
    sink = np.asarray(tensor(options["sink"]), dtype=dtype).reshape(-1)
    return np.broadcast_to(sink, (Hq,))


def attention(q, k, v, options=None, tensors=None, dtype=np.float64):
    """A dictionary with output, lse, weights, scores and all five stages under `stages`, in the
    shapes the service documents, and `stats`, a dictionary of arrays. `weights` is the stage that
    options["weights"] names; it and `scores` are reduced as it says."""
    options, tensors = options or {}, tensors or {}
    q_rank = np.ndim(q)
    q = to_native(np.asarray(q), options, True).astype(dtype)
    k = to_native(np.asarray(k), options, False).astype(dtype)
    v = to_native(np.asarray(v), options, False).astype(dtype)
    B, Hq, Tq, _ = q.shape
    k = np.repeat(k, Hq // k.shape[1], axis=1)
    v = np.repeat(v, Hq // v.shape[1], axis=1)

    def tensor(value):
        return tensors[value] if isinstance(value, str) else value

    shape = Shape(B, Hq, Tq, k.shape[2])
    shape.offsets = query_offsets(options, shape)
    with np.errstate(all="ignore"):
        if "rope" in options:
            q, k = rotate_both(q, k, options["rope"], shape.offsets, tensor)
        stages, seen = score_stages(q, k, options, shape, tensor)
        stages["weights"], lse = softmax(
            stages["masked"], seen, sink_logits(options, Hq, tensor, dtype))
        output = weighted_sum(stages["weights"], v)

    choice = options.get("weights", {})
    choice = choice if isinstance(choice, dict) else {}
    chosen = {name: select(stages[name], choice, Hq) for name in STAGES}
    stage = choice.get("stage", "weights")
    with np.errstate(all="ignore"):
        maps = {**oracle_maps.results(chosen["masked"], choice, "masked", "scores"),
                **oracle_maps.results(chosen[stage], choice, stage, "weights")}
        stats = oracle_stats.statistics(stages, np.abs(shape.positions() - shape.keys()))
        maps["col_sums"], maps["col_means"] = oracle_stats.columns(stages)
    return {
        "output": from_native(output, q_rank, options),
        "lse": squeeze(lse, q_rank, options),
        "stats": {name: squeeze(x, q_rank, options) for name, x in stats.items()},
        **{name: squeeze(whole, q_rank, options) for name, whole in maps.items()},
        "stages": {name: squeeze(whole, q_rank, options) for name, whole in chosen.items()},
    }

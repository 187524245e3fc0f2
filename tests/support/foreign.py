# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for other libraries' attention, in numpy and float64, by what their documentation says:
the names, the layouts and the defaults are theirs. docs/coming-from.md calls them.

They know no more than its examples need, and are written apart from the oracle, which knows our
names only.
"""
from types import SimpleNamespace

import numpy as np


def heads_first(x):
    """[B,T,H,D] <-> [B,H,T,D]"""
    return np.swapaxes(x, 1, 2)


def repeated(x, query):
    """A key head for each query head: every one several times in a row."""
    return np.repeat(x, query.shape[1] // x.shape[1], axis=1)


def attend(query, key, value, visible=True, scale=None, bias=0.0, score_mod=None, sink=None):
    """(output, weights, lse) of [B,H,T,D]; a row that sees nothing is 0."""
    key, value = repeated(key, query), repeated(value, query)
    scale = 1 / np.sqrt(query.shape[-1]) if scale is None else scale
    scores = np.einsum("bhqd,bhkd->bhqk", np.nan_to_num(query), key) * scale
    scores = scores if score_mod is None else score_mod(scores)
    exponentials = np.where(visible, np.exp(scores + bias), 0)
    total = exponentials.sum(-1, keepdims=True) + (0 if sink is None else np.exp(sink))
    with np.errstate(divide="ignore"):
        lse = np.log(total[..., 0])
    weights = exponentials / np.where(total == 0, 1, total)
    return np.einsum("bhqk,bhkd->bhqd", weights, np.nan_to_num(value)), weights, lse


def places(Tq, Tk, bottom_right=False):
    """(i, j): the positions of queries [Tq,1] and keys [Tk]."""
    return np.arange(Tq)[:, None] + (Tk - Tq if bottom_right else 0), np.arange(Tk)


def within(i, j, left, right):
    return ((left < 0) | (i - j <= left)) & ((right < 0) | (j - i <= right))


# torch


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
                                 scale=None, enable_gqa=False):
    assert dropout_p == 0 and (enable_gqa or query.shape[1] == key.shape[1])
    assert attn_mask is None or not is_causal
    i, j = places(query.shape[2], key.shape[2])
    visible = j <= i if is_causal else True
    if attn_mask is not None and attn_mask.dtype == bool:
        visible, attn_mask = attn_mask, None
    return attend(query, key, value, visible, scale,
                  bias=0.0 if attn_mask is None else attn_mask)[0]


class MultiheadAttention:
    """Its projections are the identity."""

    def __init__(self, embed_dim, num_heads, dropout=0.0, batch_first=False):
        assert dropout == 0
        self.size, self.heads, self.batch_first = embed_dim // num_heads, num_heads, batch_first

    def split(self, x):
        x = x if self.batch_first else np.swapaxes(x, 0, 1)
        return heads_first(x.reshape(*x.shape[:2], self.heads, self.size))

    def __call__(self, query, key, value, key_padding_mask=None, need_weights=True,
                 attn_mask=None, average_attn_weights=True):
        query, key, value = (self.split(x) for x in (query, key, value))
        hidden = False if attn_mask is None else attn_mask
        if key_padding_mask is not None:
            hidden = hidden | key_padding_mask[:, None, None]
        output, weights, _ = attend(query, key, value, ~hidden)
        output = heads_first(output).reshape(len(query), query.shape[2], -1)
        output = output if self.batch_first else np.swapaxes(output, 0, 1)
        if not need_weights:
            return output, None
        return output, weights.mean(1) if average_attn_weights else weights


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN):
    return mask_mod, Q_LEN, KV_LEN


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None,
                   enable_gqa=False, return_lse=False):
    assert enable_gqa or query.shape[1] == key.shape[1]
    grid = np.ogrid[:len(query), :query.shape[1], :query.shape[2], :key.shape[2]]
    visible = True
    if block_mask is not None:
        mask_mod, *lengths = block_mask
        assert lengths == [query.shape[2], key.shape[2]]
        visible = mask_mod(*grid)
    modified = None if score_mod is None else lambda scores: score_mod(scores, *grid)
    output, _, lse = attend(query, key, value, visible, scale, score_mod=modified)
    return (output, lse) if return_lse else output


# FlashAttention


def flash_attn_func(q, k, v, softmax_scale=None, causal=False, window_size=(-1, -1)):
    i, j = places(q.shape[1], k.shape[1], bottom_right=True)
    visible = within(i, j, *window_size) & (j <= i if causal else True)
    return heads_first(attend(heads_first(q), heads_first(k), heads_first(v), visible,
                              softmax_scale)[0])


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
                           **more):
    assert max(np.diff(cu_seqlens_q)) == max_seqlen_q
    assert max(np.diff(cu_seqlens_k)) == max_seqlen_k
    ends = zip(cu_seqlens_q, cu_seqlens_q[1:], cu_seqlens_k, cu_seqlens_k[1:], strict=False)
    return np.concatenate([
        flash_attn_func(q[None, a:b], k[None, c:d], v[None, c:d], **more)[0]
        for a, b, c, d in ends])


def flash_attn_with_kvcache(q, k_cache, v_cache, k, v, cache_seqlens, **more):
    """Puts k and v into the cache, in place, and attends to what is valid then."""
    for b, n in enumerate(cache_seqlens):
        k_cache[b, n:n + k.shape[1]] = k[b]
        v_cache[b, n:n + v.shape[1]] = v[b]
    ends = np.asarray(cache_seqlens) + k.shape[1]
    return np.concatenate([
        flash_attn_func(q[b:b + 1], k_cache[b:b + 1, :n], v_cache[b:b + 1, :n], **more)
        for b, n in enumerate(ends)])


# ONNX and onnxruntime


def onnx_attention(Q, K, V, past_key, past_value, is_causal, softcap, qk_matmul_output_mode):
    """Y and the weights."""
    assert qk_matmul_output_mode == 3
    K = np.concatenate([past_key, K], axis=2)
    V = np.concatenate([past_value, V], axis=2)
    i, j = places(Q.shape[2], K.shape[2])
    visible = (j <= i + past_key.shape[2]) if is_causal else True
    return attend(Q, K, V, visible,
                  score_mod=lambda scores: softcap * np.tanh(scores / softcap))[:2]


def group_query_attention(query, key, value, num_heads, kv_num_heads, seqlens_k, local_window_size,
                          smooth_softmax):
    """On keys and values that the cache was joined with already."""
    query, key, value = (
        heads_first(x.reshape(*x.shape[:2], heads, -1))
        for x, heads in ((query, num_heads), (key, kv_num_heads), (value, kv_num_heads)))
    j = np.arange(key.shape[2])
    last = np.asarray(seqlens_k)[:, None, None, None]
    i = last - query.shape[2] + 1 + np.arange(query.shape[2])[:, None]
    visible = (j <= i) & (i - j < local_window_size)
    output = attend(query, key, value, visible, sink=0.0 if smooth_softmax else None)[0]
    return heads_first(output).reshape(len(query), query.shape[2], -1)


# Hugging Face


def eager_attention_forward(module, query, key, value, attention_mask, scaling):
    """What is hidden by the lowest float alone weighs alike, so such a row is a mean."""
    query, key, value = (np.asarray(x, np.float32) for x in (query, key, value))
    scores = query @ np.swapaxes(repeated(key, query), 2, 3) * np.float32(scaling)
    scores = (scores + attention_mask).astype(np.float32)
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    weights = exponentials / exponentials.sum(-1, keepdims=True)
    return heads_first(weights @ repeated(value, query)), weights


# xFormers and JAX


class BlockDiagonalCausalMask:
    def __init__(self, documents):
        i, j = places(len(documents), len(documents))
        self.visible = (documents[i] == documents[j]) & (j <= i)

    @classmethod
    def from_seqlens(cls, lengths):
        return cls(np.repeat(np.arange(len(lengths)), lengths))


def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0, scale=None):
    assert p == 0
    visible = True if attn_bias is None else attn_bias.visible
    return heads_first(attend(heads_first(query), heads_first(key), heads_first(value), visible,
                              scale)[0])


def dot_product_attention(query, key, value, *, scale=None, is_causal=False,
                          key_value_seq_lengths=None, local_window_size=None):
    i, j = places(query.shape[1], key.shape[1])
    visible = j <= i if is_causal else np.True_
    if local_window_size is not None:
        left, right = np.broadcast_to(local_window_size, 2)
        visible = visible & within(i, j, left, right)
    if key_value_seq_lengths is not None:
        visible = visible & (j < np.reshape(key_value_seq_lengths, (-1, 1, 1, 1)))
    return heads_first(attend(heads_first(query), heads_first(key), heads_first(value), visible,
                              scale)[0])


def cache_before(x, new):
    """x [B,T,H,D] as a cache in which the last `new` rows that are not zeros are yet to come."""
    cache = x.copy()
    for item in cache if x.ndim == 4 else ():
        end = 1 + max(np.flatnonzero(item.any(axis=(1, 2))), default=-1)
        item[max(end - new, 0):] = 7
    return cache


def names(q, k, v):
    """What a block of the page may use: the tensors, and the libraries."""
    return {"np": np, "module": None, "q": q, "k": k, "v": v,
            "k_cache": cache_before(k, q.shape[1]), "v_cache": cache_before(v, q.shape[1]),
            "F": SimpleNamespace(scaled_dot_product_attention=scaled_dot_product_attention),
            "nn": SimpleNamespace(MultiheadAttention=MultiheadAttention),
            **{thing.__name__: thing for thing in (
                create_block_mask, flex_attention, flash_attn_varlen_func,
                flash_attn_with_kvcache, onnx_attention, group_query_attention,
                eager_attention_forward, BlockDiagonalCausalMask, memory_efficient_attention,
                dot_product_attention)}}

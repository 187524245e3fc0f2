# SPDX-License-Identifier: Apache-2.0
"""The published worked examples of scaled dot-product attention, through HTTP.

The table's numbers are those of a script that draws, from one numpy stream with seed 3, a query and
three keys of d_k numbers each, for d_k = 4, 64 and 512 in turn.
"""
import numpy as np
import pytest

TABLE = [
    (4, [.0706, .0054, .9240], [.2043, .0565, .7392]),
    (64, [.0000, .6850, .3150], [.0982, .4728, .4290]),
    (512, [1.0000, .0000, .0000], [.5826, .3035, .1139]),
]


def table_inputs(d_k):
    """The draws for one d_k, with those before it drawn and thrown away."""
    stream = np.random.RandomState(3)
    for size in (4, 64, 512):
        q = stream.randn(size)
        keys = np.stack([stream.randn(size) for _ in range(3)])
        if size == d_k:
            return q[None], keys
    raise ValueError(d_k)


def scores(client, stage, q, k, **options):
    v = np.zeros((len(k), 1), dtype=q.dtype)
    options = {"return": ["weights"], "weights": {"stage": stage}, **options}
    return client.attention(q, k, v, options)["weights"]


@pytest.mark.parametrize("d_k, raw, scaled", [(64, [45, 2], [5.625, 0.25]), (16, [40], [10])])
def test_scores_divide_by_the_root_of_d_k(client, d_k, raw, scaled):
    q = np.zeros((1, d_k), dtype=np.float32)
    k = np.zeros((len(raw), d_k), dtype=np.float32)
    q[0, 0], k[:, 0] = 1, raw
    assert scores(client, "raw", q, k).tolist() == [raw]
    assert scores(client, "scaled", q, k).tolist() == [scaled]
    assert scores(client, "scaled", q, k, scale=1).tolist() == [raw]
    assert scores(client, "raw", q, k, scale=1).tolist() == [raw]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d_k, raw, scaled", TABLE)
def test_table_of_seed_3(client, d_k, raw, scaled, dtype):
    q, k = (x.astype(dtype) for x in table_inputs(d_k))
    # the published rows have four decimals; float32 moves scores of size 50 by less than 1e-5
    np.testing.assert_allclose(scores(client, "weights", q, k, scale=1)[0], raw, rtol=0, atol=6e-5)
    np.testing.assert_allclose(scores(client, "weights", q, k)[0], scaled, rtol=0, atol=6e-5)


def test_table_by_the_oracle():
    """The expectations themselves, without the daemon."""
    from support.oracle import attention

    for d_k, raw, scaled in TABLE:
        q, k = table_inputs(d_k)
        for options, row in (({"scale": 1}, raw), ({}, scaled)):
            got = attention(q, k, np.zeros((3, 1)), options)["weights"][0]
            assert np.round(got, 4).tolist() == row

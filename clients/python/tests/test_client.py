# SPDX-License-Identifier: Apache-2.0
"""The clients against the daemon and the oracle: tensors of every kind in and out, options with
arrays, refusals, both ways of calling."""
import asyncio
import pickle

import attentiond
import numpy as np
import pytest
from support import oracle

RNG = np.random.default_rng(5)


def tensors(*shape, dtype=np.float32, kv_heads=None):
    kv_shape = shape if kv_heads is None else (shape[0], kv_heads, *shape[2:])
    return [RNG.uniform(-1, 1, s).astype(dtype) for s in (shape, kv_shape, kv_shape)]


def expected(q, k, v, named=None, **options):
    return oracle.attention(q, k, v, options, named or {})


@pytest.mark.parametrize("shape", [(6, 4), (2, 6, 4), (2, 2, 6, 4)])
@pytest.mark.parametrize("dtype, error", [(np.float64, 1e-14), (np.float32, 1e-6),
                                          (np.float16, 2e-3)])
def test_output_in_every_rank_and_type(served, shape, dtype, error):
    q, k, v = tensors(*shape, dtype=dtype)
    answer = served.attention(q, k, v)
    assert answer.output.dtype == dtype and answer.output.shape == shape
    np.testing.assert_allclose(answer.output, expected(q, k, v)["output"], atol=error, rtol=0)
    assert answer.weights is None and answer.lse is None and answer.stats is None


@pytest.mark.parametrize("number", [int, float])
def test_lists_of_numbers_are_float32_as_in_json(served, number):
    """Whole numbers, too, which numpy makes int64 of."""
    lists = [np.arange(rows * 2).reshape(rows, 2).astype(number).tolist() for rows in (1, 3, 3)]
    q, k, v = (np.array(rows, np.float32) for rows in lists)
    answer = served.attention(*lists, bias=[[0.5, 0, 0]])
    usual = served.attention(q, k, v, bias=[[0.5, 0, 0]])
    assert answer.output.dtype == np.float32
    assert answer.output.tobytes() == usual.output.tobytes()
    double = served.attention(*([list(row) for row in x.astype(np.float64)] for x in (q, k, v)))
    assert double.output.dtype == np.float64  # a list of numpy's numbers has numpy's type


def test_an_array_of_whole_numbers_is_refused(served):
    with pytest.raises(attentiond.Refused, match="got int64; convert it"):
        served.attention(np.array([[1, 0]]), [[1, 0]], [[1, 0]])


def test_all_that_can_come_back(served):
    q, k, v = tensors(2, 4, 6, 8, kv_heads=2)
    options = {"mask": "causal", "scale": 0.3, "softcap": 2.0, "sink": [0.1, 0.2, 0.3, 0.4]}
    answer = served.attention(q, k, v, wanted=["output", "weights", "lse", "stats", "scores"],
                              **options)
    truth = expected(q, k, v, **{**options, "return": ["output", "weights", "lse", "scores"]})
    for name in ("output", "weights", "lse", "scores"):
        np.testing.assert_allclose(getattr(answer, name), truth[name], atol=2e-6, err_msg=name)
    assert np.shape(answer.stats["entropy"]) == (2, 4)
    assert answer.meta["shape"]["Hkv"] == 2 and answer.tensors.keys() >= {"output", "lse"}


def test_arrays_in_options_become_tensors_of_the_request(served):
    q, k, v = tensors(2, 2, 5, 4)
    allow = RNG.random((2, 1, 5, 5)) < 0.7
    keep = np.array([[1, 1, 1, 0, 1], [1, 0, 1, 1, 1]], np.int32)
    bias = RNG.normal(size=(2, 5, 5)).astype(np.float32)
    answer = served.attention(
        q, k, v, bias=bias, sink=np.array([0.5, -1.0], np.float32),
        mask=[{"type": "allow", "tensor": allow}, {"type": "padding", "keep": keep}])
    truth = expected(q, k, v, {"allow": allow, "keep": keep, "bias": bias}, bias="bias",
                     sink=[0.5, -1.0],
                     mask=[{"type": "allow", "tensor": "allow"}, {"type": "padding",
                                                                  "keep": "keep"}])
    np.testing.assert_allclose(answer.output, truth["output"], atol=2e-6)


def test_layouts_of_memory_do_not_matter(served):
    q, k, v = tensors(1, 2, 7, 6)
    plain = served.attention(q, k, v).output
    strided = served.attention(*(np.asfortranarray(x) for x in (q, k, v))).output
    swapped = served.attention(*(x.astype(">f4") for x in (q, k, v))).output
    assert plain.tobytes() == strided.tobytes() == swapped.tobytes()


def test_empty_axes(served):
    answer = served.attention(np.zeros((0, 4), np.float32), *np.ones((2, 3, 4), np.float32))
    assert answer.output.shape == (0, 4)


def test_merge_of_two_halves_is_the_whole(served):
    q, k, v = tensors(1, 2, 4, 8)
    wanted = ["output", "lse"]
    whole = served.attention(q, k, v, wanted=wanted)
    halves = [served.attention(q, k[:, :, part], v[:, :, part], wanted=wanted)
              for part in (slice(0, 1), slice(1, 4))]
    merged = served.merge(np.stack([h.output for h in halves]), np.stack([h.lse for h in halves]))
    np.testing.assert_allclose(merged.output, whole.output, atol=1e-6)
    np.testing.assert_allclose(merged.lse, whole.lse, atol=1e-6)


def test_scaling_describe_ready(served):
    table = served.scaling(d_k=[4, 64, 512], keys=3, seed=3)
    assert [f"{row['variance']:.2f}" for row in table["results"]] == ["4.03", "62.57", "535.53"]
    assert served.describe()["kernels"] and served.ready() is True


def test_a_refusal_is_the_daemons_sentence(served):
    q, k, v = tensors(1, 3, 4, 8, kv_heads=2)
    with pytest.raises(attentiond.Refused) as refused:
        served.attention(q, k, v)
    assert refused.value.status == 422 and "3" in str(refused.value)
    assert refused.value.name and refused.value.problem["title"]


def test_a_refusal_passes_between_processes():
    refusal = attentiond.Refused(422, {"type": "/x/head-mismatch", "detail": "No.", "limit": 3})
    refusal.attempts = 2
    copy = pickle.loads(pickle.dumps(refusal))
    assert (str(copy), vars(copy)) == ("No.", vars(refusal))


@pytest.mark.parametrize("dtype", [complex, "U3", object])
def test_types_that_cannot_be_sent(served, dtype):
    with pytest.raises(TypeError, match="k has the dtype"):
        served.attention(np.ones((2, 2), np.float32), np.ones((2, 2)).astype(dtype),
                         np.ones((2, 2), np.float32))


def test_nobody_there():
    with attentiond.Client("http://127.0.0.1:9", retries=0) as client:
        with pytest.raises(attentiond.NotReachable, match="start the daemon"):
            client.describe()
        assert client.ready() is False


def test_the_same_awaited(url):
    q, k, v = tensors(2, 2, 6, 4)

    async def calls():
        async with attentiond.AsyncClient(url, retries=0) as client:
            answers = await asyncio.gather(*(client.attention(q, k, v, scale=s, weights=True)
                                             for s in (0.1, 0.5, 2.0)))
            partial = await client.attention(q, k, v, wanted=["output", "lse"])
            merged = await client.merge(partial.output[None], partial.lse[None])
            with pytest.raises(attentiond.Refused, match="softcap"):
                await client.attention(q, k, v, softcap=-1)
            return answers, partial, merged, await client.ready(), await client.describe(), \
                await client.scaling(d_k=[4], seed=3)

    answers, partial, merged, ready, described, _ = asyncio.run(calls())
    for answer, scale in zip(answers, (0.1, 0.5, 2.0)):
        np.testing.assert_allclose(answer.output, expected(q, k, v, scale=scale)["output"],
                                   atol=1e-6)
    np.testing.assert_allclose(merged.output, partial.output, atol=1e-6)
    assert ready and described["kernels"]


def test_bfloat16(served):
    from ml_dtypes import bfloat16
    q, k, v = tensors(2, 4, 8, dtype=bfloat16)
    answer = served.attention(q, k, v)
    assert answer.output.dtype == bfloat16
    truth = expected(*(x.astype(np.float64) for x in (q, k, v)))["output"]
    np.testing.assert_allclose(answer.output.astype(float), truth, atol=1e-2)

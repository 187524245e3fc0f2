# SPDX-License-Identifier: Apache-2.0
"""Sessions: steps, what is done with them as a whole, and answers that are lost."""
import asyncio
import inspect

import attentiond
import httpx
import numpy as np
import pytest

SHAPE = {"layers": 2, "kv_heads": 2, "head_dim": 4, "dtype": "float32", "capacity": 100}


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def chat(served):
    with served.session(**SHAPE) as made:
        yield made


def rows(rng, count):
    q, k, v = (rng.standard_normal((heads, count, 4)).astype(np.float32) for heads in (4, 2, 2))
    return q, k, v


def test_steps_are_one_long_call(served, chat, rng):
    first, second = rows(rng, 5), rows(rng, 1)
    chat.step(*first, layer=1)
    answer = chat.step(*second, layer=1, wanted=["output", "lse"])
    k, v = (np.concatenate(parts, axis=1) for parts in list(zip(first, second, strict=True))[1:])
    whole = served.attention(second[0], k, v, q_offset=5, mask="causal")
    np.testing.assert_allclose(answer.output, whole.output, rtol=1e-5, atol=1e-6)
    assert answer.lse.shape == (4, 1)
    assert chat.lengths == [0, 6] == chat.refresh()["lengths"]
    again = chat.attend(second[0], layer=1, position=5)
    np.testing.assert_array_equal(again.output, answer.output)


def test_forks_cuts_and_snapshots(served, chat, rng):
    for layer in (0, 1):
        chat.step(*rows(rng, 4), layer=layer)
    with chat.fork() as fork, served.restore(chat.snapshot(), id="brought-back") as back:
        fork.truncate(1)
        assert (chat.lengths, fork.lengths, back.lengths) == ([4, 4], [1, 1], [4, 4])
        assert back.id == "brought-back"
        new = rows(rng, 1)
        np.testing.assert_array_equal(back.step(*new).output, chat.step(*new).output)
    with pytest.raises(attentiond.Refused) as refused:
        served.restore(b"nothing")
    assert refused.value.name == "malformed"


def test_somebody_else_appends(served, chat, rng):
    other = attentiond.Session(served, chat.refresh())
    other.step(*rows(rng, 1))
    with pytest.raises(attentiond.Refused) as refused:
        chat.step(*rows(rng, 1))
    assert (refused.value.name, refused.value.attempts) == ("session-length", 1)
    chat.refresh()
    chat.step(*rows(rng, 1))
    assert chat.lengths[0] == 2


class Loses(httpx.HTTPTransport):
    """Delivers every request, and loses the first answer to a step."""
    lost = 0

    def handle_request(self, request):
        answer = super().handle_request(request)
        if request.url.path.endswith("/attention") and not self.lost:
            self.lost += 1
            answer.read()
            raise httpx.ReadError("lost on its way", request=request)
        return answer


def test_a_lost_answer_is_had_and_nothing_is_appended_twice(url, served, rng):
    new = rows(rng, 3)
    with attentiond.Client(url, retries=2) as client:
        client._http = httpx.Client(transport=Loses(), base_url=url)
        with client.session(**SHAPE) as chat, served.session(**SHAPE) as other:
            answer = chat.step(*new)
            assert client._http._transport.lost == 1
            assert chat.lengths == chat.refresh()["lengths"] == [3, 0]
            np.testing.assert_array_equal(answer.output, other.step(*new).output)


def test_a_session_that_has_ended_can_be_deleted(served):
    chat = served.session(**SHAPE, group="user-17", ttl_s=5)
    chat.delete()
    chat.delete()
    with pytest.raises(attentiond.Refused) as refused:
        chat.refresh()
    assert refused.value.status == 404


def test_the_list_of_sessions(served, rng):
    with served.session(**SHAPE, id="listed") as chat:
        chat.step(*rows(rng, 2))
        (facts,) = [facts for facts in served.sessions() if facts["id"] == "listed"]
        again = attentiond.Session(served, facts)
        assert again.lengths == [2, 0]
        again.step(*rows(rng, 1))
    assert not any(facts["id"] == "listed" for facts in served.sessions())


def test_awaited_sessions_give_the_same(url, served, chat, rng):
    prompt, token = rows(rng, 4), rows(rng, 1)

    async def calls():
        async with attentiond.AsyncClient(url, retries=0) as client, \
                await client.session(**SHAPE, group="user-17") as made:
            outputs = [(await made.step(*prompt, layer=1)).output,
                       (await made.step(*token, layer=1)).output,
                       (await made.attend(token[0], layer=1, position=4)).output]
            async with await made.fork("awaited-fork") as fork, \
                    await client.restore(await made.snapshot(), id="awaited-back") as back:
                await fork.truncate(0)
                assert {"awaited-fork", "awaited-back", made.id} <= {
                    facts["id"] for facts in await client.sessions()}
                lengths = [made.lengths, fork.lengths, (await back.refresh())["lengths"]]
            await fork.delete()
            with pytest.raises(attentiond.Refused, match="no session"):
                await fork.refresh()
            return outputs, lengths

    outputs, lengths = asyncio.run(calls())
    chat.step(*prompt, layer=1)
    last = chat.step(*token, layer=1)
    np.testing.assert_array_equal(outputs[1], last.output)
    np.testing.assert_array_equal(outputs[2], last.output)
    assert lengths == [[0, 5], [0, 0], [0, 5]]


class LosesAwaited(httpx.AsyncHTTPTransport):
    """As Loses."""
    lost = 0

    async def handle_async_request(self, request):
        answer = await super().handle_async_request(request)
        if request.url.path.endswith("/attention") and not self.lost:
            self.lost += 1
            await answer.aread()
            raise httpx.ReadError("lost on its way", request=request)
        return answer


def test_an_awaited_answer_that_was_lost(url, chat, rng):
    new = rows(rng, 3)

    async def calls():
        async with attentiond.AsyncClient(url, retries=2) as client:
            client._http = httpx.AsyncClient(transport=LosesAwaited(), base_url=url)
            async with await client.session(**SHAPE) as made:
                answer = await made.step(*new)
                assert client._http._transport.lost == 1
                return answer.output, made.lengths, (await made.refresh())["lengths"]

    output, *lengths = asyncio.run(calls())
    assert lengths == [[3, 0], [3, 0]]
    np.testing.assert_array_equal(output, chat.step(*new).output)


@pytest.mark.parametrize("plain, awaited", [
    (attentiond.Client, attentiond.AsyncClient), (attentiond.Session, attentiond.AsyncSession)])
def test_both_kinds_have_the_same_calls(plain, awaited):
    names = {name for name in vars(plain) if not name.startswith("_")}
    assert names == {name for name in vars(awaited) if not name.startswith("_")}
    for name in names:
        assert inspect.signature(vars(plain)[name]).parameters.keys() == \
            inspect.signature(vars(awaited)[name]).parameters.keys(), name
        assert inspect.iscoroutinefunction(vars(awaited)[name]), name

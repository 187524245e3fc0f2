# SPDX-License-Identifier: Apache-2.0
"""Sessions: keys and values that the daemon keeps between calls, for decoding.

    with client.session(layers=2, kv_heads=8, head_dim=128, dtype="float16", capacity=8192) as chat:
        answer = chat.step(q, k, v, layer=0)
"""
from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from attentiond import _calls
from attentiond._calls import Call
from attentiond._errors import AttentionError, Refused
from attentiond._options import Wanted
from attentiond._result import Attention
from attentiond._types import Array, tensor

T = TypeVar("T")
#: What is done with a session, whoever carries its calls: it gives calls, gets their answers or
#: AttentionErrors, and ends with its result.
_Steps = Generator[Call[Any], Any, T]


class _Carrier(Protocol):
    def _carry(self, call: Call[T]) -> T: ...


class _AsyncCarrier(Protocol):
    async def _carry(self, call: Call[T]) -> T: ...


class _Facts:
    """What both kinds of session know, and what they say to the daemon."""

    def __init__(self, facts: dict[str, Any], group: str | None):
        self._group = group
        self.facts = facts                 #: what the daemon said of it last
        self.id: str = self.facts["id"]
        self.lengths: list[int] = list(self.facts["lengths"])  #: tokens of each layer

    def _step(self, q: Array, k: Array, v: Array, layer: int, wanted: Sequence[Wanted] | None,
              options: Mapping[str, Any]) -> _Steps[Attention]:
        tensors = {"q": tensor(q), "k": tensor(k), "v": tensor(v)}
        position, rows = self.lengths[layer], tensors["k"].shape[-2]
        said = {"layer": layer, "position": position, **options}
        answer: Attention
        try:
            answer = yield self._attention(tensors, wanted, said)
        except Refused as refused:
            if not _was_applied(refused, position + rows):
                raise
            answer = yield self._attention({"q": tensors["q"]}, wanted, {**said, "append": False})
        self.lengths[layer] = position + rows
        return answer

    def _attend(self, q: Array, layer: int, position: int | None, wanted: Sequence[Wanted] | None,
                options: Mapping[str, Any]) -> Call[Attention]:
        said = {"layer": layer, "position": position, "append": False, **options}
        return self._attention({"q": tensor(q)}, wanted, said)

    def _fork(self, id: str | None) -> Call[dict[str, Any]]:
        return self._call("POST", "/fork", {"id": id or uuid.uuid4().hex}, _calls.read_json)

    def _truncate(self, length: int) -> _Steps[None]:
        self._take((yield self._call("POST", "/truncate", {"length": length}, _calls.read_json)))

    def _snapshot(self) -> Call[bytes]:
        return self._call("GET", "/kv", None, bytes)

    def _refresh(self) -> _Steps[dict[str, Any]]:
        self._take((yield self._call("GET", "", None, _calls.read_json)))
        return self.facts

    def _delete(self) -> _Steps[None]:
        try:
            yield self._call("DELETE", "", None, bytes)
        except Refused as refused:
            if refused.status not in (404, 410):
                raise

    def _take(self, facts: dict[str, Any]) -> None:
        self.facts, self.lengths = facts, list(facts["lengths"])

    def _attention(self, tensors: dict[str, Array], wanted: Sequence[Wanted] | None,
                   options: Mapping[str, Any]) -> Call[Attention]:
        return _calls.step(self.id, tensors, wanted, options, self._group)

    def _call(self, method: str, end: str, body: Mapping[str, Any] | None,
              read: Callable[[bytes], T]) -> Call[T]:
        return _calls.session(method, f"/{self.id}{end}", body, self._group, read)


class Session(_Facts):
    """One session. It knows how long its layers are and says so with every step, so that a step
    which is sent again is never applied twice. Not for several threads, nor for a session that
    somebody else appends to: `refresh` then takes over the lengths that are there."""

    def __init__(self, client: _Carrier, facts: dict[str, Any], group: str | None = None):
        super().__init__(facts, group)
        self._client = client

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()

    def step(self, q: Array, k: Array, v: Array, *, layer: int = 0,
             wanted: Sequence[Wanted] | None = None, **options: Any) -> Attention:
        """Appends the rows of k [Hkv,n,D] and v [Hkv,n,Dv] to a layer; then q [Hq,n,D], a query for
        each, attends over all of it."""
        return self._run(self._step(q, k, v, layer, wanted, options))

    def attend(self, q: Array, *, layer: int = 0, position: int | None = None,
               wanted: Sequence[Wanted] | None = None, **options: Any) -> Attention:
        """q attends over what is there, its first row from `position` on; nothing is appended."""
        return self._client._carry(self._attend(q, layer, position, wanted, options))

    def fork(self, id: str | None = None) -> Session:
        """A second session with the same tokens."""
        return Session(self._client, self._client._carry(self._fork(id)), self._group)

    def truncate(self, length: int) -> None:
        """Cuts every layer to a length."""
        self._run(self._truncate(length))

    def snapshot(self) -> bytes:
        """All of it, for Client.restore here or elsewhere."""
        return self._client._carry(self._snapshot())

    def refresh(self) -> dict[str, Any]:
        """Looks at it; takes over its lengths."""
        return self._run(self._refresh())

    def delete(self) -> None:
        """Ends it; that it has ended already is no error."""
        self._run(self._delete())

    def _run(self, steps: _Steps[T]) -> T:
        try:
            call = next(steps)
            while True:
                try:
                    answer = self._client._carry(call)
                except AttentionError as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result


class AsyncSession(_Facts):
    """A session of an AsyncClient: as Session, to await. Its steps are for one task at a time."""

    def __init__(self, client: _AsyncCarrier, facts: dict[str, Any], group: str | None = None):
        super().__init__(facts, group)
        self._client = client

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.delete()

    async def step(self, q: Array, k: Array, v: Array, *, layer: int = 0,
                   wanted: Sequence[Wanted] | None = None, **options: Any) -> Attention:
        """As Session.step."""
        return await self._run(self._step(q, k, v, layer, wanted, options))

    async def attend(self, q: Array, *, layer: int = 0, position: int | None = None,
                     wanted: Sequence[Wanted] | None = None, **options: Any) -> Attention:
        """As Session.attend."""
        return await self._client._carry(self._attend(q, layer, position, wanted, options))

    async def fork(self, id: str | None = None) -> AsyncSession:
        """As Session.fork."""
        facts = await self._client._carry(self._fork(id))
        return AsyncSession(self._client, facts, self._group)

    async def truncate(self, length: int) -> None:
        """As Session.truncate."""
        await self._run(self._truncate(length))

    async def snapshot(self) -> bytes:
        """As Session.snapshot."""
        return await self._client._carry(self._snapshot())

    async def refresh(self) -> dict[str, Any]:
        """As Session.refresh."""
        return await self._run(self._refresh())

    async def delete(self) -> None:
        """As Session.delete."""
        await self._run(self._delete())

    async def _run(self, steps: _Steps[T]) -> T:
        try:
            call = next(steps)
            while True:
                try:
                    answer = await self._client._carry(call)
                except AttentionError as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result


def _was_applied(refused: Refused, length: int) -> bool:
    """Whether an attempt before this one, whose answer was lost, has appended the rows."""
    return (refused.name == "session-length" and refused.attempts > 1
            and refused.problem.get("length") == length)

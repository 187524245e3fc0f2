# SPDX-License-Identifier: Apache-2.0
"""The clients: the same calls, blocking and asynchronous. Tensors travel as safetensors."""
from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar, Unpack

import httpx

from attentiond import _calls
from attentiond._calls import Call
from attentiond._connection import Certificate, Settings, Verify, is_final, not_reachable
from attentiond._errors import AttentionError, Refused, refusal
from attentiond._options import Options, Wanted
from attentiond._result import Attention, Merged
from attentiond._retry import Attempts, Retries
from attentiond._types import Array
from attentiond.session import AsyncSession, Session

_Outcome = tuple[httpx.Response | None, httpx.TransportError | None]
T = TypeVar("T")


class _Shared:
    """What both clients have."""

    def __init__(self, settings: Settings):
        self.url = settings.address
        self._settings = settings
        self._retries = Retries(settings.retries + 1, settings.patience)

    def _request(self, call: Call[Any]) -> dict[str, Any]:
        headers = dict(call.headers)
        if call.parts:
            headers["Content-Length"] = str(call.length)
        return {"method": call.method, "url": call.path, "headers": headers}

    def _finish(self, call: Call[T], answer: httpx.Response | None,
                problem: httpx.TransportError | None, attempts: int) -> T:
        if answer is None:
            raise not_reachable(self.url, problem) from None
        if not answer.is_success:
            error = refusal(answer.status_code, answer.headers.get("content-type", ""),
                            answer.content)
            if isinstance(error, Refused):
                error.attempts = attempts
            raise error
        return call.read(answer.content)


def _said(answer: httpx.Response | None) -> tuple[int | None, str | None]:
    """The status, and what the answer says about trying again."""
    return (None, None) if answer is None else (answer.status_code,
                                                answer.headers.get("retry-after"))


class Client(_Shared):
    """The blocking client. Threads may share one.

    url: the daemon's, or "unix:/path" of its socket; else the variable ATTENTION_URL has it, else
    it is http://127.0.0.1:8080. api_key: for a daemon with keys, sent as a bearer token; else the
    variable ATTENTION_KEY has it, and "" stands for none.
    timeout: seconds for one attempt. retries: attempts after the first, for answers 429 and 503,
    whose Retry-After is honoured, and connections that fail; none begins once `patience` seconds
    have passed. For https: verify, the path of the authority that signed the daemon's certificate,
    or an ssl.SSLContext; cert, the paths (certificate, key) of the client's own.
    """

    def __init__(self, url: str | None = None, *, api_key: str | None = None,
                 timeout: float = 60.0, retries: int = 4, patience: float = 60.0,
                 verify: Verify = True, cert: Certificate | None = None):
        super().__init__(Settings(url, api_key, timeout, retries, patience, verify, cert))
        socket = self._settings.socket
        transport = httpx.HTTPTransport(uds=socket) if socket else None
        self._http = httpx.Client(transport=transport, **self._settings.arguments())

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def attention(self, q: Array, k: Array, v: Array, *,
                  wanted: Sequence[Wanted] | None = None,
                  **options: Unpack[Options]) -> Attention:
        """softmax(q kᵀ · scale) v. Shapes are [B,H,T,D], [H,T,D] or [T,D], or [B,T,H·D] with
        num_heads; `wanted` names what comes back, the output alone if nothing else is said."""
        call = _calls.attention(q, k, v, wanted, options)
        return replace(self._carry(call), _draw=lambda: self._draw(call))

    def merge(self, outputs: Array, lses: Array, **options: Any) -> Merged:
        """Outputs [P,B,H,T,Dv] and lses [P,B,H,T] over disjoint ranges of keys, made one."""
        return self._carry(_calls.merge(outputs, lses, options))

    def session(self, *, layers: int, kv_heads: int, head_dim: int, dtype: str, capacity: int,
                id: str | None = None, group: str | None = None, **options: Any) -> Session:
        """A session of the daemon's, which keeps keys and values between calls. As a context it is
        deleted at the end. `group` is sent as X-Session-Group: what balancers hash on."""
        shape = {"layers": layers, "kv_heads": kv_heads, "head_dim": head_dim, "dtype": dtype,
                 "capacity": capacity, **options}
        return Session(self, self._carry(_calls.create(shape, id, group)), group)

    def restore(self, snapshot: bytes, *, id: str | None = None,
                group: str | None = None) -> Session:
        """A session from what Session.snapshot gave, under its id or another."""
        return Session(self, self._carry(_calls.restore(snapshot, id, group)), group)

    def sessions(self) -> list[dict[str, Any]]:
        """What the daemon says of each session of this key, by id; Session takes such facts."""
        return self._carry(_calls.sessions())

    def scaling(self, **options: Any) -> dict[str, Any]:
        """The experiment on why scores are divided: d_k, samples, keys, seed."""
        return self._carry(_calls.scaling(options))

    def describe(self) -> dict[str, Any]:
        """The daemon's version, limits, kernels and processor."""
        return self._carry(_calls.describe())

    def ready(self) -> bool:
        """Whether the daemon takes calls now. Never raises."""
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def _draw(self, call: Call[Any]) -> bytes | None:
        try:
            return self._carry(_calls.picture(call))
        except AttentionError:
            return None  # a notebook then shows the text instead

    def _carry(self, call: Call[T]) -> T:
        attempts = Attempts(self._retries)
        while True:
            answer, problem = self._try(call)
            pause = None if is_final(problem) else attempts.pause(*_said(answer))
            if pause is None:
                return self._finish(call, answer, problem, attempts.made)
            time.sleep(pause)

    def _try(self, call: Call[Any]) -> _Outcome:
        try:
            content = _pieces(call) if call.parts else None
            return self._http.request(**self._request(call), content=content), None
        except httpx.TransportError as error:
            return None, error


class AsyncClient(_Shared):
    """The asynchronous client, for one event loop. Its arguments are those of Client."""

    def __init__(self, url: str | None = None, *, api_key: str | None = None,
                 timeout: float = 60.0, retries: int = 4, patience: float = 60.0,
                 verify: Verify = True, cert: Certificate | None = None):
        super().__init__(Settings(url, api_key, timeout, retries, patience, verify, cert))
        socket = self._settings.socket
        transport = httpx.AsyncHTTPTransport(uds=socket) if socket else None
        self._http = httpx.AsyncClient(transport=transport, **self._settings.arguments())

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def attention(self, q: Array, k: Array, v: Array, *,
                        wanted: Sequence[Wanted] | None = None,
                        **options: Unpack[Options]) -> Attention:
        """As Client.attention."""
        call = _calls.attention(q, k, v, wanted, options)
        return replace(await self._carry(call), _draw=lambda: self._draw(call))

    async def merge(self, outputs: Array, lses: Array, **options: Any) -> Merged:
        """As Client.merge."""
        return await self._carry(_calls.merge(outputs, lses, options))

    async def session(self, *, layers: int, kv_heads: int, head_dim: int, dtype: str,
                      capacity: int, id: str | None = None, group: str | None = None,
                      **options: Any) -> AsyncSession:
        """As Client.session: `async with await client.session(…) as chat`."""
        shape = {"layers": layers, "kv_heads": kv_heads, "head_dim": head_dim, "dtype": dtype,
                 "capacity": capacity, **options}
        return AsyncSession(self, await self._carry(_calls.create(shape, id, group)), group)

    async def restore(self, snapshot: bytes, *, id: str | None = None,
                      group: str | None = None) -> AsyncSession:
        """As Client.restore."""
        return AsyncSession(self, await self._carry(_calls.restore(snapshot, id, group)), group)

    async def sessions(self) -> list[dict[str, Any]]:
        """As Client.sessions."""
        return await self._carry(_calls.sessions())

    async def scaling(self, **options: Any) -> dict[str, Any]:
        """As Client.scaling."""
        return await self._carry(_calls.scaling(options))

    async def describe(self) -> dict[str, Any]:
        """As Client.describe."""
        return await self._carry(_calls.describe())

    async def ready(self) -> bool:
        """As Client.ready."""
        try:
            return (await self._http.get("/readyz")).status_code == 200
        except httpx.HTTPError:
            return False

    def _draw(self, call: Call[Any]) -> bytes | None:
        # Notebooks ask for the picture outside of the event loop.
        with Client(**vars(self._settings)) as client:
            return client._draw(call)

    async def _carry(self, call: Call[T]) -> T:
        attempts = Attempts(self._retries)
        while True:
            answer, problem = await self._try(call)
            pause = None if is_final(problem) else attempts.pause(*_said(answer))
            if pause is None:
                return self._finish(call, answer, problem, attempts.made)
            await asyncio.sleep(pause)

    async def _try(self, call: Call[Any]) -> _Outcome:
        try:
            content = _awaited(_pieces(call)) if call.parts else None
            return await self._http.request(**self._request(call), content=content), None
        except httpx.TransportError as error:
            return None, error


# One part of a gigabyte would be copied as a whole; small parts go out with one write.
_PIECE = 1 << 20


def _pieces(call: Call[Any]) -> Iterator[bytes]:
    if call.length <= _PIECE:
        yield b"".join(call.parts)
        return
    for part in call.parts:
        for at in range(0, len(part), _PIECE):
            yield bytes(part[at:at + _PIECE])


async def _awaited(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece

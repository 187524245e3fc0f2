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
from attentiond._errors import AttentionError, NotReachable, refusal
from attentiond._options import Options, Wanted
from attentiond._result import Attention, Merged
from attentiond._retry import Attempts, Retries
from attentiond._types import Array

_Outcome = tuple[httpx.Response | None, httpx.TransportError | None]
T = TypeVar("T")
DEFAULT_URL = "http://127.0.0.1:8080"


class _Settings:
    """What both clients are made with.

    url: the daemon's, or "unix:/path" of its socket. api_key: sent as a bearer token.
    timeout: seconds for one attempt. retries: attempts after the first, for answers 429 and 503,
    whose Retry-After is honoured, and connections that fail; none begins once `patience` seconds
    have passed.
    """

    def __init__(self, url: str = DEFAULT_URL, *, api_key: str | None = None,
                 timeout: float = 60.0, retries: int = 4, patience: float = 60.0):
        self.url = url
        self._retries = Retries(retries + 1, patience)
        self._socket = url.removeprefix("unix:") if url.startswith("unix:") else None
        self._arguments: dict[str, Any] = {
            "base_url": "http://localhost" if self._socket else url,
            "timeout": timeout,
            "headers": {"Authorization": f"Bearer {api_key}"} if api_key else {},
        }

    def _request(self, call: Call[Any]) -> dict[str, Any]:
        headers = dict(call.headers)
        if call.parts:
            headers["Content-Length"] = str(call.length)
        return {"method": call.method, "url": call.path, "headers": headers}

    def _finish(self, call: Call[T], answer: httpx.Response | None,
                problem: httpx.TransportError | None) -> T:
        if answer is None:
            raise NotReachable(f"nothing answers at {self.url} ({problem}): start the daemon, or "
                               "give the client its address") from problem
        if answer.status_code != 200:
            raise refusal(answer.status_code, answer.headers.get("content-type", ""),
                          answer.content)
        return call.read(answer.content)


def _said(answer: httpx.Response | None) -> tuple[int | None, str | None]:
    """The status, and what the answer says about trying again."""
    return (None, None) if answer is None else (answer.status_code,
                                                answer.headers.get("retry-after"))


class Client(_Settings):
    """The blocking client. Threads may share one."""

    def __init__(self, url: str = DEFAULT_URL, **settings: Any):
        super().__init__(url, **settings)
        transport = httpx.HTTPTransport(uds=self._socket) if self._socket else None
        self._http = httpx.Client(transport=transport, **self._arguments)

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
            pause = attempts.pause(*_said(answer))
            if pause is None:
                return self._finish(call, answer, problem)
            time.sleep(pause)

    def _try(self, call: Call[Any]) -> _Outcome:
        try:
            content = _pieces(call) if call.parts else None
            return self._http.request(**self._request(call), content=content), None
        except httpx.TransportError as error:
            return None, error


class AsyncClient(_Settings):
    """The asynchronous client, for one event loop."""

    def __init__(self, url: str = DEFAULT_URL, **settings: Any):
        super().__init__(url, **settings)
        transport = httpx.AsyncHTTPTransport(uds=self._socket) if self._socket else None
        self._http = httpx.AsyncClient(transport=transport, **self._arguments)
        self._settings = settings

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
        with Client(self.url, **self._settings) as client:
            return client._draw(call)

    async def _carry(self, call: Call[T]) -> T:
        attempts = Attempts(self._retries)
        while True:
            answer, problem = await self._try(call)
            pause = attempts.pause(*_said(answer))
            if pause is None:
                return self._finish(call, answer, problem)
            await asyncio.sleep(pause)

    async def _try(self, call: Call[Any]) -> _Outcome:
        try:
            content = _awaited(_pieces(call)) if call.parts else None
            return await self._http.request(**self._request(call), content=content), None
        except httpx.TransportError as error:
            return None, error


# One part of a gigabyte would be copied as a whole.
_PIECE = 1 << 20


def _pieces(call: Call[Any]) -> Iterator[bytes]:
    for part in call.parts:
        for at in range(0, len(part), _PIECE):
            yield bytes(part[at:at + _PIECE])


async def _awaited(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece

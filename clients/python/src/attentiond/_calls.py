# SPDX-License-Identifier: Apache-2.0
"""Calls as values: what is sent, and how the answer is read. Clients only carry them."""
from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from attentiond import _options, _safetensors
from attentiond._result import Attention, Merged
from attentiond._types import Array, tensor

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    method: str
    path: str
    headers: dict[str, str]
    parts: Sequence[bytes | memoryview]
    read: Callable[[bytes], T] = field(repr=False)

    @property
    def length(self) -> int:
        return sum(len(part) for part in self.parts)


def _tensor_call(path: str, tensors: dict[str, Array], options: Mapping[str, Any],
                 read: Callable[[bytes], T]) -> Call[T]:
    given, named = _options.split(options)
    parts = _safetensors.dumps({**tensors, **named}, {"attention": json.dumps(given)})
    headers = {"Content-Type": _safetensors.MEDIA_TYPE, "Accept": _safetensors.MEDIA_TYPE}
    return Call("POST", path, headers, parts, read)


def attention(q: Array, k: Array, v: Array, wanted: Sequence[str] | None,
              options: Mapping[str, Any]) -> Call[Attention]:
    if wanted is not None:
        options = {**options, "return": list(wanted)}
    return _tensor_call("/v1/attention", {"q": tensor(q), "k": tensor(k), "v": tensor(v)}, options,
                        Attention._read)


def merge(outputs: Array, lses: Array, options: Mapping[str, Any]) -> Call[Merged]:
    return _tensor_call("/v1/merge", {"outputs": tensor(outputs), "lses": tensor(lses)}, options,
                        Merged._read)


def scaling(options: Mapping[str, Any]) -> Call[dict[str, Any]]:
    given, _ = _options.split(options)
    return Call("POST", "/v1/experiments/scaling", {"Content-Type": "application/json"},
                [json.dumps(given).encode()], json.loads)


def step(name: str, tensors: dict[str, Array], wanted: Sequence[str] | None,
         options: Mapping[str, Any], group: str | None) -> Call[Attention]:
    if wanted is not None:
        options = {**options, "return": list(wanted)}
    call = _tensor_call(f"/v1/sessions/{name}/attention", tensors, options, Attention._read)
    call.headers.update(_group(group))
    return call


def session(method: str, end: str, body: Mapping[str, Any] | bytes | None, group: str | None,
            read: Callable[[bytes], T]) -> Call[T]:
    """A call of sessions without tensors; bytes are a snapshot."""
    headers, parts = _group(group), []
    if isinstance(body, bytes):
        headers["Content-Type"], parts = _safetensors.MEDIA_TYPE, [body]
    elif body is not None:
        headers["Content-Type"], parts = "application/json", [json.dumps(body).encode()]
    return Call(method, f"/v1/sessions{end}", headers, parts, read)


def create(shape: Mapping[str, Any], id: str | None, group: str | None) -> Call[dict[str, Any]]:
    """A session under an id of the client's, so that creating it may be sent again."""
    return session("POST", "", {"id": id or uuid.uuid4().hex, **shape}, group, read_json)


def restore(snapshot: bytes, id: str | None, group: str | None) -> Call[dict[str, Any]]:
    return session("POST", "" if id is None else f"?id={id}", snapshot, group, read_json)


def sessions() -> Call[list[dict[str, Any]]]:
    return session("GET", "", None, None, lambda body: list(read_json(body)["sessions"]))


def read_json(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(body)
    return found


def _group(group: str | None) -> dict[str, str]:
    return {} if group is None else {"X-Session-Group": group}


def describe() -> Call[dict[str, Any]]:
    return Call("GET", "/v1", {}, [], json.loads)


def picture(call: Call[Any]) -> Call[bytes]:
    """The same call, answered by a picture of its map."""
    return Call(call.method, call.path, {**call.headers, "Accept": "image/png"}, call.parts, bytes)

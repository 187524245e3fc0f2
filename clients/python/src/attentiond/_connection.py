# SPDX-License-Identifier: Apache-2.0
"""Where the daemon is and how it is reached: address, key, certificates, and what to say when it is
not reached."""
from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from typing import Any

import httpx

from attentiond._errors import NotReachable

DEFAULT_URL = "http://127.0.0.1:8080"
#: The environment variables that have the address and the key where the program gives none.
URL_VARIABLE = "ATTENTION_URL"
KEY_VARIABLE = "ATTENTION_KEY"

Path = str | os.PathLike[str]
#: False for no check, the path of a file or folder of authorities, or a context with everything.
Verify = bool | Path | ssl.SSLContext
#: The path of a file with the client's certificate and its key, or the paths of two.
Certificate = Path | tuple[Path, Path]


@dataclass(frozen=True)
class Settings:
    """The arguments of both clients, by their names."""
    url: str | None
    api_key: str | None = field(repr=False)
    timeout: float
    retries: int
    patience: float
    verify: Verify
    cert: Certificate | None

    @property
    def address(self) -> str:
        return self.url or os.environ.get(URL_VARIABLE) or DEFAULT_URL

    @property
    def key(self) -> str | None:
        return os.environ.get(KEY_VARIABLE) if self.api_key is None else self.api_key

    @property
    def socket(self) -> str | None:
        """The path of the daemon's socket, if it is reached by one."""
        return self.address.removeprefix("unix:") if self.address.startswith("unix:") else None

    def arguments(self) -> dict[str, Any]:
        """Those of httpx's clients."""
        return {"base_url": "http://localhost" if self.socket else self.address,
                "timeout": self.timeout, "verify": self._context(),
                "headers": {"Authorization": f"Bearer {self.key}"} if self.key else {}}

    def _context(self) -> ssl.SSLContext:
        if isinstance(self.verify, (bool, ssl.SSLContext)):
            context = (httpx.create_ssl_context(verify=self.verify)
                       if isinstance(self.verify, bool) else self.verify)
        else:
            place = "capath" if os.path.isdir(self.verify) else "cafile"
            context = _read("verify", "certificates of authorities, in PEM", self.verify,
                            lambda path: ssl.create_default_context(**{place: path}))
        if self.cert is not None:
            files = self.cert if isinstance(self.cert, tuple) else (self.cert,)
            _read("cert", "a certificate and its key, in PEM", files,
                  lambda paths: context.load_cert_chain(*paths))
        return context


def _read(argument: str, expected: str, place: Any, read: Any) -> Any:
    """What `read` makes of the place; its errors, which name no file, become ones that do."""
    try:
        return read(place)
    except OSError as error:
        raise ValueError(f"{argument}={place!r} cannot be read as {expected}: "
                         f"{error.strerror or error}") from None


def _reasons(problem: BaseException | None) -> list[BaseException]:
    found = []
    while problem is not None:
        found.append(problem)
        problem = problem.__cause__ or problem.__context__
    return found


def is_final(problem: httpx.TransportError | None) -> bool:
    """Whether trying again would meet the same: a certificate or an address that does not do."""
    return isinstance(problem, httpx.UnsupportedProtocol) or any(
        isinstance(reason, ssl.SSLCertVerificationError) for reason in _reasons(problem))


def not_reachable(address: str, problem: httpx.TransportError | None) -> NotReachable:
    """The exception for a call that had no answer."""
    for reason in _reasons(problem):
        if isinstance(reason, ssl.SSLCertVerificationError):
            return NotReachable(
                f"the certificate of {address} is not accepted ({reason.verify_message}): give the "
                "client verify=PATH of the authority that signed it, and the address by a name "
                "that stands in the certificate")
        if isinstance(reason, ssl.SSLError):
            return NotReachable(
                f"no TLS with {address} ({reason.reason or reason}): a daemon without certificates "
                "has an address with http://, and one that asks for a client's certificate wants "
                "cert=(CERTIFICATE, KEY)")
    return NotReachable(
        f"nothing answers at {address} ({problem or type(problem).__name__}): start the daemon, or "
        f'say where it is, in Client("http://HOST:PORT") or the variable {URL_VARIABLE}; with '
        "certificates the address begins with https://")

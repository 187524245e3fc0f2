# SPDX-License-Identifier: Apache-2.0
"""When to try again, and when. Calls have no effect but their answer, so that trying again is
always safe; steps of sessions say where they stand, which makes them safe too. Only answers that
say "not now" and connections that fail are tried again."""
from __future__ import annotations

import email.utils
import random
import time
from dataclasses import dataclass

_LATER = (429, 503)
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 30.0


@dataclass(frozen=True)
class Retries:
    attempts: int    # in all, the first included
    patience: float  # seconds from the first attempt on, after which no other begins


class Attempts:
    """Those of one call, from now on."""

    def __init__(self, allowed: Retries):
        self._allowed = allowed
        self._began = time.monotonic()
        self._made = 0

    @property
    def made(self) -> int:
        return self._made

    def pause(self, status: int | None, retry_after: str | None) -> float | None:
        """Another attempt was made: the seconds to wait before the next, or None when there is
        none. `status` is None when the connection failed."""
        self._made += 1
        if self._made >= self._allowed.attempts or (status is not None and status not in _LATER):
            return None
        seconds = _asked_for(retry_after)
        if seconds is None:  # doubled each time, spread so that clients do not come back together
            seconds = min(_FIRST_PAUSE * 2 ** (self._made - 1), _LONGEST_PAUSE)
            seconds *= random.uniform(0.5, 1.0)
        passed = time.monotonic() - self._began
        return seconds if passed + seconds <= self._allowed.patience else None


def _asked_for(retry_after: str | None) -> float | None:
    """Seconds from a Retry-After header, which has a number or a date."""
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return None

# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions that carry the daemon's own sentence."""
from __future__ import annotations

import json
from typing import Any


class AttentionError(Exception):
    """Every error of this package."""


class NotReachable(AttentionError):
    """Nothing that speaks attentiond's protocol answered at the address."""


class Refused(AttentionError):
    """The daemon refused the call; str() is its sentence on what was wrong and how to mend it."""

    def __init__(self, status: int, problem: dict[str, Any]):
        self.status = status
        self.problem = problem
        #: the problem's stable name, such as "head-mismatch"
        self.name = str(problem.get("type", "")).rsplit("/", 1)[-1]
        #: where it is: a JSON pointer or the name of a tensor
        self.pointer: str | None = problem.get("pointer")
        self.limit: float | None = problem.get("limit")
        #: how often the call was sent
        self.attempts = 1
        super().__init__(problem.get("detail") or f"the daemon answered with status {status}")

    def __reduce__(self) -> tuple[Any, ...]:
        """As it was made, for pools of processes; without this only the sentence would travel."""
        return type(self), (self.status, self.problem), {"attempts": self.attempts}


def refusal(status: int, media_type: str, body: bytes) -> AttentionError:
    """The exception for an answer whose status is not 200."""
    if media_type.split(";")[0].strip() == "application/problem+json":
        try:
            problem = json.loads(body)
        except ValueError:
            problem = None
        if isinstance(problem, dict):
            return Refused(status, problem)
    return NotReachable(f"what answers there is not attentiond: status {status}, "
                        f"{media_type or 'no media type'}; check the address")

# SPDX-License-Identifier: Apache-2.0
"""Calls that take seconds, and the daemon at rest after them."""
import json

import numpy as np

from support import raw, safetensors
from support.client import SAFETENSORS_TYPE


def slow(length=6144, **options):
    """A call of seconds: the oracle kernel on a long sequence."""
    q = np.ones((length, 64), np.float32)
    body = safetensors.write({"q": q, "k": q, "v": q},
                             {"attention": json.dumps({"kernel": "reference", **options})})
    return raw.post(body).replace(b"application/json", SAFETENSORS_TYPE.encode())


def rest(daemon):
    """Waits until nothing but the question itself is in flight."""
    daemon.client.close()  # it may have been idle for too long
    quiet = {"attention_http_requests_in_flight": 1, "attention_in_flight_bytes": 0,
             "attention_queue_depth": 0, "attention_backlog_seconds": 0,
             "attention_shedding": 0}

    def is_quiet():
        values = raw.samples(daemon.client)
        return {name: values[name] for name in quiet} == quiet

    raw.until(is_quiet, 60)


def settled(answer, status, problem):
    assert (answer.status, answer.problem) == (status, problem), answer.body

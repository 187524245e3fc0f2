# SPDX-License-Identifier: Apache-2.0
"""Weights of a capture against another capture's, and against maps that are sent."""
import io
import json
import math

import numpy as np
import pytest
from support.captures import compare, keep


@pytest.fixture
def client(keeping):
    keeping.client.send("DELETE", "/v1/captures")
    return keeping.client


def test_compare_with_another_capture(client):
    first, one = keep(client, name="one")
    second, other = keep(client, {"scale": 0.26}, name="other")
    same = compare(client, one, json.dumps({"with": one.rsplit("/", 1)[1]}))
    assert same["max_abs"] == 0 and same["allclose"] and same["first_failing"] is None
    got = compare(client, one, json.dumps({"with": other.rsplit("/", 1)[1], "atol": 1e-4}))
    a, b = (x["weights"].astype(np.float64) for x in (first, second))
    apart = np.abs(a - b)
    assert got["max_abs"] == apart.max()
    assert tuple(got["max_at"]) == np.unravel_index(apart.argmax(), apart.shape)
    failing = apart > 1e-4 + got["rtol"] * np.abs(b)
    assert got["failing"] == failing.sum() and not got["allclose"]
    assert tuple(got["first_failing"]) == np.unravel_index(failing.argmax(), failing.shape)


def test_compare_with_a_map_that_is_sent(client):
    answer, url = keep(client)
    weights = answer["weights"].copy()
    weights[1, 3, 149, 209] += 0.5
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, weights)
    np.savez(npz, weights=weights)
    np.save(columns := io.BytesIO(), np.asfortranarray(weights))
    for body, kind in ((npy.getvalue(), "application/x-npy"), (npz.getvalue(), "application/x-npz"),
                       (npy.getvalue(), "application/octet-stream"),
                       (columns.getvalue(), "application/x-npy")):
        got = compare(client, url, body, kind, "?rtol=0&atol=0.1")
        assert got["first_failing"] == got["max_at"] == [1, 3, 149, 209] and got["failing"] == 1
        assert math.isclose(got["max_abs"], 0.5, rel_tol=1e-6)
    np.save(npy := io.BytesIO(), weights[0])
    refused = client.send("POST", f"{url}/compare", npy.getvalue())
    assert refused.status == 422 and refused.json["pointer"] == "/weights"


def test_a_comparison_has_a_deadline_in_every_encoding(client):
    answer, url = keep(client)
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, answer["weights"])
    np.savez(npz, weights=answer["weights"])
    named = json.dumps({"with": url.rsplit("/", 1)[1]})
    for body, kind in ((npy.getvalue(), "application/x-npy"), (npz.getvalue(), "application/x-npz"),
                       (named, "application/json")):
        assert compare(client, url, body, kind, "?timeout_ms=60000")["allclose"]
        refused = client.send("POST", f"{url}/compare?timeout_ms=soon", body,
                              {"Content-Type": kind})
        assert refused.status == 422 and refused.json["pointer"] == "/timeout_ms"

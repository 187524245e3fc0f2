# SPDX-License-Identifier: Apache-2.0
"""What the contract says of captures: every answer fits its schema, and has its headers and no
others' media types."""
import json
import re

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from support.contract import CONTRACT, resolve, schema
from support.daemon import Daemon

LABELS = {"q": ["a", "b", "c"], "k": [["x"] * 5, ["y"] * 5]}
PATHS = {path: item for path, item in CONTRACT["paths"].items() if path.startswith("/v1/captures")}
QUERIES = {"/v1/captures/{id}/map": ["?rows=0:2", "?format=json&head=mean", "?format=png",
                                     "?format=npy&op=mass&width=2", "?preview=1&height=2"],
           "/v1/captures/{id}/cell": ["?row=2&col=4&head=1&batch=1"],
           "/v1/captures": ["", "?since=0"]}


@pytest.fixture(scope="module")
def keeping():
    with Daemon("--captures") as running:
        yield running


def keep(client, **more):
    q, k, v = (np.ones((2, 2, length, 4), np.float32) for length in (3, 5, 5))
    options = {"labels": LABELS, "capture": {"name": "n", "q_grid": [1, 2]}, **more}
    answer = client.attention(q, k, v, options, wire="nested")
    schema("Meta").validate(answer.meta)
    return answer.meta["capture"]["id"]


def every_get():
    return [(path, query) for path, item in PATHS.items() if "get" in item
            for query in QUERIES.get(path, [""])]


@pytest.mark.parametrize(("path", "query"), every_get())
def test_gets(path, query, keeping):
    client = keeping.client
    for options in ({}, {"softcap": 2, "sink": [1], "mask": {"type": "prefix", "length": 2}}):
        answer = client.get(path.replace("{id}", keep(client, **options)) + query)
        documented = PATHS[path]["get"]["responses"]["200"]
        media_type = answer.headers["Content-Type"]
        assert answer.status == 200 and media_type in documented["content"], answer.body
        if media_type == "application/json":
            content = documented["content"][media_type]["schema"]
            Draft202012Validator({**CONTRACT, **content}).validate(answer.json)
        for name, header in documented["headers"].items():
            pattern = resolve(header)["schema"].get("pattern")
            if name in answer.headers and pattern:
                assert re.search(pattern, answer.headers[name]), (name, answer.headers[name])
        assert {name for name in answer.headers if name.startswith("X-Map")} <= set(
            documented["headers"])


def test_a_comparison(keeping):
    one, other = keep(keeping.client), keep(keeping.client)
    body = json.dumps({"with": other, "rtol": 0.1})
    answer = keeping.client.send("POST", f"/v1/captures/{one}/compare", body,
                                 {"Content-Type": "application/json"})
    assert answer.status == 200
    schema("CaptureDifference").validate(answer.json)
    assert schema("CaptureComparison").is_valid(json.loads(body))


def test_another_mask(keeping):
    body = {"mask": {"type": "prefix", "length": 2}, "q_offset": 1, "alibi": [1, 2], "name": "m"}
    path = f"/v1/captures/{keep(keeping.client)}/remask"
    answer = keeping.client.send("POST", path, json.dumps(body),
                                 {"Content-Type": "application/json"})
    documented = PATHS["/v1/captures/{id}/remask"]["post"]["responses"]["201"]
    assert answer.status == 201, answer.body
    schema("Capture").validate(answer.json)
    assert schema("CaptureMask").is_valid(body) and not schema("CaptureMask").is_valid({})
    location = resolve(documented["headers"]["Location"])["schema"]["pattern"]
    assert re.search(location, answer.headers["Location"])


@pytest.mark.parametrize("path", PATHS)
def test_methods(path, keeping):
    actual = path.replace("{id}", keep(keeping.client))
    options = keeping.client.send("OPTIONS", actual)
    assert set(options.headers["Allow"].split(", ")) == {name.upper() for name in PATHS[path]}
    refused = keeping.client.send("PATCH", actual, b"")
    assert refused.status == 405
    schema("Problem").validate(refused.json)


def test_a_call_that_is_named_fits_the_schema():
    named = {"name": "a", "run": "r", "layer": 0, "q_grid": [1, 2], "k_grid": [2, 2]}
    assert schema("CaptureName").is_valid(named)
    for wrong in ({}, {"name": 1}, {"name": "a", "layer": -1}, {"name": "a", "q_grid": [0, 1]}):
        assert not schema("CaptureName").is_valid(wrong)

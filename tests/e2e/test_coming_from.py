# SPDX-License-Identifier: Apache-2.0
"""docs/coming-from.md: each call of another library, made of a numpy stand-in that knows its names
and defaults, against the JSON below it; and each foreign name in its tables as an option of a
request, which has to be refused with our name for it."""
import json
import re

import numpy as np
import pytest
from support import foreign, tables
from support.client import JSON_TYPE, RESULTS, decode

PAGE = (tables.ROOT / "docs" / "coming-from.md").read_text()
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE,
                           flags=re.S | re.M))
PAIR = re.compile(r"^```python\n(.*?)^```\n\n^```json\n(.*?)^```", flags=re.S | re.M)
PAIRS = [(f"{title} {n}", *pair) for title, body in SECTIONS.items()
         for n, pair in enumerate(PAIR.findall(body))]
# Ours as they are, so they stand in a table without a hint.
OURS = {"q", "k", "v", "scale", "softcap", "bias", "mask", "num_heads"}


def post(client, body):
    return client.send("POST", "/v1/attention", body, {"Content-Type": JSON_TYPE})


def foreign_names():
    """Backticked names in first cells, with or without a default: not expressions, not classes."""
    for line in PAGE.splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            yield from re.findall(r"`([A-Za-z_]\w*)(?:=[^`(]*|=\([^`]*)?`", line.split(" | ")[0])


def test_every_section_has_a_table_and_an_example():
    assert len(SECTIONS) == 9
    for title, body in SECTIONS.items():
        assert "| theirs | here |" in body, title
        assert PAIR.search(body), title
    assert PAGE.count("```") == 4 * len(PAIRS)


@pytest.mark.parametrize("python, body", [pair[1:] for pair in PAIRS],
                         ids=[pair[0] for pair in PAIRS])
def test_both_languages_say_the_same(client, python, body):
    request = json.loads(body)
    answer = post(client, body.encode())
    assert answer.status == 200, answer.body
    theirs = foreign.names(*(decode(request[name], np.float64) for name in "qkv"))
    exec(compile(python, "docs/coming-from.md", "exec"), theirs)
    assert set(answer.tensors) == {name for name in RESULTS if name in theirs}
    for name, ours in answer.tensors.items():
        np.testing.assert_allclose(ours, theirs[name], rtol=2e-6, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("name", sorted(set(foreign_names()) - OURS))
def test_a_foreign_name_is_answered_with_ours(client, name):
    call = {"q": [[1]], "k": [[1]], "v": [[1]], name: 1}
    answer = post(client, json.dumps(call).encode())
    assert answer.status == 422, answer.body
    detail = answer.json["detail"]
    assert answer.json["type"].endswith(("/unknown-field", "/training-only")), detail
    assert detail.startswith((f"There is no {name} here. ", "Dropout belongs to training")), detail


def test_our_own_names_are_ours(client):
    said = "".join(post(client, json.dumps({"q": 1, "k": 1, "v": 1, name: 1}).encode())
                   .json["detail"] for name in OURS)
    assert "There is no" not in said

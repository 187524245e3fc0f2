# SPDX-License-Identifier: Apache-2.0
"""Small calls checked by hand, one folder each under tests/cases/valid.

response.json names the results that must come, with their numbers to 1e-6, `meta` members that must
be equal, and says in `why` how a reader can check them.
"""
import json

import numpy as np
import pytest
from support import folders
from support.client import decode


@pytest.mark.parametrize("name", folders.names("valid"))
def test_answered(name, client):
    folder = folders.CASES / "valid" / name
    expected = json.loads((folder / "response.json").read_text())
    answer = folders.send(client, folder)
    assert answer.status == 200, answer.body
    assert expected.pop("why")
    meta = expected.pop("meta", {})
    assert {key: answer.meta.get(key) for key in meta} == meta
    assert set(answer.tensors) == set(expected)
    for result, numbers in expected.items():
        numbers = decode(numbers, np.float64)
        assert answer[result].shape == numbers.shape
        np.testing.assert_allclose(answer[result], numbers, rtol=1e-6, atol=1e-6)

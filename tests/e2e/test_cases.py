# SPDX-License-Identifier: Apache-2.0
"""Small calls checked by hand, one folder each under tests/cases/valid.

response.json names the results that must come, with their numbers to 1e-6, `meta` members that must
be equal, and says in `why` how a reader can check them.
"""
import json

import numpy as np
import pytest
from support import folders
from support.client import WIRES, decode


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


def by_value(tensors):
    """Numbers and signs, for encodings that cannot tell one NaN from another or say a dtype."""
    wide = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
    return {name: np.where(np.isnan(x), np.nan, x).tobytes() for name, x in wide.items()}


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "nested"])
@pytest.mark.parametrize("name", folders.names("valid"))
def test_every_encoding_gives_the_same_bits(name, wire, client):
    """The same tensors as JSON of any form, safetensors and npz; those of the options by name."""
    folder = folders.CASES / "valid" / name
    call = folders.Call(folder)
    written = folders.send(client, folder)
    answer = client.attention(*call.operands.values(), call.options, call.tensors, wire)
    assert by_value(answer.tensors) == by_value(written.tensors)
    for result, tensor in answer.tensors.items():
        assert tensor.shape == written[result].shape

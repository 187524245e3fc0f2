# SPDX-License-Identifier: Apache-2.0
"""Hostile inputs, row by row: tests/catalogue has the table, and what "nothing lost" means."""
import re

import pytest
from catalogue import running, scene
from catalogue.rows import COUNT, ROWS, lines
from conftest import ROOT
from support import library

INPUTS = {f"{row.slug}{'-by-library' * item.by_library}" + (f"[{name}]" if name else ""): item
          for row in ROWS for name, item in row.inputs.items()}


@pytest.fixture(scope="module")
def company(tmp_path_factory):
    together = running.Company(tmp_path_factory.mktemp("catalogue"))
    yield together
    together.stop()


@pytest.mark.parametrize("name", INPUTS)
def test_nothing_is_lost(name, company):
    item = INPUTS[name]
    if item.unfolded and library.is_newer():
        pytest.skip("this version of libmicrohttpd joins folded lines as RFC 9112 has it")
    scene.perform(company.get(item), item)


def test_every_row_is_there():
    assert sorted(row.number for row in ROWS) == list(range(1, COUNT + 1))


def test_the_document_has_the_table():
    """When it fails, what it prints is what has to stand there."""
    text = (ROOT / "docs" / "reliability.md").read_text()
    found = re.findall(r"^\| \d+ \| .*$", text, flags=re.M)
    assert found == lines(), "\n" + "\n".join(lines())

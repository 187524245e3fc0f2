# SPDX-License-Identifier: Apache-2.0
"""The page's programs as they stand, against this daemon; only the model's lines are not run."""
import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", README, flags=re.S | re.M)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_of_the_page(number, url, capsys, monkeypatch):
    monkeypatch.setenv("ATTENTION_URL", url)
    program = PROGRAMS[number].replace('"http://127.0.0.1:8080"', "")
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out


def test_there_are_programs():
    assert len(PROGRAMS) == 3

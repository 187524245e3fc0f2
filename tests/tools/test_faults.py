# SPDX-License-Identifier: Apache-2.0
"""The table of planted faults is true: `make mutate` takes minutes and would say it too late."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mutate"))
import run


def test_every_text_stands_once_in_its_file():
    assert "\n".join(run.untrue_rows()) == ""


def test_a_text_that_is_gone_or_there_twice_is_found(monkeypatch):
    rows = [run.Fault("gone", "core/call.c", "no such text", "", ""),
            run.Fault("twice", "core/call.c", "attn_fail(", "", ""),
            run.Fault("no file", "core/none.c", "call", "", "")]
    monkeypatch.setattr(run, "table", lambda: rows)
    found = list(run.untrue_rows())
    assert [text.split('"')[1] for text in found] == ["gone", "twice", "no file"]
    assert "stands 0 times in core/call.c" in found[0]


def test_a_fault_changes_something():
    assert all(fault.old != fault.new and fault.name and fault.why for fault in run.table())
    assert len(run.table()) >= 100

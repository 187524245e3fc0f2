# SPDX-License-Identifier: Apache-2.0
"""Which branches tests/coverage.py counts, and that it leaves out no more than it says."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import coverage as gate

SOURCE = """
    assert(a && b);
    if (memory == NULL)
        return attn_fail(error, ATTN_NO_MEMORY, "", "There is no memory now.");
    if (a && b)
        return 1;
    /* unreached: a reason */
    if (c &&
        d)
        return 2;
    json_object_foreach(root, name, node) {
        use(node);
    }
    /* unreached: */
    if (e)
        return ATTN_NO_MEMORY;
"""
LINES = SOURCE.splitlines()


def test_asserts_and_marks_are_left_out_up_to_their_ends():
    assert sorted(gate.excluded_lines(LINES)) == [2, 7, 8, 9, 10]


def test_memory_and_macros_are_forgiven_one_branch():
    assert sorted(gate.forgiven_lines(LINES)) == [3, 11, 15]


def file_of(tmp_path, monkeypatch, counts, name="plan.c"):
    (tmp_path / name).write_text(SOURCE)
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    monkeypatch.setattr(gate, "LIMITS", (("plan*.c", 100),))
    return gate.File(name, {(line, "f", number): count
                            for line, taken in counts.items()
                            for number, count in enumerate(taken)})


def test_a_forgiven_branch_is_one_that_was_not_taken(tmp_path, monkeypatch):
    file = file_of(tmp_path, monkeypatch, {3: [4, 0], 5: [1, 2], 8: [0, 0]})
    assert (file.taken, file.counted, file.left_out, file.short) == (3, 3, 3, False)
    file = file_of(tmp_path, monkeypatch, {3: [4, 1]})
    assert (file.taken, file.counted, file.left_out) == (2, 2, 0)


def test_a_second_one_on_the_line_is_missing(tmp_path, monkeypatch):
    file = file_of(tmp_path, monkeypatch, {3: [0, 0]})
    assert (file.taken, file.counted, dict(file.missing), file.short) == (0, 1, {3: 1}, True)


def test_a_limit_holds_each_file_that_it_names(tmp_path, monkeypatch):
    assert file_of(tmp_path, monkeypatch, {5: [1, 0]}, "plan_cost.c").short
    assert not file_of(tmp_path, monkeypatch, {5: [1, 0]}, "other.c").short

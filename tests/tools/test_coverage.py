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


def test_memory_is_forgiven_one_branch():
    assert sorted(gate.forgiven_lines(LINES)) == [3, 15]


def file_of(tmp_path, monkeypatch, counts, name="plan.c"):
    """A file with a condition at each place of `counts`: how often it was true, and false."""
    (tmp_path / name).write_text(SOURCE)
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    monkeypatch.setattr(gate, "OURS", (name,))
    monkeypatch.setattr(gate, "LIMITS", (("plan*.c", 100),))
    branches = [[line, column, line, column + 1, *taken, 0, 0, 4]
                for (line, column), taken in counts.items()]
    return gate.File(name, gate.collect([{"filename": f"./{name}", "branches": branches},
                                         {"filename": "/usr/include/x.h", "branches": branches}])
                     [name])


def test_a_forgiven_branch_is_one_that_was_not_taken(tmp_path, monkeypatch):
    file = file_of(tmp_path, monkeypatch, {(3, 9): [0, 4], (5, 9): [1, 2], (8, 9): [0, 0]})
    assert (file.taken, file.counted, file.left_out, file.short) == (3, 3, 3, False)
    file = file_of(tmp_path, monkeypatch, {(3, 9): [4, 1]})
    assert (file.taken, file.counted, file.left_out) == (2, 2, 0)


def test_a_second_one_on_the_line_is_missing(tmp_path, monkeypatch):
    file = file_of(tmp_path, monkeypatch, {(3, 9): [0, 0]})
    assert (file.taken, file.counted, file.missing, file.short) == (0, 1, [(3, 9, True)], True)


def test_copies_of_a_place_count_once(tmp_path, monkeypatch):
    (tmp_path / "plan.h").write_text(SOURCE)
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    monkeypatch.setattr(gate, "OURS", ("plan.h",))
    copies = [[5, 9, 5, 10, 2, 0, 0, 0, 4], [5, 9, 5, 10, 0, 3, 0, 0, 4]]
    counts = gate.collect([{"filename": "./plan.h", "branches": copies}])
    assert dict(counts["plan.h"]) == {(5, 9, True): 2, (5, 9, False): 3}


def test_a_limit_holds_each_file_that_it_names(tmp_path, monkeypatch):
    assert file_of(tmp_path, monkeypatch, {(5, 9): [1, 0]}, "plan_cost.c").short
    assert not file_of(tmp_path, monkeypatch, {(5, 9): [1, 0]}, "other.c").short

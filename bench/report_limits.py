# SPDX-License-Identifier: Apache-2.0
"""What was tried for goals that were missed, what was measured, and what limits them. A row speaks
for the missed rows of a section whose name, with the kernels that missed it, its pattern finds; the
first that does counts."""
import re

# section, pattern, what was tried and what limits it
LIMITS = (
)

UNEXPLAINED = "nothing is said about it yet."


def limit_of(section, row):
    for where, pattern, words in LIMITS:
        if where == section and re.search(pattern, row):
            return words
    return UNEXPLAINED


def section(judge):
    """A paragraph per limit, with the rows that it holds for."""
    text = "## What is missed, and what limits it\n\n"
    if judge.undecided:
        text += f"{len(judge.undecided)} goals are not decided by this run.\n\n"
    if not judge.missed:
        return text + "None of the others is missed.\n\n"
    groups = {}
    for where, row in judge.missed:
        groups.setdefault((where, limit_of(where, row)), []).append(row)
    for (where, words), rows in groups.items():
        text += f"* `{where}`: {'; '.join(rows)}: {words}\n"
    return text + "\n"

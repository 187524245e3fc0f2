# SPDX-License-Identifier: Apache-2.0
"""What was tried for goals that were missed, what was measured, and what limits them. A row speaks
for the missed rows of a section whose name, with the kernels that missed it, its pattern finds; the
first that does counts. core/kernels/KERNELS.md has the details."""
import re

# section, pattern, what was tried and what limits it
LIMITS = (
    ("shapes", r"^(window|documents)", "strips of few keys pay their fixed costs, mask, maximum "
     "and sums, for fewer products."),
    ("shapes", r"fused-avx2$", "at D=64 exponentials are 8 % of the time, and 87 % of the rest are "
     "the two products, at 0.95 of the AVX2 peak; the yardstick does nothing but a product, and "
     "runs at the peak itself."),
    ("naive", r"fused-avx2$", "there is to win what the two products leave: here they run near "
     "the peak of AVX2, where the goals were set they ran at 0.8 of it; and the softmax between "
     "them has AVX-512."),
    ("peers", r"onnxruntime$", "onnxruntime's products use AVX-512 as ours do, and its flash "
     "attention works in tiles too; the goals were set where neither side had AVX-512."),
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

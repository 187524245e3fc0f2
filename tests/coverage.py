#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Branches that the tests have taken, by gcov's counts of a VARIANT=coverage build.

    build/venv/bin/python tests/coverage.py build/coverage/obj [--missing FILE...]

Fails below 90 % of the branches of core/, server/ and config/ together, and below 100 % of those of
the files under WHOLE: what reads bytes of strangers, and what plans. Not counted are branches of
assert(), and those of lines with a comment "unreached: why" on them or in front of them.
"""
import argparse
import collections
import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OURS = ("core/", "server/", "config/")
LEAST = 90
WHOLE = ("core/plan.c", "core/plan_cost.c", "core/mask_text.c", "server/http/http_guard.c",
         "server/http/http_line.c", "server/codecs/codec_safetensors_file.c",
         "server/codecs/npy_header.c", "server/codecs/codec_npz.c", "server/codecs/zip_file.c",
         "server/codecs/zip_stream.c", "server/codecs/base64.c", "server/codecs/codec_oip_file.c",
         "server/codecs/codec_oip_input.c", "server/codecs/json_lists.c",
         "server/numbers/number_row.c", "server/numbers/number_array.c",
         "server/numbers/number_exact.c", "server/numbers/number_skip.c",
         "server/json/json_document.c", "server/json/json_skeleton.c", "server/json/json_tensor.c",
         "server/json/json_numbers.c", "server/options/options_mask.c",
         "server/options/options_mask_leaf.c")
MARK = re.compile(r"unreached: \S")
ASSERT = re.compile(r"^\s*(static_)?assert\(|^\s*_Static_assert\(")


def reports(folder):
    """gcov's JSON of every object, run or not."""
    data = sorted(path.resolve() for own in OURS for path in (folder / own).rglob("*.gcno"))
    if not data:
        sys.exit(f"there are no objects under {folder}: make VARIANT=coverage tests")
    with tempfile.TemporaryDirectory() as place:
        for start in range(0, len(data), 50):
            subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--preserve-paths",
                            *map(str, data[start:start + 50])], cwd=place, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for path in Path(place).glob("*.gcov.json.gz"):
            yield json.loads(gzip.decompress(path.read_bytes()))


def relative(name):
    """The path in the project, or None for a file of others."""
    path = Path(name)
    path = path if path.is_absolute() else ROOT / path
    try:
        return str(path.resolve().relative_to(ROOT))
    except ValueError:
        return None


def collect(folder):
    """{file: {(line, function, number of the branch): how often it was taken}}"""
    counts = collections.defaultdict(collections.Counter)
    for report in reports(folder):
        for file in report["files"]:
            name = relative(file["file"])
            if name is None or not name.startswith(OURS):
                continue
            for line in file["lines"]:
                for number, branch in enumerate(line["branches"]):
                    counts[name][line["line_number"], line.get("function_name"), number] += \
                        branch["count"]
    return counts


def excluded_lines(name):
    """Lines of asserts, and of statements marked as unreached up to their ends."""
    lines, found, marked = (ROOT / name).read_text().splitlines(), set(), False
    for number, text in enumerate(lines, 1):
        in_assert = ASSERT.match(text) is not None
        marked = marked or MARK.search(text) is not None or in_assert
        if marked:
            found.add(number)
        if marked and re.search(r"[;{}]\s*(/\*.*)?$", text):
            marked = False
    return found


def missing_of(name, branches):
    """(how many branches count, {line: how many of them were not taken})"""
    excluded, missing = excluded_lines(name), collections.Counter()
    counted = {place: count for place, count in branches.items() if place[0] not in excluded}
    for (line, _, _), count in counted.items():
        missing[line] += count == 0
    return len(counted), +missing


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("objects", type=Path)
    parser.add_argument("--missing", nargs="*", default=[], metavar="FILE",
                        help="print the lines of these whose branches were not all taken")
    arguments = parser.parse_args()
    taken_all = counted_all = 0
    short = []
    for name, branches in sorted(collect(arguments.objects).items()):
        counted, missing = missing_of(name, branches)
        taken = counted - sum(missing.values())
        taken_all, counted_all = taken_all + taken, counted_all + counted
        share = 100 * taken / counted if counted else 100
        must = name in WHOLE
        print(f"{name:46} {taken:5} of {counted:5} {share:6.1f} %{'  *' if must else ''}")
        if must and taken < counted:
            short.append(name)
        if name in arguments.missing:
            lines = (ROOT / name).read_text().splitlines()
            for line, count in sorted(missing.items()):
                print(f"    {line}: {count} of its branches not taken: {lines[line - 1].strip()}")
    share = 100 * taken_all / counted_all
    print(f"{taken_all} of {counted_all} branches, {share:.1f} %; * must be 100 %: "
          f"{len(WHOLE) - len(short)} of {len(WHOLE)} are")
    for name in short:
        print(f"coverage: {name} is not whole: --missing {name} shows where", file=sys.stderr)
    if share < LEAST:
        print(f"coverage: {share:.1f} % is less than {LEAST} %", file=sys.stderr)
    return 1 if short or share < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())

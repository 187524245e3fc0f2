#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Branches that the tests have taken, by gcov's counts of a VARIANT=coverage build.

    build/venv/bin/python tests/coverage.py build/coverage/obj [--missing FILE...]

Fails where a row of LIMITS is not met. Not every branch counts. Left out, each for a reason that
the source shows, and each counted in the last column of the table:

* asserts, and statements with a comment "unreached: why" on them or in front of them;
* where memory runs out: one branch of a condition whose statement answers ATTN_NO_MEMORY.
  `make torture` and tests/unit/server/test_codec_memory.c fail allocations one by one and look at
  what comes of it;
* jansson's macros: they ask again whether a value that was just looked at is NULL, and one branch
  of each is that.

Of the last two only branches that were not taken are left out.
"""
import argparse
import collections
import fnmatch
import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OURS = ("core/", "server/", "config/")
# Least share of the branches in percent: of all files that a pattern names, each for itself, and of
# everything together. What reads bytes of strangers, and what plans, is held to all.
EVERYTHING = 90
LIMITS = (
    ("core/plan*.c", 100), ("core/mask_text.c", 100),
    ("server/http/http_guard.c", 100), ("server/http/http_line.c", 100),
    ("server/codecs/codec_safetensors_file.c", 100), ("server/codecs/npy_header.c", 100),
    ("server/codecs/codec_npz.c", 100), ("server/codecs/zip_file.c", 100),
    ("server/codecs/zip_stream.c", 100), ("server/codecs/base64.c", 100),
    ("server/codecs/codec_oip_file.c", 100), ("server/codecs/codec_oip_input.c", 100),
    ("server/codecs/json_lists.c", 100), ("server/codecs/codec_labels.c", 100),
    ("server/numbers/*", 100), ("server/json/*", 100),
    ("server/options/options_mask*.c", 100),
)
MARK = re.compile(r"unreached: \w")
ASSERT = re.compile(r"^\s*(static_)?assert\(|^\s*_Static_assert\(")
MACRO = re.compile(r"\bjson_(object_foreach|array_foreach|is_\w+|typeof)\(")
TESTS = re.compile(r"\b(if|while|for) \(|\? |\?$|== NULL")
REFUSES = re.compile(r"NO_MEMORY\b|refuse_memory|_no_memory\(")


def reports(folder):
    """gcov's JSON of every object, run or not."""
    data = sorted(path.resolve() for own in OURS for path in (folder / own).rglob("*.gcno"))
    if not data:
        sys.exit(f"there are no objects under {folder}: make VARIANT=coverage tests")
    with tempfile.TemporaryDirectory() as place:
        for start in range(0, len(data), 50):
            done = subprocess.run(["gcov", "--json-format", "--branch-probabilities",
                                   "--preserve-paths", *map(str, data[start:start + 50])],
                                  cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  text=True)
            if done.returncode != 0:
                sys.exit(f"coverage: gcov failed; was something compiled again after its tests "
                         f"had run? Delete its .gcda and run them again.\n{done.stderr[-400:]}")
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


def excluded_lines(lines):
    """Lines of asserts, and of statements marked as unreached up to their ends."""
    found, marked = set(), False
    for number, text in enumerate(lines, 1):
        in_assert = ASSERT.match(text) is not None
        marked = marked or MARK.search(text) is not None or in_assert
        if marked:
            found.add(number)
        if marked and re.search(r"[;{}]\s*(/\*.*)?$", text):
            marked = False
    return found


def forgiven_lines(lines):
    """Lines of which one branch, if it was not taken, is left out: memory, and jansson's macros."""
    found = set()
    for number, text in enumerate(lines, 1):
        if MACRO.search(text):
            found.add(number)
        if TESTS.search(text):
            statement = ""
            for line in lines[number - 1:number + 3]:
                statement += line
                if re.search(r";\s*$", line):
                    break
            if REFUSES.search(statement):
                found.add(number)
    return found


class File:
    """How many branches of a file count, were taken, and were left out."""

    def __init__(self, name, branches):
        self.name, self.missing = name, collections.Counter()
        self.lines = (ROOT / name).read_text().splitlines()
        excluded, forgiven = excluded_lines(self.lines), forgiven_lines(self.lines)
        for (line, _, _), count in branches.items():
            if line not in excluded and count == 0:
                self.missing[line] += 1
        dropped = {line for line in self.missing if line in forgiven}
        self.missing -= collections.Counter(dropped)
        outside = sum(line in excluded for line, _, _ in branches)
        self.left_out = outside + len(dropped)
        self.counted = len(branches) - self.left_out
        self.taken = self.counted - sum(self.missing.values())
        self.least = max((least for pattern, least in LIMITS if fnmatch.fnmatch(name, pattern)),
                         default=0)

    @property
    def short(self):
        return share_of([self]) < self.least


def share_of(files):
    counted = sum(file.counted for file in files)
    return 100 * sum(file.taken for file in files) / counted if counted else 100.0


def row(name, files, mark=""):
    print(f"{name:46} {sum(file.taken for file in files):6} of "
          f"{sum(file.counted for file in files):6} {share_of(files):6.1f} % "
          f"{sum(file.left_out for file in files):5}{mark}")


def print_tables(files):
    """The folders, then the files that lack something, worst first."""
    print(f"{'folder':46} {'taken':>6}    {'count':>6}   share left out")
    folders = collections.defaultdict(list)
    for file in files:
        folders[str(Path(file.name).parent)].append(file)
    for name, inside in sorted(folders.items()):
        row(name, inside)
    row("everything", files)
    print("\nfiles with a branch that was not taken, worst first; * must be whole")
    for file in sorted(files, key=share_of_one):
        if file.taken < file.counted:
            row(file.name, [file], " *" if file.least == 100 else "")


def share_of_one(file):
    return share_of([file]), file.name


def print_missing(file):
    for line, count in sorted(file.missing.items()):
        print(f"{file.name}:{line}: {count} of its branches not taken: "
              f"{file.lines[line - 1].strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("objects", type=Path)
    parser.add_argument("--missing", nargs="*", default=[], metavar="FILE",
                        help="print the lines of these, patterns too, whose branches were not "
                        "all taken")
    arguments = parser.parse_args()
    files = [File(*item) for item in sorted(collect(arguments.objects).items())]
    print_tables(files)
    for file in files:
        if any(fnmatch.fnmatch(file.name, pattern) for pattern in arguments.missing):
            print_missing(file)
    short = [file.name for file in files if file.short]
    for name in short:
        print(f"coverage: {name} is below its limit: --missing {name} shows where",
              file=sys.stderr)
    unnamed = [pattern for pattern, _ in LIMITS
               if not any(fnmatch.fnmatch(file.name, pattern) for file in files)]
    for pattern in unnamed:
        print(f"coverage: no file is like {pattern} of LIMITS", file=sys.stderr)
    if share_of(files) < EVERYTHING:
        print(f"coverage: {share_of(files):.1f} % is less than {EVERYTHING} %", file=sys.stderr)
    return 1 if short or unnamed or share_of(files) < EVERYTHING else 0


if __name__ == "__main__":
    sys.exit(main())

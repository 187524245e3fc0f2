#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Branches that the tests have taken, by clang's counts of a VARIANT=coverage build.

    build/venv/bin/python tests/coverage.py build/coverage [--missing FILE...]

A branch is one outcome, true or false, of a condition that stands in the source, and of each part
of it that && or || joins; a case of a switch is one as well. clang counts by places in the source,
so a function that was made several times (a header per instruction set, an inline function, a loop
that was unrolled) counts once, and the tests may run optimised. By gcov each copy counted for
itself, and without optimisation alone.

Fails where a row of LIMITS is not met. Not every branch counts. Left out, each for a reason that
the source shows, and each counted in the last column of the table:

* asserts, and statements with a comment "unreached: why" on them or in front of them;
* where memory runs out: one branch of a condition whose statement answers ATTN_NO_MEMORY.
  `make torture` and tests/unit/server/test_codec_memory.c fail allocations one by one and look at
  what comes of it; the part of that which is counted here is drawn anew each time.

Of the last only branches that were not taken are left out.
"""
import argparse
import collections
import fnmatch
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OURS = ("core/", "server/", "config/")
# Least share of the branches in percent: of all files that a pattern names, each for itself, and of
# everything together. What reads bytes of strangers, and what judges and plans, is held to all.
EVERYTHING = 90
LIMITS = (
    ("core/plan*.c", 100), ("core/call*.c", 100),
    ("core/mask_text.c", 100), ("core/mask_validate.c", 100),
    ("server/http/http_guard.c", 100), ("server/http/http_line.c", 100),
    ("server/http/http_head.c", 100), ("server/http/http_bytes.c", 100),
    ("server/codecs/codec_safetensors_file.c", 100), ("server/codecs/npy_header.c", 100),
    ("server/codecs/codec_npz.c", 100), ("server/codecs/zip_file.c", 100),
    ("server/codecs/zip_stream.c", 100), ("server/codecs/base64.c", 100),
    ("server/codecs/codec_oip_file.c", 100), ("server/codecs/codec_oip_input.c", 100),
    ("server/codecs/json_lists.c", 100), ("server/codecs/codec_labels.c", 100),
    ("server/numbers/*", 100), ("server/json/*", 100),
    ("server/options/options_mask*.c", 100),
    ("config/*", 100),
)
MARK = re.compile(r"unreached: \w")
ASSERT = re.compile(r"^\s*(static_)?assert\(|^\s*_Static_assert\(")
TESTS = re.compile(r"\b(if|while|for) \(|\? |\?$|== NULL")
REFUSES = re.compile(r"NO_MEMORY\b|refuse_memory|_no_memory\(")


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"coverage: {command[0]} failed:\n{done.stderr[-400:]}")
    return done.stdout


def export(folder):
    """What llvm-cov says of each file, from the counts of all processes that have ended."""
    objects = [path for own in OURS for path in sorted((folder / "obj" / own).rglob("*.o"))]
    counts = sorted((folder / "raw").glob("*.profraw"))
    if not objects or not counts:
        sys.exit(f"there is nothing to count under {folder}: make coverage")
    merged = folder / "merged.profdata"
    listing = folder / "raw.txt"
    listing.write_text("".join(f"{path}\n" for path in counts))
    run("llvm-profdata", "merge", "-sparse", "-f", listing, "-o", merged)
    others = [word for path in objects[1:] for word in ("-object", path)]
    return json.loads(run("llvm-cov", "export", "-format=text", "-skip-functions",
                          "-instr-profile", merged, objects[0], *others))["data"][0]["files"]


def relative(name):
    """The path in the project, or None for a file of others."""
    path = Path(name)
    path = path if path.is_absolute() else ROOT / path
    try:
        return str(path.resolve().relative_to(ROOT))
    except ValueError:
        return None


def collect(files):
    """{file: {(line, column, outcome): how often it was taken}}, of what llvm-cov says of files"""
    counts = collections.defaultdict(collections.Counter)
    for file in files:
        name = relative(file["filename"])
        if name is None or not name.startswith(OURS):
            continue
        for line, column, _, _, was_true, was_false, *_ in file["branches"]:
            counts[name][line, column, True] += was_true
            counts[name][line, column, False] += was_false
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
    """Lines of which one branch, if it was not taken, is left out: where memory runs out."""
    found = set()
    for number, text in enumerate(lines, 1):
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
        self.name = name
        self.lines = (ROOT / name).read_text().splitlines()
        excluded, forgiven = excluded_lines(self.lines), forgiven_lines(self.lines)
        counted = {key: count for key, count in branches.items() if key[0] not in excluded}
        self.missing = sorted(key for key, count in counted.items() if count == 0)
        for line in forgiven:
            first = next((key for key in self.missing if key[0] == line), None)
            if first is not None:
                self.missing.remove(first)
                del counted[first]
        self.counted = len(counted)
        self.left_out = len(branches) - self.counted
        self.taken = self.counted - len(self.missing)
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
    for line, column, outcome in file.missing:
        print(f"{file.name}:{line}:{column}: never {str(outcome).lower()}: "
              f"{file.lines[line - 1][column - 1:].strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, help="folder of the build, with obj/ and raw/")
    parser.add_argument("--missing", nargs="*", default=[], metavar="FILE",
                        help="print the lines of these, patterns too, whose branches were not "
                        "all taken")
    arguments = parser.parse_args()
    files = [File(*item) for item in sorted(collect(export(arguments.build)).items())]
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

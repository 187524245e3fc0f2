#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants the faults of the tables beside this file, one at a time, in a scratch copy of the
project, and fails unless each makes some test fail: first the unit tests of the part that it is in,
the core or the server, are run, then, when they all pass, a part of the tests over HTTP.

It refuses a table that is no longer true: a text that does not stand exactly once in its file, or a
fault that does not compile. Before the first fault all of the tests must pass.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import faults_arithmetic
import faults_bodies
import faults_cache
import faults_captures
import faults_decode
import faults_fused
import faults_lists
import faults_maps
import faults_masks
import faults_numbers
import faults_scores

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("Makefile", "openapi.yaml", "docs", "dashboard", "core", "config", "server", "tools",
          "tests")
HANGS_SECONDS = 120  # a test that passes takes 10 at most
LONG_SECONDS = 600  # a build, or all of the tests over HTTP
AT_ONCE = 6  # tests that one make links: it takes a second to begin, a link takes a tenth
# A make that runs this must not hand its own flags and variables to those that build the copies.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
HTTP_TESTS = [f"tests/e2e/test_{name}.py" for name in (
    "cases", "worked_examples", "laws", "pitfalls", "maps", "stats", "oracle", "errors",
    "captures", "captures_compare", "captures_keys")]


@dataclass(frozen=True)
class Fault:
    name: str
    file: str
    old: str
    new: str
    why: str


def table():
    tables = (faults_arithmetic, faults_bodies, faults_masks, faults_fused, faults_decode,
              faults_maps, faults_scores, faults_lists, faults_captures, faults_cache,
              faults_numbers)
    rows = [Fault(*row) for rows in tables for row in rows.FAULTS]
    names = [fault.name for fault in rows]
    doubled = {name for name in names if names.count(name) > 1}
    assert not doubled, f"names of more than one fault: {doubled}"
    return rows


def untrue_rows():
    """Rows whose text does not stand exactly once in its file, each with a sentence."""
    for fault in table():
        path = ROOT / fault.file
        count = path.read_text().count(fault.old) if path.is_file() else 0
        if count != 1:
            yield (f"\"{fault.name}\": its text stands {count} times in {fault.file}, not once. "
                   "Bring the row up to date, or take it out if the fault cannot be made any more:"
                   f"\n{fault.old}")


class Copy:
    """A scratch copy of the project with its own build."""

    def __init__(self, folder):
        self.folder, self.seconds, self.finders = folder, {}, {}

    @classmethod
    def of(cls, other, folder):
        """What is built there, and the tests' times, so that both are found once only."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(other.folder, folder, copy_function=shutil.copy2)
        copy = cls(folder)
        copy.seconds = dict(other.seconds)
        return copy

    def copy_sources(self):
        """Only what differs is written, so that a second run builds little; what went is removed,
        for sources and test cases are found by wildcard."""
        listing = subprocess.check_output(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *NEEDED],
            cwd=ROOT, text=True)
        wanted = {name for name in listing.split("\0") if name and (ROOT / name).is_file()}
        for name in wanted:
            here, there = ROOT / name, self.folder / name
            if not there.is_file() or there.read_bytes() != here.read_bytes():
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(here, there)
        for path in sorted((p for top in NEEDED for p in (self.folder / top).rglob("*")),
                           reverse=True):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
            elif path.is_file() and path.relative_to(self.folder).as_posix() not in wanted:
                path.unlink()

    def run(self, *command, limit=HANGS_SECONDS, **environment):
        """(exit code, output); a command that hangs has failed."""
        with subprocess.Popen(
                command, cwd=self.folder, env={**ENVIRONMENT, **environment}, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True) as process:
            try:
                output, _ = process.communicate(timeout=limit)
                return process.returncode, output
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                return "hangs", process.communicate()[0]

    def build(self, *targets, jobs=1):
        """Warnings do not matter: a fault may leave a variable unused."""
        code, output = self.run("make", "-s", f"-j{jobs}", "WERROR=", *targets,
                                limit=LONG_SECONDS)
        assert code == 0, f"does not compile:\n{output[-3000:]}"

    def unit_tests(self, file):
        """Those of the file's part, or all: first those that have found a fault in the file, then
        the quickest, once their times are known."""
        parts = ("core", "server") if file is None else (file.split("/")[0],)
        names = [f"{part}/{path.stem}" for part in parts
                 for path in (self.folder / "tests/unit" / part).glob("test_*.c")]
        finders, seconds = self.finders.get(file, ()), self.seconds
        return sorted(names, key=lambda name: (name not in finders, seconds.get(name, 0), name))

    def failing_test(self, file=None, jobs=1):
        """The name of a test that fails, or None. A few are linked just before they run."""
        names = self.unit_tests(file)
        for few in (names[at:at + AT_ONCE] for at in range(0, len(names), AT_ONCE)):
            self.build(*(f"build/release/tests/{name}" for name in few))
            for name in few:
                started = time.monotonic()
                if self.run(f"build/release/tests/{name}")[0] != 0:
                    self.finders.setdefault(file, set()).add(name)
                    return name
                self.seconds[name] = time.monotonic() - started
        return self.failing_http_test(jobs)

    def failing_http_test(self, jobs):
        self.build("build/attentiond")
        code, output = self.run(
            str(ROOT / "build/venv/bin/python"), "-m", "pytest", "-x", "-q", "-p",
            "no:cacheprovider", "-n", str(jobs), *HTTP_TESTS, limit=LONG_SECONDS,
            ATTENTIOND="build/attentiond")
        failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return None if code == 0 else failed[0].split(" ")[1] if failed else f"pytest: {code}"

    def plant(self, fault):
        """What finds the fault, and how many seconds that took."""
        path, started = self.folder / fault.file, time.monotonic()
        clean = path.read_text()
        path.write_text(clean.replace(fault.old, fault.new))
        try:
            return self.failing_test(fault.file), time.monotonic() - started
        finally:
            path.write_text(clean)


def prepare(jobs):
    """So many copies in which all tests pass."""
    folder = ROOT / "build" / "mutate"
    first = Copy(folder / "0")
    first.copy_sources()
    first.build("build/attentiond", *(f"build/release/tests/{name}"
                                      for name in first.unit_tests(None)), jobs=jobs)
    found = first.failing_test(jobs=jobs)
    assert found is None, f"{found} fails"
    return [first, *(Copy.of(first, folder / str(number)) for number in range(1, jobs))]


def plant_all(rows, jobs):
    """[(fault, what finds it or None)], printed as they come."""
    copies = SimpleQueue()
    for copy in prepare(jobs):
        copies.put(copy)
    with ThreadPoolExecutor(jobs) as pool:

        def plant(fault):
            copy = copies.get()
            try:
                found, seconds = copy.plant(fault)
            except AssertionError as refused:
                found, seconds = refused, 0
            finally:
                copies.put(copy)
            print(f"{seconds:5.1f} s  {fault.name:50} {found or 'SURVIVES'}", flush=True)
            return fault, found

        return list(pool.map(plant, rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", default="", help="faults whose name or file contains this")
    parser.add_argument("--every", type=int, default=1, help="one fault of so many")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4))
    arguments = parser.parse_args()
    untrue = list(untrue_rows())
    if untrue:
        sys.exit("The table of faults is not true any more.\n\n" + "\n".join(untrue))
    rows = [f for f in table() if arguments.only in f.name or arguments.only in f.file]
    rows = rows[::arguments.every]
    started = time.monotonic()
    try:
        results = plant_all(rows, arguments.jobs)
    except AssertionError as refused:
        sys.exit(f"Without a fault: {refused}")
    wrong = [(fault, found) for fault, found in results if not isinstance(found, str)]
    http = sum(isinstance(found, str) and found.startswith("tests/e2e") for _, found in results)
    print(f"{len(rows)} faults, {len(rows) - len(wrong)} found ({http} of them over HTTP only) in "
          f"{time.monotonic() - started:.0f} s")
    for fault, found in wrong:
        print(f"\nNo test fails for \"{fault.name}\" in {fault.file}: {fault.why}" if found is None
              else f"\n\"{fault.name}\" in {fault.file} {found}")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())

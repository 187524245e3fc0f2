# SPDX-License-Identifier: Apache-2.0
"""Holds the daemon to openapi.yaml: schemathesis over every operation, with every check, plus the
checks of hooks.py. It fails when one check fails, an operation was left out, fewer cases ran than
were asked for, or the daemon does not end as it should.

    build/venv/bin/python tests/contract/run.py [--seed 1] [--processes 2] [--cases 60] [--brief]

`--cases` is how many are drawn at most per operation and process, beside those that follow from the
contract alone, which `--brief` leaves out. `--verbose` says more of what went well. The same seed
draws the same cases.
"""
import argparse
import collections
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

import yaml  # noqa: E402
from support.daemon import Daemon, environment  # noqa: E402

PATHS = yaml.safe_load((ROOT / "openapi.yaml").read_text())["paths"]
OPERATIONS = sum(len(item) for item in PATHS.values())


def command(address, arguments, process):
    phases = "examples,fuzzing" if arguments.brief or process else "examples,coverage,fuzzing"
    return [str(Path(sys.executable).parent / "schemathesis"), "--config-file",
            str(HERE / "schemathesis.toml"), "run", str(ROOT / "openapi.yaml"), "--url", address,
            "--checks", "all", "--phases", phases, "--workers", "1", "--no-color",
            "--continue-on-failure", "--max-examples", str(arguments.cases),
            "--seed", str(arguments.seed + process)]


def start(address, arguments, process, folder):
    counts = Path(folder) / f"{process}.json"
    given = {**environment(), "CONTRACT_URL": address, "CONTRACT_COUNTS": str(counts),
             "SCHEMATHESIS_HOOKS": str(HERE / "hooks.py")}
    log = (Path(folder) / f"{process}.log").open("w")
    return subprocess.Popen(command(address, arguments, process), cwd=folder, env=given, stdout=log,
                            stderr=subprocess.STDOUT), counts, log


def summary(text):
    """From the first failure on, or the numbers alone."""
    for mark in ("= ERRORS =", "= FAILURES =", "= SUMMARY ="):
        if mark in text:
            return text[text.rindex("\n", 0, text.index(mark)) + 1:]
    return text


def run(arguments):
    """(whether all went well, {path and status: how many})"""
    counts, good = collections.Counter(), True
    with contextlib.ExitStack() as stack:
        # One each: what a process keeps another's calls could drop.
        daemons = [stack.enter_context(Daemon("--log", "off", "--captures"))
                   for _ in range(arguments.processes)]
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        runs = [start(f"http://127.0.0.1:{daemon.port}", arguments, process, folder)
                for process, daemon in enumerate(daemons)]
        for number, (process, counted, log) in enumerate(runs):
            code = process.wait()
            log.close()
            text = Path(log.name).read_text()
            well = code == 0 and f"Tested: {OPERATIONS}\n" in text
            print(f"process {number}, seed {arguments.seed + number}, exit {code}"
                  + ("" if well and not arguments.verbose else f"\n{summary(text)}"))
            good &= well
            counts.update(json.loads(counted.read_text()))
    return good, counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--least", type=int, default=0, help="fail when fewer cases were sent")
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="say what was answered where")
    arguments = parser.parse_args()
    good, counts = run(arguments)
    if arguments.verbose:
        print("answers by path and status:")
        for name in sorted(counts):
            print(f"  {name:36} {counts[name]:6}")
    sent = sum(counts.values())
    print(f"{sent} cases, seed {arguments.seed}")
    if sent < arguments.least:
        print(f"fewer than the {arguments.least} that there should be")
    return 0 if good and sent >= arguments.least else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks one after the other, shows what they print, and writes
docs/performance.md and docs/images/performance.svg from it. What they printed is kept in
build/release/bench/report.json, so that a part can be measured again on a quieter machine and the
rest stays as it was. A goal that is missed is printed; what fails exits 1, and so does this.

  bench/report.py [--bench build/release/bench] [--again shapes,decode] name...
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import report_page
import report_plot

ROOT = Path(__file__).resolve().parents[1]

# Runs beside those of the programs' own names: what it is called, which program, its arguments.
EXTRA = {"shapes-avx2": ("shapes", ["0", "fused-avx2"])}
PEERS = "bench/peers/peers.py"
ENCODINGS = "bench/encodings/compare.py"


def command_of(name, bench):
    if name == "peers":
        return [sys.executable, PEERS, "--own", f"{bench}/peers"]
    if name == "encodings":
        return [sys.executable, ENCODINGS]
    program, arguments = EXTRA.get(name, (name, []))
    return [f"{bench}/{program}", *arguments]


def busy_seconds():
    """Processor time that everybody on this machine has used."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / os.sysconf("SC_CLK_TCK")


def child_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(name, bench):
    """What the benchmark printed, how it ended, and the share of the processors that others used
    meanwhile."""
    command = command_of(name, bench)
    print(f"== {' '.join(command)}", flush=True)
    begin, busy, own = time.monotonic(), busy_seconds(), child_seconds()
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    seconds = time.monotonic() - begin
    others = (busy_seconds() - busy) - (child_seconds() - own)
    return {"text": "".join(lines), "status": process.returncode, "seconds": round(seconds, 1),
            "others": round(max(0.0, others) / seconds / os.cpu_count(), 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(".")[0])
    parser.add_argument("names", nargs="+", help="programs under --bench")
    parser.add_argument("--bench", default="build/release/bench")
    parser.add_argument("--again", help="only these, separated by commas; the rest as it was")
    given = parser.parse_args()
    kept = ROOT / given.bench / "report.json"
    names = [*given.names, *EXTRA, "peers", "encodings"]
    parts = json.loads(kept.read_text()) if given.again and kept.exists() else {}
    for name in given.again.split(",") if given.again else names:
        parts[name] = run(name, given.bench)
        kept.write_text(json.dumps(parts, indent=1))
    (ROOT / "docs/performance.md").write_text(report_page.page(parts))
    (ROOT / "docs/images/performance.svg").write_text(report_plot.plot(parts))
    print("== docs/performance.md and docs/images/performance.svg are written")
    return int(any(part["status"] for part in parts.values()))


if __name__ == "__main__":
    sys.exit(main())

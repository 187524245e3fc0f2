# SPDX-License-Identifier: Apache-2.0
"""What the system says of a process, and how it changes."""
import os
import statistics
from pathlib import Path


def status(pid, name):
    """A line of /proc/PID/status that is in kB, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


def resident(pid):
    """Resident bytes, of the page tables: the counters of `status` lag behind."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise KeyError("Rss")


def peak(pid):
    return status(pid, "VmHWM")


def forget_peak(pid):
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def slope(rows):
    """The median of the slopes between all pairs of (x, y): a few outliers do not move it."""
    pairs = [((y - b) / (x - a)) for at, (x, y) in enumerate(rows) for a, b in rows[:at]]
    return statistics.median(pairs) if pairs else 0.0


def growth(rows):
    """From the first row to the last, along that slope."""
    return slope(rows) * (rows[-1][0] - rows[0][0])

# SPDX-License-Identifier: Apache-2.0
"""Programs for 64-bit ARM on another machine: the kernel is told to start them with qemu."""
import contextlib
import platform
import subprocess
import tempfile
from pathlib import Path

from deploy.containers import lacking

RULE = Path("/usr/lib/binfmt.d/qemu-aarch64.conf")  # of the package qemu-user-static
NAME = "qemu-aarch64"


@contextlib.contextmanager
def formats():
    """The kernel's list of formats, wherever it is mounted or not."""
    with tempfile.TemporaryDirectory() as folder:
        mounted = subprocess.run(["mount", "-t", "binfmt_misc", "none", folder],
                                 capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            lacking(f"the kernel starts no foreign programs here: {mounted.stderr.strip()}")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


@contextlib.contextmanager
def arm():
    """While this lasts programs for 64-bit ARM run, in containers too; the kernel's list is then
    what it was. The rule's flag F has the kernel open qemu at once, for there is none in there."""
    if platform.machine() == "aarch64":
        yield
        return
    if not RULE.exists():
        lacking("nothing runs programs for ARM here; the package qemu-user-static does")
    with formats() as known:
        entry = known / NAME
        ours = not entry.exists()
        if ours:
            name, _, flags = RULE.read_text().strip().rpartition(":")
            (known / "register").write_text(f"{name}:{''.join(sorted({*flags, 'F'}))}")
        try:
            yield
        finally:
            if ours:
                entry.write_text("-1")

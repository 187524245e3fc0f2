# SPDX-License-Identifier: Apache-2.0
"""Key files for tests, made by the daemon itself."""
import subprocess

from support.daemon import BINARY, environment


def make_key(name="alice"):
    """(a new key, its line of a key file, which ends in the scope infer)"""
    printed = subprocess.run([BINARY, "--make-key", name], capture_output=True, text=True,
                             check=True, env=environment()).stdout
    key, line = printed.splitlines()
    return key, line


class KeyFile:
    """A key file that grows with what tests ask for."""

    def __init__(self, path):
        self.path, self.lines = path, []

    def add(self, name, scopes="infer", *limits):
        """A new key with these scopes and limits; returns its text."""
        key, line = make_key(name)
        self.lines.append(" ".join([*line.split()[:2], scopes, *limits]))
        self.write()
        return key

    def write(self):
        """In place of the old file at once, as those who manage secrets do."""
        fresh = self.path.with_suffix(".new")
        fresh.write_text("\n".join(self.lines) + "\n")
        fresh.rename(self.path)

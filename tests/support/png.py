# SPDX-License-Identifier: Apache-2.0
"""Reads back the pictures of maps: a small PNG reader, and where on one the panels and cells are.

A picture has a palette, whose indices say more than colours: a level of the ramp, ink, or one of
those that are outside of both.
"""
import re
import struct
import zlib

import numpy as np

LEVELS = 241
PAPER, INK, HIDDEN, HATCH, NOT_FINITE, FRAME = LEVELS, 250, 251, 252, 253, 254
SIGNATURE = b"\x89PNG\r\n\x1a\n"
SMALLEST = 24  # pixels of a panel's shorter side; patches of the legend are smaller


def chunks(data):
    assert data.startswith(SIGNATURE)
    at, found = len(SIGNATURE), []
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + length]
        (crc,) = struct.unpack_from(">I", data, at + 8 + length)
        assert crc == zlib.crc32(kind + body) and len(body) == length
        found.append((kind.decode(), body))
        at += 12 + length
    assert at == len(data) and found[0][0] == "IHDR" and found[-1] == ("IEND", b"")
    return found


class Picture:
    """indices [height,width], palette [n,3], and the text that describes it."""

    def __init__(self, data):
        parts = {}
        for kind, body in chunks(data):
            parts[kind] = parts.get(kind, b"") + body
        width, height, *form = struct.unpack(">IIBBBBB", parts["IHDR"])
        assert form == [8, 3, 0, 0, 0], "eight bits, a palette, not interlaced"
        rows = np.frombuffer(zlib.decompress(parts["IDAT"]), np.uint8).reshape(height, width + 1)
        assert (rows[:, 0] == 0).all(), "rows are not filtered"
        self.indices = rows[:, 1:]
        self.palette = np.frombuffer(parts["PLTE"], np.uint8).reshape(-1, 3)
        assert self.indices.max() < len(self.palette)
        key, text = parts["tEXt"].split(b"\0")
        assert key == b"Description"
        self.text = text.decode()
        low, high = re.search(r"scale from (\S+) to (\S+)$", self.text).groups()
        self.low, self.high = float(low), float(high)
        self.logarithmic = "; logarithmic scale" in self.text

    def rectangles(self):
        """(top, left, bottom, right) inside of every frame, from the top."""
        open_at, found = {}, []
        for y, row in enumerate(self.indices):
            edges = np.flatnonzero(np.diff(np.concatenate(([0], row == FRAME, [0]))))
            for x0, x1 in edges.reshape(-1, 2):
                if x1 - x0 < 14:
                    continue
                if (x0, x1) in open_at:
                    found.append((open_at.pop((x0, x1)) + 1, x0 + 1, y, x1 - 1))
                else:
                    open_at[x0, x1] = y
        assert not open_at
        return sorted(map(tuple, found))

    def panels(self):
        """What is inside of each panel, from left to right and from the top."""
        return [self.indices[top:bottom, left:right]
                for top, left, bottom, right in self.rectangles()
                if bottom - top >= SMALLEST and right - left >= SMALLEST]

    def has_patch(self, index):
        """Whether the legend names a colour outside of the ramp."""
        return any(bottom - top == right - left < SMALLEST and
                   (self.indices[top:bottom, left:right] == index).any()
                   for top, left, bottom, right in self.rectangles())

    def ink_outside_of_panels(self):
        return int(((self.indices > PAPER) & (self.indices <= INK)).sum())

    def map(self, panel, rows, cols):
        """Indices [rows,cols] of the cells of a panel, each of which is of one colour."""
        height, width = panel.shape
        assert height % rows == 0 and width % cols == 0
        cells = panel.reshape(rows, height // rows, cols, width // cols).swapaxes(1, 2)
        plain = np.where(cells == HATCH, HIDDEN, cells)
        assert (plain == plain[:, :, :1, :1]).all()
        return plain[:, :, 0, 0]

    def values(self, cells):
        """What levels stand for; NaN where a cell has none."""
        part = np.where(cells < LEVELS, cells, np.nan) / (LEVELS - 1)
        if self.logarithmic:
            return self.low * (self.high / self.low) ** part
        return self.low * (1 - part) + self.high * part

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws an attention map in the terminal: a JSON answer on standard input, its tokens in a file.

    curl -sS ... | python3 examples/python/show_map.py examples/data/sentence.tokens.json [HEAD]

A row is a query, a column a key, a darker cell more weight; at the right the heaviest key. Where
the terminal is too narrow for all keys, a column is several, under the token of the first and as
dark as the heaviest. HEAD counts the heads in the answer, from 0. It takes one batch item, and no
library.
"""
import shutil
import sys

import map_input

SHADES, PLAIN_SHADES = " ·░▒▓█", " .:=*#"
BLUE = [(247, 251, 255), (8, 48, 107)]


def shades():
    """The blocks, or plain signs where the terminal's encoding has none."""
    try:
        SHADES.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return PLAIN_SHADES
    return SHADES


def cell(share, colour, size):
    if not colour:
        signs = shades()
        return signs[min(int(share * len(signs)), len(signs) - 1)] * size
    red, green, blue = (int(a + (b - a) * share) for a, b in zip(*BLUE))
    return f"\x1b[48;2;{red};{green};{blue}m{' ' * size}\x1b[0m"


def heading(tokens, width, size):
    """Key tokens written downwards."""
    for line in range(max(map(len, tokens))):
        letters = (token[line] if line < len(token) else " " for token in tokens)
        print(" " * (width + 1) + "".join(letter.ljust(size) for letter in letters).rstrip())


def fit(keys, room):
    """(signs of a cell, keys of a cell), so that a row has at most `room` signs."""
    if 2 * keys <= room:
        return 2, 1
    return 1, -(-keys // max(room, 1))


def draw(rows, tokens, colour):
    width = max(map(len, tokens))
    top = max(max(row) for row in rows)
    top = top if top > 0 else 1.0  # scores instead of weights may all be negative
    heaviest = [max(range(len(row)), key=row.__getitem__) for row in rows]
    ends = [f"  {tokens[at]} {row[at]:.2f}" for at, row in zip(heaviest, rows)]
    terminal = shutil.get_terminal_size(fallback=(10**6, 24)).columns  # a file has any width
    size, keys = fit(len(tokens), terminal - width - 1 - max(map(len, ends)))
    heading(tokens[::keys], width, size)
    for token, row, end in zip(tokens, rows, ends):
        shown = (max(row[at:at + keys]) for at in range(0, len(row), keys))
        cells = "".join(cell(max(weight / top, 0.0), colour, size) for weight in shown)
        print(f"{token:>{width}} {cells}{end}")


def main():
    path, head = map_input.arguments(__doc__)
    answer = map_input.read_answer()
    tokens = map_input.read_note(path)["tokens"]
    heads = map_input.read_heads(answer, tokens, path)
    sys.stdout.reconfigure(errors="replace")
    draw(heads[map_input.check_head(head or 0, heads)], tokens, sys.stdout.isatty())


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws an attention map in the terminal: a JSON answer on standard input, its tokens in a file.

    curl -sS ... | python3 examples/python/show_map.py examples/data/sentence.tokens.json [HEAD]

A row is a query, a column a key, a darker cell more weight; at the right the heaviest key.
HEAD counts the heads in the answer, from 0. It takes one batch item, and no library.
"""
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


def cell(share, colour):
    if not colour:
        signs = shades()
        return signs[min(int(share * len(signs)), len(signs) - 1)] * 2
    red, green, blue = (int(a + (b - a) * share) for a, b in zip(*BLUE))
    return f"\x1b[48;2;{red};{green};{blue}m  \x1b[0m"


def heading(tokens, width):
    """Key tokens written downwards."""
    for line in range(max(map(len, tokens))):
        letters = (token[line] if line < len(token) else " " for token in tokens)
        print(" " * (width + 1) + "".join(letter + " " for letter in letters).rstrip())


def draw(rows, tokens, colour):
    width = max(map(len, tokens))
    top = max(max(row) for row in rows)
    top = top if top > 0 else 1.0  # scores instead of weights may all be negative
    heading(tokens, width)
    for token, row in zip(tokens, rows):
        heaviest = max(range(len(row)), key=row.__getitem__)
        cells = "".join(cell(max(weight / top, 0.0), colour) for weight in row)
        print(f"{token:>{width}} {cells}  {tokens[heaviest]} {row[heaviest]:.2f}")


def main():
    path, head = map_input.arguments(__doc__)
    answer = map_input.read_answer()
    tokens = map_input.read_note(path)["tokens"]
    heads = map_input.read_heads(answer, tokens, path)
    sys.stdout.reconfigure(errors="replace")
    draw(heads[map_input.check_head(head or 0, heads)], tokens, sys.stdout.isatty())


if __name__ == "__main__":
    main()

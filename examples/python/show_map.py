#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws an attention map in the terminal: a JSON answer on standard input, its tokens in a file.

    curl -s ... | python3 examples/python/show_map.py examples/data/sentence.tokens.json [HEAD]

A row is a query, a column a key, a darker cell more weight; at the right the heaviest key.
HEAD counts the heads in the answer, from 0. It takes one batch item, and no library.
"""
import json
import sys

SHADES = " ·░▒▓█"
BLUE = [(247, 251, 255), (8, 48, 107)]


def pick(weights, head):
    """The [Tq,Tk] rows of one head, whatever leading axes the answer has."""
    while isinstance(weights[0][0], list):
        weights = weights[head if not isinstance(weights[0][0][0], list) else 0]
    return weights


def cell(share, colour):
    if not colour:
        return SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)] * 2
    red, green, blue = (int(a + (b - a) * share) for a, b in zip(*BLUE))
    return f"\x1b[48;2;{red};{green};{blue}m  \x1b[0m"


def heading(tokens, width):
    """Key tokens written downwards."""
    for line in range(max(map(len, tokens))):
        letters = (token[line] if line < len(token) else " " for token in tokens)
        print(" " * (width + 1) + "".join(letter + " " for letter in letters).rstrip())


def draw(rows, tokens, colour):
    width = max(map(len, tokens))
    top = max(max(row) for row in rows) or 1.0
    heading(tokens, width)
    for token, row in zip(tokens, rows):
        heaviest = max(range(len(row)), key=row.__getitem__)
        cells = "".join(cell(weight / top, colour) for weight in row)
        print(f"{token:>{width}} {cells}  {tokens[heaviest]} {row[heaviest]:.2f}")


def main():
    answer = json.load(sys.stdin)
    if "weights" not in answer:
        raise SystemExit(f"no map in this answer: {answer.get('detail', 'ask for weights')}")
    with open(sys.argv[1]) as file:
        tokens = json.load(file)["tokens"]
    rows = pick(answer["weights"], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    draw(rows, tokens, sys.stdout.isatty())


if __name__ == "__main__":
    main()

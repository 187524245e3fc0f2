#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws an attention map as SVG: a JSON answer on standard input, its tokens in a file.

    curl -sS localhost:8080/v1/attention -H 'Content-Type: application/vnd.safetensors' \\
        -H 'Accept: application/json' --data-binary @examples/data/sentence.safetensors |
        python3 examples/python/draw_map.py examples/data/sentence.tokens.json > map.svg

One head large, with its tokens and its weights above 0.1, and every head of the answer small. The
tokens' file names the head; a second argument names another. It takes one batch item, and no
library.
"""
import sys
from html import escape

import map_input

RAMP = [(255, 255, 255), (222, 235, 247), (158, 202, 225), (66, 146, 198), (8, 81, 156),
        (8, 48, 107)]
INK, FAINT, MARK = "#1f2933", "#7b8794", "#e8590c"
CELL, LEFT, TOP = 27, 92, 116
SMALL_CELL, SMALL_GAP, SMALL_COLUMNS = 6, 22, 3
SHOWN = 0.1


def colour(share):
    """White to dark blue; light steps first, for most weights are small."""
    place = min(max(share, 0.0), 1.0) ** 0.7 * (len(RAMP) - 1)
    index = min(int(place), len(RAMP) - 2)
    step = place - index
    return "#" + "".join(f"{round(a + (b - a) * step):02x}"
                         for a, b in zip(RAMP[index], RAMP[index + 1]))


def rectangle(x, y, width, height, fill, more=""):
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}"{more}/>'


def text(x, y, words, size=13, fill=INK, more=""):
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}"{more}>{escape(words)}</text>'


def cells(rows, x, y, size):
    """One path per shade, which keeps the file small."""
    paths = {}
    for i, row in enumerate(rows):
        for j, weight in enumerate(row):
            square = f"M{x + j * size} {y + i * size}h{size}v{size}h-{size}z"
            paths.setdefault(colour(round(weight, 2)), []).append(square)
    paths.pop("#ffffff", None)
    for fill, squares in paths.items():
        yield f'<path fill="{fill}" d="{"".join(squares)}"/>'


def frame(x, y, width, height, stroke=FAINT, thickness=1):
    more = f' stroke="{stroke}" stroke-width="{thickness}"'
    return rectangle(x, y, width, height, "none", more)


def large(rows, tokens):
    """The map with its tokens: a row is a query, a column a key."""
    width, height = len(rows[0]) * CELL, len(rows) * CELL
    yield from cells(rows, LEFT, TOP, CELL)
    for i, row in enumerate(rows):
        for j, weight in enumerate(row):
            if weight >= SHOWN:
                fill = "#ffffff" if weight > 0.35 else INK
                number = f"{weight:.2f}".lstrip("0")
                yield text(LEFT + (j + 0.5) * CELL, TOP + i * CELL + 17, number, 10, fill,
                           ' text-anchor="middle"')
    yield frame(LEFT, TOP, width, height)
    for i, token in enumerate(tokens):
        yield text(LEFT - 8, TOP + i * CELL + 18, token, more=' text-anchor="end"')
        x, y = LEFT + (i + 0.5) * CELL + 4, TOP - 8
        yield text(x, y, token, more=f' transform="rotate(-60 {x} {y})"')


def heaviest(rows, tokens):
    """Rings the largest weight between two different words, and says which it is."""
    words = [i for i, token in enumerate(tokens) if token.isalpha()]
    pairs = [(rows[i][j], i, j) for i in words for j in words if i != j]
    if not pairs:
        return
    weight, i, j = max(pairs)
    yield frame(LEFT + j * CELL, TOP + i * CELL, CELL, CELL, MARK, 2.5)
    yield text(LEFT, TOP + len(rows) * CELL + 26,
               f"“{tokens[i]}” gives {weight:.2f} of its attention to “{tokens[j]}”", 14, MARK)


def small(heads, chosen, x):
    """Every head, the chosen one ringed."""
    size = len(heads[0]) * SMALL_CELL
    for head, rows in enumerate(heads):
        left = x + head % SMALL_COLUMNS * (size + SMALL_GAP)
        top = TOP + head // SMALL_COLUMNS * (size + SMALL_GAP - 9)
        yield from cells(rows, left, top, SMALL_CELL)
        ring = (MARK, 2.5) if head == chosen else (FAINT, 1)
        yield frame(left, top, size, size, *ring)
        yield text(left + size + 4, top + 10, str(head), 10, FAINT)


def draw(heads, note, chosen):
    tokens, rows = note["tokens"], heads[chosen]
    right = LEFT + len(rows[0]) * CELL + 44
    width = right + SMALL_COLUMNS * (len(rows) * SMALL_CELL + SMALL_GAP)
    height = TOP + len(rows) * CELL + 44
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
           f'width="{width}" height="{height}" font-family="Helvetica, Arial, sans-serif">')
    yield f"<title>{escape(note['sentence'])}</title>"
    yield rectangle(0, 0, width, height, "#ffffff")
    yield text(16, 28, note["sentence"], 17, more=' font-weight="bold"')
    yield text(right, TOP - 12, f"{note['model']}, layer {note['layer']}, all heads", 12, FAINT)
    yield text(16, 48, f"Head {chosen}: how much each query (row) takes from each key (column)", 12,
               FAINT)
    yield from large(rows, tokens)
    yield from heaviest(rows, tokens)
    yield from small(heads, chosen, right)
    yield "</svg>"


def main():
    path, head = map_input.arguments(__doc__)
    answer = map_input.read_answer()
    note = map_input.read_note(path)
    missing = [name for name in ("sentence", "model", "layer", "head") if name not in note]
    if missing:
        sys.exit(f'{path} has no "{missing[0]}", which the picture shows: give a file like '
                 "examples/data/sentence.tokens.json")
    heads = map_input.read_heads(answer, note["tokens"], path)
    chosen = map_input.check_head(note["head"] if head is None else head, heads)
    sys.stdout.reconfigure(encoding="utf-8")
    print("\n".join(draw(heads, note, chosen)))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""docs/images/performance.svg: the ratios of docs/performance.md as bars, a tick at each goal."""
from html import escape

import report_parse as parse

WIDTH, ROW, BAR, LABEL, MARGIN = 560, 20, 7, 205, 16
HEAD = 46
COLOURS = ("#0b6e99", "#e08e0b")


class Panel:
    """Rows of bars over one scale. A row: label, values of as many series as there are names, goal
    or None."""

    def __init__(self, title, series, rows):
        self.title, self.series, self.rows = title, series, rows
        self.height = HEAD + ROW * len(rows) + MARGIN
        values = [value for _, row, goal in rows for value in (*row, goal) if value]
        self.most = max(values, default=1.0)

    def scale(self, value):
        return (WIDTH - LABEL - 90) * value / self.most

    def draw(self, x, y):
        yield text(x, y + 14, self.title, 'font-weight="bold"')
        at = x
        for name, colour in zip(self.series, COLOURS):
            yield rect(at, y + 23, 10, 10, colour)
            yield text(at + 14, y + 32, name)
            at += 30 + 7 * len(name)
        for index, (label, values, goal) in enumerate(self.rows):
            top = y + HEAD + index * ROW
            yield text(x + LABEL - 8, top + 12, label, 'text-anchor="end"')
            height = BAR if len(values) > 1 else 2 * BAR
            for at, (value, colour) in enumerate(zip(values, COLOURS)):
                yield rect(x + LABEL, top + 1 + at * BAR, self.scale(value), height - 1, colour)
            yield text(x + LABEL + self.scale(max(*values, goal or 0)) + 6, top + 12,
                       " / ".join(f"{value:.2f}" for value in values))
            if goal:
                yield rect(x + LABEL + self.scale(goal) - 1, top - 1, 2, 2 * BAR + 2, "#b00020")


def text(x, y, content, more=""):
    return f'<text x="{x:.0f}" y="{y:.0f}" {more}>{escape(content)}</text>'


def rect(x, y, width, height, colour):
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{colour}"/>')


def prefill(parts):
    other = {row["name"]: row for row in parse.rows(parse.SHAPE, parts, "shapes-avx2")}
    found = parse.rows(parse.SHAPE, parts, "shapes")
    rows = [(row["name"], [row["ratio"], *([other[row["name"]]["ratio"]] if row["name"] in other
                                           else [])], row["goal"]) for row in found]
    return Panel("Prefill: useful FLOPs to those of sgemm, same rounds",
                 [found[0]["kernel"] if found else "", "fused-avx2"], rows)


def decode(parts):
    rows = []
    for row in parse.rows(parse.DECODE, parts, "decode"):
        if row["goal"]:
            value = row["of_read"] if row["goal_of"] == "read" else row["of_peak"]
            label = (f"{row['keys']:.0f}×{row['D']:.0f}, G={row['group']:.0f}, {row['dtype']}: "
                     f"{row['goal_of']}")
            rows.append((label, [value], row["goal"]))
    return Panel("Decoding: share of read bandwidth (G = 1) or FMA peak", [], rows)


def peers(parts):
    cases = {}
    for row in parse.rows(parse.BEST, parts, "peers"):
        if row["family"] != "onnxruntime" or row["case"].startswith("step"):  # too many to draw
            continue
        cases.setdefault(row["case"], []).append(row)
    rows = [(case, [row["ratio"] for row in found], found[0]["goal"])
            for case, found in cases.items()]
    names = [" and ".join(owns) for owns in parse.families(parts)]
    return Panel("Time of onnxruntime's best operator to ours", names, rows)


def plot(parts):
    left, right = [prefill(parts)], [peers(parts), decode(parts)]
    height = max(sum(panel.height for panel in column) for column in (left, right)) + MARGIN
    body = []
    for x, column in ((MARGIN, left), (MARGIN + WIDTH + MARGIN, right)):
        y = MARGIN
        for panel in column:
            body += panel.draw(x, y)
            y += panel.height
    legend = "A red tick is the goal; docs/performance.md has the rounds, and how busy others were."
    body.append(text(MARGIN, height - 8, legend, 'fill="#555"'))
    total = 2 * WIDTH + 3 * MARGIN
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" '
            f'width="{total}" height="{height}" font-family="sans-serif" font-size="12" '
            f'fill="#222">\n<title>attentiond: measured ratios</title>\n'
            f'{rect(0, 0, total, height, "#ffffff")}\n' + "\n".join(body) + "\n</svg>\n")

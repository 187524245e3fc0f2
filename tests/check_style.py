#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the project's conventions into failures: licence lines, sizes of files and functions, words
that promise work, paths and hosts of one machine; in Markdown local links that lead nowhere, tables
whose rows differ in cells, and long lines.
It reads only files that git tracks, so a scratch file never fails it. Formats are clang-format's
and ruff's concern, layering is check_layering.sh's."""
import ast
import re
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE_LINES = 400
FUNCTION_LINES = 80
NINETY_PERCENT_LINES = 50
MEDIAN_LINES = 15

SOURCES = {".c", ".h", ".def", ".py", ".sh", ".ts", ".tsx", ".js", ".mjs"}
COUNTED = {".c", ".h", ".py", ".ts", ".tsx"}
# Straight-line kernels, which are read from top to bottom and gain nothing from being cut.
LONG_FUNCTIONS = set()
# Lists that grow by rows; a row is not code.
LONG_FILES = set()

PROSE_COLUMNS = 120
# What a program writes, and a list of changes in which a line is moved as a whole.
LONG_PROSE = {"docs/performance.md", "CHANGELOG.md"}

# Brackets keep these patterns from matching themselves.
FORBIDDEN = [
    (re.compile(r"\bTO[D]O\b|\bFIX[M]E\b|\bXX[X]\b"), "a note to self: do it, or file it"),
    (re.compile(r"[n]ot (yet )?implemented|[f]or now\b", re.I), "a promise: keep it or drop it"),
    (re.compile(r"(?<![\w./$-])/([w]ork|[r]oot|home/\w+)/"), "a path of one machine"),
    (re.compile(r"(registry\.npmjs|pypi|pythonhosted|deb\.debian|crates|proxy\.golang)\.(org|io)"),
     "the host of a package registry"),
]


def tracked_files():
    listing = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    paths = [ROOT / name for name in listing.split("\0") if name]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def text_of(path):
    """The file as text, or None for a binary one."""
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return None


def blank_c(text):
    """C without comments, strings, character constants and preprocessor lines; same line count."""
    pattern = re.compile(
        r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
        r'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.S | re.M)
    return pattern.sub(lambda match: "\n" * match.group().count("\n"), text)


def c_functions(text):
    """(name, first line, number of lines) of each function definition of a C file."""
    depth, start, head = 0, 0, ""
    code = blank_c(text)
    for match in re.finditer(r"[{};]|[^{};]+", code):
        token = match.group()
        if token == "{":
            if depth == 0:
                name = re.search(r"(\w+)\s*\([^{}]*\)\s*$", head, re.S)
                opened = (name.group(1), start) if name else None
            depth += 1
        elif token == "}":
            depth -= 1
            if depth == 0:
                if opened:
                    first = code.count("\n", 0, opened[1]) + 1
                    yield opened[0], first, code.count("\n", 0, match.start()) + 2 - first
                head = ""
        elif depth == 0 and token != ";":
            head = token
            start = match.start() + len(token) - len(token.lstrip())


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


FUNCTIONS = {".c": c_functions, ".h": c_functions, ".py": python_functions}


def is_source(path, text):
    return path.suffix in SOURCES or path.name == "Makefile" or text.startswith("#!")


def file_faults(path, text):
    if is_source(path, text) and "SPDX-License-Identifier: Apache-2.0" not in "".join(
            text.splitlines(keepends=True)[:2]):
        yield 1, "the first line (after #!) is not the SPDX line"
    lines = text.count("\n")
    if path.suffix in COUNTED and lines > FILE_LINES and path.name not in LONG_FILES:
        yield lines, f"{lines} lines, at most {FILE_LINES} are allowed"
    if (is_source(path, text) or path.suffix == ".md") and not text.endswith("\n"):
        yield lines + 1, "no newline at the end"
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, why in FORBIDDEN:
            if pattern.search(line):
                yield number, f"{why}: {line.strip()[:60]}"


def function_faults(path, text, lengths):
    for name, line, length in FUNCTIONS.get(path.suffix, lambda _: ())(text):
        lengths.setdefault(path.suffix.replace("h", "c"), []).append(length)
        if length > FUNCTION_LINES and name not in LONG_FUNCTIONS:
            yield line, f"{name}() has {length} lines, at most {FUNCTION_LINES} are allowed"


def spread_faults(lengths):
    """The whole language's functions: many short ones, few long ones."""
    for suffix, values in lengths.items():
        median = statistics.median(values)
        short = sum(value <= NINETY_PERCENT_LINES for value in values) / len(values)
        print(f"style: {len(values)} {suffix} functions, median {median:g} lines, "
              f"{short:.1%} within {NINETY_PERCENT_LINES}, longest {max(values)}")
        if median > MEDIAN_LINES:
            yield f"{suffix} functions: median {median:g} lines, at most {MEDIAN_LINES} are allowed"
        if short < 0.9:
            yield f"{suffix} functions: only {short:.0%} have <= {NINETY_PERCENT_LINES} lines"


def anchors(text):
    """The anchors that a rendered Markdown page offers, as the usual hosts make them."""
    for line in re.sub(r"^```.*?^```", "", text, flags=re.S | re.M).splitlines():
        heading = re.match(r"#+ +(.*)", line)
        if heading:
            yield re.sub(r"[^\w\- ]", "", heading.group(1).lower()).strip().replace(" ", "-")
    yield from re.findall(r'<a (?:id|name)="([^"]+)"', text)


def link_faults(path, text):
    prose = re.sub(r"^```.*?^```", lambda block: "\n" * block.group().count("\n"), text,
                   flags=re.S | re.M)
    for number, line in enumerate(prose.splitlines(), 1):
        for target in re.findall(r"\]\(([^()\s]+)\)", re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            page = (path.parent / name).resolve() if name else path
            if not page.exists():
                yield number, f"the link {target} leads nowhere"
            elif anchor and page.suffix == ".md" and anchor not in anchors(page.read_text()):
                yield number, f"the link {target} names no heading"


def prose(text):
    """(number, line) of Markdown outside of blocks of code."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, line


def table_faults(text):
    """Rows of a Markdown table that have not as many cells as its head."""
    width = previous = None
    for number, line in prose(text):
        if not line.startswith("|"):
            continue
        cells = len(re.findall(r"(?<!\\)\|", line)) - 1
        if number - 1 != previous:
            width = cells
        elif cells != width:
            yield number, f"{cells} cells in a table of {width}"
        previous = number


def width_faults(text):
    """Long lines of prose; a line that no blank could break is left alone."""
    for number, line in prose(text):
        if len(line) > PROSE_COLUMNS and not line.lstrip().startswith(("|", "<", "!", "#")):
            if " " in line[PROSE_COLUMNS // 2:PROSE_COLUMNS]:
                yield number, f"{len(line)} characters of prose, at most {PROSE_COLUMNS}"


def main():
    faults, lengths = [], {}
    for path in tracked_files():
        text = text_of(path)
        if text is None:
            continue
        found = [*file_faults(path, text), *function_faults(path, text, lengths)]
        if path.suffix == ".md":
            found += [*link_faults(path, text), *table_faults(text)]
            if path.relative_to(ROOT).as_posix() not in LONG_PROSE:
                found += width_faults(text)
        faults += [f"{path.relative_to(ROOT)}:{line}: {what}" for line, what in found]
    faults += spread_faults(lengths)
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"style: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

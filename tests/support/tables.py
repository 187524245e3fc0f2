# SPDX-License-Identifier: Apache-2.0
"""The daemon's own lists, read from the tables in its source, for tests of what documents say."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The HTTP status of each fault class, written down a second time on purpose.
STATUS_OF_FAULT = {"MALFORMED": 400, "INVALID": 422, "TOO_LARGE": 413,
                   "CONFLICT": 409, "QUOTA": 429, "OVERLOAD": 503, "CANCELLED": 499,
                   "DEADLINE": 504}


def rows(path, macro):
    """The arguments of each row of a .def file; quoted ones without their quotes."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / path).read_text(), flags=re.S)
    for body in re.findall(rf"^{macro}\((.*?)\)$", text, flags=re.S | re.M):
        parts = re.findall(r'((?:"(?:\\.|[^"\\])*"\s*)+)|([^\s,]+)', body)
        yield ["".join(re.findall(r'"((?:\\.|[^"\\])*)"', quoted)) if quoted else bare
               for quoted, bare in parts]


def problems():
    """{stable name: (HTTP status, title)} of everything that can go wrong."""
    found = {name: (STATUS_OF_FAULT[fault], title)
             for _, name, fault, title in rows("core/status.def", "ATTN_STATUS") if name != "ok"}
    for _, name, status, title in rows("server/problem.def", "PROBLEM"):
        assert name not in found
        found[name] = (int(status), title)
    return found


def wire_problems():
    """Those that a client can see: nobody reads the answer of a call that was cancelled."""
    return {name: row for name, row in problems().items() if row[0] != 499}


def metrics():
    """{family: (type, help)}"""
    return {name: (kind.lower(), sentence)
            for _, kind, name, sentence in rows("server/metrics.def", "METRIC")}

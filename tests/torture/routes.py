# SPDX-License-Identifier: Apache-2.0
"""Holds the requests to the table of routes, so that none is forgotten."""
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r'\{(path)? ?(?:"([^"]*)")?, HTTP_([A-Z]+),')
MODELS = re.compile(r'^ +OIP_MODEL\("([^"]+)"\),$', re.MULTILINE)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def table():
    """(method, path) of each row of server/routes.c; a row of OIP_MODEL stands for several."""
    text = (ROOT / "server" / "routes.c").read_text()
    models = MODELS.findall(text)
    return {(method, prefix + rest) for model, rest, method in ROW.findall(text)
            for prefix in (models if model else [""])}


def described():
    """Those of openapi.yaml, which the table has to have: that it was read whole."""
    paths = yaml.safe_load((ROOT / "openapi.yaml").read_text())["paths"]
    return {(method.upper(), path) for path, item in paths.items() for method in item
            if method.upper() in METHODS}


def fits(template, path):
    parts, given = template.split("/"), path.split("?")[0].split("/")
    return len(parts) == len(given) and all(
        part == one or part[:1] == "{" for part, one in zip(parts, given, strict=True))


def assert_all_are_asked(rows):
    """Each of the table has a request that is not refused."""
    known = table()
    assert described() <= known, f"server/routes.c was not read whole: {described() - known}"
    missing = sorted(f"{method} {template}" for method, template in known if not any(
        row.method == method and row.status < 400 and fits(template, row.path) for row in rows))
    assert not missing, f"tests/torture has no request to {missing}"

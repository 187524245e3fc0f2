# SPDX-License-Identifier: Apache-2.0
"""openapi.yaml as a document, and its schemas as validators."""
import yaml
from jsonschema import Draft202012Validator

from support import tables

TEXT = (tables.ROOT / "openapi.yaml").read_text()
CONTRACT = yaml.safe_load(TEXT)


def resolve(node):
    """The thing itself, or the one that it refers to."""
    while "$ref" in node:
        target = CONTRACT
        for name in node["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        node = target
    return node


def schema(name):
    return Draft202012Validator({**CONTRACT, "$ref": f"#/components/schemas/{name}"})

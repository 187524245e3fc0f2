# SPDX-License-Identifier: Apache-2.0
"""Reads manifests of KServe's as KServe's own client describes them, and fails at a field that it
does not have or that is of another type. Run by the Python that has it (build/clients-venv)."""
import re
import sys

import kserve.models
import kubernetes.client.models
import yaml

PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object}


def read(value, kind, place):
    each = re.fullmatch(r"[Ll]ist\[(.*)\]", kind)
    named = re.fullmatch(r"[Dd]ict[(\[]str, (.*)[)\]]", kind)
    if each:
        assert isinstance(value, list), f"{place}: not a list"
        for number, item in enumerate(value):
            read(item, each.group(1), f"{place}[{number}]")
    elif named:
        for name, item in value.items():
            read(item, named.group(1), f"{place}.{name}")
    elif kind in PLAIN:
        assert isinstance(value, PLAIN[kind]), f"{place}: {value!r} is no {kind}"
    else:
        read_fields(value, kind, place)


def read_fields(value, kind, place):
    model = getattr(kserve.models, kind, None) or getattr(kubernetes.client.models, kind)
    fields = {model.attribute_map[name]: (name, type_)
              for name, type_ in model.openapi_types.items()}
    for name, item in value.items():
        assert name in fields, f"{place}: {kind} has no {name}"
        read(item, fields[name][1], f"{place}.{name}")
    # Its constructor refuses what lacks.
    model(**{fields[name][0]: item for name, item in value.items()})


for file in sys.argv[1:]:
    with open(file) as stream:
        document = yaml.safe_load(stream)
    version = document["apiVersion"].rsplit("/", 1)[1].capitalize()
    read_fields(document, version + document["kind"], document["kind"])

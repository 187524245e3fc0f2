# SPDX-License-Identifier: Apache-2.0
"""A request as it was sent, taken apart: options from body and query, tensors from body."""
import io
import json
import re
from urllib.parse import parse_qsl, urlsplit

import numpy as np
from faults import BY_SCHEMA, Tensor, tensor
from support import safetensors

JSON_TYPE, SAFETENSORS_TYPE = "application/json", "application/vnd.safetensors"
NPZ_TYPE, NPY_TYPE, PICTURE_TYPE = "application/x-npz", "application/x-npy", "image/png"
LISTS = {"q_offset", "alibi", "sink", "return", "d_k"}
TRAINING = {"dropout", "dropout_p", "dropout_rate", "attn_dropout", "attention_dropout",
            "dropout_seed", "p"}
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
CODINGS = {"none", "gzip", "deflate", "zstd"}
NUMPY_NAMES = {"uint16": "bfloat16"}


class Malformed(Exception):
    """The bytes are not what they claim to be."""


def load(text):
    """JSON as the contract has it: no NaN, no name twice, no NUL, whole numbers of 64 bits where
    no tensor stands (there they may have more digits)."""
    def once(pairs):
        if len({name for name, _ in pairs}) < len(pairs):
            raise Malformed
        return dict(pairs)

    def refuse(word):
        raise Malformed(word)

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Malformed from error
    if "\\u0000" in (text if isinstance(text, str) else text.decode()):
        raise Malformed
    return value


def scalar(text):
    """One value of a query string: a literal as JSON has it, or a text."""
    if text in ("true", "false"):
        return text == "true"
    if NUMBER.fullmatch(text):
        return json.loads(text)
    return text


def query_value(name, text):
    if text[:1] in ("{", "[", '"') and text:
        return load(text)
    if name in LISTS and "," in text:
        return [scalar(part) for part in text.split(",")]
    return scalar(text)


def members_of_safetensors(body):
    """({name: Tensor}, options)"""
    try:
        if not 0 < int.from_bytes(body[:8], "little") <= len(body) - 8:
            raise Malformed("the header's length")
        arrays, metadata = safetensors.parse(body)
        options = load(metadata.get("attention", "{}"))
    except Malformed:
        raise
    except Exception as error:  # whatever the parser trips over, the file is broken
        raise Malformed from error
    if not isinstance(options, dict):
        raise Malformed
    tensors = {}
    for name, array in arrays.items():
        data = safetensors.from_bfloat16(array) if array.dtype == "uint16" else array
        dtype = NUMPY_NAMES.get(array.dtype.name, array.dtype.name)
        tensors[name] = Tensor(array.shape, dtype, data.ravel().tolist())
    return tensors, options


def members_of_npz(body):
    """The same of numpy's archive, by numpy itself."""
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:
        raise Malformed from error
    options = load(str(arrays.pop("options", "{}")))
    if not isinstance(options, dict):
        raise Malformed
    return {name: Tensor(array.shape, array.dtype.name, array.ravel().tolist())
            for name, array in arrays.items()}, options


CONTAINERS = {SAFETENSORS_TYPE: members_of_safetensors, NPZ_TYPE: members_of_npz}


class Request:
    """`options` (with those of the query), `operands` and `extras`, the tensors beside them."""

    def __init__(self, operands, known, faults, media_type=None):
        self.operand_names, self.known, self.faults = operands, known, faults
        self.media_type, self.answer_type = media_type, JSON_TYPE
        self.options, self.operands, self.extras, self.used = {}, {}, {}, set()
        self.raw, self.values, self.seen = None, [], set()

    @classmethod
    def of_parts(cls, tensors, options, operands, known, faults):
        """One that has been taken apart already: Tensors and options by their names."""
        request = cls(operands, known, faults)
        for name, value in options.items():
            request._give(name, value)
        request._take_tensors(tensors)
        return request

    def read(self, url, body):
        """Fills it from what was sent; what cannot be read is a fault."""
        media_type, faults = self.media_type, self.faults
        try:
            self._read_query(urlsplit(url).query)
            if media_type in CONTAINERS:
                members, options = CONTAINERS[media_type](body)
                self._take(options)
                self._take_tensors(members)
            else:
                self.raw = load(body)
                if isinstance(self.raw, dict):
                    self._take(self.raw)
                else:
                    faults.add(*BY_SCHEMA)
        except (Malformed, UnicodeDecodeError):
            faults.add(*BY_SCHEMA, "option-given-twice")

    def _read_query(self, text):
        for name, value in parse_qsl(text, keep_blank_values=True, encoding="utf-8",
                                     errors="surrogateescape"):
            if "\0" in name + value:
                raise Malformed
            if name == "compress":  # of the answer, in the query string alone
                if value not in CODINGS or "compress" in self.seen:
                    self.faults.add("bad-value", "bad-type", "option-given-twice")
                self.seen.add(name)
            elif name in self.known:
                self._give(name, query_value(name, value))
            else:
                self._refuse_name(name)

    def _refuse_name(self, name):
        self.faults.add("training-only" if name in TRAINING else "unknown-field")

    def _give(self, name, value):
        if name in self.options:
            self.faults.add("option-given-twice")
        self.options[name] = value
        self.values.append(value)

    def _take(self, members):
        for name, value in members.items():
            if name in self.operand_names and self.media_type == JSON_TYPE:
                self.operands[name] = value
            elif name in self.known:
                self._give(name, value)
            elif self.media_type == JSON_TYPE:
                self.extras[name] = value
            else:
                self._refuse_name(name)

    def _take_tensors(self, tensors):
        for name, value in tensors.items():
            (self.operands if name in self.operand_names else self.extras)[name] = value

    @property
    def default(self):
        return "float64" if self.options.get("precision") == "float64" else "float32"

    def operand(self, name):
        value = self.operands.get(name)
        if value is None or isinstance(value, Tensor):
            return value
        return tensor(value, "real", self.default, self.faults)

    def tensor(self, value, role, missing, default=None):
        """A tensor that stands inline or is named; `missing` is the problem when nobody has it."""
        if not isinstance(value, str):
            return tensor(value, role, default or self.default, self.faults)
        found = self.extras.get(value)
        if found is None and self.media_type != JSON_TYPE:
            found = self.operands.get(value)
        if found is None:
            self.faults.add(missing)
            return None
        self.used.add(value)
        return found if isinstance(found, Tensor) else tensor(found, role, self.default,
                                                              self.faults)

    def reals(self, value, missing="bad-value"):
        """A list option of real numbers; None when something is wrong with it."""
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = [value]
        if isinstance(value, list):
            return tensor(value, "real", "float64", self.faults).data
        return self._rank_one(value, "real", missing)

    def ints(self, value, missing="bad-value"):
        if isinstance(value, list) or not isinstance(value, (str, dict)):
            items = value if isinstance(value, list) else [value]
            if not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
                self.faults.add("bad-type")
                return None
            return items
        return self._rank_one(value, "mask", missing)

    def _rank_one(self, value, role, missing):
        found = self.tensor(value, role, missing)
        if found is None:
            return None
        if found.rank != 1:
            self.faults.add("bad-shape")
            return None
        if found.is_float != (role == "real"):
            self.faults.add("bad-dtype")
            return None
        if role == "mask" and any(item > 2 ** 63 - 2 for item in found.data):
            self.faults.add(missing)
            return None
        return found.data

    def refuse_unused(self):
        for name in self.extras:
            if name not in self.used:
                self._refuse_name(name)

# SPDX-License-Identifier: Apache-2.0
"""Decides, without asking the daemon, whether it had to refuse a call and as what.

The contract's own schemas come first. Beyond them stands here what no schema says: shapes that
have to fit each other, names that have to be there, positions that have to be clear, limits.
"""
import math
from pathlib import Path

import jsonschema_rs
import oip
import yaml
from attention import MOST_RESULT, SLACK, AttentionJudge, output_dtype
from faults import BY_SCHEMA, INT64, Faults
from remask import PATH as REMASK
from remask import RemaskJudge
from request import JSON_TYPE, NPZ_TYPE, Request

CONTRACT = yaml.safe_load((Path(__file__).resolve().parents[2] / "openapi.yaml").read_text())
SCHEMAS = CONTRACT["components"]["schemas"]
MOST_NORMALS = 1e8


def validator(schema):
    return jsonschema_rs.validator_for({**CONTRACT, **schema,
                                        "$schema": "https://json-schema.org/draft/2020-12/schema"})


def of(name):
    return validator({"$ref": f"#/components/schemas/{name}"})


def options_of(name):
    return {option: validator({"$ref": f"#/components/schemas/{name}/properties/{option}"})
            for option in SCHEMAS[name]["properties"]}


class MergeJudge:
    def __init__(self, request, kernels):
        self.request, self.faults = request, request.faults

    def judge(self):
        sink = self.request.options.get("sink")
        values = None if sink is None else self.request.reals(sink)
        outputs, lses = self.request.operand("outputs"), self.request.operand("lses")
        if outputs is None or lses is None:
            if {"outputs", "lses"} - set(self.request.operands):
                self.faults.add("missing-field")
            return
        if not (outputs.is_float and lses.is_float):
            self.faults.add("bad-dtype")
        if not 3 <= outputs.rank <= 5 or not outputs.shape[0] or lses.shape != outputs.shape[:-1]:
            self.faults.add("bad-shape")
            return
        heads = outputs.shape[-3] if outputs.rank > 3 else 1
        if values is not None and (len(values) not in (1, heads) or not all(
                item < math.inf for item in values)):
            self.faults.add("bad-value")
        dtype = output_dtype(self.request.options, outputs.dtype)
        if self.request.answer_type == NPZ_TYPE and dtype == "bfloat16":
            self.faults.add("bad-dtype")
        if math.prod(outputs.shape[1:]) * SLACK > MOST_RESULT:
            self.faults.may.update(("result-too-large", "too-much-work"))


class ScalingJudge:
    def __init__(self, request, kernels):
        self.options, self.faults = request.options, request.faults
        self.request = request

    def judge(self):
        sizes = self.options.get("d_k", [4, 64, 512])
        sizes = sizes if isinstance(sizes, list) else [sizes]
        keys, samples = self.options.get("keys", 3), self.options.get("samples", 2000)
        if sum(sizes) * (1 + keys + 2 * samples) > MOST_NORMALS:
            self.faults.add("too-much-work")


class Operation:
    def __init__(self, judge, operands, request, options):
        self.judge, self.operands = judge, operands
        self.schema, self.options = of(request), options_of(options)


OPERATIONS = {
    "/v1/attention": Operation(AttentionJudge, ("q", "k", "v"), "AttentionRequest",
                               "AttentionOptions"),
    "/v1/merge": Operation(MergeJudge, ("outputs", "lses"), "MergeRequest", "MergeOptions"),
    "/v1/experiments/scaling": Operation(ScalingJudge, (), "ScalingRequest", "ScalingRequest"),
    REMASK: Operation(RemaskJudge, (), "CaptureMask", "CaptureMask"),
}


def faults_of(path, url, media_type, body, kernels, answer_type=JSON_TYPE):
    """The Faults of one call that is to be answered in that type."""
    faults, operation = Faults(), OPERATIONS[path]
    request = Request(operation.operands, operation.options, faults, media_type)
    request.answer_type = answer_type
    request.read(url, body)
    if request.raw is not None and media_type == JSON_TYPE and not fits(operation, request):
        faults.add(*BY_SCHEMA)
    if any(not operation.options[name].is_valid(value)
           for name, value in request.options.items()):
        faults.add(*BY_SCHEMA)
    for number in numbers_in([request.values, request.raw]):
        if math.isinf(number) or (isinstance(number, int) and not INT64[0] <= number <= INT64[1]):
            faults.may.add("number-range")
        elif isinstance(number, float) and number.is_integer():
            faults.may.add("bad-type")  # a whole number is written without a point
    if not BY_SCHEMA <= faults.must and "malformed" not in faults.must:
        operation.judge(request, kernels).judge()
        request.refuse_unused()
    return faults


def faults_of_infer(body, length, kernels):
    """The Faults of a call of the Open Inference Protocol; None when it is not for the judge."""
    faults, operation = Faults(), OPERATIONS["/v1/attention"]
    request = oip.request_of(body, length, set(operation.options), faults)
    if request is None:
        return None
    if any(not operation.options[name].is_valid(value)
           for name, value in request.options.items()):
        faults.add(*BY_SCHEMA)
    else:
        operation.judge(request, kernels).judge()
        request.refuse_unused()
    return faults


def fits(operation, request):
    """The body's schema, but for numbers that validators read in their own ways."""
    return operation.schema.is_valid(request.raw)


def numbers_in(value):
    """Every number, wherever it stands."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, (int, float)) and not isinstance(item, bool):
            yield item

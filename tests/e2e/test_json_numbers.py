# SPDX-License-Identifier: Apache-2.0
"""Numbers in JSON, by either route: half types rounded once and to nearest from the decimal, not by
way of float32 or float64; what is not finite; and base64. The values of one key are the output.
"""
import base64
import bisect
import json
import random
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from ml_dtypes import bfloat16
from support import oip

HALVES = {"float16": (np.float16, 0x7c00, "FP16"), "bfloat16": (bfloat16, 0x7f80, "BF16")}
DIGITS = 200  # more than any halfway point of a half type has


def by_attention(client, dtype, words):
    one = {"shape": [1, 1], "dtype": dtype, "data": [0]}
    text = json.dumps({"q": one, "k": one, "encoding": "base64"})[:-1] + \
        f',"v":{{"shape":[1,{len(words)}],"dtype":"{dtype}","data":[{",".join(words)}]}}}}'
    answer = client.send("POST", "/v1/attention", text, {"Content-Type": "application/json"})
    if answer.status != 200:
        return answer.status, answer.json["detail"]
    return 200, np.frombuffer(base64.b64decode(answer.json["output"]["base64"]), np.uint16)


def by_the_protocol(client, dtype, words):
    datatype = HALVES[dtype][2]
    inputs = ",".join(
        f'{{"name":"{name}","shape":[1,{len(data)}],"datatype":"{datatype}",'
        f'"data":[{",".join(data)}]}}' for name, data in (("q", "0"), ("k", "0"), ("v", words)))
    text = f'{{"inputs":[{inputs}],"parameters":{{"binary_data_output":true}}}}'
    answer = client.send("POST", "/v2/models/attention/infer", text)
    if answer.status != 200:
        return answer.status, answer.json["error"]
    return 200, oip.Outputs(answer)["output"].view(np.uint16).ravel()


ROUTES = pytest.mark.parametrize("route", [by_attention, by_the_protocol])
DTYPES = pytest.mark.parametrize("dtype", HALVES)


def magnitudes(dtype):
    """Every finite value that is not negative, in the order of its bits, and the next if there were
    one."""
    kind, infinity, _ = HALVES[dtype]
    values = [Fraction(float(x)) for x in np.arange(infinity, dtype=np.uint16).view(kind)]
    return [*values, 2 * values[-1] - values[-2]]


def nearest(values, x):
    """The bits of the nearest value, of the even one where two are."""
    i = bisect.bisect_left(values, x)
    if i == 0:
        return 0
    below, above = x - values[i - 1], values[i] - x
    return i - 1 if below < above or (below == above and i % 2 == 1) else i


def drawn(dtype, rng):
    """(a number's text, the bits it should become): at a halfway point or a hair beside it, where
    float32 or float64 would not tell; half of them subnormal or just above."""
    values = magnitudes(dtype)
    low = 2200 if dtype == "float16" else 300
    for _ in range(1000):
        j = rng.choice([rng.randrange(len(values) - 2), rng.randrange(low)])
        halfway = (values[j] + values[j + 1]) / 2
        beside = halfway * rng.choice([-1, 0, 0, 1]) / 10 ** rng.choice([5, 9, 13, 18, 30])
        with localcontext() as context:
            context.prec = DIGITS
            number = halfway + beside
            number = Decimal(number.numerator) / Decimal(number.denominator)
        yield format(number, rng.choice("fE")), nearest(values, Fraction(number))


@ROUTES
@DTYPES
def test_halves_are_rounded_once(client, route, dtype):
    words, wanted = zip(*drawn(dtype, random.Random(5)), strict=True)
    status, got = route(client, dtype, words)
    assert status == 200, got
    wrong = np.flatnonzero(got != np.array(wanted, np.uint16))
    assert wrong.size == 0, [(words[i], hex(got[i]), hex(wanted[i])) for i in wrong[:5]]


@ROUTES
@DTYPES
def test_halves_that_are_too_large_are_refused(client, route, dtype):
    """Up to the halfway point behind the largest they round to it, from there on to nothing."""
    values = magnitudes(dtype)
    border = int((values[-1] + values[-2]) / 2)
    status, got = route(client, dtype, [f"{border - 1}", f"-{border - 1}.9"])
    largest = len(values) - 2
    assert (status, got.tolist()) == (200, [largest, largest | 0x8000])
    for number in (f"{border}", f"-{border}.0", f"{border}.1", "1e300"):
        status, sentence = route(client, dtype, ["1", number])
        assert status == 422 and sentence.endswith(f"does not fit {dtype}. Choose a wider dtype.")


@ROUTES
@DTYPES
@pytest.mark.parametrize(("text", "sign"), [("NaN", 0), ("Infinity", 0), ("-Infinity", 0x8000)])
def test_what_is_not_finite_is_a_text(client, route, dtype, text, sign):
    infinity = HALVES[dtype][1]
    status, (got,) = route(client, dtype, [f'"{text}"'])
    assert status == 200
    assert got & 0x7fff > infinity if text == "NaN" else got == infinity | sign


@ROUTES
@DTYPES
@pytest.mark.parametrize(("word", "status", "says"), [
    ("null", 422, "should be a number, but 'null' came"),
    ("true", 422, "should be a number, but 'true' came"),
    ('"inf"', 422, '"NaN", "Infinity" and "-Infinity"'),
    ('"+Infinity"', 422, '"NaN", "Infinity" and "-Infinity"'),
    ('"1.5"', 422, '"NaN", "Infinity" and "-Infinity"'),
    ("NaN", 400, '"NaN", "Infinity" and "-Infinity"'),
    ("Infinity", 400, '"NaN", "Infinity" and "-Infinity"'),
    ("1e400", 400, "beyond every number type")])
def test_nothing_else_is_a_number(client, route, dtype, word, status, says):
    came, sentence = route(client, dtype, ["1", word])
    assert came == status and says in sentence, sentence


@pytest.mark.parametrize("encoding", ["nested", "flat"])
def test_answers_have_the_same_texts(client, encoding):
    """A key that is hidden, a row that sees none, and one that is not a number."""
    answer = client.attention(
        *(np.array(x, np.float32) for x in ([[1], [1], [np.nan]], [[1], [2]], [[3], [4]])),
        {"mask": {"type": "allow", "tensor": [[1, 0], [0, 0], [1, 1]]}, "scale": 1,
         "return": ["output", "scores", "lse"], "encoding": encoding}, wire="flat")
    parts = {name: answer.json[name] for name in ("output", "scores", "lse")}
    lists = {name: part["data"] if encoding == "flat" else part for name, part in parts.items()}
    flat = {name: np.array(x, object).ravel().tolist() for name, x in lists.items()}
    assert flat == {"output": [3, 0, "NaN"], "lse": [1, "-Infinity", "NaN"],
                    "scores": [1, "-Infinity", "-Infinity", "-Infinity", "NaN", "NaN"]}


STANDARD = base64.b64encode(np.array([[-1.5, 3e38, 1e-40, np.pi]], "<f4")).decode()
STRICT = "the standard alphabet with padding is expected, without white space."


@pytest.mark.parametrize(("text", "status", "says"), [
    (STANDARD[:8] + "\n" + STANDARD[8:], 400, "at its character 8: " + STRICT),
    (STANDARD + "\r\n", 400, "at its character 22: " + STRICT),
    (" " + STANDARD, 400, "at its character 0: " + STRICT),
    ("-_" + STANDARD[2:], 400, "at its character 0: " + STRICT),
    (STANDARD.rstrip("="), 400, "at its character 22: " + STRICT),
    (STANDARD[:-1], 400, "at its character 22: " + STRICT),
    (STANDARD + "====", 400, "at its character 22: " + STRICT),
    (STANDARD[:-3] + "B==", 400, "at its character 21: " + STRICT),  # bits beyond the last byte
    ("data:;base64," + STANDARD, 400, "at its character 4: " + STRICT),
    (STANDARD[:16], 422, 'needs 16 bytes, but "base64" holds 12'),
    ("", 422, 'needs 16 bytes, but "base64" holds 0'),
    (None, 422, "Expected a text, but null came.")])
def test_base64_is_strict_and_says_where(client, text, status, says):
    body = {"q": {"shape": [1, 4], "base64": text}, "k": [[0] * 4], "v": [[1] * 4]}
    answer = client.send("POST", "/v1/attention", json.dumps(body),
                         {"Content-Type": "application/json"})
    assert (answer.status, answer.json["pointer"]) == (status, "/q"), answer.body
    assert answer.json["detail"].endswith(says) or says in answer.json["detail"]

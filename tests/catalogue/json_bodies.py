# SPDX-License-Identifier: Apache-2.0
"""Rows 36 to 64 and 76 to 80: JSON, shapes, values and masks. Rows that are a folder of
tests/cases/invalid too send that folder's request."""
import json
import time

import numpy as np
from support import folders, raw
from support.client import encode, pack

from catalogue.row import Row, accepted, refused, typed

KIB, MIB = 1 << 10, 1 << 20
ONE = '"k":[[1]],"v":[[1]]'


def case(name):
    """A folder of tests/cases/invalid."""
    folder = folders.CASES / "invalid" / name
    expected = json.loads((folder / "error.json").read_text())
    described = folder / "request.safetensors.json"
    if described.exists():
        body = folders.safetensors_body(json.loads(described.read_text()))
        sent = typed(body, "application/vnd.safetensors")
    else:
        sent = raw.post((folder / "request.json").read_bytes())
    return refused(sent, expected["status"], expected["type"])


def cases(*names):
    return {name: case(name) for name in names}


def text(body):
    return raw.post(body if isinstance(body, bytes) else body.encode())


def call(**members):
    """A call of one query and one key, with these members too."""
    one = {"q": [[1]], "k": [[1]], "v": [[2]]}
    return raw.post(json.dumps({**one, **members}).encode())


def with_q(number):
    """A call whose query is this text."""
    return text(f'{{"q":[[{number}]],{ONE}}}')


def flat(shape, data=(), dtype="float32"):
    return {"shape": shape, "dtype": dtype, "data": list(data)}


def malformed(*bodies):
    return {name: refused(text(body), 400, "malformed") for name, body in bodies}


def output(value):
    """Checks the one output row."""
    def check(scene, answer):
        assert json.loads(answer.body)["output"] == value, answer.body
    return check


def no_rows(scene, answer):
    assert json.loads(answer.body)["output"] == flat([0, 1])


def every_number_is_finite(scene, answer):
    found = np.array(json.loads(answer.body)["output"], np.float64)
    assert np.isfinite(found).all()


def propagates(scene, answer):
    """The row that sees it is NaN; the other, from which it is hidden, is what it would be."""
    found = json.loads(answer.body)
    assert found["output"] == [[1, 2], ["NaN", "NaN"]]
    assert found["meta"]["non_finite"] is True


def empty_row(scene, answer):
    found = json.loads(answer.body)
    assert found["output"] == [[0, 0], [0, 0]] and found["lse"] == ["-Infinity", "-Infinity"]
    assert found["meta"]["empty_rows"] == 2


def short_numbers(scene):
    """Numbers of one digit: as much work for its bytes as JSON can be."""
    return text(b'{"q":[' + b"1," * (4 * MIB) + b"1]," + ONE.encode() + b"}")


def colliding(scene):
    names = ",".join(f'"x{number}":1' for number in range(1_000_000))
    return text("{" + names + f',"q":[[1]],{ONE}}}')


def denormals(scene):
    """As fast as numbers that are none; a processor that stumbles takes ten times as long."""
    rng = np.random.default_rng(5)
    usual = rng.standard_normal((3, 1, 2, 256, 64)).astype(np.float32)
    small = (usual * 1e-40).astype(np.float32)
    best = {}
    for _ in range(5):
        for name, x in (("usual", usual), ("small", small)):
            body, kind = pack(*x)
            begin = time.monotonic()
            answer = scene.connection.ask(typed(body, kind))
            took = time.monotonic() - begin
            assert answer.status == 200
            best[name] = min(best.get(name, took), took)
    assert best["small"] < 3 * best["usual"], best
    return answer


def halves(scale=1):
    q = np.full((2, 2), 65504, np.float16)
    return raw.post(json.dumps({**{name: encode(q, "base64") for name in "qkv"},
                                "encoding": "nested", "scale": scale}).encode())


def mask(expression, **more):
    two = [[1, 0], [0, 1]]
    return raw.post(json.dumps({"q": two, "k": two, "v": [[1, 2], [3, 4]], "mask": expression,
                                "return": ["output", "lse"], **more}).encode())


HUGE = 4194305**2
JSON_ROWS = [
    Row(36, "JSON 2,049 levels deep", {
        "lists": refused(text(b'{"mask":' + b"[" * 2049 + b"]" * 2049 + b"}"), 400, "malformed"),
        "objects": refused(text(b'{"a":' * 2049 + b"1" + b"}" * 2049), 400, "malformed")}),
    Row(37, "a name twice in an object", cases("json-name-twice")),
    Row(38, "NaN and Infinity as bare words", {
        word: refused(with_q(word), 400, "malformed") for word in ("NaN", "Infinity",
                                                                   "-Infinity")}),
    Row(39, "1e400, 20 digits, a million digits", {
        "1e400": refused(with_q("1e400"), 400, "number-range"),
        "20 digits": accepted(with_q("12345678901234567890")),
        "20 digits as an option": refused(call(q_offset=12345678901234567890), 400,
                                          "number-range"),
        "million digits": refused(with_q("1" * 1_000_000), 400, "number-range")}),
    Row(40, "1e-400", {"": accepted(with_q("1e-400"), note="it is 0")}),
    Row(41, "1e39 in float32", {"": refused(with_q("1e39"), 422, "bad-value")}),
    Row(42, "-0 and -0.0", {
        name: accepted(text(f'{{"q":[[1]],"k":[[1]],"v":[[{name}]]}}'), output([[0]]))
        for name in ("-0", "-0.0")}),
    Row(43, "text that is no UTF-8, lone surrogates", malformed(
        ("bad", b'{"kernel":"\xff"}'), ("overlong", b'{"kernel":"\xc0\xaf"}'),
        ("surrogate in bytes", b'{"kernel":"\xed\xa0\x80"}'),
        ("lone surrogate", b'{"kernel":"\\ud800"}'))),
    Row(44, "NUL in a text or a name", malformed(
        ("in a value", b'{"kernel":"a\\u0000b"}'), ("in a name", b'{"a\\u0000b":1}'),
        ("bare", b'{"kernel":"a\0b"}'))),
    Row(45, "what follows the document, or a comma too many", malformed(
        ("comma in a list", '{"q":[[1],],%s}' % ONE), ("comma at the end", '{"q":[[1]],%s,}' % ONE),
        ("junk", raw.BODY + b"x"), ("second document", raw.BODY + raw.BODY),
        ("NUL", raw.BODY + b"\0"))),
    Row(46, "byte order mark, UTF-16, comments, single quotes, 01, +1", malformed(
        ("mark", b"\xef\xbb\xbf" + raw.BODY), ("UTF-16", raw.BODY.decode().encode("utf-16")),
        ("comment", b"/* */" + raw.BODY), ("quotes", raw.BODY.replace(b'"', b"'")),
        ("01", '{"q":[[01]],%s}' % ONE), ("+1", '{"q":[[+1]],%s}' % ONE))),
    Row(47, "empty body, no object, wrong type, unknown name", {
        **malformed(("empty", b""), ("blank", b"  ")),
        "number": refused(text(b"5"), 422, "bad-type"), "list": refused(text(b"[]"), 422,
                                                                        "bad-type"),
        "text for a tensor": refused(text('{"q":"x",%s}' % ONE), 422, "bad-type"),
        "unknown name": refused(call(scal=1), 422, "unknown-field")}),
    Row(48, "1.5, true, \"8\" as a size", {
        name: refused(call(q=flat(shape, [1.0] * 8)), 422, problem) for name, shape, problem in (
            ("fraction", [1, 1.5], "bad-type"), ("true", [1, True], "bad-type"),
            ("text", [1, "8"], "bad-value"))}),
    Row(49, "megabytes of short numbers", {
        "above the limit": refused(short_numbers, 413, "body-too-large",
                                   daemon=("--json-max-body", "4MiB"), stays=False),
        "below": refused(short_numbers, 422, "bad-shape")}),
    Row(50, "a million names", {"": refused(colliding, 400, "malformed")}),
]
SHAPES = [
    Row(51, "sizes of 0", {
        "no queries": accepted(call(q=flat([0, 1])), no_rows),
        "no keys": accepted(call(k=flat([0, 1]), v=flat([0, 2]), q=[[1]]), output([[0, 0]]))}),
    Row(52, "negative size", cases("tensor-negative-axis")),
    Row(53, "sizes whose product wraps to 4", {
        "": refused(call(q=flat([HUGE // 4194305, 4194305, 211106198978564], [1] * 4)), 422,
                    "bad-shape")}),
    Row(54, "sizes whose padding wraps", {
        "": refused(call(q=flat([1, 2**63 - 1], [1] * 4)), 422, "bad-shape")}),
    Row(55, "ranks that differ, ragged lists", cases("ranks-differ", "tensor-ragged")),
    Row(56, "head sizes or key counts that differ", cases("head-sizes-differ",
                                                          "key-counts-differ")),
    Row(57, "heads that do not divide, no heads", {
        **cases("heads-not-divisible"),
        "no key heads": refused(call(q=flat([1, 2, 1, 1], [1, 1]), k=flat([1, 0, 1, 1]),
                                     v=flat([1, 0, 1, 1])), 422, "bad-shape")}),
    Row(58, "dtypes that differ, unknown dtype", cases("dtypes-differ", "tensor-unknown-dtype")),
    Row(59, "size beyond 2^31", {
        "": accepted(call(q=flat([1, 0]), k=flat([2**31, 0]), v=flat([2**31, 0]), q_offset=0,
                          mask={"type": "prefix", "length": 1}), note="without elements")}),
]
VALUES = [
    Row(60, "NaN and Infinity in q, k or v", {
        "": accepted(raw.post(b'{"q":[[1],[1]],"k":[[1],["NaN"]],"v":[[1,2],[3,4]],"mask":"causal"}'
                              ), propagates, note="propagated")}),
    Row(61, "denormal numbers", {"": accepted(b"", play=denormals, note="as fast as others")}),
    Row(62, "65504 in float16, huge logits", {
        "float16": accepted(halves(), every_number_is_finite),
        "logits": accepted(raw.post(b'{"q":[[1e18],[-1e18]],"k":[[1e18],[-1e18]],"v":[[1],[2]]}'),
                           output([[1], [2]]))}),
    Row(63, "row without a visible key", {
        "": accepted(mask({"not": {"all": []}}), empty_row, note="zeros")}),
    Row(64, "scale 0, negative, NaN", {
        "0": accepted(call(scale=0)), "negative": accepted(call(scale=-1)), **cases("scale-nan")}),
]
MASKS = [
    Row(76, "length beyond the keys, or negative", cases("padding-length-too-large",
                                                         "padding-length-negative")),
    Row(77, "all keys hidden", {
        "": accepted(mask({"type": "padding", "kv_lengths": [0]}), empty_row, note="zeros")}),
    Row(78, "window of 2^63 and of 2^63-1", {
        "2^63-1": accepted(mask({"type": "window", "left": 2**63 - 1, "right": 2**63 - 1})),
        "2^63": refused(mask({"type": "window", "left": 2**63, "right": 0}), 400, "number-range")}),
    Row(79, "segments unsorted, of wrong length or type", {
        "unsorted": accepted(mask({"type": "segments", "q": [7, -3]}), output([[1, 2], [3, 4]])),
        **cases("segments-length"),
        "fraction": refused(mask({"type": "segments", "q": [0.5, 1]}), 422, "bad-type")}),
    Row(80, "bias of wrong shape, or +infinity", cases("bias-shape", "bias-plus-infinity")),
]
ROWS = JSON_ROWS + SHAPES + VALUES + MASKS

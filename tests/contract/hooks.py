# SPDX-License-Identifier: Apache-2.0
"""What schemathesis loads: calls of our own among its own, and a check that decides about refusals.

The checks of schemathesis are all on. Where they would take every refusal of a request that fits
its schema for a fault, `refusals_are_right` decides instead, in both directions: a call that is
refused must be wrong as the problem type says, and a call that is wrong must not be computed.
"""
import atexit
import collections
import gzip
import io
import json
import os
import sys
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import calls  # noqa: E402
import judge  # noqa: E402
import numpy as np  # noqa: E402
import oip  # noqa: E402
import remask  # noqa: E402
import requests  # noqa: E402
import schemathesis  # noqa: E402
import steps  # noqa: E402
import zstandard  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from request import (  # noqa: E402
    CONTAINERS,
    JSON_TYPE,
    NPY_TYPE,
    NPZ_TYPE,
    PICTURE_TYPE,
    SAFETENSORS_TYPE,
)
from support import safetensors  # noqa: E402

ASKED_FOR = (PICTURE_TYPE, NPZ_TYPE, NPY_TYPE)  # by Accept alone, and so one by one
OCTET_TYPE = "application/octet-stream"
PROBLEM_TYPE = "application/problem+json"
# What HTTP itself brings; schemathesis' own checks judge these.
TRANSPORT = {"bad-framing", "method-not-allowed", "not-acceptable", "unsupported-media-type",
             "length-required", "not-found", "target-too-long", "too-many-options",
             "head-too-large"}
INFER = ("/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer")
STEP, STEPS = "/v1/sessions/{id}/attention", "/v1/sessions/attention"
MAKERS = {STEP: steps.step(), STEPS: steps.steps(), "/v1/attention": calls.attention(),
          "/v1/merge": calls.merge(), remask.PATH: remask.remask(),
          **dict.fromkeys(INFER, calls.attention())}
METAS = {**dict.fromkeys(("/v1/attention", STEP, STEPS), judge.of("Meta")),
         "/v1/merge": judge.of("MergeMeta")}
RESULT_STATS = judge.of("Stats")


CAPTURES = "/v1/captures/{id}"


def keep():
    """The id of a capture of this moment; cases that drop it do not harm others."""
    answer = requests.post(os.environ["CONTRACT_URL"] + "/v1/attention", json=remask.KEPT,
                           timeout=60)
    return answer.json()["meta"]["capture"]["id"]


PACKERS = {None: bytes, "gzip": gzip.compress, "zstd": zstandard.compress}
MAGIC = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}


def coding_of(body):
    """The coding that a drawn body shows."""
    return next((coding for coding, magic in MAGIC.items()
                 if isinstance(body, bytes) and body.startswith(magic)), None)


def unpacked(body, coding):
    """The plain body; None when it cannot be had."""
    try:
        if coding == "gzip":
            return gzip.decompress(body)
        if coding == "zstd":
            return zstandard.ZstdDecompressor().decompressobj().decompress(body)
    except Exception:  # whatever the library trips over, it cannot be unpacked
        return None
    return body


def kernels():
    """{name or family: what it computes}, as GET /v1 lists them."""
    found = {}
    for kernel in requests.get(os.environ["CONTRACT_URL"] + "/v1", timeout=60).json()["kernels"]:
        for name in (kernel["name"], kernel["name"].split("-")[0]):
            if kernel["available"]:
                found.setdefault(name, kernel)
    return found


KERNELS = kernels()


@st.composite
def bodies(draw, path, media_type):
    tensors, options = draw(MAKERS[path])
    if path in INFER:
        return oip.to_request(tensors, options, False) if media_type == JSON_TYPE else \
            oip.to_binary(tensors, options)
    if media_type == JSON_TYPE:
        wire = draw(st.sampled_from(("nested", "flat", "base64")))
        return calls.to_json(tensors, options, wire)
    if media_type == NPZ_TYPE:
        body = calls.to_npz(tensors, options)
        return body[:draw(st.integers(0, len(body) - 1))] if calls.seldom(draw) else body
    body = calls.to_safetensors(tensors, options)
    body = calls.broken(draw, body) if calls.seldom(draw) else body
    body = PACKERS[draw(st.sampled_from((None, None, *PACKERS)))](body)
    return calls.broken(draw, body) if calls.seldom(draw) else body


# What stands for a body until flatmap_body knows whose it is.
PLACEHOLDERS = {SAFETENSORS_TYPE: b"safetensors", NPZ_TYPE: b"npz",
                OCTET_TYPE: b"bytes behind JSON"}
for kind, placeholder in PLACEHOLDERS.items():
    schemathesis.openapi.media_type(kind, st.just(placeholder))


@schemathesis.deserializer(SAFETENSORS_TYPE, NPZ_TYPE, NPY_TYPE, PICTURE_TYPE, OCTET_TYPE)
def read_binary(context, response):
    """As the schema sees it a text; `answers_are_whole` reads it."""
    return response.content.decode("latin-1")


@schemathesis.hook
def flatmap_body(context, body):
    """Bytes are of one of the media types above, whose bodies differ from path to path."""
    path = context.operation.path
    for kind, placeholder in PLACEHOLDERS.items():
        if path in MAKERS and body == placeholder:
            return bodies(path, kind)
    return st.just(body)


@schemathesis.hook
def flatmap_case(context, case):
    """Of the cases that fit their schemas, three in four get a body that makes sense."""
    path = case.operation.path
    if path not in MAKERS or case.media_type != JSON_TYPE or case.meta is None or \
            not case.meta.generation.mode.is_positive:
        return st.just(case)

    def put(drawn):
        body, keeps_query = drawn
        case.body = body
        if not keeps_query:
            case.query = {}
        return case

    ours = st.tuples(bodies(path, case.media_type), st.integers(0, 4).map(lambda n: n == 0))
    return st.integers(0, 3).flatmap(lambda n: st.just(case) if n == 0 else ours.map(put))


@schemathesis.hook
def before_call(context, case, kwargs):
    """OpenAPI has no parameter for Accept: one of the documented answers, by turns."""
    operation = judge.CONTRACT["paths"][case.operation.path].get(case.method.lower(), {})
    answers = operation.get("responses", {}).get("200", {}).get("content", {})
    both = ", ".join(f"{kind};q=0.5" for kind in answers if kind not in ASKED_FOR)
    ranges = [None, "*/*", *answers, both]
    number = sum(map(ord, case.id))
    chosen = ranges[number % len(ranges)] if answers else None
    if chosen:
        case.headers["Accept"] = chosen
    label_coding(case)
    if case.operation.path.startswith("/v1/sessions"):
        bring_sessions()
        if "id" in (case.path_parameters or {}) and number % 4:
            case.path_parameters["id"] = steps.SESSIONS[number % 2]
    if case.operation.path.startswith(CAPTURES) and is_positive(case):
        case.path_parameters["id"] = keep()
    if case.operation.path in INFER:
        label_length(case)


def bring_sessions():
    """Those of drawn steps are there, whatever was done to them before."""
    for name in steps.SESSIONS:
        requests.post(os.environ["CONTRACT_URL"] + "/v1/sessions",
                      json={**steps.SESSION, "id": name}, timeout=60)


def is_positive(case):
    return case.meta is None or case.meta.generation.mode.is_positive


def label_length(case):
    """How many bytes of a drawn body are JSON; of one in JSON alone, nothing."""
    given = case.headers.get(oip.LENGTH)
    shown = oip.json_length(case.body) if isinstance(case.body, bytes) else None
    if shown is not None:
        case.headers[oip.LENGTH] = str(shown)
    elif given is not None and given.isdecimal():
        del case.headers[oip.LENGTH]


def label_coding(case):
    """A header that fits the contract says what the body is, which was drawn without it."""
    labels = judge.CONTRACT["components"]["parameters"]["ContentEncoding"]["schema"]["enum"]
    given, shown = case.headers.get("Content-Encoding"), coding_of(case.body)
    if shown is not None:
        case.headers["Content-Encoding"] = shown
    elif given in labels and given not in ("identity", ""):
        del case.headers["Content-Encoding"]


COUNTS = collections.Counter()


@schemathesis.hook
def after_call(context, case, response):
    COUNTS[f"{case.operation.path} {response.status_code}"] += 1


@atexit.register
def write_counts():
    Path(os.environ["CONTRACT_COUNTS"]).write_text(json.dumps(COUNTS))


def answer_type(accept, media_type):
    """What the answer is to come as; of several ranges it may be either of the two plain ones."""
    if accept in (None, "*/*"):
        return media_type
    return accept if accept in ASKED_FOR else JSON_TYPE


def problem_of(response):
    if response.headers.get("content-type", [""])[0] != PROBLEM_TYPE:
        return None
    return json.loads(response.content)["type"].rsplit("/", 1)[-1]


def body_of(request):
    body = request.body or b""
    return body.encode() if isinstance(body, str) else body


@schemathesis.check
def refusals_are_right(context, response, case):
    request = response.request
    path = case.operation.path
    problem = problem_of(response)
    # Drawn calls are the service's own; for the ONNX operator they lack their tensors.
    if path in INFER and request.method == "POST" and "/models/attention/" in request.url:
        judge_infer(response)
    if path not in judge.OPERATIONS or request.method != "POST" or problem in TRANSPORT:
        return
    media_type = request.headers.get("Content-Type", "").split(";")[0]
    if media_type != JSON_TYPE and media_type not in CONTAINERS:
        return
    body = unpacked(body_of(request), request.headers.get("Content-Encoding"))
    if body is None:
        assert problem in ("malformed", "unsupported-media-type"), f"{problem}, a broken coding"
        return
    faults = judge.faults_of(path, request.url, media_type, body, KERNELS,
                             answer_type(request.headers.get("Accept"), media_type))
    if problem == "deadline-exceeded":
        assert_was_late(path, response, request, media_type)
    elif problem is not None:
        known = faults.must | faults.may
        assert problem in known, \
            f"refused as {problem}; what is wrong with it: {sorted(known) or 'nothing'}"
    else:
        assert not faults.must, f"computed, though it is wrong: {sorted(faults.must)}"


def judge_infer(response):
    """Its errors have no type: what is judged is whether there had to be one."""
    body = unpacked(body_of(response.request), response.request.headers.get("Content-Encoding"))
    length = response.request.headers.get(oip.LENGTH, str(len(body or b"")))
    if body is None or not length.isdecimal() or response.status_code in (405, 504):
        return
    faults = judge.faults_of_infer(body, int(length), KERNELS)
    if faults is None:
        return
    if response.status_code == 200:
        assert not faults.must, f"computed, though it is wrong: {sorted(faults.must)}"
    else:
        assert faults.must or faults.may, "refused, and nothing is wrong with it"


def deadlines(url):
    """Those of the query string, whatever else is wrong with it."""
    return [int(value) for name, value in parse_qsl(urlsplit(url).query)
            if name == "timeout_ms" and value.isdecimal()]


def assert_was_late(path, response, request, media_type):
    faults = judge.Faults()
    operation = judge.OPERATIONS[path]
    parts = judge.Request(operation.operands, operation.options, faults, media_type)
    parts.read(request.url, body_of(request))
    given = [parts.options.get("timeout_ms"), *deadlines(request.url)]
    allowed = min((number for number in given if isinstance(number, int)), default=None)
    assert allowed is not None, "no deadline was given, and the service's own has not passed"
    assert response.elapsed * 1000 >= allowed, \
        f"answered after {response.elapsed * 1000} ms that {allowed} ms had passed"


def judge_snapshot(tensors, session):
    for layer, length in enumerate(session["lengths"]):
        rows = length - session["gap_counts"][layer]
        for part, width in (("k", "head_dim"), ("v", "value_dim")):
            shape = (session["kv_heads"], rows, session[width])
            assert tensors[f"layers.{layer}.{part}"].shape == shape


@schemathesis.check
def answers_are_whole(context, response, case):
    """A binary answer is a file without holes, and what it says of itself fits the contract."""
    kind = response.headers.get("content-type", [""])[0]
    if kind == PICTURE_TYPE:
        assert response.content.startswith(b"\x89PNG\r\n\x1a\n")
        assert response.content.endswith(b"IEND\xaeB\x60\x82")
    if kind == NPY_TYPE:
        np.load(io.BytesIO(response.content), allow_pickle=False)
    if kind == OCTET_TYPE and case.operation.path in INFER:
        length = int(response.headers[oip.LENGTH.lower()][0])
        oip.answer_of(response.content, length)
    if kind not in CONTAINERS:
        return
    if kind == SAFETENSORS_TYPE:
        tensors, metadata = safetensors.parse(response.content)
    else:
        with np.load(io.BytesIO(response.content), allow_pickle=False) as archive:
            tensors = {name: archive[name] for name in archive.files}
        metadata = {name: str(tensors.pop(name)) for name in ("meta", "stats") if name in tensors}
    if case.operation.path.endswith("/kv"):
        return judge_snapshot(tensors, json.loads(metadata["session"]))
    assert tensors or "stats" in metadata
    METAS[case.operation.path].validate(json.loads(metadata["meta"]))
    if "stats" in metadata:
        RESULT_STATS.validate(json.loads(metadata["stats"]))

# SPDX-License-Identifier: Apache-2.0
"""The published contract against the daemon: every example is sent and its answer compared, every
answer fits its schema, and the statuses and problem types are those of the daemon's own tables.

An example belongs to the parameters' and the response's examples of the same name.
"""
import itertools
import json
import re
from urllib.parse import urlencode

import numpy as np
import pytest
import yaml
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from support import folders, safetensors, tables
from support.client import JSON_TYPE, SAFETENSORS_TYPE, decode
from support.contract import CONTRACT, TEXT, resolve, schema

# Of the service's own calls: the others' errors have one form, and /v2 is tested by its clients.
POSTS = {path: item["post"] for path, item in CONTRACT["paths"].items()
         if "post" in item and path.startswith("/v1/") and not path.startswith("/v1/sessions")}
ATTENTION = POSTS["/v1/attention"]
PROBLEM_TYPE = "application/problem+json"
# Six digits stand in the examples; float32 has seven.
CLOSE = {"rtol": 1e-6, "atol": 1e-6}


def request_examples(path, media_type):
    return POSTS[path]["requestBody"]["content"].get(media_type, {}).get("examples", {})


def every_example(media_type):
    return [(path, name) for path in POSTS for name in request_examples(path, media_type)]


def expected(path, name):
    """(status, the example's response) of a request example; exactly one status has it."""
    found = []
    for status, response in POSTS[path]["responses"].items():
        for media_type in resolve(response)["content"].values():
            if name in media_type.get("examples", {}):
                found.append((int(status), media_type["examples"][name]))
    assert len(found) == 1, f"{name}: {len(found)} responses have an example of that name"
    return found[0]


def query(path, name):
    """As the parameters' style has it: a list is one text with commas."""
    given = {}
    for parameter in map(resolve, POSTS[path]["parameters"]):
        if parameter["in"] == "query" and name in parameter.get("examples", {}):
            value = parameter["examples"][name]["value"]
            given[parameter["name"]] = ",".join(map(str, value)) if isinstance(value, list) \
                else value
    return "?" + urlencode(given) if given else ""


def post(client, name, path="/v1/attention"):
    body = json.dumps(request_examples(path, JSON_TYPE)[name]["value"]).encode()
    return client.send("POST", path + query(path, name), body, {"Content-Type": JSON_TYPE})


def body_schema(content):
    return Draft202012Validator({**CONTRACT, **content["content"][JSON_TYPE]["schema"]})


def near(value):
    """The same value, whose numbers compare equal to their neighbours."""
    if isinstance(value, list):
        return [near(item) for item in value]
    if isinstance(value, dict):
        return {key: near(item) for key, item in value.items()}
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


def assert_same(name, got, wanted):
    """Tensors to their tolerance, members of meta and all else exactly."""
    if name == "meta":
        assert {key: got[key] for key in wanted} == {
            key: pytest.approx(value) if isinstance(value, float) else value
            for key, value in wanted.items()}
    elif name in ("output", "weights", "scores", "lse"):
        assert isinstance(got, type(wanted))
        np.testing.assert_allclose(decode(got, np.float32), decode(wanted, np.float32), **CLOSE)
    else:
        assert got == near(wanted)


@pytest.mark.parametrize(("path", "name"), every_example(JSON_TYPE))
def test_json_example(path, name, client):
    status, example = expected(path, name)
    answer = post(client, name, path)
    assert answer.status == status, answer.body
    wanted = dict(example["value"])
    assert set(answer.json) == set(wanted) | {"meta" if status == 200 else "instance"}
    for member, value in wanted.items():
        assert_same(member, answer.json[member], value)


@pytest.mark.parametrize(("path", "name"), every_example(JSON_TYPE))
def test_json_example_fits_the_schemas(path, name, client):
    answer = post(client, name, path)
    if answer.status == 200:
        body_schema(POSTS[path]["responses"]["200"]).validate(answer.json)
    else:
        schema("Problem").validate(answer.json)
    refused = ("unknownField", "dropout", "mergeWithoutLses", "noKeys")
    accepted = body_schema(POSTS[path]["requestBody"])
    assert accepted.is_valid(request_examples(path, JSON_TYPE)[name]["value"]) == (
        name not in refused)


@pytest.mark.parametrize(("path", "name"), every_example(SAFETENSORS_TYPE))
def test_safetensors_example(path, name, client):
    status, example = expected(path, name)
    given = request_examples(path, SAFETENSORS_TYPE)[name]["externalValue"]
    answer = client.send("POST", path, (tables.ROOT / given).read_bytes(),
                         {"Content-Type": SAFETENSORS_TYPE})
    assert answer.status == status, answer.body[:500]
    exact, _ = safetensors.parse((tables.ROOT / example["externalValue"]).read_bytes())
    assert set(answer.tensors) == {"output", "weights"}
    for tensor, value in answer.tensors.items():
        # Float32 sums of 32 products against float64 ones.
        np.testing.assert_allclose(value, exact[tensor], rtol=1e-5, atol=1e-5)
    schema("Meta").validate(answer.meta)


@pytest.mark.parametrize("name", folders.names("valid"))
def test_every_hand_checked_call_fits_the_schemas(name, client):
    request = json.loads((folders.CASES / "valid" / name / "request.json").read_text())
    schema("AttentionRequest").validate(request)
    schema("AttentionResult").validate(folders.send(client, folders.CASES / "valid" / name).json)


@pytest.mark.parametrize("wrong", [
    {"scale": "auto"}, {"return": ["statistics"]}, {"weights": {"head": [0]}}, {"mask": "future"},
    {"mask": {"type": "window", "left": 1}}, {"mask": {"all": "causal"}}, {"q": "q"},
    {"q": {"shape": [1, 1]}}, {"softcap": 0}, {"precision": "float16"}, {"num_heads": 0},
    {"is_causal": True}])
def test_the_request_schema_refuses_what_the_daemon_refuses(wrong, client):
    call = {"q": [[1]], "k": [[1]], "v": [[1]], **wrong}
    assert not schema("AttentionRequest").is_valid(call)
    answer = client.send("POST", "/v1/attention", json.dumps(call), {"Content-Type": JSON_TYPE})
    assert answer.status == 422


# The values of parameters whose values change from build to build.
NAMED = {"file": re.findall('"/assets/(.*?)"', (tables.ROOT / "server/page_files.def").read_text())}


def concrete(path, operation):
    """The path with every value of its parameters."""
    given = [[(parameter["name"], value)
              for value in parameter["schema"].get("enum") or NAMED[parameter["name"]]]
             for parameter in map(resolve, operation["parameters"]) if parameter["in"] == "path"]
    return [path.format_map(dict(values)) for values in itertools.product(*given)]


def every_get():
    return [(path, actual) for path, item in CONTRACT["paths"].items()
            if "get" in item and not path.startswith(("/v1/sessions", "/v1/captures"))
            for actual in concrete(path, item["get"])]


@pytest.mark.parametrize(("documented", "path"), every_get())
def test_get(documented, path, client):
    """Status, media type, headers, schema; HEAD is the same without a body, OPTIONS has Allow."""
    answer = client.get(path, **{"X-Request-Id": "openapi-1"})
    responses = CONTRACT["paths"][documented]["get"]["responses"]
    documented = responses["200"]
    media_type = answer.headers["Content-Type"].split(";")[0]
    assert (answer.status, media_type in documented["content"]) == (200, True), media_type
    assert answer.headers["X-Request-Id"] == "openapi-1"
    if media_type == JSON_TYPE:
        Draft202012Validator({**CONTRACT, **documented["content"][media_type]["schema"]}).validate(
            answer.json)
    head = client.send("HEAD", path)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Type"] == answer.headers["Content-Type"]
    options = client.send("OPTIONS", path)
    assert (options.status, options.headers["Allow"], options.body) == (204, "GET", b"")
    other = client.send("DELETE", path)
    assert (other.status, other.headers["Allow"]) == (405, "GET")
    if "default" in responses:
        assert other.headers["Content-Type"] == JSON_TYPE
        schema("OipError").validate(other.json)
    else:
        assert other.headers["Content-Type"] == PROBLEM_TYPE
        schema("Problem").validate(other.json)


def test_the_daemon_serves_this_document(client):
    assert client.get("/openapi.yaml").body.decode() == TEXT


def test_headers_of_a_call(client):
    answer = post(client, "twoKeys")
    stages = re.fullmatch(r"(\w+;dur=\d+\.\d+)(, \w+;dur=\d+\.\d+)*",
                          answer.headers["Server-Timing"])
    assert stages
    for stage in ("decode", "compute", "encode"):
        assert f"{stage};dur=" in answer.headers["Server-Timing"]
    assert answer.headers["X-Request-Id"] == answer.meta["id"]


def test_accept_chooses_the_encoding(client):
    body = json.dumps(request_examples("/v1/attention", JSON_TYPE)["twoKeys"]["value"])
    headers = {"Content-Type": JSON_TYPE, "Accept": SAFETENSORS_TYPE}
    answer = client.send("POST", "/v1/attention", body, headers)
    assert answer.headers["Content-Type"] == SAFETENSORS_TYPE
    schema("Meta").validate(answer.meta)


class Once(yaml.SafeLoader):
    """Refuses a name that stands twice, which YAML does too but PyYAML does not."""

    def construct_mapping(self, node, deep=False):
        names = [key.value for key, _ in node.value]
        assert len(names) == len(set(names)), (node.start_mark.line + 1, names)
        return super().construct_mapping(node, deep)


def test_no_name_stands_twice():
    yaml.load(TEXT, Once)


def test_the_document_is_valid():
    validate(CONTRACT)


def test_every_problem_type_is_in_the_tables_and_the_other_way_round():
    listed = CONTRACT["components"]["schemas"]["ProblemType"]["enum"]
    assert sorted(listed) == sorted(f"/problems/{name}" for name in tables.wire_problems())


def test_every_status_of_the_tables_is_documented_and_the_other_way_round():
    statuses = {status for status, _ in tables.wire_problems().values()}
    for path, post in POSTS.items():
        # 404 belongs to no call without a name, and 409 and 410 to sessions alone.
        others = {409, 410} | ({404} if "{" not in path else set())
        made = {201} if path.endswith("/remask") else {200}
        assert set(map(int, post["responses"])) == statuses - others | made
    sessions = [set(map(int, operation["responses"]))
                for path, item in CONTRACT["paths"].items() if path.startswith("/v1/sessions")
                for operation in item.values()]
    assert set.union(*sessions) == statuses | {200, 201, 204}
    assert "404" in CONTRACT["info"]["description"]


def test_every_error_example_has_its_title_and_status():
    problems = tables.problems()
    for response in CONTRACT["components"]["responses"].values():
        content = response.get("content", {}).get(PROBLEM_TYPE, {})
        for example in content.get("examples", {}).values():
            value = example["value"]
            assert (value["status"], value["title"]) == problems[value["type"].split("/")[-1]]
            schema("Problem").validate({**value, "instance": "1"})


@pytest.mark.parametrize("name", folders.names("invalid"))
def test_every_documented_refusal_has_a_documented_type(name):
    error = json.loads((folders.CASES / "invalid" / name / "error.json").read_text())
    assert tables.wire_problems()[error["type"]][0] == error["status"]


@pytest.mark.parametrize(("path", "source", "documented"), [
    ("/v1/attention", "options/options_table", "AttentionOptions"),
    ("/v1/merge", "calls/merge_handler", "MergeOptions"),
    ("/v1/experiments/scaling", "calls/scaling_handler", "ScalingRequest")])
def test_every_option_is_documented_in_the_body_and_in_the_query(path, source, documented):
    rows = re.findall(r'^ +\{"(\w+)", OPTION_\w+, (?:options_)?apply_',
                      (tables.ROOT / f"server/{source}.c").read_text(), flags=re.M)
    assert len(rows) >= 5
    assert set(CONTRACT["components"]["schemas"][documented]["properties"]) == set(rows)
    assert {parameter["name"] for parameter in map(resolve, POSTS[path]["parameters"])
            if parameter["in"] == "query"} == {*rows, "compress"}


def test_every_kind_of_mask_is_documented():
    schemas = CONTRACT["components"]["schemas"]
    documented = set()
    for choice in schemas["Mask"]["anyOf"]:
        mask = resolve(choice)
        kind = mask.get("properties", {}).get("type")
        if kind:
            documented.update(kind.get("enum") or [kind["const"]])
        else:
            documented.update(mask.get("required", []))
    assert documented == {name for _, name in tables.rows("core/mask_kinds.def", "ATTN_MASK_KIND")}


def test_every_dtype_is_documented():
    rows = list(tables.rows("core/dtype.def", "ATTN_DTYPE"))
    schemas = CONTRACT["components"]["schemas"]
    for name, is_float in (("FloatType", True), ("IntegerType", False)):
        assert schemas[name]["enum"] == [row[1] for row in rows if (row[4] == "FLOAT") == is_float]


def test_every_route_is_documented():
    rows = re.findall(r'^ +\{"(/[^"]*)", HTTP_(\w+), ',
                      (tables.ROOT / "server/routes.c").read_text(), flags=re.M)
    assert len(rows) > 10
    documented = {(path, method.upper()) for path, item in CONTRACT["paths"].items()
                  for method in item}
    assert documented >= set(rows)
    others = {path for path, _ in documented - set(rows)}
    assert all(path.startswith("/v2/models/{model}") for path in others)

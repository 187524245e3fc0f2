# SPDX-License-Identifier: Apache-2.0
"""Writes docs/api.html, the page that the daemon serves at /docs, from openapi.yaml, and
server/docs_style.h, the hash of its style sheet for the page's Content-Security-Policy. `make
generate` runs it in the project's root; it stops at a reference that leads nowhere.

The page is one file without a script: it has to be readable with nothing else there.
"""
import base64
import hashlib
import json
import sys
from pathlib import Path
from urllib.parse import urlencode

import yaml
from schema import SCHEMA_PREFIX, Renderer, anchor, escape, inline, paragraphs

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = yaml.safe_load((ROOT / "openapi.yaml").read_text())
COMPONENTS = CONTRACT["components"]
JSON_TYPE = "application/json"
RENDER = Renderer(COMPONENTS["schemas"])


def resolve(node):
    while "$ref" in node:
        target = CONTRACT
        for name in node["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        node = target
    return node


def response_anchor(node):
    """Where an error is described; None for what is none."""
    has_problem = "$ref" in node and "content" in resolve(node)
    return "error-" + node["$ref"].rsplit("/", 1)[-1] if has_problem else None


def operations():
    for path, item in CONTRACT["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def by_tag():
    for tag in CONTRACT["tags"]:
        yield tag["name"], [found for found in operations() if tag["name"] in found[2]["tags"]]


def json_block(value):
    """Short lists stay on one line, as a person would write them."""
    return f"<pre><code>{escape(pretty(value))}</code></pre>\n"


def pretty(value, indent=""):
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + len(indent) <= 76 or not isinstance(value, (dict, list)) or not value:
        return flat
    inner = indent + "  "
    if isinstance(value, dict):
        rows = [f"{json.dumps(key)}: {pretty(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(inner + row for row in rows) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + pretty(item, inner) for item in value) + f"\n{indent}]"


def place(parameter):
    where = {"query": "in the query string", "header": "header", "path": "in the path"}
    return where[parameter["in"]] + (", a comma list" if parameter.get("explode") is False else "")


def parameters(operation, title, headers):
    """Those that are headers, or those that are not."""
    rows = []
    for parameter in map(resolve, operation.get("parameters", ())):
        if (parameter["in"] == "header") != headers:
            continue
        must = '<span class="must">required</span>' if parameter.get("required") else ""
        schema = parameter["schema"]
        rows.append(f"<div><dt><code>{escape(parameter['name'])}</code>{must}"
                    f'<span class="must">{place(parameter)}</span></dt><dd>'
                    f'<p class="kind">{RENDER.kind(schema)}{RENDER.notes(schema)}</p>\n'
                    f"{paragraphs(parameter.get('description', ''))}</dd></div>\n")
    return f"<h4>{title}</h4>\n<dl>\n{''.join(rows)}</dl>\n" if rows else ""


def content_rows(content):
    """Each media type and what it holds."""
    return "".join(f'<p><code>{escape(kind)}</code> <span class="kind">'
                   f"{RENDER.kind(held.get('schema', {}))}</span></p>\n"
                   for kind, held in content.items())


def request_body(operation):
    body = operation.get("requestBody")
    if body is None:
        return ""
    schema = body["content"].get(JSON_TYPE, {}).get("schema", {})
    name = schema.get("$ref", "").removeprefix(SCHEMA_PREFIX)
    members = ""
    if name:
        members = (f"<details><summary>Members of {name} in JSON</summary><div>\n"
                   f"{paragraphs(RENDER.schemas[name].get('description', ''))}"
                   f"{RENDER.members(RENDER.schemas[name])}</div></details>\n")
    return f"<h4>Body</h4>\n{content_rows(body['content'])}{members}"


def answer_of(operation, name):
    """(status, value) of the response example that belongs to a request's."""
    for status, response in operation["responses"].items():
        for held in resolve(response).get("content", {}).values():
            if "value" in held.get("examples", {}).get(name, {}):
                return status, held["examples"][name]["value"]
    return None


def query_of(operation, name):
    given = {}
    for parameter in map(resolve, operation.get("parameters", ())):
        if name in parameter.get("examples", {}):
            value = parameter["examples"][name]["value"]
            given[parameter["name"]] = ",".join(map(str, value)) if isinstance(value, list) \
                else value
    return "?" + urlencode(given, safe=",") if given else ""


def examples(path, operation):
    content = operation.get("requestBody", {}).get("content", {})
    found = content.get(JSON_TYPE, {}).get("examples", {})
    shown = []
    for name, example in found.items():
        target, answer = path + query_of(operation, name), answer_of(operation, name)
        described = paragraphs(example["description"]) if "description" in example else ""
        answered = ""
        if answer is not None:
            css = "good" if answer[0] == "200" else "bad"
            answered = (f'<p><span class="status {css}">{answer[0]}</span></p>\n'
                        f"{json_block(answer[1])}")
        shown.append(f"<details><summary>{inline(example['summary'])}</summary><div>\n{described}"
                     f"<p><code>POST {escape(target)}</code></p>\n{json_block(example['value'])}"
                     f"{answered}</div></details>\n")
    return f"<h4>Examples</h4>\n{''.join(shown)}" if shown else ""


def responses(operation):
    rows = []
    for status, node in operation["responses"].items():
        response, target = resolve(node), response_anchor(node)
        css = "good" if status < "400" else "bad"
        held = "" if target else content_rows(response.get("content", {}))
        link = f'<a href="#{target}">{status}</a>' if target else status
        rows.append(f'<div><dt><span class="status {css}">{link}</span></dt><dd>'
                    f"{paragraphs(response['description'])}{held}</dd></div>\n")
    return f"<h4>Answers</h4>\n<dl>\n{''.join(rows)}</dl>\n"


def heading(path, method, slash="/"):
    """`slash` may let a narrow column break a path where its segments begin."""
    return (f'<span class="method {method}">{method.upper()}</span>'
            f'<span class="path">{escape(path).replace("/", slash)}</span>')


def operation_section(path, method, operation):
    name = operation["operationId"]
    return (f'<section id="{name}">\n<h3>{heading(path, method)}'
            f'<a class="anchor" href="#{name}" aria-label="link to {name}">#</a></h3>\n'
            f'<p class="lead">{inline(operation["summary"])}</p>\n'
            f"{paragraphs(operation.get('description', ''))}"
            f"{request_body(operation)}{examples(path, operation)}"
            f"{parameters(operation, 'Parameters', headers=False)}"
            f"{parameters(operation, 'Headers', headers=True)}{responses(operation)}</section>\n")


def first_call():
    """A command to paste, of the first example of the first path that is posted to."""
    path, operation = next((path, operation) for path, method, operation in operations()
                           if method == "post")
    content = operation["requestBody"]["content"][JSON_TYPE]
    value = json.dumps(next(iter(content["examples"].values()))["value"])
    command = (f"curl -sS {CONTRACT['servers'][0]['url']}{path} \\\n"
               f"    -H 'Content-Type: {JSON_TYPE}' \\\n    -d '{value}'")
    return (f'<section id="call">\n<pre><code>{escape(command)}</code></pre>\n'
            "<p>This is a whole call; where the daemon has another address, put that of this page "
            "in its place. A daemon with keys wants <code>-H 'Authorization: Bearer KEY'</code> "
            "too.</p>\n</section>\n")


def statuses_of(name):
    """The statuses under which operations have this answer."""
    reference = f"#/components/responses/{name}"
    return sorted({status for _, _, operation in operations()
                   for status, node in operation["responses"].items()
                   if node.get("$ref") == reference})


def error_section(name, response):
    headers = ", ".join(f"<code>{escape(header)}</code>" for header in response.get("headers", {}))
    shown = "".join(json_block(example["value"])
                    for held in response.get("content", {}).values()
                    for example in held.get("examples", {}).values())
    statuses = ", ".join(statuses_of(name)) or "404"
    more = f"<details><summary>Examples</summary><div>{shown}</div></details>\n" if shown else ""
    return (f'<div id="error-{name}"><dt><span class="status bad">{statuses}</span>'
            f'<span class="must">{name}</span></dt><dd>{paragraphs(response["description"])}'
            f'<p class="kind">headers {headers}; <a href="#{anchor("Problem")}">Problem</a></p>\n'
            f"{more}</dd></div>\n")


def navigation():
    parts = []
    for tag, found in by_tag():
        links = "".join(f'<li><a href="#{operation["operationId"]}">'
                        f'{heading(path, method, "/<wbr>")}</a></li>\n'
                        for path, method, operation in found)
        parts.append(f"<p>{escape(tag)}</p>\n<ul>\n{links}</ul>\n")
    links = "".join(f'<li><a href="#{anchor(name)}">{name}</a></li>\n' for name in shown_schemas())
    return ('<nav id="contents" aria-label="Contents">\n<ul>\n'
            '<li><a href="#top">Overview</a></li>\n<li><a href="#errors">Errors</a></li>\n'
            f'<li><a href="/openapi.yaml">openapi.yaml</a></li>\n</ul>\n{"".join(parts)}'
            f"<p>Schemas</p>\n<ul>\n{links}</ul>\n</nav>\n")


def shown_schemas():
    """Those that a phrase does not say already."""
    return [name for name, schema in COMPONENTS["schemas"].items() if not RENDER.is_plain(schema)]


def page(style):
    info = CONTRACT["info"]
    sections = "".join(f"<h2>{escape(tag.capitalize())}</h2>\n" +
                       "".join(operation_section(*one) for one in found)
                       for tag, found in by_tag())
    errors = "".join(error_section(name, response) for name, response in
                     COMPONENTS["responses"].items() if response.get("content"))
    schemas = "".join(map(RENDER.section, shown_schemas()))
    return f"""<!DOCTYPE html>
<!-- SPDX-License-Identifier: Apache-2.0; tools/api_page made this of openapi.yaml -->
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(info["title"])} {escape(info["version"])}: API</title>
<style>{style}</style>
</head>
<body>
<div class="page" id="top">
<main>
<p class="jump"><a href="#contents">Contents</a></p>
<h1>{escape(info["title"])} <span class="soft">{escape(info["version"])}</span></h1>
<p class="lead">{inline(info["summary"])}</p>
{first_call()}<p><a href="/openapi.yaml">openapi.yaml</a> is the same as a machine reads it.</p>
{paragraphs(info["description"])}{sections}<h2 id="errors">Errors</h2>
<p>Every error is a problem document (RFC 9457), whose <code>type</code> programs can rely on.</p>
<dl>
{errors}</dl>
<h2>Schemas</h2>
{schemas}</main>
{navigation()}</div>
</body>
</html>
"""


def header(style):
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"""/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of the style sheet in docs/api.html; made by tools/api_page: make generate. */
#ifndef SERVER_DOCS_STYLE_H
#define SERVER_DOCS_STYLE_H

#define DOCS_STYLE_HASH "sha256-{digest}"

#endif
"""


def main():
    style = (Path(__file__).parent / "style.css").read_text()
    for name, text in (("docs/api.html", page(style)), ("server/docs_style.h", header(style))):
        (ROOT / name).write_text(text)
        print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""A schema of the contract as HTML: what it is in a phrase, and its members as a list."""
import html
import json
import re

SCHEMA_PREFIX = "#/components/schemas/"
# What a reader wants in place, rather than behind a link.
PLAIN_LONGEST = 90


def escape(text):
    return html.escape(str(text), quote=False)


def literal(value):
    return f"<code>{escape(json.dumps(value, ensure_ascii=False))}</code>"


def inline(text):
    """`code` and **strong** of one paragraph."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(f"<code>{escape(part[1:-1])}</code>" if part[:1] == "`" else
                   re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(part))
                   for part in parts if part)


def paragraphs(text, css=""):
    opening = f'<p class="{css}">' if css else "<p>"
    return "".join(f"{opening}{inline(part)}</p>\n" for part in re.split(r"\n\s*\n", text.strip())
                   if part.strip())


def anchor(name):
    return f"schema-{name}"


def range_of(schema):
    """ "from 1 to 1024", "at least 1", or nothing; the ends of 64 bits go without saying."""
    least, most = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        return f"above {schema['exclusiveMinimum']}"
    if most is not None and abs(most) >= 2 ** 62:
        most = None
    if least is not None and abs(least) >= 2 ** 62:
        least = None
    if least is not None and most is not None:
        return f"from {least} to {most}"
    if least is not None:
        return f"at least {least}"
    return f"at most {most}" if most is not None else ""


def count_of(schema):
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and least == most:
        return f"{least} "
    if least is not None and most is not None:
        return f"{least} to {most} "
    return f"{least} or more " if least else f"at most {most} " if most else ""


class Renderer:
    def __init__(self, schemas):
        self.schemas = schemas

    def target(self, schema):
        """(name, schema) that a reference names, or (None, the schema itself)."""
        name = schema.get("$ref", "").removeprefix(SCHEMA_PREFIX)
        return (name, self.schemas[name]) if name else (None, schema)

    def is_plain(self, schema):
        """Whether a phrase says all of it: a few words, or a range."""
        return set(schema) <= {"type", "enum", "const", "minimum", "maximum", "description",
                               "exclusiveMinimum", "multipleOf"} and \
            len(json.dumps(schema.get("enum", ""))) < PLAIN_LONGEST

    def kind(self, schema):
        """What a value is, as HTML in one line."""
        name, target = self.target(schema)
        if name and not self.is_plain(target):
            return f'<a href="#{anchor(name)}">{name}</a>'
        return self.phrase(target)

    def phrase(self, schema):
        if "const" in schema:
            return literal(schema["const"])
        if "enum" in schema:
            return " or ".join(map(literal, schema["enum"]))
        for word, joint in (("anyOf", " or "), ("allOf", ", with ")):
            if word in schema:
                return joint.join(filter(None, map(self.kind, schema[word])))
        if schema.get("type") == "array":
            count = count_of(schema).strip()
            items = self.kind(schema.get("items", {}))
            return f"list of {count}, each {items}" if count else f"list of {items}"
        if "contentSchema" in schema:
            return f"JSON text of {self.kind(schema['contentSchema'])}"
        if "properties" in schema and "type" not in schema:
            return self.narrowing(schema["properties"])
        kinds = schema.get("type", "anything")
        words = " or ".join(kinds) if isinstance(kinds, list) else kinds
        if schema.get("contentMediaType"):
            words = f"file, {schema['contentMediaType']}"
        return " ".join(filter(None, (escape(words), range_of(schema))))

    def narrowing(self, properties):
        return ", ".join(f"{escape(name)} of {count_of(part)}".strip()
                         for name, part in properties.items())

    def notes(self, schema):
        """A default or a pattern, behind the phrase."""
        _, target = self.target(schema)
        found = []
        if "default" in schema or "default" in target:
            found.append(f"default {literal(schema.get('default', target.get('default')))}")
        if "multipleOf" in target:
            found.append(f"a multiple of {target['multipleOf']}")
        return "".join(f", {note}" for note in found)

    def member(self, name, schema, required):
        must = '<span class="must">required</span>' if required else ""
        described = schema.get("description")
        if described is None and "$ref" in schema:
            described = self.target(schema)[1].get("description", "")
        text = paragraphs(described) if described else ""
        return (f"<div><dt><code>{escape(name)}</code>{must}</dt><dd>"
                f'<p class="kind">{self.kind(schema)}{self.notes(schema)}</p>\n'
                f"{text}{self.nested(schema)}</dd></div>\n")

    def nested(self, schema):
        """The members of an object that has no name of its own."""
        inner = schema.get("items", schema) if schema.get("type") == "array" else schema
        return "" if "$ref" in inner else self.members(inner)

    def members(self, schema):
        """Every property, those of what it extends first."""
        properties, required = {}, set(schema.get("required", ()))
        for part in schema.get("allOf", ()):
            target = self.target(part)[1]
            properties |= target.get("properties", {})
            required |= set(target.get("required", ()))
        properties |= schema.get("properties", {})
        if not properties:
            return "".join(self.members(part) for part in schema.get("anyOf", ())
                           if "$ref" not in part)
        ordered = sorted(properties, key=lambda name: name not in required)
        rows = "".join(self.member(name, properties[name], name in required) for name in ordered)
        return f"<dl>\n{rows}{self.others(schema)}</dl>\n"

    def others(self, schema):
        rest = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        if not isinstance(rest, dict):
            return ""
        return ('<div><dt class="soft">any other name</dt><dd>'
                f'<p class="kind">{self.kind(rest)}</p></dd></div>\n')

    def section(self, name):
        schema = self.schemas[name]
        body = self.members(schema)
        phrase = "" if body and "anyOf" not in schema else \
            f'<p class="kind">{self.phrase(schema)}</p>\n'
        if "pattern" in schema:
            phrase += f'<p class="kind">matching <code>{escape(schema["pattern"])}</code></p>\n'
        return (f'<section class="schema" id="{anchor(name)}">\n<h3>{name}'
                f'<a class="anchor" href="#{anchor(name)}" aria-label="link to {name}">#</a></h3>\n'
                f"{paragraphs(schema.get('description', ''))}{phrase}{body}</section>\n")

# SPDX-License-Identifier: Apache-2.0
"""Faults that a sentence for people can have, whatever it is about."""
import re

# What follows "1 " and ends in s without being a plural.
VERBS = r"is\b|has\b|was\b|does\b|needs\b|keeps\b|differs\b|as\b|stands\b|this\b"
FAULTS = [
    (r"[^.?]$", "it ends without a full stop"),
    (r"(?<![\w.,/-])1 (?!" + VERBS + r")[a-z]+(?<!s)s\b", "one of a thing stands with a plural"),
    (r"\b[Aa] [\"']?(?!uint|uniform|one\b|unit\b|use)[aeioAEIOu]", "it should be 'an'"),
    (r"\b[Aa]n [\"']?[bcdfgjkpqtvwyzBCDGJKPQTVWYZ]", "it should be 'a'"),
    (r"  |\s$|^\s", "stray white space"),
    (r"\.\.(?!\.)(?<!\.\.\.)|\?\.|,\.|;\.|\.;", "two marks stand where one ends the sentence"),
    (r"(?i)did you mean[^?]*\.(?!\w)", "a question ends without a question mark"),
    (r"\(null\)|%[a-z]", "something was not filled in"),
    (r"\b(options|numbers|tensors) (is|has|goes|ends)\b", "a plural has a singular verb"),
    (r"\bnumber of type whole\b", "a type that is no type"),
]


def faults(sentence):
    """What is wrong with the sentence; quoted parts of the request do not count."""
    plain = re.sub(r'"[^"]*"', '"x"', sentence)
    return [reason for pattern, reason in FAULTS if re.search(pattern, plain)]


CALL = re.compile(r"\b(?:attn_fail|attn_fail_limit|problem_set|exchange_fail|framing|malformed)"
                  r'\(((?:"(?:\\.|[^"\\\n])*"|[^;"])*);')
LITERAL = re.compile(r'(?:"(?:\\.|[^"\\\n])*"\s*)+')
FORWARDED = re.compile(r"%[.\d]*s$")
ARTICLE = re.compile(r"\b[Aa]n? %s")


def formats(source):
    """The sentences that C source gives to the functions that refuse, as they are written there,
    but for those that end with a sentence of another function."""
    for arguments in CALL.findall(source):
        texts = ["".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', text))
                 for text in LITERAL.findall(arguments)]
        yield from [text for text in texts if " " in text and not FORWARDED.search(text)][:1]


def format_faults(text):
    """Faults that stand in a format already, whatever is filled in."""
    found = faults(re.sub(r"%[.\d]*[a-z]+", "x", text.replace('\\"', '"')))
    return found + ["the article depends on what is filled in"] * bool(ARTICLE.search(text))

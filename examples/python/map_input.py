# SPDX-License-Identifier: Apache-2.0
"""What the two map drawers read: an answer of the daemon on standard input, and the file that names
its tokens. Whatever does not fit ends the program with one sentence that says how to mend it."""
import argparse
import json
import math
import signal
import sys


def arguments(doc):
    """The file of tokens and the head, or None; the usage and status 2 when they are not that."""
    parser = argparse.ArgumentParser(description=doc, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokens", metavar="TOKENS.json",
                        help="such as examples/data/sentence.tokens.json")
    parser.add_argument("head", metavar="HEAD", nargs="?", type=int,
                        help="counts the answer's heads from 0")
    asked = parser.parse_args()
    if sys.stdin.isatty():
        parser.error("pipe an answer of the daemon into it: curl -sS ... | " + parser.prog + " ...")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it without a word
    return asked.tokens, asked.head


def read_answer():
    """The answer on standard input, which holds a map."""
    data = sys.stdin.buffer.read()
    if not data.strip():
        sys.exit("standard input is empty: is the daemon running (`make run`), and does the curl "
                 "command name its address? curl -S says what went wrong")
    if not data.lstrip().startswith(b"{") and data[8:9] == b"{":
        sys.exit("standard input is a safetensors answer: add -H 'Accept: application/json' to the "
                 "curl command")
    mend = "pipe the JSON of POST /v1/attention into it, and check that the address is the daemon's"
    answer = parse(data, "standard input", mend)
    if "detail" in answer:
        sys.exit(f"the daemon refused the call: {answer['detail']}")
    if "meta" not in answer:
        sys.exit(f"standard input is not an answer of attentiond; {mend}")
    if "weights" not in answer:
        sys.exit('no map in this answer: put "weights": true into the call')
    return answer


def read_note(path):
    """The file of tokens: an object whose "tokens" are a list of strings."""
    mend = "give one like examples/data/sentence.tokens.json"
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as problem:
        sys.exit(f"cannot read the file of tokens {path}: {problem.strerror}; {mend}")
    note = parse(data, path, mend)
    tokens = note.get("tokens")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        sys.exit(f'{path} has no "tokens": [strings]; {mend}')
    return note


def parse(data, name, mend):
    """bytes of a JSON object -> dict"""
    try:
        value = json.loads(data.decode())
    except UnicodeDecodeError as problem:
        sys.exit(f"{name} is not UTF-8 text (byte {problem.start}); {mend}")
    except ValueError as problem:
        sys.exit(f"{name} is not JSON ({problem}); {mend}")
    if not isinstance(value, dict):
        sys.exit(f"{name} is not a JSON object; {mend}")
    return value


def depth(value):
    """How many lists stand around the first number."""
    return 1 + depth(value[0]) if isinstance(value, list) and value else 0


def read_heads(answer, tokens, path):
    """[heads][T][T]: the first batch item's maps, each as wide and as high as there are tokens."""
    heads = answer["weights"]
    if not isinstance(heads, list):
        sys.exit('the map is not written as nested lists: leave "encoding" out of the call, or '
                 'make it "nested"')
    rank = depth(heads)
    if rank == 4:
        heads = heads[0]
    elif rank == 2:
        heads = [heads]
    elif rank != 3:
        sys.exit("the map is empty: send q and k with at least one token")
    size = len(tokens)
    if any(len(rows) != size or any(len(row) != size for row in rows) for rows in heads):
        sys.exit(f"the map is {len(heads[0])} x {len(heads[0][0])}, but {path} has {size} tokens: "
                 "give the tokens of this call, and ask for its whole map")
    if not all(isinstance(x, (int, float)) and math.isfinite(x)
               for rows in heads for row in rows for x in row):
        sys.exit("the map has numbers that are not finite, which cannot be drawn: ask for weights "
                 "rather than scores, and look for NaN and Infinity in q and k")
    return heads


def check_head(number, heads):
    """`number`, when the answer has that head."""
    if not 0 <= number < len(heads):
        sys.exit(f"there is no head {number}: the answer holds {len(heads)}, so give 0"
                 + (f" to {len(heads) - 1}" if len(heads) > 1 else ""))
    return number

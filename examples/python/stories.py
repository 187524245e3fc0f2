# SPDX-License-Identifier: Apache-2.0
"""stories260K, a model of 260,032 trained weights that writes stories for children: its weights,
and its tokens. The folder has stories260K.safetensors, config.json and tok512.json."""
import json
import re

import numpy as np
import tensorfile
from decoder import Decoder, Shape

FILES = ("stories260K.safetensors", "config.json", "tok512.json")


def is_folder_of_it(folder):
    return all((folder / name).is_file() for name in FILES)


def load(folder):
    """A Decoder and its Tokenizer."""
    weights, _ = tensorfile.load(folder / FILES[0])
    given = json.loads((folder / FILES[1]).read_text())
    shape = Shape(given["n_layers"], given["n_heads"], given["n_kv_heads"], given["head_dim"],
                  given["rope_theta"], given["rms_eps"], given["seq_len"])
    weights = {name: np.array(array) for name, array in weights.items()}
    return Decoder(shape, weights), Tokenizer(json.loads((folder / FILES[2]).read_text()))


class Tokenizer:
    """A text's characters, of which again and again the two neighbours become one token that have
    the highest score together. What is no token goes as its bytes."""

    FIRST_BYTE = 3  # the token of byte 0; those of the others follow

    def __init__(self, table):
        self.pieces = [bytes.fromhex(text) for text in table["tokens_hex"]]
        self.scores = table["scores"]
        self.begin, self.ends = table["bos"], {table["bos"], table["eos"]}
        self.numbers = {piece: number for number, piece in enumerate(self.pieces)}

    def encode(self, text):
        """Numbers of tokens, behind the one that begins every text."""
        ids = [self.begin]
        for char in f" {text}" if text else "":
            piece = char.encode()
            ids += ([self.numbers[piece]] if piece in self.numbers
                    else [self.FIRST_BYTE + byte for byte in piece])
        while (best := self.best_pair(ids)) is not None:
            at, number = best
            ids[at:at + 2] = [number]
        return ids

    def best_pair(self, ids):
        """The place and the number of the pair to join, the first of equals; None without one."""
        found = [(at, self.numbers[pair]) for at, (left, right) in enumerate(zip(ids, ids[1:]))
                 if (pair := self.pieces[left] + self.pieces[right]) in self.numbers]
        return max(found, key=lambda place: self.scores[place[1]], default=None)

    def piece(self, number, previous=None):
        """The bytes of a token; the first of a text has a space before it that is none."""
        if number in self.ends:
            return b""
        piece = self.pieces[number]
        if previous == self.begin:
            piece = piece.removeprefix(b" ")
        byte = re.fullmatch(rb"<0x([0-9A-F]{2})>", piece)
        return bytes([int(byte[1], 16)]) if byte else piece

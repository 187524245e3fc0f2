# SPDX-License-Identifier: Apache-2.0
"""The tokenizer of uncased BERT models: clean, lower-case, split at spaces and punctuation, then
the longest pieces of the vocabulary from the left. One sentence at a time, no pairs."""
import unicodedata

LONGEST_WORD = 100
CJK = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
       (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))


def is_control(char):
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf", "Co")


def is_cjk(char):
    return any(low <= ord(char) <= high for low, high in CJK)


def is_punctuation(char):
    """Unicode's, and every ASCII character that is neither letter, digit nor space."""
    ascii_sign = 33 <= ord(char) <= 126 and not char.isalnum()
    return ascii_sign or unicodedata.category(char).startswith("P")


def clean(text):
    kept = (char for char in text if char not in "\0\ufffd" and not is_control(char))
    spaced = (f" {char} " if is_cjk(char) else " " if char.isspace() else char for char in kept)
    plain = unicodedata.normalize("NFD", "".join(spaced))
    # one character at a time: str.lower would give a final sigma its special form
    return "".join(char.lower() for char in plain if unicodedata.category(char) != "Mn")


def words(text):
    """Every punctuation mark is a word of its own."""
    spaced = (f" {char} " if is_punctuation(char) else char for char in clean(text))
    return "".join(spaced).split()


class Tokenizer:
    def __init__(self, vocabulary_path, max_tokens=256):
        with open(vocabulary_path, encoding="utf-8") as lines:
            self.tokens = [line.rstrip("\n") for line in lines]
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        self.max_tokens = max_tokens

    def pieces(self, word):
        """["em", "##bed", "##ding"], or ["[UNK]"] when some part is not in the vocabulary."""
        if len(word) > LONGEST_WORD:
            return ["[UNK]"]
        found, begin = [], 0
        while begin < len(word):
            prefix = "##" if begin else ""
            ends = range(len(word), begin, -1)
            end = next((e for e in ends if prefix + word[begin:e] in self.ids), None)
            if end is None:
                return ["[UNK]"]
            found.append(prefix + word[begin:end])
            begin = end
        return found

    def tokenize(self, text):
        found = [piece for word in words(text) for piece in self.pieces(word)]
        return ["[CLS]", *found[:self.max_tokens - 2], "[SEP]"]

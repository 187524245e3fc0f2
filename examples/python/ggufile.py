# SPDX-License-Identifier: Apache-2.0
"""GGUF in numpy, as much as the weights of SmolLM2 need: a header of names and values, a table of
tensors, and four of the types that numbers are packed in."""
import struct

import numpy as np

MAGIC, VERSION = b"GGUF", 3
SCALARS = {0: "B", 1: "b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "?", 10: "<Q",
           11: "<q", 12: "<d"}
STRING, LIST = 8, 9

# type -> its name, values of a block, the block
BLOCKS = {
    0: ("F32", 1, np.dtype("<f4")),
    1: ("F16", 1, np.dtype("<f2")),
    3: ("Q4_1", 32, np.dtype([("scale", "<f2"), ("least", "<f2"), ("packed", "u1", 16)])),
    8: ("Q8_0", 32, np.dtype([("scale", "<f2"), ("packed", "i1", 32)])),
}


class Reader:
    def __init__(self, path):
        self.data = np.memmap(path, dtype=np.uint8, mode="r")
        self.at = 0
        if self.bytes(len(MAGIC)) != MAGIC or self.take("<I") != VERSION:
            raise ValueError(f"it is no GGUF file of version {VERSION}")
        tensors, values = self.take("<Q"), self.take("<Q")
        self.values = {self.text(): self.value(self.take("<I")) for _ in range(values)}
        self.places = {self.text(): self.place() for _ in range(tensors)}
        alignment = self.values.get("general.alignment", 32)
        self.begin = -(-self.at // alignment) * alignment

    def take(self, kind):
        return struct.unpack(kind, self.bytes(struct.calcsize(kind)))[0]

    def bytes(self, size):
        self.at += size
        if self.at > len(self.data):
            raise ValueError("it ends too soon")
        return self.data[self.at - size:self.at].tobytes()

    def text(self):
        return self.bytes(self.take("<Q")).decode()

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == LIST:
            kind, count = self.take("<I"), self.take("<Q")
            return [self.value(kind) for _ in range(count)]
        if kind not in SCALARS:
            raise ValueError(f"a value is of type {kind}, which GGUF does not have")
        return self.take(SCALARS[kind])

    def place(self):
        """Shape, slowest axis first, type and offset of a tensor."""
        sizes = [self.take("<Q") for _ in range(self.take("<I"))]
        return sizes[::-1], self.take("<I"), self.take("<Q")

    def tensor(self, name):
        """float32"""
        sizes, kind, offset = self.places[name]
        if kind not in BLOCKS:
            known = ", ".join(name for name, _, _ in BLOCKS.values())
            raise ValueError(f"{name} is of GGUF type {kind}; this program reads {known}")
        packing, values, block = BLOCKS[kind]
        count = int(np.prod(sizes)) // values
        begin, size = self.begin + offset, count * block.itemsize
        if begin + size > len(self.data):
            raise ValueError(f"it ends before {name} does")
        blocks = self.data[begin:begin + size].view(block)
        return unpack(packing, blocks).reshape(sizes)


def unpack(packing, blocks):
    """The numbers of blocks as float32."""
    if packing in ("F32", "F16"):
        return blocks.astype(np.float32)
    scale = blocks["scale"].astype(np.float32)[:, None]
    if packing == "Q8_0":
        return scale * blocks["packed"]
    halves = np.concatenate([blocks["packed"] & 15, blocks["packed"] >> 4], axis=1)
    return scale * halves + blocks["least"].astype(np.float32)[:, None]

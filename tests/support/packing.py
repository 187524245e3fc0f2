# SPDX-License-Identifier: Apache-2.0
"""Bodies as content codings pack them, by the libraries that clients have."""
import gzip
import zlib

import zstandard


def raw_deflate(data, level=6):
    packer = zlib.compressobj(level, wbits=-15)
    return packer.compress(data) + packer.flush()


def two_members(data):
    return gzip.compress(data[:len(data) // 3]) + gzip.compress(data[len(data) // 3:])


def streamed_zstd(data):
    """Without the length in its header, in two frames."""
    frames = []
    for part in (data[:len(data) // 3], data[len(data) // 3:]):
        packer = zstandard.ZstdCompressor().compressobj()
        frames.append(packer.compress(part) + packer.flush())
    return b"".join(frames)


# form -> (Content-Encoding, function)
FORMS = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "members": ("gzip", two_members),
    "zlib": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "zstd": ("zstd", zstandard.compress),
    "zstd in frames": ("zstd", streamed_zstd),
}


def unpack(coding, data):
    """Strictly: one whole stream, and nothing behind it."""
    if coding == "zstd":
        return zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
    unpacker = zlib.decompressobj(wbits=31 if coding == "gzip" else 15)
    text = unpacker.decompress(data) + unpacker.flush()
    assert unpacker.eof and unpacker.unused_data == b""
    return text


def bomb(coding, gigabytes):
    """So many times 2^30 zeros, in streams of 2^26 that follow each other."""
    piece = FORMS[coding][1](bytes(1 << 26))
    return piece * (16 * gigabytes)


def endless_deflate(gigabytes):
    """The same in one zlib stream, which may not be followed by another; without its end."""
    packer = zlib.compressobj(9)
    head = packer.compress(bytes(1 << 26)) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(bytes(1 << 26)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + piece * (16 * gigabytes - 1)

# SPDX-License-Identifier: Apache-2.0
"""Language models of random weights, as files of the two kinds that the example reads. They write
nonsense, but which nonsense depends on every key and value that attention has seen."""
import json
import struct

import numpy as np
from support import safetensors

LAYERS, HEADS, KV_HEADS, SIZE, WIDE, CONTEXT = 3, 4, 2, 8, 32, 512
WIDTH, BYTES = HEADS * SIZE, 256
SPREAD, SEED = 0.35, 35  # of the weights: tokens differ, and the likeliest stands apart


def weights(vocabulary):
    """By the names of stories260K."""
    rng = np.random.default_rng(SEED)

    def matrix(rows, columns):
        return rng.normal(0, SPREAD, (rows, columns)).astype(np.float32)

    made = {"tok_embeddings": matrix(vocabulary, WIDTH), "final_norm": np.ones(WIDTH, np.float32)}
    for layer in range(LAYERS):
        made |= {f"layers.{layer}.{name}": value for name, value in {
            "attn_norm": np.ones(WIDTH, np.float32), "ffn_norm": np.ones(WIDTH, np.float32),
            "wq": matrix(WIDTH, WIDTH), "wk": matrix(KV_HEADS * SIZE, WIDTH),
            "wv": matrix(KV_HEADS * SIZE, WIDTH), "wo": matrix(WIDTH, WIDTH),
            "w1": matrix(WIDE, WIDTH), "w2": matrix(WIDTH, WIDE), "w3": matrix(WIDE, WIDTH),
        }.items()}
    return made


def write_folder(folder):
    """As that of stories260K, whose tokens are a few pairs of letters and all bytes."""
    pieces = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(BYTES)),
              *" abcdeé", " a", "ab", "cd", " ab"]
    scores = [0.0] * (3 + BYTES) + [-float(at) for at in range(len(pieces) - 3 - BYTES)]
    (folder / "tok512.json").write_text(json.dumps({
        "tokens_hex": [piece.encode().hex() for piece in pieces], "scores": scores,
        "bos": 1, "eos": 2}))
    (folder / "config.json").write_text(json.dumps({
        "n_layers": LAYERS, "n_heads": HEADS, "n_kv_heads": KV_HEADS, "head_dim": SIZE,
        "rope_theta": 10000.0, "rms_eps": 1e-5, "seq_len": CONTEXT}))
    (folder / "stories260K.safetensors").write_bytes(
        safetensors.write(weights(len(pieces))))
    return folder


def write_gguf(path):
    """As that of SmolLM2: matrices of 4 bits, the embedding of 8, and some of 16."""
    from smollm import PARTS, letters_of_bytes

    tokens = ["<|endoftext|>", "<|im_end|>", *letters_of_bytes().values(), "Ġa", "ab"]
    values = {
        "general.architecture": "llama", "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": ["Ġ a", "a b"],
        "tokenizer.ggml.token_type": [3, 3] + [1] * (len(tokens) - 2),
        "tokenizer.ggml.eos_token_id": 1, "llama.block_count": LAYERS,
        "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": KV_HEADS,
        "llama.embedding_length": WIDTH, "llama.rope.freq_base": 10000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.context_length": CONTEXT}
    given = weights(len(tokens))
    tensors = {"token_embd.weight": given["tok_embeddings"],
               "output_norm.weight": given["final_norm"]}
    for layer in range(LAYERS):
        tensors |= {f"blk.{layer}.{theirs}.weight": given[f"layers.{layer}.{ours}"]
                    for theirs, ours in PARTS.items()}
    path.write_bytes(gguf(values, tensors))
    return path


def gguf(values, tensors):
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(values))]
    parts += [text(name) + typed(value) for name, value in values.items()]
    data = b""
    for name, array in tensors.items():
        kind, packed = packed_tensor(name, array)
        parts.append(text(name) + struct.pack(f"<I{array.ndim}QIQ", array.ndim,
                                              *array.shape[::-1], kind, len(data)))
        data += packed + b"\0" * (-len(packed) % 32)
    head = b"".join(parts)
    return head + b"\0" * (-len(head) % 32) + data


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def typed(value):
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        kind = typed(value[0])[:4]
        return struct.pack("<I", 9) + kind + struct.pack("<Q", len(value)) + b"".join(
            typed(item)[4:] for item in value)
    return struct.pack(*(("<If", 6) if isinstance(value, float) else ("<II", 4)), value)


def packed_tensor(name, array):
    """The type's number, and the bytes: blocks of 32 values, or values alone."""
    if array.ndim == 1:
        return 0, array.tobytes()
    if "attn_v" in name:
        return 1, array.astype("<f2").tobytes()
    blocks = array.reshape(-1, 32)
    if name.startswith("token"):
        scale = np.abs(blocks).max(axis=1, keepdims=True) / 127
        return 8, b"".join(s.astype("<f2").tobytes() + row.tobytes() for s, row in zip(
            scale, np.round(blocks / scale).astype("i1")))
    least = blocks.min(axis=1, keepdims=True)
    scale = (blocks.max(axis=1, keepdims=True) - least) / 15
    four = np.clip(np.round((blocks - least) / scale), 0, 15).astype("u1")
    return 3, b"".join(s.astype("<f2").tobytes() + m.astype("<f2").tobytes()
                       + (row[:16] | row[16:] << 4).tobytes()
                       for s, m, row in zip(scale, least, four))

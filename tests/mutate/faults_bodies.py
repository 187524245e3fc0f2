# SPDX-License-Identifier: Apache-2.0
"""Faults in the readers of heads and bodies; rows as in faults_arithmetic.py."""
BYTES = "server/http/http_bytes.c"
OIP = "server/codecs/codec_oip_file.c"
SKELETON = "server/json/json_skeleton.c"
TENSOR = "server/json/json_tensor.c"
ZIP = "server/codecs/zip_stream.c"

FAULTS = [
    ("head: a text may begin where another ends", BYTES, "count >= least && ", "",
     "the library puts a zero between them"),
    ("head: any bytes may stand before a value", BYTES, "strspn(colon + 1, \" \\t\") == blanks",
     "true", "the library takes blanks alone"),
    ("zip: what is deflated ends within a megabyte", ZIP,
     "while (result == Z_OK && made == 0);", "while (false);",
     "nobody packs so much of nothing behind the last byte"),
    ("json: the place of an array always fits", SKELETON,
     "if (size > cutter->capacity - cutter->written)", "if (false)",
     "it is shorter than the array"),
    ("json: base64 is not left", TENSOR,
     "if (reader->cancelled != NULL &&\n            atomic_load_explicit(reader->cancelled, "
     "memory_order_relaxed))", "if (false)", "a number before it looks as well"),
    ("oip: no memory is malformed", OIP, "if (attn_status_fault(status) != ATTN_FAULT_MALFORMED)",
     "if (false)", "the status is the same, and the sentence alone is wrong"),
]

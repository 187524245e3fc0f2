#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How alike are sentences? A trained sentence encoder whose attention is computed by attentiond.

    build/venv/bin/python examples/python/sentences.py ["A sentence." ...]
    ... | build/venv/bin/python examples/python/sentences.py -      one sentence per line

Each of the six layers sends its Q, K, V and the padding mask of the batch as one safetensors call.
"""
import argparse
import http.client
import json
import sys
import time
from urllib.parse import urlsplit

import numpy as np
import tensorfile
from minilm import HEADS, MiniLM, local_attention

DEFAULT = [
    "The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.",
    "The team won the match.", "Which fruit ripens in autumn?", "Apples are harvested in fall.",
]
TYPE = "application/vnd.safetensors"
TOLERANCE = 1e-5


class Service:
    """Attention over one keep-alive connection."""

    def __init__(self, url):
        address = urlsplit(url)
        self.connection = http.client.HTTPConnection(address.hostname, address.port or 80)
        self.calls, self.seconds = 0, 0.0

    def attention(self, q, k, v, keep):
        """q, k, v [B,T,heads*size] and keep [B,T], 0 at padding -> [B,T,heads*size]"""
        options = {"num_heads": HEADS, "mask": {"type": "padding", "keep": "keep"}}
        body = tensorfile.dumps({"q": q, "k": k, "v": v, "keep": keep},
                                {"attention": json.dumps(options)})
        begin = time.perf_counter()
        self.connection.request("POST", "/v1/attention", body, {"Content-Type": TYPE})
        response = self.connection.getresponse()
        answer = response.read()
        self.seconds += time.perf_counter() - begin
        self.calls += 1
        if response.status != 200:
            raise SystemExit(f"the service answered {response.status}: {answer.decode()}")
        return tensorfile.loads(answer)[0]["output"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", nargs="*", help="sentences; - reads them from standard input")
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="where attentiond listens")
    parser.add_argument("--local", action="store_true", help="compute without the service")
    parser.add_argument("--check", action="store_true",
                        help=f"compute both ways, fail when they differ by more than {TOLERANCE}")
    asked = parser.parse_args()
    if asked.sentences == ["-"]:
        asked.sentences = [line.strip() for line in sys.stdin if line.strip()]
        if not asked.sentences:
            parser.error("standard input holds no sentence: write one per line")
    asked.sentences = asked.sentences or DEFAULT
    return asked


def print_table(sentences, vectors):
    alike = vectors @ vectors.T
    print("     " + "".join(f"{number:7d}" for number in range(1, len(sentences) + 1)))
    for number, (sentence, row) in enumerate(zip(sentences, alike, strict=True), 1):
        print(f"{number:4d} " + "".join(f"{value:7.3f}" for value in row) + f"  {sentence}")


def main():
    asked = arguments()
    model = MiniLM()
    if asked.local:
        print_table(asked.sentences, model.encode(asked.sentences, local_attention))
        return 0
    service = Service(asked.url)
    try:
        vectors = model.encode(asked.sentences, service.attention)
    except ConnectionRefusedError:
        raise SystemExit(f"nothing listens at {asked.url}: start the service with `make run`") \
            from None
    print_table(asked.sentences, vectors)
    print(f"{service.calls} attention calls, {1000 * service.seconds / service.calls:.2f} ms each")
    if not asked.check:
        return 0
    difference = np.abs(vectors - model.encode(asked.sentences, local_attention)).max()
    print(f"largest difference to the same model without the service: {difference:.1e}")
    return 0 if difference <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())

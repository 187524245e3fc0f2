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
import signal
import sys
import time
from urllib.parse import urlsplit

try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("this Python has no numpy: run `make setup-examples` once, then build/venv/bin/python "
             "examples/python/sentences.py")
import service_address
import tensorfile
from minilm import HEADS, MiniLM, local_attention

DEFAULT = [
    "The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.",
    "The team won the match.", "Which fruit ripens in autumn?", "Apples are harvested in fall.",
]
TYPE = "application/vnd.safetensors"
TOLERANCE = 1e-5


def host_and_port(url):
    """of http://HOST[:PORT]"""
    try:
        parts = urlsplit(url)
        if parts.scheme == "http" and parts.hostname and parts.path in ("", "/"):
            return parts.hostname, parts.port or 80
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"an address is like http://127.0.0.1:8080, got {url}")


def address(url):
    """A url that Service takes."""
    host_and_port(url)
    return url


class Service:
    """Attention over one keep-alive connection; what goes wrong with it ends the program."""

    def __init__(self, url):
        self.url = url
        self.connection = http.client.HTTPConnection(*host_and_port(url), timeout=60)
        self.calls, self.seconds = 0, 0.0

    def attention(self, q, k, v, keep):
        """q, k, v [B,T,heads*size] and keep [B,T], 0 at padding -> [B,T,heads*size]"""
        options = {"num_heads": HEADS, "mask": {"type": "padding", "keep": "keep"}}
        body = tensorfile.dumps({"q": q, "k": k, "v": v, "keep": keep},
                                {"attention": json.dumps(options)})
        begin = time.perf_counter()
        status, kind, answer = self.post(body)
        self.seconds += time.perf_counter() - begin
        self.calls += 1
        if status != 200 or kind != TYPE:
            sys.exit(self.refusal(status, answer))
        return tensorfile.loads(answer)[0]["output"]

    def post(self, body):
        """status, media type, bytes"""
        try:
            self.connection.request("POST", "/v1/attention", body,
                                    {"Content-Type": TYPE, **service_address.HEADERS})
            response = self.connection.getresponse()
            return response.status, response.headers.get_content_type(), response.read()
        except OSError as problem:
            sys.exit(f"nothing answers at {self.url} ({problem.strerror or problem}): start the "
                     "service with `make run`, or say with --url or ATTENTION_URL where it listens")
        except http.client.HTTPException:
            return None, None, b""

    def refusal(self, status, answer):
        """The sentence of a problem document; another server's answer has none."""
        try:
            return f"the service refused the call: {json.loads(answer)['detail']}"
        except (ValueError, LookupError, TypeError):
            return (f"what answers at {self.url} is not attentiond (status {status}): say with "
                    "--url or ATTENTION_URL where it listens")


def lines_of_input():
    """A sentence per line, or one that says what is wrong with them."""
    try:
        return [line.strip() for line in sys.stdin.buffer.read().decode().splitlines()
                if line.strip()]
    except UnicodeDecodeError as problem:
        return sys.exit(f"standard input is not UTF-8 text (byte {problem.start}): convert it, for "
                        "example with iconv -f latin1 -t utf-8")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", nargs="*", help="sentences; - reads them from standard input")
    parser.add_argument("--url", type=address, default=service_address.DEFAULT,
                        help="where attentiond listens, if not at ATTENTION_URL of the "
                             "environment or 127.0.0.1:8080")
    parser.add_argument("--local", action="store_true", help="compute without the service")
    parser.add_argument("--check", action="store_true",
                        help=f"compute both ways, fail when they differ by more than {TOLERANCE}")
    asked = parser.parse_args()
    if asked.sentences == ["-"]:
        asked.sentences = lines_of_input()
        if not asked.sentences:
            parser.error("standard input holds no sentence: write one per line")
    if any("\ud800" <= char <= "\udfff" for char in "".join(asked.sentences)):
        parser.error("a sentence is not UTF-8 text: write it in the terminal's encoding")
    asked.sentences = asked.sentences or DEFAULT
    return asked


def print_table(sentences, vectors):
    alike = vectors @ vectors.T
    print("     " + "".join(f"{number:7d}" for number in range(1, len(sentences) + 1)))
    for number, (sentence, row) in enumerate(zip(sentences, alike, strict=True), 1):
        print(f"{number:4d} " + "".join(f"{value:7.3f}" for value in row) + f"  {sentence}")


def main():
    asked = arguments()
    service = Service(asked.url)
    model = MiniLM()
    vectors = model.encode(asked.sentences, local_attention if asked.local else service.attention)
    sys.stdout.reconfigure(errors="replace")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it without a word
    print_table(asked.sentences, vectors)
    if asked.local:
        return
    print(f"{service.calls} attention calls, {1000 * service.seconds / service.calls:.2f} ms each")
    if not asked.check:
        return
    difference = np.abs(vectors - model.encode(asked.sentences, local_attention)).max()
    print(f"largest difference to the same model without the service: {difference:.1e}")
    if difference > TOLERANCE:
        sys.exit(f"they differ by more than {TOLERANCE}: this is a fault of the service, report it")


if __name__ == "__main__":
    main()

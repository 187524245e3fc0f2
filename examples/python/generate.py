#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A language model that writes, with the attention of every layer served by attentiond.

    build/venv/bin/python examples/python/generate.py --prompt "The capital of France is"

The model is SmolLM2-135M, whose weights a package has, or that of --model: the folder of
stories260K, or a GGUF file of SmolLM2's kind. All of its layers' keys and values are one session.
The text comes as it is written; a line on standard error then says how fast. --local computes
everything here: the text is the same.
"""
import argparse
import codecs
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

# Threads of numpy's OpenBLAS spin while they wait for each other, which where the daemon and others
# want the cores, too, takes ten times as long as one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("this Python has no numpy: run `make setup-examples` once, then build/venv/bin/python "
             "examples/python/generate.py")
import smollm
import stories
from caches import LocalCache, Lost, Recorder, SessionCache
from client_package import attentiond

LABEL = 64  # characters of a token's label, at most


def load(path):
    """A Decoder and its tokenizer; without a path the package's."""
    try:
        if path is None:
            path = smollm.package_file()
            if path is None:
                sys.exit(f"the package {smollm.PACKAGE}, which has the weights, is missing: run "
                         "`make setup-examples` and use build/venv/bin/python, or give a model "
                         "with --model")
            return smollm.load(path)
        if stories.is_folder_of_it(path):
            return stories.load(path)
        if path.is_file():
            return smollm.load(path)
    except KeyError as missing:
        sys.exit(f"the model {path} cannot be read: it has no {missing}")
    except (OSError, ValueError) as problem:
        sys.exit(f"the model {path} cannot be read: {problem}")
    return sys.exit(f"there is no model at {path}: expected a GGUF file, or a folder with "
                    + ", ".join(stories.FILES))


def pick(logits, temperature, rng):
    """The likeliest token, or one that is drawn when the temperature is above 0."""
    if temperature == 0:
        return int(logits.argmax())
    scaled = (logits - logits.max()).astype(np.float64) / temperature
    weights = np.exp(scaled)
    return int(rng.choice(len(weights), p=weights / weights.sum()))


def write(model, ids, cache, count, choose, ends):
    """Yields up to `count` tokens that follow those of the prompt, which go through as one step;
    what ends a text is not among them. Where the cache is lost, all go through once more."""
    new, whole = ids, list(ids)
    for _ in range(count):
        try:
            logits = model.logits(new, cache)
        except Lost:
            cache.begin()
            logits = model.logits(whole, cache)
        token = choose(logits)
        if token in ends:
            return
        yield token
        new = [token]
        whole.append(token)


class Printer:
    """Tokens as text; characters whose bytes have not all come are waited for."""

    def __init__(self, tokenizer, out):
        self.tokenizer, self.out, self.previous = tokenizer, out, None
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token):
        piece = self.tokenizer.piece(token, self.previous)
        self.previous = token
        self.show(self.decoder.decode(piece))

    def end(self):
        self.show(self.decoder.decode(b"", True) + "\n")

    def show(self, text):
        self.out.write(text)
        self.out.flush()


def number(kind, least, most, name):
    """A type of argument."""
    def read(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected {name}, got {text}")
        return value
    return read


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="The service's key is taken from ATTENTION_KEY.")
    parser.add_argument("--prompt", default="Once upon a time", help="what the text begins with")
    parser.add_argument("--tokens", type=number(int, 1, 10**6, "a number above 0"), default=128,
                        help="how many more, at most")
    parser.add_argument("--model", type=Path, help="the folder of stories260K, or a GGUF file")
    parser.add_argument("--url", help="where attentiond listens, if not at ATTENTION_URL of the "
                                      "environment or 127.0.0.1:8080")
    parser.add_argument("--temperature", type=number(float, 0, 100, "0 to 100"), default=0.0,
                        help="0, the default, takes the likeliest token; more is more daring")
    parser.add_argument("--seed", type=number(int, 0, 2**63, "a number"), default=0,
                        help="of what is drawn")
    parser.add_argument("--group", help="sent as X-Session-Group, which balancers hash on")
    parser.add_argument("--patience", type=number(float, 0, 3600, "seconds"), default=0.0,
                        help="how long a session that is gone may take to come back, before all "
                        "tokens go through again")
    parser.add_argument("--local", action="store_true", help="compute without the service")
    parser.add_argument("--maps", action="store_true",
                        help="keep each layer's map of the whole text for the dashboard")
    asked = parser.parse_args()
    if asked.local and asked.maps:
        parser.error("--maps needs the service, --local does without it: leave one out")
    try:
        asked.prompt.encode()
    except UnicodeEncodeError:
        parser.error("the prompt is not UTF-8 text: write it in the terminal's encoding")
    return asked


def generate(asked, model, tokenizer, client):
    """Writes the text, then what it took."""
    ids = tokenizer.encode(asked.prompt)
    shape, rng = model.shape, np.random.default_rng(asked.seed)
    if len(ids) + asked.tokens > shape.context:
        sys.exit(f"{len(ids)} tokens of the prompt and {asked.tokens} more: the model was made for "
                 f"{shape.context}; ask for fewer")
    capacity = len(ids) + asked.tokens
    printer, written = Printer(tokenizer, sys.stdout), []
    with (SessionCache(client, shape, capacity, asked.group, asked.patience) if client
          else LocalCache(shape, capacity)) as cache:
        layers = Recorder(cache) if asked.maps else cache
        begin = time.perf_counter()
        for token in ids:
            printer.add(token)
        try:
            for token in write(model, ids, layers, asked.tokens,
                               lambda logits: pick(logits, asked.temperature, rng),
                               tokenizer.ends):
                written.append(token)
                printer.add(token)
        finally:
            printer.end()
        seconds = time.perf_counter() - begin
        print(f"{len(written)} tokens in {seconds:.2f} s, {len(written) / seconds:.1f} a second; "
              f"{cache.calls} steps of attention {'served' if client else 'in this process'}, "
              f"{1000 * cache.seconds / max(cache.calls, 1):.2f} ms each", file=sys.stderr)
        if asked.maps:
            send_maps(layers, labels(tokenizer, [*ids, *written]), client.url)


def labels(tokenizer, ids):
    texts = [tokenizer.piece(token).decode(errors="replace") for token in ids]
    return [text[:LABEL] for text in texts]


def send_maps(recorder, tokens, url):
    run = time.strftime("generate %Y-%m-%d %H:%M:%S")
    seen = recorder.cache.session.lengths[0]  # the last token was not attended from
    problem = recorder.send(run, tokens[:seen])
    if problem:
        sys.exit(f"the maps were not kept: {problem}")
    print(f'{len(recorder.queries)} maps of {seen} tokens are at {url} as the run "{run}"',
          file=sys.stderr)


def main():
    asked = arguments()
    sys.stdout.reconfigure(errors="replace")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it without a word
    model, tokenizer = load(asked.model)
    try:
        with contextlib.ExitStack() as stack:
            client = None if asked.local else stack.enter_context(
                attentiond.Client(asked.url, retries=1))
            generate(asked, model, tokenizer, client)
    except Lost:
        sys.exit("the session is lost again and again: something ends it, or the service itself")
    except attentiond.Refused as problem:
        sys.exit(f"the service refused a call: {problem}")
    except attentiond.AttentionError as problem:
        sys.exit(f"{problem}; `make run` starts one, --url says where it listens")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

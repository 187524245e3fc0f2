#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon as an oracle: where does a kernel leave the right way, and at which stage?

    build/venv/bin/python examples/python/oracle.py [ADDRESS]

Put yours in the place of `kernel` below; of the stages it returns those that it has. For each mask
and stage one safetensors call asks for the map at that stage, computed in double precision by the
plain loops of the kernel `reference`. The exit status is 1 where something differs.
"""
import http.client
import json
import math
import signal
import sys
import urllib.error
import urllib.request

try:
    import numpy as np
except ModuleNotFoundError:
    sys.exit("this Python has no numpy: run `make setup-examples` once, then build/venv/bin/python "
             "examples/python/oracle.py")
import service_address
import tensorfile

TYPE = "application/vnd.safetensors"
HEADS, KV_HEADS, TQ, TK, D = 4, 2, 5, 7, 16
STAGES = ["raw", "scaled", "masked", "weights"]
LARGEST = 1e-5  # as a share of the largest number; float32 is off by 2e-7 here

# name, options of the call, and which (query, key) a kernel may see
QUERY, KEY = np.arange(TQ)[:, None], np.arange(TK)[None, :]
CASES = [
    ("no mask", {}, np.ones((TQ, TK), bool)),
    ("causal", {"mask": {"type": "causal", "align": "bottom_right"}}, KEY <= QUERY + TK - TQ),
    ("window", {"mask": {"type": "window", "left": 2, "right": 0}, "q_offset": 2},
     (KEY <= QUERY + 2) & (KEY >= QUERY)),
    ("padding", {"mask": {"type": "padding", "kv_lengths": [4]}}, (KEY < 4) & (QUERY >= 0)),
    ("sparse", {"mask": ["causal", {"any": [{"type": "global", "tokens": [0]},
                                            {"type": "dilated", "width": 4, "stride": 2}]}],
                "q_offset": 0},
     (KEY <= QUERY) & ((KEY == 0) | (QUERY == 0) | ((QUERY - KEY) % 2 == 0))),
]


def kernel(q, k, v, visible):
    """Yours: q [H,Tq,D], k and v [Hkv,Tk,D], visible [Tq,Tk] -> its stages and its output."""
    k, v = (np.repeat(x, HEADS // KV_HEADS, axis=0) for x in (k, v))
    raw = q @ k.swapaxes(-1, -2)
    scaled = raw / np.float32(math.sqrt(D))
    masked = np.where(visible, scaled, np.float32(-np.inf))
    weights = np.exp(masked - masked.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return {"raw": raw, "scaled": scaled, "masked": masked, "weights": weights,
            "output": weights @ v}


def ask(url, tensors, options):
    """The tensors of the answer; what goes wrong ends the program."""
    options = {"kernel": "reference", "precision": "float64", **options}
    body = tensorfile.dumps(tensors, {"attention": json.dumps(options)})
    try:
        request = urllib.request.Request(f"{url.rstrip('/')}/v1/attention", body,
                                         {"Content-Type": TYPE, **service_address.HEADERS})
        with urllib.request.urlopen(request, timeout=60) as answer:
            if answer.headers.get_content_type() == TYPE:
                return tensorfile.loads(answer.read())[0]
            sys.exit(f"{url} is not attentiond, its answer is no safetensors: "
                     + service_address.HOW)
    except urllib.error.HTTPError as answer:
        if answer.headers.get_content_type() == "application/problem+json":
            sys.exit(f"the daemon refused the call: {json.load(answer)['detail']}")
        sys.exit(f"{url} is not attentiond, it answered {answer.status}: "
                 + service_address.HOW)
    except OSError as problem:
        sys.exit(service_address.unreachable(url, problem))
    except (ValueError, http.client.HTTPException):
        sys.exit(f"{url} is not attentiond's address: {service_address.HOW}")


def difference(mine, right):
    """The largest, as a share of the largest number; infinite where others are not finite."""
    finite = np.isfinite(right)
    if not np.array_equal(mine[~finite], right[~finite]) or not np.isfinite(mine[finite]).all():
        return math.inf
    return np.abs(mine[finite] - right[finite]).max() / np.abs(right[finite]).max()


def main():
    url = service_address.argument(__doc__.splitlines()[0])
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it without a word
    random = np.random.default_rng(1)
    q = random.standard_normal((HEADS, TQ, D), np.float32)
    k, v = (random.standard_normal((KV_HEADS, TK, D), np.float32) for _ in range(2))
    wrong = False
    for name, options, visible in CASES:
        mine, right = kernel(q, k, v, visible), {}
        for stage in STAGES:
            answer = ask(url, {"q": q, "k": k, "v": v}, {**options, "weights": {"stage": stage}})
            right[stage] = answer["weights"]
        right["output"] = answer["output"]
        off = {stage: difference(mine[stage], right[stage]) for stage in right if stage in mine}
        first = next((stage for stage, share in off.items() if share > LARGEST), None)
        wrong = wrong or first is not None
        print(f"{name:8}" + "".join(f"  {stage} {share:.1e}" for stage, share in off.items())
              + (f"  <- wrong from {first} on" if first else ""))
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Attention of a real sentence with requests and numpy, .npz both ways: prints the map of head 1, a
row per token.

    build/venv/bin/python examples/python/attend.py [ADDRESS]
"""
import io
import json
import signal
import sys
from pathlib import Path

try:
    import numpy as np
    import requests
except ModuleNotFoundError as missing:
    sys.exit(f"this Python has no {missing.name}: run `make setup-examples` once, then "
             "build/venv/bin/python examples/python/attend.py")
import service_address
import tensorfile

SAMPLE = Path(__file__).parents[1] / "data" / "sentence.safetensors"


def attention(address, **call):
    """Tensors and options in, {name: array} out; a refusal is an exception with its sentence."""
    arrays = {name: value for name, value in call.items() if isinstance(value, np.ndarray)}
    options = {name: value for name, value in call.items() if name not in arrays}
    body = io.BytesIO()
    np.savez(body, **arrays, options=json.dumps(options))
    answer = requests.post(f"{address}/v1/attention", body.getvalue(), timeout=60,
                           headers={"Content-Type": "application/x-npz", **service_address.HEADERS})
    if answer.status_code != 200:
        raise ValueError(answer.json()["detail"])
    return np.load(io.BytesIO(answer.content))


def main():
    address = service_address.argument(__doc__)
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it without a word
    tensors, _ = tensorfile.load(SAMPLE)
    try:
        answer = attention(address, **tensors, weights={"heads": [1]})
    except requests.exceptions.SSLError as problem:
        sys.exit(f"the certificate of {address} is not trusted ({problem}): name the file of its "
                 "authority in the variable REQUESTS_CA_BUNDLE")
    except requests.ConnectionError:
        sys.exit(f"nothing answers at {address}: {service_address.HOW}")
    except requests.RequestException:  # no address, or no JSON where a sentence should be
        sys.exit(f"{address} is not attentiond's address: {service_address.HOW}")
    except ValueError as refusal:
        sys.exit(f"the daemon refused the call: {refusal}")
    for row in answer["weights"][0]:
        print(" ".join(f"{weight:.6f}" for weight in row))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""One call with nothing but Python's own library: two keys, one query, the output and the map.
What goes wrong ends with one sentence."""
import argparse
import http.client
import json
import os
import ssl
import sys
import urllib.error
import urllib.request

HOW = "its address is the argument or the variable ATTENTION_URL, such as http://127.0.0.1:8080"

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("address", nargs="?", help=HOW,
                    default=os.environ.get("ATTENTION_URL") or "http://127.0.0.1:8080")
url = parser.parse_args().address
key = os.environ.get("ATTENTION_KEY")  # where the daemon asks for one
headers = {"Content-Type": "application/json"}
if key:
    headers["Authorization"] = f"Bearer {key}"
call = {"q": [[1, 0]], "k": [[1, 0], [0, 1]], "v": [[10, 20], [30, 40]], "weights": True}


def refusal(answer):
    """The sentence of a problem document; another server's answer has none."""
    try:
        return f"the daemon refused the call: {json.load(answer)['detail']}"
    except (ValueError, LookupError, TypeError):
        return f"{url} is not attentiond, it answered {answer.status}: {HOW}"


try:
    request = urllib.request.Request(f"{url.rstrip('/')}/v1/attention", json.dumps(call).encode(),
                                     headers)
    result = json.load(urllib.request.urlopen(request, timeout=60))
except urllib.error.HTTPError as answer:
    sys.exit(refusal(answer))
except OSError as problem:
    reason = getattr(problem, "reason", problem)
    if isinstance(reason, ssl.SSLCertVerificationError):
        sys.exit(f"the certificate of {url} is not trusted ({reason.verify_message}): name the "
                 "file of its authority in the variable SSL_CERT_FILE")
    sys.exit(f"nothing answers at {url} ({reason}): start the daemon with `make run`; {HOW}")
except (ValueError, http.client.HTTPException):
    sys.exit(f"{url} is not attentiond's address: {HOW}")
print(result)

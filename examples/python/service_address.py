# SPDX-License-Identifier: Apache-2.0
"""Where the daemon is: an argument, else the variable ATTENTION_URL, else port 8080 here. Where it
asks for a key, ATTENTION_KEY has it."""
import argparse
import os
import ssl

DEFAULT = os.environ.get("ATTENTION_URL") or "http://127.0.0.1:8080"
KEY = os.environ.get("ATTENTION_KEY")
#: Headers of every call.
HEADERS = {"Authorization": f"Bearer {KEY}"} if KEY else {}
HOW = ("start the daemon with `make run`, or give its address, such as http://127.0.0.1:8080, as "
       "the argument or in the variable ATTENTION_URL")


def unreachable(url, problem):
    """The sentence for an OSError: nobody is there, or one whose certificate nobody vouches for."""
    reason = getattr(problem, "reason", problem)
    if isinstance(reason, ssl.SSLCertVerificationError):
        return (f"the certificate of {url} is not trusted ({reason.verify_message}): name the file "
                "of its authority in the variable SSL_CERT_FILE")
    return f"nothing answers at {url} ({reason}): {HOW}"


def argument(description):
    """The address, of a program whose only argument it is."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("address", nargs="?", default=DEFAULT, help="the daemon's, "
                        "http://127.0.0.1:8080 or what ATTENTION_URL has if not given")
    return parser.parse_args().address

# SPDX-License-Identifier: Apache-2.0
"""What both programs need: Ray, the daemon's client in all of Ray's processes, and the sentence
with which a program ends when something is missing."""
import logging
import os
import secrets
import sys
from contextlib import contextmanager
from pathlib import Path

# Ray reads these when it is imported. Whatever address it announces, its ports are open to the
# network, so one that is started here asks its processes for a word.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
if not os.environ.get("RAY_ADDRESS"):
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from client_package import SOURCE, attentiond

try:
    import ray
except ModuleNotFoundError:
    sys.exit("this Python has no ray: run `make setup` once, then build/ray-venv/bin/python "
             f"{sys.argv[0]}")

SHARED = 78 << 20  # bytes of Ray's object store, near the least it takes: only queries lie in it
HERE = "127.0.0.2"  # Ray takes 127.0.0.1 for a slip, and announces an outer address in its place


def join():
    """The cluster that RAY_ADDRESS names, whose machines have the daemon's client installed, else
    one of this machine that ends with the program."""
    settings = {"log_to_driver": False, "logging_level": logging.ERROR}
    if not os.environ.get("RAY_ADDRESS"):
        os.environ["PYTHONPATH"] = str(SOURCE)  # for the processes that Ray starts
        settings |= {"num_cpus": 2, "include_dashboard": False, "object_store_memory": SHARED,
                     "_node_ip_address": HERE}
    ray.init(**settings)


@contextmanager
def cluster():
    """Ray, joined and left; what a replica refuses ends the program with its sentence."""
    join()
    try:
        yield
    except attentiond.AttentionError as problem:
        sys.exit(str(getattr(problem, "cause", problem)))  # Ray's own has where it was raised, too
    finally:
        ray.shutdown()

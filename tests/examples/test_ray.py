# SPDX-License-Identifier: Apache-2.0
"""The examples that spread work over replicas with Ray, run as they stand against two daemons, and
what they computed against the oracle in float64. Ray's ports are open to the network, so where the
system allows it the programs get a network of their own, with nothing in it but a loopback; the
daemons are then reached by Unix sockets, which are files."""
import os
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from support import tables
from support.agreement import bounds, error
from support.cases import Case
from support.daemon import Daemon, bound
from support.oracle import attention

ROOT = tables.ROOT
PYTHON = ROOT / "build" / "ray-venv" / "bin" / "python"
SECONDS = 120
NAMES = ("replica-1", "replica-2")
ALONE = ["unshare", "--user", "--map-root-user", "--net"]
WITH_A_LOOPBACK = [*ALONE, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason="there is no build/ray-venv: tools/setup all makes it")


@pytest.fixture(scope="module")
def folder():
    """With a short name: Ray makes Unix sockets deep below it."""
    with tempfile.TemporaryDirectory(prefix="ray") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def replicas(folder):
    with ExitStack() as stack:
        yield [stack.enter_context(Daemon("--threads", "1", path=folder / name))
               for name in NAMES]


def network_of_its_own():
    """The words before a command that give it one, or none."""
    try:
        done = subprocess.run([*WITH_A_LOOPBACK, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return []
    return WITH_A_LOOPBACK if done.returncode == 0 else []


def run(folder, program, names, *arguments):
    """(the program as it ended, what it saved); it calls the sockets of these names."""
    urls = [f"unix:{folder / name}" for name in names]
    saved = folder / f"{program}.npz"
    saved.unlink(missing_ok=True)
    variables = {"PATH": os.environ["PATH"], "RAY_TMPDIR": str(folder)}
    done = subprocess.run([*network_of_its_own(), *bound([PYTHON, ROOT / "examples/ray" / program]),
                           *urls, *arguments, "--save", saved], cwd=ROOT, env=variables,
                          capture_output=True, text=True, timeout=SECONDS, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done, np.load(saved) if saved.exists() else None


def assert_near_the_oracle(got, q, k, v, options):
    case = Case(("ray",), "float32", q, k, v, options)
    exact = attention(q, k, v, options)
    allowed = bounds(case, exact)
    for name, array in got.items():
        assert error(array, exact[name]) <= allowed[name], name


def counted(daemon, family):
    """The sum of a family's series."""
    text = daemon.client.get("/metrics").body.decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(family))


def grown(replicas, family, act):
    """What is done returns, and by how much a family grows at each replica meanwhile."""
    before = [counted(daemon, family) for daemon in replicas]
    result = act()
    return result, [counted(daemon, family) - was for daemon, was in zip(replicas, before)]


def test_keys_that_are_split_over_replicas(folder, replicas):
    (done, saved), calls = grown(
        replicas, "attention_kernel_calls_total",
        lambda: run(folder, "split_keys.py", NAMES, "--keys", "3000"))
    assert done.returncode == 0 and "3000 keys on 2 replicas" in done.stdout, done.stderr
    assert calls == [3, 2]  # twice a range of it, and all of it for comparison
    assert_near_the_oracle({name: saved[name] for name in ("output", "lse")},
                           *(saved[name] for name in "qkv"),
                           {"mask": "causal", "q_offset": 3000 - 64})


def test_sessions_that_move_when_their_replica_leaves(folder, replicas):
    (done, saved), made = grown(replicas, "attention_sessions_created_total",
                                lambda: run(folder, "spread_sessions.py", NAMES))
    assert done.returncode == 0, done.stderr
    moved = done.stdout.count("replica-2 to replica-1: ")
    assert 0 < moved < 8 and made == [8, moved]
    assert [counted(daemon, "attention_sessions ") for daemon in replicas] == [0, 0]
    for name in {name.split("/")[0] for name in saved}:
        q, k, v, output = (saved[f"{name}/{what}"] for what in ("q", "k", "v", "output"))
        assert_near_the_oracle({"output": output}, q, k, v, {"mask": "causal"})


def test_what_a_replica_refuses_ends_the_program_with_its_sentence(folder, replicas):
    path = folder / "narrow"
    with Daemon("--max-body", "1M", "--json-max-body", "1M", "--max-result", "1M", path=path):
        done, _ = run(folder, "split_keys.py", [*NAMES, path.name])
    assert done.returncode == 1 and "have the operator raise max_body" in done.stderr

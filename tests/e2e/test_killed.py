# SPDX-License-Identifier: Apache-2.0
"""A benchmark or a test run that is killed takes the daemons that it started with it: what they
leave behind would compete with the next run."""
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT
from support.daemon import BINARY

SECONDS = 60
TEST_RUN = """
import sys, time
sys.path.insert(0, "tests")
from support.daemon import Daemon
with Daemon():
    time.sleep(600)
"""


def servers(pid):
    """The servers among its children: attentiond, and the fork of the benchmark that counts bytes.
    What is about to become one is not among them."""
    return subprocess.run(["pgrep", "-P", str(pid), "-x", "attentiond|service"],
                          capture_output=True, text=True).stdout.split()


def runs(pid):
    """Whether the process is there; a zombie that nobody has waited for is not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True).stdout
    return state.strip()[:1] not in ("", "Z")


def wait_until(condition, what):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def killed(command, count, how):
    """Kills the command once it has `count` servers; they must end as well."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    started = []
    try:
        wait_until(lambda: len(servers(process.pid)) == count, "it started no daemon")
        started = servers(process.pid)
        process.send_signal(how)
        assert process.wait(SECONDS) == -how
        wait_until(lambda: not any(runs(pid) for pid in started), f"{started} were left behind")
    finally:
        process.kill()
        for pid in filter(runs, started):
            os.kill(int(pid), signal.SIGKILL)


@pytest.fixture(scope="module")
def bench():
    """The benchmark that starts servers; it is not among what `make e2e` builds."""
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    program = "build/release/bench/service"
    subprocess.run(["make", "-s", "O=build", "VARIANT=release", program], cwd=ROOT,
                   env=environment, check=True)
    return program


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_benchmark_leaves_no_server(bench, how):
    killed([bench, BINARY, "100"], 2, how)  # the uploads: attentiond and the server that counts


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_test_run_leaves_no_daemon(how):
    killed([sys.executable, "-c", TEST_RUN], 1, how)

# SPDX-License-Identifier: Apache-2.0
"""podman and buildah for tests: their files and images are under build/containers, so nothing of
the machine's own is used or changed, and the base image is made from Debian's packages.

What a machine lacks ends a test skipped with the reason; in CI, which has all of it, as failed."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "containers"
BASE = "localhost/debian:bookworm-slim"
TOOLS = ("podman", "buildah", "runc", "debootstrap")

# Limits that the process may set, a runtime that knows both versions of control groups, and
# networks that need no service: podman's own choices do not start everywhere.
CONTAINERS_CONF = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[network]
network_backend = "cni"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
STORAGE_CONF = f"""[storage]
driver = "overlay"
graphroot = "{FOLDER}/root"
runroot = "{FOLDER}/run"
"""
VARIABLES = {"CONTAINERS_CONF": str(FOLDER / "containers.conf"),
             "CONTAINERS_STORAGE_CONF": str(FOLDER / "storage.conf")}


def lacking(reason):
    """Ends the test."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI has to have this: {reason}")
    pytest.skip(reason)


def need(*tools):
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        lacking(f"there is no {', no '.join(missing)}; `tools/setup all` installs what CI needs")


def run(*words, check=True, seconds=600):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=ROOT,
                          timeout=seconds, env={**os.environ, **VARIABLES})
    assert not check or done.returncode == 0, \
        f"{words} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done


def podman(*words, **options):
    return run("podman", *words, **options).stdout.strip()


def once(image, *arguments):
    """A container that ends by itself, whatever its status."""
    return run("podman", "run", "--rm", "--network", "none", "--cpus", "1", image, *arguments,
               check=False)


def expect(done, otherwise):
    if done.returncode != 0:
        reason = done.stderr.strip() or "without a word"
        lacking(f"{otherwise} here: {reason.splitlines()[-1]}")


def prepare():
    """The base image, and the certainty that a container starts here."""
    need(*TOOLS)
    if os.geteuid() != 0:
        lacking("containers are started by root here, and this is not root")
    FOLDER.mkdir(parents=True, exist_ok=True)
    Path(VARIABLES["CONTAINERS_CONF"]).write_text(CONTAINERS_CONF)
    Path(VARIABLES["CONTAINERS_STORAGE_CONF"]).write_text(STORAGE_CONF)
    expect(run("tests/deploy/base.sh", FOLDER / "base", BASE, check=False),
           "the base image cannot be made")
    expect(once(BASE, "true"), "no container starts")


def build(name, *options, seconds=600):
    """From nothing, with no time of its own. Returns the name."""
    run("buildah", "bud", "--isolation", "chroot", "--pull-never", "--no-cache", "--timestamp", "0",
        "--format", "docker", "--file", "docker/Dockerfile", "--tag", name, *options, ".",
        seconds=seconds)
    return name


class Container:
    """One that is removed at the end, whatever happened."""

    def __init__(self, image, *options, arguments=()):
        self.id = podman("run", "--detach", "--network", "host", "--no-healthcheck", *options,
                         image, *arguments)

    def log(self):
        done = run("podman", "logs", self.id)
        return done.stdout + done.stderr

    def inspect(self, field):
        return podman("inspect", "--format", "{{" + field + "}}", self.id)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        podman("rm", "--force", "--time", "0", self.id)

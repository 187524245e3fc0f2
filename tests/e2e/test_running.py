# SPDX-License-Identifier: Apache-2.0
"""docs/running.md: its commands as they stand, and that the words of its tables exist."""
import json
import re
import subprocess

import pytest
from support import sessions, tables
from support.client import JSON_TYPE
from support.daemon import BINARY, Daemon, environment

PAGE = (tables.ROOT / "docs" / "running.md").read_text()
SIZE, UPGRADE, KEEP, BRING_BACK = re.findall(r"^ *```sh\n(.*?)^ *```", PAGE, flags=re.S | re.M)


def run(command, port, folder):
    text = command.replace("localhost:8080", f"127.0.0.1:{port}").replace("build/sessions",
                                                                         str(folder))
    text = re.sub(r"^( *)attentiond ", rf"\1{BINARY} ", text, flags=re.M)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=tables.ROOT, timeout=60,
                          capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_a_daemon_takes():
    names = [line.split(" = ")[0] for line in run(SIZE, 0, "").splitlines()]
    assert sorted(names) == ["io_threads", "max_connections", "memory_budget", "sessions_memory",
                             "threads"]


def test_a_configuration_is_asked_about_beforehand(tmp_path):
    assert run(UPGRADE, 0, "") == "the configuration is good\n"
    (tmp_path / "conf").write_text("threads = 1\nof_a_later_version = 1\n")
    refused = subprocess.run([BINARY, "--check-config", "--config", tmp_path / "conf"],
                             capture_output=True, text=True, env=environment(), check=False)
    assert refused.returncode == 2
    assert "of_a_later_version" in refused.stderr and ":2" in refused.stderr


def made(daemon):
    return [{**row, "expires_in_s": 0} for row in
            daemon.client.get("/v1/sessions").json["sessions"]]


def test_sessions_are_kept_over_a_restart(tmp_path):
    folder = tmp_path / "kept"
    with Daemon() as daemon:
        for ident, dtype in (("one", "float16"), ("two", "float32")):
            sessions.ask(daemon.client, "POST", "/v1/sessions", {
                "id": ident, "layers": 2, "kv_heads": 1, "head_dim": 2, "dtype": dtype,
                "capacity": 100, "ttl_s": 500, "window": [{"left": 3, "sinks": 1}, None]})
            step = {"layer": 1, "q": [[[1, 0]]], "k": [[[1, 0]]], "v": [[[3, 4]]]}
            assert sessions.ask(daemon.client, "POST", f"/v1/sessions/{ident}/attention",
                                step).status == 200
        before = made(daemon)
        run(KEEP, daemon.port, folder)
    assert sorted(file.name for file in folder.iterdir()) == ["one.safetensors", "two.safetensors"]
    with Daemon() as daemon:
        run(BRING_BACK, daemon.port, folder)
        assert made(daemon) == before and len(before) == 2
        body = json.dumps({"layer": 1, "append": False, "position": 1, "q": [[[1, 0]]]}).encode()
        answer = daemon.client.send("POST", "/v1/sessions/one/attention", body,
                                    {"Content-Type": JSON_TYPE})
        assert answer.json["output"] == [[[3, 4]]]


@pytest.mark.parametrize("problem", sorted(set(
    re.findall(r"\b(?:4\d\d|5\d\d) `([a-z-]+)`", PAGE))))
def test_the_refusals_exist(problem):
    assert problem in tables.problems()


def test_the_options_and_metrics_exist():
    """Of the words in code those with an underscore; the rest are options or words of HTTP."""
    known = {row[0] for row in tables.rows("config/options.def", "OPTION")} | set(tables.metrics())
    of_calls = {"timeout_ms", "ttl_s"}
    words = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", PAGE))
    assert words - known == of_calls and len(words & known) > 15

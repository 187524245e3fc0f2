# SPDX-License-Identifier: Apache-2.0
"""Other people's clients of the Open Inference Protocol, unmodified, in Java, Rust and Python: what
each reads is, bit for bit, what the service's own route says. And Triton's load generator. The
first client of the protocol, Triton's own in Python, is in tests/e2e; requests of those that no
registry serves are there byte by byte, in test_oip_wire.py.
"""
import csv
import json
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass, field

import numpy as np
import pytest
from support import tables

ROOT = tables.ROOT
HERE = ROOT / "tests" / "clients"
BUILT = ROOT / "build" / "clients"
VENV = ROOT / "build" / "clients-venv"
JAR = "java-api-0.0.1.jar"
CUDA = next(VENV.glob("lib/python*/site-packages/nvidia/cuda_runtime/lib"), None)
SHAPE = (1, 2, 24, 16)
SECONDS = 400
CARGO = (1, 85)  # the first that knows the edition that the client is written in


@dataclass(frozen=True)
class Program:
    tool: str
    run: list
    says: set
    build: list = field(default_factory=list)
    scheme: str = "http://"


PROGRAMS = {
    # Published to Maven Central by others than its authors, in one jar with all that it needs.
    "java": Program(
        "mvn", ["java", "-cp", BUILT / JAR, HERE / "java/Calls.java"],
        {"bytes", "numbers", "unasked", "lse bytes", "lse numbers", "id", "error"},
        ["mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy",
         "-Dartifact=org.wyona.triton.client:java-api:0.0.1", f"-DoutputDirectory={BUILT}"],
        scheme=""),
    "rust": Program(
        "cargo", [BUILT / "rust/debug/calls"], {"live", "numbers", "error"},
        ["cargo", "build", "-q", "--manifest-path", HERE / "rust/Cargo.toml",
         "--target-dir", BUILT / "rust"]),
    "kserve": Program(
        VENV / "bin/python", [VENV / "bin/python", HERE / "kserve_calls.py"],
        {"live", "ready", "model ready", "model unknown", "bytes", "numbers", "unasked",
         "half bytes", "lse bytes", "lse numbers", "causal", "empty", "error", "no such model"}),
}
ERRORS = {"java": 'has no output "map"', "rust": "The request lacks k.",
          "kserve": "/parameters/is_causal: There is no is_causal here."}


def operands(dtype=np.float32):
    rng = np.random.default_rng(7)
    return [rng.standard_normal(SHAPE).astype(dtype) for _ in "qkv"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("operands")
    for name, array in zip("qkv", operands(), strict=True):
        array.tofile(made / name)
    return made


def cargo_version():
    said = subprocess.check_output(["cargo", "--version"], text=True)
    return tuple(int(word) for word in re.search(r"(\d+)\.(\d+)", said).groups())


@pytest.fixture(scope="session", params=PROGRAMS)
def said(request, daemon, folder):
    """(the client's name, {what it called: what it read}), built if it has to be and run once."""
    name, program = request.param, PROGRAMS[request.param]
    assert shutil.which(program.tool), f"{program.tool} is missing: tools/setup all installs it"
    if name == "rust" and cargo_version() < CARGO:
        pytest.skip("the client's Rust edition needs cargo 1.85")
    BUILT.mkdir(parents=True, exist_ok=True)
    if program.build:
        done = subprocess.run(program.build, timeout=SECONDS, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        daemon.client.close()  # a build may take longer than a connection may be idle
    done = subprocess.run([*program.run, f"{program.scheme}127.0.0.1:{daemon.port}", folder],
                          timeout=SECONDS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = dict(line.split("\t") for line in done.stdout.splitlines())
    assert set(lines) == program.says
    return name, lines


def test_the_bits_are_the_usual_ones(said, client):
    _, lines = said
    usual = client.attention(*operands(), {"return": ["output", "lse"]})
    for name in ("bytes", "numbers", "unasked"):
        if name in lines:
            assert lines[name] == usual["output"].tobytes().hex(), name
    for name in ("lse bytes", "lse numbers"):
        if name in lines:
            assert lines[name] == usual["lse"].tobytes().hex(), name


def test_half_types_parameters_and_empty_tensors(said, client):
    """As far as a client can send them: Java's and Rust's take no parameters of the user's."""
    _, lines = said
    halves = client.attention(*(x.astype(np.float16) for x in operands()), {})
    assert lines.get("half bytes", halves["output"].tobytes().hex()) == \
        halves["output"].tobytes().hex()
    causal = client.attention(*operands(), {"mask": "causal", "scale": 0.5})["output"]
    assert lines.get("causal", causal.tobytes().hex()) == causal.tobytes().hex()
    assert lines.get("empty", ".") == "."
    assert lines.get("id", "7") == "7"


def test_what_it_asks_before(said):
    _, lines = said
    for name in ("live", "ready", "model ready"):
        assert lines.get(name, "true").lower() == "true", name
    assert lines.get("model unknown", "False") == "False"


def test_errors_are_read(said):
    name, lines = said
    assert ERRORS[name] in lines["error"]
    assert 'There is no model "m"' in lines.get("no such model", 'There is no model "m"')


def test_the_lines_of_the_page_work_with_kserve(daemon):
    page = (ROOT / "docs" / "open-inference-protocol.md").read_text()
    lines, = (block for block in re.findall(r"^```python\n(.*?)^```", page, flags=re.S | re.M)
              if "kserve" in block)
    done = subprocess.run([VENV / "bin/python", "-c",
                           lines.replace("127.0.0.1:8080", f"127.0.0.1:{daemon.port}")],
                          timeout=SECONDS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"\(1, 8, 128, 64\) [a-z0-9-]+\n", done.stdout), done.stdout


# perf_analyzer


def tensor(array):
    return {"content": array.ravel().tolist(), "shape": list(array.shape)}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the wheel has x86-64 code")
@pytest.mark.parametrize(("model", "names", "form"), [
    ("attention", "qkv", "binary"),  # as JSON its outputs have FP64, whose reader overruns there
    ("onnx_attention", "QKV", "binary"), ("onnx_attention", "QKV", "json")])
def test_perf_analyzer_measures(daemon, tmp_path, model, names, form):
    """It reads metadata, configuration and statistics, and asks for every output."""
    steps = {name: tensor(array) for name, array in zip(names, operands(), strict=True)}
    (tmp_path / "data.json").write_text(json.dumps({"data": [steps]}))
    table = tmp_path / "table.csv"
    done = subprocess.run(
        [VENV / "bin/perf_analyzer", "-m", model, "-u", f"127.0.0.1:{daemon.port}",
         "--input-data", tmp_path / "data.json", "--input-tensor-format", form,
         "--output-tensor-format", form, "--concurrency-range", "1:2",
         "--measurement-mode", "count_windows", "--measurement-request-count", "50",
         "--stability-percentage", "999", "-f", table],
        env={"LD_LIBRARY_PATH": str(CUDA)}, timeout=SECONDS, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert sorted(row["Concurrency"] for row in rows) == ["1", "2"]
    for row in rows:
        assert float(row["Inferences/Second"]) > 0
        assert float(row["Server Compute Infer"]) > 0 and float(row["p99 latency"]) > 0

# SPDX-License-Identifier: Apache-2.0
"""The examples of every language, built as their first lines say, against the daemon: each prints
the map of the real sample, which has to be the expected one, and each that finds no daemon ends
with a sentence and a status that is not 0."""
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from support import safetensors, tables
from support.daemon import Daemon, free_port
from support.keys import KeyFile

ROOT = tables.ROOT
EXAMPLES = ROOT / "examples"
BUILT = ROOT / "build" / "examples"
HEAD = 1
SECONDS = 300
LONGEST = 60  # lines of an example


@dataclass(frozen=True)
class Language:
    source: str
    tool: str
    build: list
    run: list


def curl_flags():
    return subprocess.check_output(["pkg-config", "--cflags", "--libs", "libcurl"],
                                   text=True).split()


LANGUAGES = {
    "curl": Language("curl/attend.sh", "curl", [], ["curl/attend.sh"]),
    "python": Language("python/attend.py", sys.executable, [],
                       [sys.executable, "python/attend.py"]),
    "node": Language("javascript/attend.mjs", "node", [], ["node", "javascript/attend.mjs"]),
    "go": Language("go/attend.go", "go", ["go", "build", "-o", BUILT / "go", "go/attend.go"],
                   [BUILT / "go"]),
    "rust": Language("rust/src/main.rs", "cargo",
                     ["cargo", "build", "-q", "--manifest-path", "rust/Cargo.toml",
                      "--target-dir", BUILT / "rust"], [BUILT / "rust/debug/attend"]),
    "java": Language("java/Attend.java", "java", [], ["java", "java/Attend.java"]),
    "c": Language("c/post.c", "cc", ["cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "c/post.c",
                                     "-o", BUILT / "post"], [BUILT / "post"]),
}


def in_examples(words):
    """Paths of the examples as seen from the root of the project, where they are to be run."""
    return [f"examples/{word}" if (EXAMPLES / word).is_file() and not os.path.isabs(word) else word
            for word in words]


def run(words, **more):
    return subprocess.run(in_examples(words), cwd=ROOT, timeout=SECONDS, capture_output=True,
                          text=True, **more)


@pytest.fixture(scope="session", params=LANGUAGES)
def program(request):
    language = LANGUAGES[request.param]
    assert shutil.which(language.tool), f"{language.tool} is missing: tools/setup all installs it"
    BUILT.mkdir(parents=True, exist_ok=True)
    if language.build:
        words = [*language.build, *(curl_flags() if request.param == "c" else [])]
        done = run(words, env={**os.environ, "CGO_ENABLED": "0"})
        assert done.returncode == 0, done.stderr
    return language


def printed_map(text):
    """curl prints the answer as it comes, the others print rows of numbers."""
    if text.startswith("{"):
        return np.array(json.loads(text)["weights"][0])
    return np.array([[float(word) for word in line.split()] for line in text.splitlines()])


def expected_map():
    tensors, _ = safetensors.parse((EXAMPLES / "data/sentence.expected.safetensors").read_bytes())
    return tensors["weights"][HEAD]


@pytest.mark.parametrize("said_by", ["argument", "environment"])
def test_it_prints_the_expected_map(program, daemon, said_by):
    address = f"http://127.0.0.1:{daemon.port}"
    if said_by == "argument":
        done = run([*program.run, address])
    else:
        done = run(program.run, env={**os.environ, "ATTENTION_URL": address})
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(printed_map(done.stdout), expected_map(), atol=1e-6, rtol=0)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """The variables that lead to a daemon that asks for a key."""
    file = KeyFile(tmp_path_factory.mktemp("guarded") / "keys")
    key = file.add("alice")
    with Daemon("--key-file", str(file.path)) as daemon:
        yield {"ATTENTION_URL": f"http://127.0.0.1:{daemon.port}", "ATTENTION_KEY": key}


def test_it_sends_the_key_of_the_environment(program, guarded):
    done = run(program.run, env={**os.environ, **guarded})
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(printed_map(done.stdout), expected_map(), atol=1e-6, rtol=0)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *arguments, **more):
        super().__init__(*arguments, directory=EXAMPLES, **more)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def pages():
    """The address at which the folder of examples is served."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), QuietHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_page_shows_the_expected_map(pages, daemon, tmp_path):
    """A real browser asks a daemon that is at home at another origin."""
    page = f"{pages}/javascript/index.html?daemon=http://127.0.0.1:{daemon.port}"
    done = run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
                f"--user-data-dir={tmp_path}", "--virtual-time-budget=20000", page])
    shown = re.search(r'<pre id="map">(.*?)</pre>', done.stdout, flags=re.S)
    assert shown, done.stdout + done.stderr
    words, rows = zip(*(line.split(maxsplit=1) for line in shown[1].splitlines()), strict=True)
    assert "animal" in words
    np.testing.assert_allclose(printed_map("\n".join(rows)), expected_map(), atol=1e-6, rtol=0)


def test_the_page_says_what_to_do(pages, tmp_path):
    nobody = f"http://127.0.0.1:{free_port()}"
    done = run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
                f"--user-data-dir={tmp_path}", "--virtual-time-budget=20000",
                f"{pages}/javascript/index.html?daemon={nobody}"])
    assert nobody in done.stdout and "make run" in done.stdout, done.stdout + done.stderr


def test_without_a_daemon_it_says_so(program):
    done = run([*program.run, f"http://127.0.0.1:{free_port()}"])
    assert done.returncode not in (0, -6, -11), done.stdout
    assert done.stdout == "" and 0 < len(done.stderr.splitlines()) <= 2, done.stderr
    assert "Traceback" not in done.stderr and "panicked" not in done.stderr


def test_it_is_short(program):
    assert len((EXAMPLES / program.source).read_text().splitlines()) <= LONGEST

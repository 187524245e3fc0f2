# SPDX-License-Identifier: Apache-2.0
"""The examples of every language, built as their first lines say, against the daemon: each prints
the map of the real sample, which has to be the expected one, and each that cannot ends with one
sentence that says how to mend it and a status that is not 0."""
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


def run(words, cwd=ROOT, **more):
    return subprocess.run(in_examples(words), cwd=cwd, timeout=SECONDS, capture_output=True,
                          text=True, **more)


def ended(done, *words):
    """It printed no map, but one sentence that has these words."""
    assert done.returncode not in (0, -6, -11), done.stdout
    assert done.stdout == "" and len(done.stderr.splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stderr and "panicked" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


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

    def do_GET(self):
        if self.path.startswith("/typing?"):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(TYPING.encode())
        else:
            super().do_GET()


# A page of the same origin that holds the example, types the key and shows what then stands there.
TYPING = """<!DOCTYPE html><iframe></iframe><pre></pre><script>
const asked = new URLSearchParams(location.search), frame = document.querySelector("iframe");
frame.src = `/javascript/index.html?daemon=${asked.get("daemon")}`;
const first = setInterval(() => {
    const page = frame.contentDocument, form = page.querySelector("form");
    if (!form || form.hidden || page.title !== "done") return;
    clearInterval(first);
    form.elements.key.value = asked.get("key");
    form.requestSubmit();
    setInterval(() => {
        document.querySelector("pre").textContent = page.getElementById("map").textContent;
    }, 50);
}, 50);
</script>"""


@pytest.fixture(scope="session")
def pages():
    """The address at which the folder of examples is served."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), QuietHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def shown_by(page, folder):
    """The text of the page's map, in a real browser."""
    done = run(["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
                f"--user-data-dir={folder}", "--virtual-time-budget=20000", page])
    shown = re.search(r"<pre[^>]*>(.*?)</pre>", done.stdout, flags=re.S)
    assert shown, done.stdout + done.stderr
    return shown[1]


def assert_a_map(text):
    words, rows = zip(*(line.split(maxsplit=1) for line in text.splitlines()), strict=True)
    assert "animal" in words
    np.testing.assert_allclose(printed_map("\n".join(rows)), expected_map(), atol=1e-6, rtol=0)


def test_the_page_shows_the_expected_map(pages, daemon, tmp_path):
    """The daemon is at home at another origin."""
    assert_a_map(shown_by(f"{pages}/javascript/index.html?daemon=http://127.0.0.1:{daemon.port}",
                          tmp_path))


def test_the_page_says_what_to_do(pages, tmp_path):
    nobody = f"http://127.0.0.1:{free_port()}"
    shown = shown_by(f"{pages}/javascript/index.html?daemon={nobody}", tmp_path)
    assert f"nothing answers at {nobody}" in shown and "make run" in shown, shown


def test_the_page_asks_for_a_key(pages, guarded, tmp_path):
    """A refusal is no reason to start the daemon; with the key in its field the map is there."""
    where = f"daemon={guarded['ATTENTION_URL']}"
    shown = shown_by(f"{pages}/javascript/index.html?{where}", tmp_path)
    assert "key" in shown and "make run" not in shown, shown
    assert_a_map(shown_by(f"{pages}/typing?{where}&key={guarded['ATTENTION_KEY']}", tmp_path))


def test_without_a_daemon_it_says_so(program):
    address = f"http://127.0.0.1:{free_port()}"
    ended(run([*program.run, address]), f"nothing answers at {address}", "`make run`",
          "ATTENTION_URL")


@pytest.mark.parametrize("address", ["localhost:PORT", "127.0.0.1:PORT"])
def test_an_address_without_its_scheme(program, daemon, address):
    """curl and its library take it for http, the others say what is missing."""
    done = run(program.run,
               env={**os.environ, "ATTENTION_URL": address.replace("PORT", str(daemon.port))})
    if program.tool in ("curl", "cc"):
        np.testing.assert_allclose(printed_map(done.stdout), expected_map(), atol=1e-6, rtol=0)
    else:
        ended(done, "http://127.0.0.1:8080", "ATTENTION_URL", f":{daemon.port}")


def test_a_refusal_is_its_sentence(program, guarded):
    """That of a daemon that asks for a key, without the JSON around it."""
    done = run(program.run, env={**os.environ, "ATTENTION_URL": guarded["ATTENTION_URL"]})
    ended(done, "operator")
    assert "{" not in done.stderr and "detail" not in done.stderr, done.stderr


def test_quotes_in_a_refusal(program, daemon):
    """Where the address leads to another path of the daemon, whose refusal names it."""
    done = run([*program.run, f"http://127.0.0.1:{daemon.port}/wrong"])
    ended(done, "/wrong/v1/attention")
    assert "\\" not in done.stderr and "{" not in done.stderr, done.stderr


def test_in_another_folder(program, daemon, tmp_path):
    """Those that look for the sample beside themselves find it, the others say where to be."""
    words = [EXAMPLES / word if (EXAMPLES / word).is_file() else word for word in program.run]
    done = run([*words, f"http://127.0.0.1:{daemon.port}"], cwd=tmp_path)
    if program.tool in ("go", "java", "cc"):
        ended(done, "examples/data/sentence.safetensors", "root of the project")
    else:
        np.testing.assert_allclose(printed_map(done.stdout), expected_map(), atol=1e-6, rtol=0)


def test_it_is_short(program):
    assert len((EXAMPLES / program.source).read_text().splitlines()) <= LONGEST

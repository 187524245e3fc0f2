# SPDX-License-Identifier: Apache-2.0
"""The slips of somebody who tries the Python examples: each ends with one sentence that says how to
mend it and status 1, or with the usage and status 2: no traceback, no half a picture."""
import http.server
import json
import os
import pty
import re
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from conftest import ROOT
from support.certificates import Authority
from support.daemon import Daemon, free_port
from support.keys import KeyFile

EXAMPLES = ROOT / "examples" / "python"
TOKENS = ROOT / "examples" / "data" / "sentence.tokens.json"
SECONDS = 60


def run(script, *arguments, stdin=b"", python=(sys.executable,), **more):
    more.setdefault("env", {**os.environ, "PYTHONIOENCODING": "utf-8"})
    return subprocess.run([*python, EXAMPLES / script, *arguments], input=stdin,
                          capture_output=True, timeout=SECONDS, **more)


def ended(done, code, *words):
    """The sentence that the program ended with."""
    said = done.stderr.decode()
    assert done.returncode == code, said
    assert "Traceback" not in said and done.stdout == b"", said
    lines = said.splitlines()
    assert len(lines) == 1 or lines[0].startswith("usage:"), said
    for word in words:
        assert word in lines[-1], said


def a_map(rows, columns, heads=1, value=0.5):
    return json.dumps({"weights": [[[value] * columns] * rows] * heads, "meta": {}}).encode()


WHOLE = a_map(16, 16, heads=2)

# standard input, further arguments, the words that say how to mend it
SLIPS_OF_INPUT = {
    "daemon not running": (b"", [], ["make run", "curl -S"]),
    "another server": (b"<html>It works!</html>", [], ["is not JSON", "address"]),
    "another server's JSON": (b'{"message": "ok"}', [], ["not an answer of attentiond", "address"]),
    "a list": (b"[1, 2]", [], ["not a JSON object"]),
    "safetensors": (b'\x40\0\0\0\0\0\0\0{"__metadata__":{}}\xff', [], ["Accept: application/json"]),
    "not UTF-8": (b'{"weights": "\xff"}', [], ["not UTF-8", "byte 13"]),
    "a problem": (b'{"status": 422, "detail": "Send q."}', [], ["refused the call: Send q."]),
    "no map": (b'{"output": [[1]], "meta": {}}', [], ['"weights": true']),
    "base64": (b'{"weights": {"base64": ""}, "meta": {}}', [], ['"encoding"']),
    "an empty map": (b'{"weights": [[]], "meta": {}}', [], ["at least one token"]),
    "a small map": (a_map(1, 2), [], ["1 x 2", "16 tokens", "whole map"]),
    "a part of the map": (a_map(3, 16), [], ["3 x 16", "16 tokens", "whole map"]),
    "masked scores": (a_map(16, 16, value="-Infinity"), [], ["not finite", "rather than scores"]),
    "head too large": (WHOLE, ["2"], ["no head 2", "0 to 1"]),
    "head of one": (a_map(16, 16), ["1"], ["no head 1", "give 0"]),
    "head negative": (WHOLE, ["-1"], ["no head -1", "0 to 1"]),
}
DRAWERS = ["show_map.py", "draw_map.py"]


@pytest.mark.parametrize("script", DRAWERS)
@pytest.mark.parametrize("slip", SLIPS_OF_INPUT)
def test_input_that_is_no_map(script, slip):
    stdin, arguments, words = SLIPS_OF_INPUT[slip]
    # draw_map's tokens name head 1; a map that has but one asks for 0 here
    ended(run(script, TOKENS, *(arguments or ["0"]), stdin=stdin), 1, *words)


@pytest.mark.parametrize("script", DRAWERS)
@pytest.mark.parametrize("content, words", [
    (None, ["No such file"]),
    ("folder", ["Is a directory"]),
    (b"The animal didn't", ["is not JSON"]),
    (b'{"tokens": ["caf\xe9"]}', ["not UTF-8", "byte 16"]),
    (b'["The", "animal"]', ["not a JSON object"]),
    (b'{"q": [[1]]}', ['no "tokens"']),
    (b'{"tokens": [1, 2]}', ['no "tokens"']),
])
def test_tokens_that_are_none(script, content, words, tmp_path):
    path = tmp_path / "tokens"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    ended(run(script, path, stdin=WHOLE), 1, str(path), "sentence.tokens.json", *words)


def test_a_picture_needs_more_than_tokens(tmp_path):
    (tmp_path / "tokens").write_text(json.dumps({"tokens": list("abcdefghijklmnop")}))
    ended(run("draw_map.py", tmp_path / "tokens", stdin=WHOLE), 1, 'no "sentence"')


@pytest.mark.parametrize("script", DRAWERS)
@pytest.mark.parametrize("arguments, words", [
    ([], ["required: TOKENS.json"]),
    ([TOKENS, "one"], ["HEAD", "'one'"]),
    ([TOKENS, "0", "1"], ["unrecognized arguments: 1"]),
])
def test_usage_of_the_drawers(script, arguments, words):
    ended(run(script, *arguments, stdin=WHOLE), 2, *words)


@pytest.mark.parametrize("script", DRAWERS)
def test_a_drawer_does_not_wait_for_the_keyboard(script):
    master, terminal = pty.openpty()
    try:
        done = subprocess.run([sys.executable, EXAMPLES / script, TOKENS], stdin=terminal,
                              capture_output=True, timeout=SECONDS)
    finally:
        os.close(master)
        os.close(terminal)
    ended(done, 2, "pipe an answer", "curl")


def test_a_plain_terminal_gets_plain_signs():
    done = run("show_map.py", TOKENS, stdin=WHOLE,
               env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and b"####" in done.stdout, done.stderr


@pytest.mark.parametrize("tokens", [16, 40, 60, 256])
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_map_fits_the_terminal(tokens, columns, tmp_path):
    """Every query has its row, and the key that it looks at most is as dark in any width."""
    names = [f"token{number}"[:8] for number in range(tokens)]
    (tmp_path / "tokens").write_text(json.dumps({"tokens": names}))
    rows = [[float(key == (query + 3) % tokens) for key in range(tokens)]
            for query in range(tokens)]
    done = run("show_map.py", tmp_path / "tokens", "0",
               stdin=json.dumps({"weights": [rows], "meta": {}}).encode(),
               env={**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": str(columns)})
    lines = done.stdout.decode().splitlines()
    assert max(map(len, lines)) <= columns, max(map(len, lines))
    drawn = [line for line in lines if "█" in line]
    assert [line.split()[0] for line in drawn] == names
    for query, line in enumerate(drawn):
        assert line.endswith(f"{names[(query + 3) % tokens]} 1.00"), line


def test_a_file_has_room_for_any_map(tmp_path):
    (tmp_path / "tokens").write_text(json.dumps({"tokens": ["a"] * 300}))
    where = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = run("show_map.py", tmp_path / "tokens", "0", stdin=a_map(300, 300),
               env={**where, "PYTHONIOENCODING": "utf-8"})
    assert "█" * 600 in done.stdout.decode(), done.stderr


def test_negative_scores_are_drawn():
    done = run("show_map.py", TOKENS, stdin=a_map(16, 16, value=-40.0))
    assert done.returncode == 0 and b"-40.00" in done.stdout, done.stderr


@pytest.mark.parametrize("script", DRAWERS)
def test_a_reader_that_stops_early_ends_a_drawer_without_a_word(script):
    """As in `... | head -1`; the pipe has no reader from the start, so that the write must fail."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([sys.executable, EXAMPLES / script, TOKENS], input=WHOLE,
                              stdout=writing, stderr=subprocess.PIPE, timeout=SECONDS)
    finally:
        os.close(writing)
    assert done.returncode != 0 and done.stderr == b""


@contextmanager
def nobody():
    """An address at which nothing listens."""
    yield f"http://127.0.0.1:{free_port()}"


@contextmanager
def web_server():
    """Another HTTP server: it answers a POST with 501 and HTML."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    server.RequestHandlerClass.log_message = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def other_server():
    """Something that does not speak HTTP; it reads first, so that the call is not cut short."""
    def greet():
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 20)
            connection.sendall(b"220 mail.example ESMTP\r\n")
            while connection.recv(1 << 20):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=greet, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def refusing_daemon():
    """attentiond with so little memory that it refuses either call."""
    with Daemon("--memory-budget", "64") as daemon:
        yield f"http://127.0.0.1:{daemon.port}"


CALLERS = {"quickstart.py": lambda url: [url],
           "oracle.py": lambda url: [url],
           "sentences.py": lambda url: ["--url", url, "A sentence."]}


@pytest.mark.parametrize("script", CALLERS)
@pytest.mark.parametrize("server, words", [
    (nobody, ["nothing answers", "make run"]),
    (web_server, ["not attentiond", "501"]),
    (other_server, ["not attentiond"]),
    (refusing_daemon, ["refused the call"]),
])
def test_a_call_that_is_not_served(script, server, words):
    with server() as url:
        ended(run(script, *CALLERS[script](url)), 1, *words)


@pytest.mark.parametrize("script", ["quickstart.py", "oracle.py", "attend.py"])
def test_a_certificate_that_nobody_vouches_for(script, tmp_path):
    """With the file of its authority, which the sentence asks for, the call is served."""
    authority = Authority(tmp_path)
    certificate, key = authority.sign("service")
    ops = free_port()
    daemon = Daemon("--ops-listen", f"127.0.0.1:{ops}", "--tls-certificate", str(certificate),
                    "--tls-key", str(key))
    daemon.client.port = ops  # which speaks no TLS
    with daemon:
        url = f"https://127.0.0.1:{daemon.port}"
        done = run(script, url)
        ended(done, 1, "certificate", url)
        variable, = re.findall(r"in the variable (\w+)", done.stderr.decode())
        done = run(script, url, env={**os.environ, variable: str(authority.certificate)})
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", [*CALLERS, "attend.py"])
def test_the_address_may_stand_in_the_environment(script, daemon):
    address = f"http://127.0.0.1:{daemon.port}"
    done = run(script, env={**os.environ, "ATTENTION_URL": address})
    assert done.returncode == 0 and done.stdout, done.stderr
    with nobody() as url:
        done = run(script, env={**os.environ, "ATTENTION_URL": url})
        ended(done, 1, url, "ATTENTION_URL")


@pytest.mark.parametrize("script", [*CALLERS, *DRAWERS, "attend.py", "make_sample.py",
                                    "generate.py", "move_session.py"])
def test_help(script):
    done = run(script, "--help")
    assert done.returncode == 0 and done.stdout.startswith(b"usage: " + script.encode())


@pytest.mark.parametrize("script", ["oracle.py", "sentences.py", "attend.py"])
def test_a_reader_that_stops_early_ends_a_caller_without_a_word(script, daemon):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([sys.executable, EXAMPLES / script], stdout=writing,
                              stderr=subprocess.PIPE, timeout=SECONDS,
                              env={**os.environ,
                                   "ATTENTION_URL": f"http://127.0.0.1:{daemon.port}"})
    finally:
        os.close(writing)
    assert done.returncode != 0 and done.stderr == b""


@pytest.mark.parametrize("url", ["localhost:8080", "http://", "ftp://127.0.0.1", "http://a:b"])
def test_an_address_that_is_none(url):
    ended(run("quickstart.py", url), 1, "http://127.0.0.1:8080", url)
    ended(run("oracle.py", url), 1, "http://127.0.0.1:8080", url)
    ended(run("attend.py", url), 1, "http://127.0.0.1:8080", url)
    ended(run("sentences.py", "--url", url), 2, "http://127.0.0.1:8080", url)


# A fault in the kernel that the oracle's example judges, and the first stage that has it.
FAULTS = [
    ("", "", None),
    ("np.float32(math.sqrt(D))", "np.float32(D)", "scaled"),
    ("np.where(visible, scaled,", "np.where(np.tri(TQ, TK, dtype=bool), scaled,", "masked"),
    ("weights.sum(axis=-1,", "weights.sum(axis=0,", "weights"),
    ("np.float32(-np.inf))", "np.float32(np.nan))", "masked"),
    ("weights @ v}", "weights @ v[..., ::-1]}", "output"),
]


@pytest.mark.parametrize("right, wrong, stage", FAULTS)
def test_the_oracle_names_the_stage_that_is_wrong(right, wrong, stage, daemon, tmp_path):
    source = (EXAMPLES / "oracle.py").read_text()
    assert right in source
    (tmp_path / "oracle.py").write_text(source.replace(right, wrong) if right else source)
    done = run(tmp_path / "oracle.py", f"http://127.0.0.1:{daemon.port}",
               env={**os.environ, "PYTHONPATH": str(EXAMPLES)})
    said = done.stdout.decode()
    assert done.returncode == (0 if stage is None else 1), said + done.stderr.decode()
    assert set(re.findall(r"wrong from (\w+)", said)) == ({stage} if stage else set()), said


@pytest.mark.parametrize("stdin, code, words", [
    (b"", 2, ["holds no sentence"]),
    (b"caf\xe9\n", 1, ["not UTF-8", "byte 3", "iconv"]),
])
def test_sentences_that_are_none(stdin, code, words):
    ended(run("sentences.py", "--local", "-", stdin=stdin), code, *words)


def test_an_argument_that_is_not_utf_8():
    done = run("sentences.py", "--local", b"caf\xe9", env={**os.environ, "LC_ALL": "C.UTF-8"})
    ended(done, 2, "not UTF-8")


def test_the_key_of_the_environment_is_sent(tmp_path):
    file = KeyFile(tmp_path / "keys")
    key = file.add("alice")
    with Daemon("--key-file", str(file.path)) as guarded:
        where = {**os.environ, "ATTENTION_URL": f"http://127.0.0.1:{guarded.port}"}
        for script in "quickstart.py", "oracle.py":
            ended(run(script, env=where), 1, "refused the call")
            done = run(script, env={**where, "ATTENTION_KEY": key})
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", ["sentences.py", "make_sample.py", "oracle.py", "attend.py"])
def test_a_python_without_numpy_is_sent_to_the_one_that_has_it(script):
    """-S leaves out site-packages, as the system's python3 has none of the example's."""
    ended(run(script, python=(sys.executable, "-S")), 1, "make setup-examples",
          f"build/venv/bin/python examples/python/{script}")


def test_a_sample_is_not_made_in_a_folder_that_is_missing(tmp_path):
    ended(run("make_sample.py", tmp_path / "none"), 2, "no folder", str(tmp_path / "none"))


@pytest.mark.parametrize("arguments, words", [
    (["."], ["another folder"]),
    (["A cat.", "--layer", "6"], ["--layer", "6"]),
    (["A cat.", "--head", "12"], ["--head", "12"]),
    ([" "], ["UTF-8", "a word"]),
    ([b"caf\xe9"], ["UTF-8"]),
    (["--layer", "0", "--head", "12", "A cat."], ["--head", "12"]),
])
def test_samples_that_cannot_be_made(arguments, words, tmp_path):
    folder = EXAMPLES.parent / "data" if arguments == ["."] else tmp_path
    ended(run("make_sample.py", folder, *arguments, env={**os.environ, "LC_ALL": "C.UTF-8"}), 2,
          *words)
    assert list(tmp_path.iterdir()) == []

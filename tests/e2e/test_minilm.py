# SPDX-License-Identifier: Apache-2.0
"""A real trained sentence encoder whose attention is served, and the committed sample made of it.

The similarities are those that the model's authors publish for the three sentences.
"""
import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import ROOT
from support import safetensors
from support.client import JSON_TYPE, SAFETENSORS_TYPE
from support.oracle import attention

PUBLISHED = {
    "The weather is lovely today.": [1.0000, 0.6660, 0.1046],
    "It's so sunny outside!": [0.6660, 1.0000, 0.1411],
    "He drove to the stadium.": [0.1046, 0.1411, 1.0000],
}
EXAMPLES = ROOT / "examples" / "python"
DATA = ROOT / "examples" / "data"
SECONDS = 60  # for one run of an example; it takes about one on an idle machine


@pytest.fixture(scope="module")
def model():
    from minilm import MiniLM

    return MiniLM()


def run(script, *arguments, stdin=None):
    return subprocess.run([sys.executable, EXAMPLES / script, *arguments], input=stdin, text=True,
                          capture_output=True, timeout=SECONDS)


@pytest.mark.parametrize("text, tokens", [
    ("Don't stop!", ["don", "'", "t", "stop", "!"]),
    ("naïve CAFÉ", ["naive", "cafe"]),
    ("unaffable", ["una", "##ffa", "##ble"]),
    ("日本ok", ["日", "本", "ok"]),
    ("a\u200bb", ["ab"]),
    ("x" * 101, ["[UNK]"]),
    ("", []),
])
def test_wordpiece(model, text, tokens):
    assert model.tokenizer.tokenize(text) == ["[CLS]", *tokens, "[SEP]"]


def test_long_text_is_cut(model):
    assert len(model.tokenizer.tokenize("hello " * 400)) == 256


def test_published_similarities_without_the_service(model):
    vectors = model.encode(list(PUBLISHED))
    np.testing.assert_allclose(vectors @ vectors.T, list(PUBLISHED.values()), rtol=0, atol=6e-5)


def test_published_similarities_with_the_service(model, daemon):
    from sentences import Service

    service = Service(f"http://127.0.0.1:{daemon.port}")
    vectors = model.encode(list(PUBLISHED), service.attention)
    assert service.calls == 6
    np.testing.assert_allclose(vectors @ vectors.T, list(PUBLISHED.values()), rtol=0, atol=6e-5)
    np.testing.assert_allclose(vectors, model.encode(list(PUBLISHED)), rtol=0, atol=1e-5)


def test_padding_does_not_leak_into_the_embedding(model, daemon):
    """A sentence alone and beside a longer one."""
    from sentences import Service

    service = Service(f"http://127.0.0.1:{daemon.port}")
    short, long = "Hello.", "a much longer sentence " * 9
    alone = model.encode([short], service.attention)[0]
    beside = model.encode([short, long], service.attention)[0]
    np.testing.assert_allclose(beside, alone, rtol=0, atol=1e-5)


def test_command_line(daemon):
    begin = time.monotonic()
    done = run("sentences.py", "--check", "--url", f"http://127.0.0.1:{daemon.port}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0.666" in done.stdout and "6 attention calls" in done.stdout
    assert time.monotonic() - begin < SECONDS


def test_command_line_reads_standard_input(daemon):
    done = run("sentences.py", "--url", f"http://127.0.0.1:{daemon.port}", "-",
               stdin="One sentence.\n\nAnother sentence.\n")
    assert done.returncode == 0 and len(re.findall(r"^ +\d ", done.stdout, re.M)) == 3


def test_command_line_says_when_nothing_listens():
    done = run("sentences.py", "--url", "http://127.0.0.1:9")
    assert done.returncode == 1 and "make run" in done.stderr


def sample():
    tensors, metadata = safetensors.parse((DATA / "sentence.safetensors").read_bytes())
    return tensors, json.loads(metadata["attention"])


def test_sample_comes_out_as_expected_from_both_files(client):
    expected, _ = safetensors.parse((DATA / "sentence.expected.safetensors").read_bytes())
    raw = client.send("POST", "/v1/attention", (DATA / "sentence.safetensors").read_bytes(),
                      {"Content-Type": SAFETENSORS_TYPE})
    assert raw.status == 200
    # a plain float32 run is off by 1.9e-7 and 1.4e-7; the sweep allows twice that and 1e-6
    np.testing.assert_allclose(raw["output"], expected["output"], rtol=0, atol=1.4e-6)
    np.testing.assert_allclose(raw["weights"], expected["weights"], rtol=0, atol=1.3e-6)
    text = client.send("POST", "/v1/attention", (DATA / "sentence.json").read_bytes(),
                       {"Content-Type": JSON_TYPE})
    assert text.status == 200
    assert text["weights"].tobytes() == raw["weights"][1:2].tobytes()


def test_both_files_have_the_tokens_for_a_picture(client):
    """So the picture of all heads is the same from either."""
    call = json.loads((DATA / "sentence.json").read_text())
    del call["weights"]
    tokens = json.loads((DATA / "sentence.tokens.json").read_text())["tokens"]
    assert sample()[1]["labels"] == call["labels"] == {"q": tokens, "k": tokens}
    sent = ((json.dumps(call).encode(), JSON_TYPE),
            ((DATA / "sentence.safetensors").read_bytes(), SAFETENSORS_TYPE))
    pictures = [client.send("POST", "/v1/attention", body, {"Content-Type": kind,
                                                            "Accept": "image/png"}).body
                for body, kind in sent]
    assert pictures[0] == pictures[1] and pictures[0].startswith(b"\x89PNG")


def test_sample_is_what_the_model_gives(tmp_path):
    done = run("make_sample.py", str(tmp_path))
    assert done.returncode == 0, done.stderr
    made, metadata = safetensors.parse((tmp_path / "sentence.safetensors").read_bytes())
    tensors, options = sample()
    for name in ("q", "k", "v"):
        # another CPU sums the projections in another order
        np.testing.assert_allclose(made[name], tensors[name], rtol=0, atol=1e-4)
    assert metadata == {"attention": json.dumps(options)}
    exact = attention(tensors["q"], tensors["k"], tensors["v"], options)
    expected, _ = safetensors.parse((DATA / "sentence.expected.safetensors").read_bytes())
    for name, array in expected.items():
        np.testing.assert_allclose(array, exact[name], rtol=0, atol=1e-12)
    request = json.loads((DATA / "sentence.json").read_text())
    for name in ("q", "k", "v"):
        assert np.array(request[name], dtype=np.float32).tobytes() == tensors[name].tobytes()


def test_the_pronoun_looks_at_the_animal():
    """What the sample's README says of the head."""
    note = json.loads((DATA / "sentence.tokens.json").read_text())
    expected, _ = safetensors.parse((DATA / "sentence.expected.safetensors").read_bytes())
    at = {token: number for number, token in enumerate(note["tokens"])}
    row = expected["weights"][note["head"], at["it"]]
    assert [round(row[at[token]], 2) for token in ("animal", "street", "[CLS]")] == [
        0.68, 0.05, 0.10]


def test_the_pasted_line_draws_the_map(daemon):
    """The line of the sample's README, against this run's port."""
    text = (DATA / "README.md").read_text()
    line = re.search(r"```\n(curl .*?)```", text, re.S).group(1)
    line = line.replace("localhost:8080", f"127.0.0.1:{daemon.port}")
    done = subprocess.run(line, shell=True, cwd=ROOT, capture_output=True, text=True,
                          timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^ *it .* animal 0\.68$", done.stdout, re.M), done.stdout


def test_quickstart(daemon):
    """The README's snippet: two keys, so the map is a row of two weights."""
    code = (EXAMPLES / "quickstart.py").read_text().replace("127.0.0.1:8080",
                                                            f"127.0.0.1:{daemon.port}")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    share = 1 / (1 + np.exp(-np.sqrt(0.5)))
    numbers = [float(x) for x in re.findall(r"\[\[([\d.]+), ([\d.]+)\]\]", done.stdout)[0]]
    np.testing.assert_allclose(numbers, [30 - 20 * share, 40 - 20 * share], rtol=1e-6)

# SPDX-License-Identifier: Apache-2.0
"""The language model whose attention is served: the same text as without the service, from real
models and from random ones that the test makes, maps, and what goes wrong."""
import io
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from support import tables
from support.daemon import Daemon, free_port

ROOT = tables.ROOT
FOLDER = ROOT / "examples" / "python"
sys.path.insert(0, str(FOLDER))

import generate  # noqa: E402
import smollm  # noqa: E402
import stories  # noqa: E402
from caches import LocalCache, SessionCache, turn  # noqa: E402
from client_package import attentiond  # noqa: E402

STORIES = ROOT.parent / "shared" / "data" / "stories260K"
SECONDS = 120
CLEAR = 2e-3  # between the likeliest token and the next, at least; less than half of it is rounding

needs_stories = pytest.mark.skipif(
    not stories.is_folder_of_it(STORIES), reason="the weights of stories260K are not at "
    "../shared/data/stories260K beside the project")


@pytest.fixture(scope="session")
def keeping():
    """A daemon that keeps captures."""
    with Daemon("--captures") as running:
        yield running


@pytest.fixture(scope="session", params=["folder", "gguf"])
def tiny(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    if request.param == "folder":
        return tiny_models.write_folder(folder)
    return tiny_models.write_gguf(folder / "tiny.gguf")


def url_of(daemon):
    return f"http://127.0.0.1:{daemon.port}"


def run(*arguments):
    return subprocess.run([sys.executable, FOLDER / "generate.py", *map(str, arguments)], cwd=ROOT,
                          capture_output=True, text=True, timeout=SECONDS)


def text_of(*arguments):
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def logits_of(path, prompt, count, cache_of):
    """Those behind each of `count` tokens, the likeliest ones, and the tokens."""
    model, tokenizer = generate.load(path)
    ids, seen = tokenizer.encode(prompt), []

    def choose(logits):
        seen.append(logits)
        return int(logits.argmax())

    with cache_of(model.shape) as cache:
        tokens = list(generate.write(model, ids, cache, count, choose, ends=()))
    return np.stack(seen), tokens


def both_ways(daemon, path, prompt, count):
    local = logits_of(path, prompt, count, lambda shape: LocalCache(shape, 512))
    with attentiond.Client(url_of(daemon), retries=0) as client:
        served = logits_of(path, prompt, count, lambda shape: SessionCache(client, shape, 512))
    return served, local


class Forgets(LocalCache):
    """Attention that gives the newest values, as if there had been nothing before."""

    def step(self, layer, q, k, v):
        return np.repeat(v, len(q) // len(v), axis=0)


def test_a_random_model_writes_the_same_served_as_local(tiny, daemon):
    (served, tokens), (local, expected) = both_ways(daemon, tiny, "ab cd", 200)
    likeliest = np.sort(local, axis=1)
    assert (likeliest[:, -1] - likeliest[:, -2]).min() > CLEAR
    assert tokens == expected and len(set(tokens)) > 20
    np.testing.assert_allclose(served, local, rtol=0, atol=CLEAR / 2)
    _, without = logits_of(tiny, "ab cd", 200, lambda shape: Forgets(shape, 512))
    assert without != expected


class Ends(SessionCache):
    """A session that ends in the middle of a token; `back` seconds later it is there again, without
    its last steps, of which there are `behind`."""
    begun, steps = 0, 0

    def __init__(self, client, shape, back=None, behind=0, **more):
        self.back, self.behind = back, behind
        super().__init__(client, shape, 512, **more)

    def begin(self):
        super().begin()
        self.begun += 1

    def step(self, layer, q, k, v):
        self.steps += 1
        if self.steps == 100 - self.behind:
            self.snapshot = self.session.snapshot()
        if self.steps == 100:
            self.session.delete()
            if self.back is not None:
                timer = threading.Timer(self.back, self.client.restore, [self.snapshot],
                                        {"id": self.session.id})
                timer.start()
                if self.back == 0:
                    timer.join()
        return super().step(layer, q, k, v)


@pytest.mark.parametrize("given, begun", [
    ({}, 2), ({"patience": 0.1}, 2), ({"back": 0.2, "patience": 20}, 1),
    ({"back": 0.2, "patience": 20, "behind": 2}, 1),
    ({"back": 0.2, "patience": 20, "behind": 4}, 2), ({"back": 0, "behind": 2}, 1)])
def test_a_text_outlives_its_session(tiny, daemon, given, begun):
    _, expected = logits_of(tiny, "ab cd", 60, lambda shape: LocalCache(shape, 512))
    caches = []
    with attentiond.Client(url_of(daemon), retries=0) as client:
        def cache_of(shape):
            caches.append(Ends(client, shape, **given))
            return caches[0]

        _, tokens = logits_of(tiny, "ab cd", 60, cache_of)
    assert tokens == expected and caches[0].begun == begun


def test_the_program_prints_the_same_served_as_local(tiny, daemon):
    asked = ["--model", tiny, "--prompt", "ab é", "--tokens", 60]
    served = text_of(*asked, "--url", url_of(daemon))
    assert served.startswith("ab é") and served == text_of(*asked, "--local")
    warm = [*asked, "--temperature", 1, "--seed", 5]
    assert text_of(*warm, "--url", url_of(daemon)) == text_of(*warm, "--local") != served


def test_numbers_come_out_of_their_packing(tmp_path):
    """As near as 4 bits of a row's range, 8 or 16 allow."""
    model, _ = generate.load(tiny_models.write_gguf(tmp_path / "tiny.gguf"))
    given = tiny_models.weights(len(model.weights["tok_embeddings"]))
    steps = {"tok_embeddings": 1 / 127, "wv": 2**-10}
    assert model.weights.keys() == given.keys()
    for name, array in model.weights.items():
        step = steps.get(name.split(".")[-1], 2 / 15) * np.abs(given[name]).max()
        np.testing.assert_allclose(array, given[name], rtol=0, err_msg=name,
                                   atol=0 if array.ndim == 1 else 0.55 * step)


def test_a_file_that_is_cut_or_of_another_kind(tmp_path):
    path = tiny_models.write_gguf(tmp_path / "tiny.gguf")
    whole = path.read_bytes()
    for end in (0, 3, 20, 200, 5000, len(whole) // 2, len(whole) - 32):
        path.write_bytes(whole[:end])
        with pytest.raises(SystemExit, match="cannot be read"):
            generate.load(path)
    path.write_bytes(whole.replace(b"smollm", b"llama-"))
    with pytest.raises(SystemExit, match="not of SmolLM2's kind: tokenizer.ggml.pre llama-"):
        generate.load(path)
    path.write_bytes(whole.replace(b"attn_q", b"attn_x"))
    with pytest.raises(SystemExit, match="it has no 'blk.0.attn_q.weight'"):
        generate.load(path)


def test_no_session_stays(tiny, daemon):
    text_of("--model", tiny, "--tokens", 3, "--url", url_of(daemon))
    assert daemon.client.get("/v1/sessions").json["sessions"] == []


@needs_stories
def test_stories260k_writes_the_published_story(daemon):
    expected = json.loads((STORIES / "story.json").read_text())["full_greedy_text"]
    text = text_of("--model", STORIES, "--prompt", "", "--tokens", 256, "--url", url_of(daemon))
    assert text == expected + "\n"
    (served, tokens), (local, _) = both_ways(daemon, STORIES, "Once upon a time", 252)
    assert len(tokens) == 252
    np.testing.assert_allclose(served, local, rtol=0, atol=1e-4)


def test_smollm2_knows_the_capital(daemon):
    asked = ["--prompt", "The capital of France is", "--tokens", 6]
    text = text_of(*asked, "--url", url_of(daemon))
    assert text.startswith("The capital of France is Paris.") and text == text_of(*asked, "--local")


def test_smollm2s_tokens():
    tokenizer = smollm.Tokenizer(smollm.Reader(smollm.package_file()).values)
    for text, tokens in {
            "It's 10:45.": ["It", "'s", " ", "1", "0", ":", "4", "5", "."],
            "a  b\n\n 7": ["a", " ", " b", "\n\n ", "7"],
            "<|im_start|>user": ["<|im_start|>", "user"]}.items():
        ids = tokenizer.encode(text)
        assert [tokenizer.texts[token].replace("Ġ", " ").replace("Ċ", "\n")
                for token in ids] == tokens
    text = "naïve _日本_\t🙂 "
    assert b"".join(map(tokenizer.piece, tokenizer.encode(text))).decode() == text


def test_the_folders_tokens(tmp_path):
    _, tokenizer = stories.load(tiny_models.write_folder(tmp_path))
    ids = tokenizer.encode("ab cdé日")
    pieces = [tokenizer.pieces[number].decode() for number in ids]
    assert pieces == ["\n<s>\n", " ab", " ", "cd", "é", "<0xE6>", "<0x97>", "<0xA5>"]
    spelled = map(tokenizer.piece, ids, [None, *ids])
    assert b"".join(spelled).decode() == "ab cdé日"


def test_a_character_comes_when_its_bytes_are_there(tmp_path, capsys):
    _, tokenizer = stories.load(tiny_models.write_folder(tmp_path))
    printer, shown = generate.Printer(tokenizer, sys.stdout), []
    for token in tokenizer.encode("a日b"):
        printer.add(token)
        shown.append(capsys.readouterr().out)
    assert shown == ["", "a", "", "", "日", "b"]


def test_a_text_ends_where_the_model_ends_it():
    given = iter([5, 6, 2, 7])
    model = type("Model", (), {"logits": staticmethod(lambda ids, cache: None)})
    assert list(generate.write(model, [1], None, 9, lambda _: next(given), {2})) == [5, 6]


class Looks(LocalCache):
    """Keeps the queries of the first layer, turned by their positions."""

    def step(self, layer, q, k, v):
        if layer == 0:
            angles = (self.lengths[0] + np.arange(q.shape[1]))[:, None] * self.frequencies
            self.q = np.concatenate([getattr(self, "q", q[:, :0]), turn(q, angles)], axis=1)
        return super().step(layer, q, k, v)


def first_layers_map(path, prompt, count, head):
    """Of the local model's text, in float64."""
    caches = []
    logits_of(path, prompt, count, lambda shape: caches.append(Looks(shape, 512)) or caches[0])
    q = caches[0].q[head].astype(float)
    k = caches[0].k[0, head // 2, :len(q)].astype(float)
    weights = np.tril(np.exp(q @ k.T / np.sqrt(q.shape[1])))
    return weights / weights.sum(axis=1, keepdims=True)


def test_maps_come_to_the_dashboard(tiny, keeping):
    done = run("--model", tiny, "--prompt", "ab", "--tokens", 20, "--maps",
               "--url", url_of(keeping))
    assert done.returncode == 0 and "3 maps of" in done.stderr, done.stderr
    captures = keeping.client.get("/v1/captures").json["captures"][:3]
    assert [capture["layer"] for capture in captures] == [2, 1, 0]
    (run_name,) = {capture["run"] for capture in captures}
    seen = captures[0]["queries"]
    assert run_name in done.stderr and f"maps of {seen} tokens" in done.stderr and seen >= 20
    path = f"/v1/captures/{captures[2]['id']}"
    shown = keeping.client.get(path).json
    assert len(shown["q_tokens"]) == len(shown["k_tokens"]) == seen == shown["keys"]
    drawn = np.load(io.BytesIO(keeping.client.get(f"{path}/map?head=3&format=npy").body))
    np.testing.assert_allclose(drawn, first_layers_map(tiny, "ab", 20, head=3), atol=1e-5)
    keeping.client.send("DELETE", "/v1/captures", b"", {})


def test_maps_that_are_not_kept(tiny, daemon):
    done = run("--model", tiny, "--tokens", 3, "--maps", "--url", url_of(daemon))
    assert done.returncode == 1 and "the maps were not kept" in done.stderr
    assert "Traceback" not in done.stderr


SLIPS = {
    "no daemon": ([], 1, ["start the daemon", "--url"]),
    "no such model": (["--model", "nowhere"], 1, ["there is no model at nowhere", "GGUF"]),
    "no model": (["--model", str(FOLDER / "generate.py")], 1, ["cannot be read", "no GGUF"]),
    "too much": (["--tokens", "600"], 1, ["512", "ask for fewer"]),
    "no token": (["--tokens", "0"], 2, ["a number above 0"]),
    "cold": (["--temperature", "-1"], 2, ["0 to 100"]),
    "maps of nobody": (["--local", "--maps"], 2, ["leave one out"]),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_slips(slip, tmp_path):
    arguments, code, words = SLIPS[slip]
    given = ["--model", tiny_models.write_folder(tmp_path), "--url",
             f"http://127.0.0.1:{free_port()}"]
    done = run(*given, *arguments)
    assert done.returncode == code and done.stdout.strip() in ("", "Once upon a time"), done
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr.splitlines()[-1], done.stderr


def test_files_are_no_longer_than_they_may_be():
    for path in Path(FOLDER).glob("*.py"):
        assert len(path.read_text().splitlines()) <= 400, path

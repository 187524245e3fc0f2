# SPDX-License-Identifier: Apache-2.0
"""Sessions that move from one daemon to another: a text that is written on the way is the same as
one that stays, and what cannot move stays where it is."""
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tiny_models
from support import tables
from support.daemon import Daemon, free_port
from support.keys import KeyFile

ROOT = tables.ROOT
FOLDER = ROOT / "examples" / "python"
sys.path.insert(0, str(FOLDER))

import generate  # noqa: E402
import move_session  # noqa: E402
from caches import LocalCache, SessionCache  # noqa: E402
from client_package import attentiond  # noqa: E402

SECONDS = 60
SHAPE = {"layers": 2, "kv_heads": 2, "head_dim": 4, "dtype": "float16", "capacity": 100}
RNG = np.random.default_rng(7)


def url_of(daemon):
    return f"http://127.0.0.1:{daemon.port}"


@pytest.fixture(scope="module")
def other():
    with Daemon() as running:
        yield running


@pytest.fixture
def old(daemon):
    with attentiond.Client(url_of(daemon), retries=0) as client:
        yield client


@pytest.fixture
def new(other):
    with attentiond.Client(url_of(other), retries=0) as client:
        yield client


@pytest.fixture(autouse=True)
def nothing_stays(old, new):
    yield
    for client in (old, new):
        for facts in client.sessions():
            attentiond.Session(client, facts).delete()


def run(*arguments, **more):
    done = subprocess.run([sys.executable, FOLDER / "move_session.py", *arguments], cwd=ROOT,
                          capture_output=True, text=True, timeout=SECONDS, **more)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def rows(count):
    return [RNG.normal(size=(heads, count, 4)).astype(np.float32) for heads in (4, 2, 2)]


def ids(client):
    return {facts["id"] for facts in client.sessions()}


def test_a_text_goes_on_at_the_other_daemon(old, new, tmp_path):
    model, tokenizer = generate.load(tiny_models.write_folder(tmp_path))
    prompt = tokenizer.encode("ab cd")

    def text_of(cache, meanwhile=lambda: None):
        tokens = []
        for token in generate.write(model, prompt, cache, 80, lambda x: int(x.argmax()), ()):
            tokens.append(token)
            if len(tokens) == 40:
                meanwhile()
        return tokens

    def moves():
        done = run(old.url, new.url, "--all")
        assert done.returncode == 0 and moving.session.id in done.stdout, done.stderr
        (facts,) = new.sessions()
        moving.session = attentiond.Session(new, facts)

    moving = SessionCache(old, model.shape, 200)
    assert text_of(moving, moves) == text_of(LocalCache(model.shape, 200))
    assert old.sessions() == [] and moving.session.lengths == [len(prompt) + 79] * 3


def test_a_replica_that_is_about_to_end_gives_its_sessions_up(new):
    with Daemon("--lame-duck", "30s") as ending:
        with attentiond.Client(url_of(ending), retries=0) as client:
            client.session(**SHAPE, id="evacuated").step(*rows(3))
            ending.process.send_signal(signal.SIGTERM)
            while client.ready():
                time.sleep(0.01)
            done = run(url_of(ending), new.url, "--all")
            assert done.returncode == 0 and client.sessions() == [], done.stderr
    assert ids(new) == {"evacuated"}


def test_those_that_are_named_move(old, new):
    for name in ("first", "second", "third"):
        old.session(**SHAPE, id=name).step(*rows(3))
    assert run(old.url, new.url, "first", "third").returncode == 0
    assert ids(old) == {"second"} and ids(new) == {"first", "third"}


def test_one_whose_id_is_taken_stays(old, new):
    old.session(**SHAPE, id="taken").step(*rows(3))
    old.session(**SHAPE, id="free").step(*rows(3))
    new.session(**SHAPE, id="taken")
    done = run(old.url, new.url, "--all")
    assert done.returncode == 1 and "taken stays" in done.stderr
    assert "1 of 2 were not moved" in done.stderr
    assert ids(old) == {"taken"} and ids(new) == {"taken", "free"}
    assert [facts["lengths"] for facts in old.sessions()] == [[3, 0]]


class Appends:
    """A client of the new place at whose first restores somebody steps at the old one."""

    def __init__(self, client, step, times):
        self.client, self.step, self.times = client, step, times

    def restore(self, snapshot, id):
        copy = self.client.restore(snapshot, id=id)
        if self.times > 0:
            self.times -= 1
            self.step()
        return copy


def test_a_step_meanwhile_is_not_lost(old, new):
    chat = old.session(**SHAPE)
    chat.step(*rows(3))
    move_session.move(chat.facts, old, Appends(new, lambda: chat.step(*rows(1)), 2))
    (facts,) = new.sessions()
    assert facts["id"] == chat.id and facts["lengths"] == chat.lengths == [5, 0]
    assert old.sessions() == []


def test_one_that_never_rests_stays(old, new):
    chat = old.session(**SHAPE)
    with pytest.raises(attentiond.AttentionError, match="let its client wait"):
        move_session.move(chat.facts, old, Appends(new, lambda: chat.step(*rows(1)), 99))
    assert ids(old) == {chat.id} and new.sessions() == []


def test_the_key_comes_from_the_environment(new, tmp_path):
    file = KeyFile(tmp_path / "keys")
    key = file.add("alice", "sessions")
    with Daemon("--key-file", str(file.path)) as guarded, \
            attentiond.Client(url_of(guarded), api_key=key) as client:
        client.session(**SHAPE, id="alices").step(*rows(2))
        for variables, code in (({}, 1), ({"ATTENTION_KEY": key}, 0)):
            done = run(url_of(guarded), new.url, "alices", env={**os.environ, **variables})
            assert done.returncode == code, done.stderr
            assert "key" in done.stderr or code == 0
    assert ids(new) == {"alices"}


@pytest.mark.parametrize("arguments, code, words", [
    (["nobodys"], 1, "no session nobodys"),
    ([], 2, "say --all"),
    (["x", "--all"], 2, "say --all"),
])
def test_slips(old, new, arguments, code, words):
    done = run(old.url, new.url, *arguments)
    assert done.returncode == code and words in done.stderr


def test_without_a_daemon_nothing_moves(old):
    old.session(**SHAPE, id="stays")
    nobody = f"http://127.0.0.1:{free_port()}"
    done = run(old.url, nobody, "--all")
    assert done.returncode == 1 and "nothing answers" in done.stderr
    assert ids(old) == {"stays"}

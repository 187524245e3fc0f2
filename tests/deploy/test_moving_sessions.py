# SPDX-License-Identifier: Apache-2.0
"""A language model writes by sessions behind HAProxy while both replicas are started anew, one
after the other: its sessions move out of the one that ends and back, and the text is what it is
without a service. Where nobody moves them all tokens go through again, and so it is then."""
import sys
import threading

import pytest
from deploy import containers, replicas
from support.tables import ROOT

for folder in (ROOT / "examples" / "python", ROOT / "tests" / "examples"):
    sys.path.insert(0, str(folder))

import generate  # noqa: E402
import move_session  # noqa: E402
import tiny_models  # noqa: E402
from caches import LocalCache, SessionCache  # noqa: E402
from client_package import attentiond  # noqa: E402

WRITERS = 4
CAPACITY = 500
MOST = 400  # tokens of a text
PATIENCE = 30


def likeliest(logits):
    return int(logits.argmax())


class Counts(SessionCache):
    """Knows how often its tokens had to go through anew."""
    begun = 0

    def begin(self):
        super().begin()
        self.begun += 1


class Writer(threading.Thread):
    """A text of as many tokens as there is time for until `over`, and 40 more."""

    def __init__(self, url, model, prompt, group, patience):
        super().__init__(daemon=True)
        self.model, self.prompt = model, prompt
        self.client = attentiond.Client(url)
        self.cache = Counts(self.client, model.shape, CAPACITY, group, patience)
        self.tokens, self.over = [], threading.Event()

    def run(self):
        left = 40
        for token in generate.write(self.model, self.prompt, self.cache, MOST, likeliest, ()):
            self.tokens.append(token)
            self.over.wait(0.05)
            left -= self.over.is_set()
            if left == 0:
                return


def move_all(source, target, idents=None):
    """The ids of what has moved."""
    with attentiond.Client(f"http://127.0.0.1:{source.port}") as old, \
            attentiond.Client(f"http://127.0.0.1:{target.port}") as new:
        chosen = [facts for facts in old.sessions() if idents is None or facts["id"] in idents]
        for facts in chosen:
            move_session.move(facts, old, new)
        return {facts["id"] for facts in chosen}


@pytest.fixture
def model(tmp_path):
    return generate.load(tiny_models.write_folder(tmp_path))


@pytest.mark.parametrize("moves, lame_duck", [(True, "2s"), (False, "500ms")])
def test_texts_outlive_a_rolling_restart(model, monkeypatch, moves, lame_duck):
    containers.need("haproxy")
    monkeypatch.setattr(replicas, "LAME_DUCK", lame_duck)
    decoder, tokenizer = model
    prompt = tokenizer.encode("ab cd")
    journeys = 0
    with replicas.Balanced() as balanced:
        writers = [Writer(f"http://127.0.0.1:{balanced.port}", decoder, prompt, f"user-{number}",
                          PATIENCE if moves else 0) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        for replica, other in (balanced.replicas, balanced.replicas[::-1]):
            stopping = threading.Thread(target=replica.stop)
            stopping.start()
            moved = move_all(replica, other) if moves else set()
            stopping.join()
            replica.start()
            balanced.wait_until_both_serve()
            assert move_all(other, replica, moved) == moved
            journeys += len(moved)
        for writer in writers:
            writer.over.set()
        for writer in writers:
            writer.join(60)
            writer.cache.session.delete()
    expected = list(generate.write(decoder, prompt, LocalCache(decoder.shape, CAPACITY), MOST,
                                   likeliest, ()))
    for writer in writers:
        assert len(writer.tokens) > 40 and writer.tokens == expected[:len(writer.tokens)]
    begun = [writer.cache.begun for writer in writers]
    assert journeys == (WRITERS if moves else 0)
    assert begun == [1] * WRITERS if moves else max(begun) > 1, begun

# SPDX-License-Identifier: Apache-2.0
"""Whose captures are whose: what keys see of one another, and who makes room for whom."""
import json
import threading

import numpy as np
import pytest
from support import raw
from support.captures import get, operands
from support.client import Client, pack
from support.daemon import Daemon
from support.keys import KeyFile


def ask(running, key, method, path, body=None, **headers):
    return running.client.send(method, path, body, {"Authorization": f"Bearer {key}", **headers})


def keep_as(running, key, tensors=None):
    """meta.capture of a call: about 150 kB where its tensors are operands()."""
    body, kind = pack(*(tensors or operands()), {"return": ["lse"], "capture": {"name": "a"}})
    return ask(running, key, "POST", "/v1/attention", body,
               **{"Content-Type": kind}).meta["capture"]


def urls_of(running, key):
    return ["/v1/captures/" + item["id"]
            for item in ask(running, key, "GET", "/v1/captures").json["captures"]]


@pytest.fixture
def keys(tmp_path):
    return KeyFile(tmp_path / "keys")


def start(keys, *options):
    return Daemon("--captures", "--key-file", str(keys.path), *options)


def test_each_key_has_its_own(keys):
    alice, bob = (keys.add(name, "infer,captures") for name in ("alice", "bob"))
    plain = keys.add("carol", "infer")
    with start(keys) as running:
        url = keep_as(running, alice)["url"]
        assert ask(running, alice, "GET", url).status == 200
        for path in (url, url + "/map", url + "/cell", url + "/stats"):
            assert ask(running, bob, "GET", path).status == 404
            assert ask(running, plain, "GET", path).status == 403
        for method, path in (("DELETE", url), ("PUT", url + "/pin"), ("DELETE", url + "/pin")):
            assert ask(running, bob, method, path).status == 404
        assert ask(running, bob, "DELETE", "/v1/captures").status == 204
        assert ask(running, bob, "GET", "/v1/captures").json["captures"] == []
        other = keep_as(running, bob)["id"]
        refused = ask(running, alice, "POST", url + "/compare", json.dumps({"with": other}),
                      **{"Content-Type": "application/json"})
        assert refused.status == 422 and refused.json["pointer"] == "/with"
        assert "scope" in keep_as(running, plain)
        assert len(ask(running, alice, "GET", "/v1/captures").json["captures"]) == 1


def test_each_key_makes_room_for_its_own(keys):
    """One that fills what there is gives others their part, and takes nothing of theirs."""
    alice, bob = (keys.add(name, "infer,captures") for name in ("alice", "bob"))
    with start(keys, "--capture-bytes", "700KiB") as running:
        first = [keep_as(running, bob)["url"] for _ in range(4)]
        keep_as(running, alice)
        hers = urls_of(running, alice)
        assert len(hers) == 1 and urls_of(running, bob) == first[:0:-1]
        for _ in range(6):
            assert "url" in keep_as(running, bob)
        assert urls_of(running, alice) == hers
        rng = np.random.default_rng(1)
        large = [rng.standard_normal((1, 1, 1200, 64)).astype(np.float32) for _ in range(3)]
        before = urls_of(running, bob)
        assert "share" in keep_as(running, bob, large)
        assert urls_of(running, bob) == before and urls_of(running, alice) == hers


def test_a_refusal_costs_nothing():
    """What is looked at frees nothing when it goes, so nothing else goes for it."""
    rng = np.random.default_rng(2)
    with Daemon("--captures", "--capture-bytes", "12MiB") as running:
        def keep(tokens, width):
            q, k, v = (rng.standard_normal((1, tokens, n)).astype(np.float32)
                       for n in (width, width, 1))
            return running.client.attention(
                q, k, v, {"return": ["lse"], "capture": {"name": "a"}}).meta["capture"]

        large = keep(20000, 64)["url"]
        small = [keep(100, 8)["id"] for _ in range(5)]
        looking = Client(running.port, timeout=60)
        gone = []
        thread = threading.Thread(target=lambda: gone.append(
            looking.send("GET", f"{large}/map?format=npy&width=4096&height=4096").status))
        thread.start()
        raw.until(lambda: raw.samples(running.client)["attention_in_flight_bytes"] > 40e6)
        assert "full" in keep(10000, 64)
        thread.join()
        assert gone == [200]
        ids = [item["id"] for item in get(running.client, "/v1/captures").json["captures"]]
        assert ids == [*small[::-1], large.rsplit("/", 1)[1]]
        assert "url" in keep(10000, 64)


def test_a_key_pins_no_more_than_half(keys):
    alice, bob = (keys.add(name, "infer,captures") for name in ("alice", "bob"))
    with start(keys, "--capture-bytes", "700KiB") as running:
        def pin(key, url):
            return ask(running, key, "PUT", url + "/pin")

        one, two, three = (keep_as(running, alice)["url"] for _ in range(3))
        assert [pin(alice, url).status for url in (one, two, one)] == [204] * 3
        refused = pin(alice, three)
        assert refused.status == 429 and refused.json["type"].endswith("/captures-pinned")
        assert "half" in refused.json["detail"]
        shown = ask(running, alice, "GET", "/v1/captures").json["captures"]
        assert [item["pinned"] for item in shown] == [False, True, True]
        his = keep_as(running, bob)["url"]
        assert pin(bob, his).status == 204
        assert ask(running, alice, "DELETE", one + "/pin").status == 204
        assert ask(running, alice, "DELETE", two).status == 204
        assert pin(alice, three).status == 204


def test_what_a_key_kept_goes_with_it(keys):
    """Pinned captures too; a key that gets the name later has none of them."""
    gone = keys.add("gone", "infer,captures")
    stays = keys.add("stays", "infer,captures,metrics")
    with start(keys, "--reload-interval", "100ms") as running:
        def count():
            figures = raw.parse_samples(ask(running, stays, "GET", "/metrics").body)
            return figures["attention_captures"]

        def is_let_in(key):
            return ask(running, key, "GET", "/v1").status == 200

        url = keep_as(running, gone)["url"]
        assert ask(running, gone, "PUT", url + "/pin").status == 204
        keep_as(running, stays)
        del keys.lines[0]
        keys.write()
        raw.until(lambda: not is_let_in(gone))
        assert count() == 1
        same = keys.add("gone", "infer,captures")
        raw.until(lambda: is_let_in(same))
        assert urls_of(running, same) == [] and ask(running, same, "GET", url).status == 404
        assert len(urls_of(running, stays)) == 1


def test_what_others_do_does_not_show(keys):
    alice, bob = (keys.add(name, "infer,captures") for name in ("alice", "bob"))
    with start(keys) as running:
        def state(key):
            answer = ask(running, key, "GET", "/v1/captures")
            return answer.headers["ETag"], answer.json["sequence"]

        empty = state(alice)
        url = keep_as(running, bob)["url"]
        assert state(alice) == empty
        keep_as(running, alice)
        before = state(alice)
        assert before[1] == empty[1] + 1 and before[0] not in (empty[0], state(bob)[0])
        keep_as(running, bob)
        ask(running, bob, "PUT", url + "/pin")
        ask(running, bob, "DELETE", url)
        assert state(alice) == before
        seen = ask(running, alice, "GET", "/v1/captures", **{"If-None-Match": before[0]})
        assert seen.status == 304
        assert ask(running, bob, "GET", "/v1/captures",
                   **{"If-None-Match": before[0]}).status == 200


def test_time_is_over_for_what_is_not_pinned():
    q, k, v = operands()
    with Daemon("--captures", "--capture-ttl", "300ms") as running:
        def left():
            return [item["name"] for item in get(running.client, "/v1/captures").json["captures"]]

        kept = [running.client.attention(q, k, v, {"capture": {"name": name}}).meta["capture"]
                for name in "ab"]
        assert running.client.send("PUT", kept[0]["url"] + "/pin").status == 204
        raw.until(lambda: "b" not in left())
        assert left() == ["a"]


def test_captures_are_charged_and_make_room():
    q, k, v = operands()
    with Daemon("--captures", "--capture-bytes", "600KiB", "--capture-ttl", "0s") as running:
        ids = [running.client.attention(q, k, v, {"capture": {"name": n}}).meta["capture"]["id"]
               for n in "abcdefgh"]
        shown = get(running.client, "/v1/captures").json["captures"]
        assert 1 < len(shown) < 8
        assert [item["id"] for item in shown] == ids[:-len(shown) - 1:-1]
        figures = raw.samples(running.client)
        held = sum(item["bytes"] for item in shown)
        assert figures["attention_captures"] == len(shown)
        assert figures["attention_capture_bytes"] == held <= 600 << 10
        assert figures["attention_in_flight_bytes"] >= held
        assert figures["attention_captures_added_total"] == 8
        assert figures["attention_captures_evicted_total"] == 8 - len(shown)
        for item in shown:
            running.client.send("PUT", f"/v1/captures/{item['id']}/pin")
        answer = running.client.attention(q, k, v, {"capture": {"name": "late"}})
        assert "full" in answer.meta["capture"]
        running.client.send("DELETE", "/v1/captures")
        raw.until(lambda: raw.samples(running.client)["attention_capture_bytes"] == 0)

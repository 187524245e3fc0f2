# SPDX-License-Identifier: Apache-2.0
"""Rows 85 and 90 to 94: keys, quotas, and what a request may leave in the log."""
import json

from support import raw

from catalogue.row import Input, Row, refused, shut


def bearer(key):
    return f"Authorization: Bearer {key}"


def get(name, path="/v1", change=str):
    """A GET with this key, changed."""
    return lambda scene: raw.get(path, bearer(change(scene.keys[name])))


def other_end(key):
    return key[:-1] + ("a" if key[-1] != "a" else "b")


def other_begin(key):
    return ("a" if key[0] != "a" else "b") + key[1:]


def has_challenge(scene, answer):
    assert answer.headers["www-authenticate"].startswith("Bearer ")


def before_the_body(scene):
    scene.connection.send(raw.post(b"", "Expect: 100-continue", length=100 << 20))
    return scene.connection.answer()


def two_keys(scene):
    return raw.get("/v1", bearer(scene.keys["alice"]), bearer(scene.keys["scraper"]))


def flood(scene):
    """Its quota is three at once and then one in a quarter of an hour; others go on beside it."""
    answers = [scene.connection.ask(get("slow")(scene)) for _ in range(50)]
    assert [answer.status for answer in answers[:3]] == [200] * 3
    assert {answer.status for answer in answers[3:]} == {429}
    assert {answer.problem for answer in answers[3:]} == {"quota-exceeded"}
    scene.counted = {"quota-exceeded": 47}
    return answers[-1]


INJECTED = ('/v1/x%0d%0a{"event":"forged"}', 'quote"\\', "\x1b[31m")


def for_the_log(scene):
    path, ident, escape = INJECTED
    return raw.get(path.replace('"', "%22"), f"X-Request-Id: {ident}", f"Content-Type: {escape}",
                   bearer(scene.keys["alice"]))


def is_escaped(scene, answer):
    """Each line of the log is one object; none is forged, and none has a key."""
    raw.until(lambda: "x\\u000d\\u000a" in scene.running.output())
    text = scene.running.output()
    events = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert "forged" not in {event["event"] for event in events}
    assert "\x1b" not in text and not any(key in text for key in scene.keys.values())


def guarded(sent, status, problem, **more):
    return refused(sent, status, problem, with_keys=True, **more)


ROWS = [
    Row(85, "flood by one key", {
        "": Input(status=429, problem="quota-exceeded", play=flood, with_keys=True,
                  note="for that key alone")}),
    Row(90, "no key, wrong key", {
        "none": guarded(raw.get("/v1"), 401, "no-key", check=has_challenge),
        "wrong": guarded(raw.get("/v1", bearer("attn_" + "a" * 43)), 401, "no-key",
                         check=has_challenge),
        "before the body": shut(b"", 401, "no-key", play=before_the_body, with_keys=True)}),
    Row(91, "key without the scope", {
        "infer": guarded(get("alice", "/metrics"), 403, "insufficient-scope"),
        "metrics": guarded(get("scraper", "/v2/models"), 403, "insufficient-scope",
                           oip=True)}),
    Row(92, "two keys, key of 8 kB", {
        "two": shut(two_keys, 400, "bad-framing", with_keys=True),
        "8 kB": guarded(raw.get("/v1", bearer("a" * 8000)), 401, "no-key")}),
    Row(93, "key of which nearly all is right", {
        "last": guarded(get("alice", change=other_end), 401, "no-key"),
        "first": guarded(get("alice", change=other_begin), 401, "no-key"),
        "shorter": guarded(get("alice", change=lambda key: key[:-1]), 401, "no-key")}),
    Row(94, "line ends and escapes for the log", {
        "": guarded(for_the_log, 404, "not-found", check=is_escaped)}),
]

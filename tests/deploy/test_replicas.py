# SPDX-License-Identifier: Apache-2.0
"""Two replicas behind HAProxy, as docker/haproxy configures it: who comes again finds what was
kept, and neither a restart nor a death of a replica is noticed by who calls."""
import random
import signal
import threading
import time

import pytest
from deploy import containers
from deploy.replicas import Balanced, wait_until
from stress import calls
from support import raw
from support.client import Client
from support.sessions import SHAPE, ask

CLIENTS = 16
SHARE = 0.8
LEAST = 5000
GROUPS = [f"user-{number}" for number in range(24)]
CALL = calls.tensors(64, width=32, options={"kernel": "reference"})  # within tune.bufsize
STEP = {"q": [[[1, 0, 0, 0, 0, 0, 0, 0]]] * 2, "k": [[[1, 0, 0, 0, 0, 0, 0, 0]]] * 2,
        "v": [[[1, 0, 0, 0, 0, 0, 0, 0]]] * 2}


@pytest.fixture(scope="module")
def balanced():
    containers.need("haproxy")
    with Balanced() as running:
        yield running


@pytest.fixture
def client(balanced):
    made = Client(balanced.port)
    yield made
    made.close()


# ---- who comes again ----

def kept(replica, path):
    client = Client(replica.port)
    try:
        return client.get(path).json
    finally:
        client.close()


def sessions(replica):
    return {item["id"] for item in kept(replica, "/v1/sessions")["sessions"]}


def test_a_session_stays_where_it_is(balanced, client):
    made = {}
    for group in GROUPS:
        answer = ask(client, "POST", "/v1/sessions", SHAPE, **{"X-Session-Group": group})
        assert answer.status == 201, answer.body
        made[group] = answer.json["id"]
    for number in range(3):
        for group, ident in random.Random(number).sample(sorted(made.items()), len(made)):
            answer = ask(client, "POST", f"/v1/sessions/{ident}/attention", STEP,
                         **{"X-Session-Group": group})
            assert answer.status == 200, answer.body
    places = [sessions(replica) & set(made.values()) for replica in balanced.replicas]
    assert all(places) and len(places[0]) + len(places[1]) == len(made), "both have some"
    assert max(map(len, places)) <= 18, f"{[len(place) for place in places]} of {len(made)}"
    for group, ident in made.items():
        assert ask(client, "DELETE", f"/v1/sessions/{ident}",
                   **{"X-Session-Group": group}).status == 204


def capture(client, name, **headers):
    body = {"q": [[1, 0], [0, 1]], "k": [[1, 0], [0, 1]], "v": [[1, 2], [3, 4]],
            "capture": {"name": name}}
    answer = ask(client, "POST", "/v1/attention", body, **headers)
    assert answer.status == 200 and answer.json["meta"]["capture"]["url"], answer.body


def names(client, **headers):
    answer = client.send("GET", "/v1/captures", headers=headers)
    assert answer.status == 200, answer.body
    return [item["name"] for item in answer.json["captures"]]


def test_a_map_that_was_posted_is_listed_at_the_same_address(balanced, client):
    capture(client, "by curl")
    for _ in range(10):
        browser = Client(balanced.port)
        assert browser.get("/").status == 200
        assert "by curl" in names(browser)
        browser.close()


def test_a_browser_can_look_at_a_group(client):
    for group in GROUPS:
        capture(client, f"of {group}", **{"X-Session-Group": group})
    for group in GROUPS:
        page = client.get(f"/?session-group={group}")
        cookie = page.headers["Set-Cookie"].split(";")[0]
        assert page.status == 200 and cookie == f"session-group={group}"
        assert f"of {group}" in names(client, Cookie=f"other=1; {cookie}")


@pytest.mark.parametrize("path", ("/", "/?session-group=", "/?session-group=a%0d%0ab", "/?a=b",
                                  "/v1?session-group=a", "/?session-group=" + "a" * 65))
def test_a_cookie_is_set_for_a_name_alone(client, path):
    assert "Set-Cookie" not in client.get(path).headers


# ---- what is not noticed ----

class Caller(threading.Thread):
    """Calls at its times over one connection, each in two pieces, until it is over; what failed is
    kept."""

    def __init__(self, port, number, period):
        super().__init__()
        self.port, self.period, self.over = port, period, threading.Event()
        self.request = CALL.bytes(f"X-Session-Group: {number}")
        self.answered, self.failed = 0, []

    def run(self):
        begin = time.monotonic() + random.random() * self.period
        connection = raw.Connection(self.port)
        count = 0
        while not self.over.is_set():
            try:
                connection.send(self.request[:1000])
                answer = connection.ask(self.request[1000:])
                assert answer is not None, "the connection ended"
                CALL.judge(answer.status, answer.headers, answer.body)
                self.answered += 1
            except (OSError, AssertionError) as error:
                self.failed.append(f"{error!r}"[:300])
                connection.close()
                connection = raw.Connection(self.port)
            count += 1
            time.sleep(max(0, begin + count * self.period - time.monotonic()))
        connection.close()


class Load:
    def __init__(self, port, period=0):
        self.callers = [Caller(port, number, period) for number in range(CLIENTS)]

    def answered(self):
        return sum(caller.answered for caller in self.callers)

    def failed(self):
        return [text for caller in self.callers for text in caller.failed]

    def __enter__(self):
        for caller in self.callers:
            caller.start()
        return self

    def __exit__(self, *failure):
        for caller in self.callers:
            caller.over.set()
        for caller in self.callers:
            caller.join()


@pytest.fixture(scope="module")
def rate(balanced):
    """Calls a second that both replicas answer together."""
    with Load(balanced.port) as load:
        time.sleep(0.5)
        begin = load.answered()
        time.sleep(1)
        found = load.answered() - begin
    assert load.failed() == [] and found > 0
    return found


def under_load(balanced, rate, happen, least):
    with Load(balanced.port, CLIENTS / (SHARE * rate)) as load:
        time.sleep(0.5)
        for replica in balanced.replicas:
            happen(balanced, replica)
            balanced.wait_until_both_serve()
            time.sleep(0.5)
        while load.answered() + len(load.failed()) < least:
            time.sleep(0.05)
    failed = load.failed()
    print(f"\n{load.answered()} calls answered at {SHARE * rate:.0f} a second, "
          f"{len(failed)} failed")
    assert failed == []


def restart(balanced, replica):
    """It is left out while it still takes calls."""
    replica.process.send_signal(signal.SIGTERM)
    rest = {1, 2} - {balanced.replicas.index(replica) + 1}
    wait_until(lambda: balanced.serving() == rest)
    assert replica.process.poll() is None, "HAProxy saw only its end"
    assert replica.process.wait(60) == 0
    replica.start()


def die(_, replica):
    assert replica.stop(signal.SIGKILL) == -signal.SIGKILL
    replica.start()


def test_a_rolling_restart_is_not_noticed(balanced, rate):
    under_load(balanced, rate, restart, LEAST)


def test_a_death_is_not_noticed(balanced, rate):
    under_load(balanced, rate, die, LEAST // 5)


def test_a_group_moves_with_its_replica_and_comes_back(balanced, client):
    def place(group):
        capture(client, "here", **{"X-Session-Group": group})
        holds = [replica.process.poll() is None and bool(kept(replica, "/v1/captures")["captures"])
                 for replica in balanced.replicas]
        client.send("DELETE", "/v1/captures", headers={"X-Session-Group": group})
        return holds.index(True)

    for group in GROUPS:
        client.send("DELETE", "/v1/captures", headers={"X-Session-Group": group})
    before = {group: place(group) for group in GROUPS}
    gone = balanced.replicas[0]
    gone.stop(signal.SIGKILL)
    assert {place(group) for group in GROUPS} == {1}
    gone.start()
    balanced.wait_until_both_serve()
    assert {group: place(group) for group in GROUPS} == before

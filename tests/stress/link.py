#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients behind a narrow link, and then behind one on which nothing arrives any more, in a network
namespace of this process's own, whose loopback is that link; and one beside them on a Unix socket.
Behind the narrow link calls are answered, or late by the daemon's deadlines; behind the dead one
the deadlines end them, while it is still dead, and nothing is held for anybody. When it is mended,
the next call is answered. The client beside has the same bits throughout.

    tests/stress/link.py --seconds 60 [--seed 1]
"""
import argparse
import asyncio
import collections
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from catalogue.scene import Neighbour
from stress import calls
from stress.chaos import TIMES, Sufferer
from stress.life import AT_REST, Watched, settle
from support import raw
from support.client import Client
from support.daemon import Daemon

CLIENTS = 12
NARROW = "16mbit"
DEAD = "8bit"  # less than any packet: all are dropped
MOST = 6  # seconds: a request's head, body and answer, or the pause after it, and a look
WITHIN = "LINK_IS_OWN"


def enter():
    """Becomes this program in a network namespace of its own; what is done there harms nobody.
    False where there may be none."""
    if WITHIN in os.environ:
        return True
    alone = ["unshare", "--net"] + ["--map-root-user"] * (os.geteuid() != 0)
    if subprocess.run([*alone, "true"], check=False).returncode != 0:
        return False
    os.environ[WITHIN] = "1"
    os.execvp(alone[0], [*alone, sys.executable, *sys.argv])


def run(*words):
    subprocess.run(words, check=True)


def narrow(rate):
    """The loopback carries so much, and drops what would wait for longer than 100 ms."""
    burst = "32kb" if rate == NARROW else "10b"
    run("tc", "qdisc", "replace", "dev", "lo", "root", "tbf", "rate", rate, "burst", burst,
        "latency", "100ms")


def widen():
    run("tc", "qdisc", "del", "dev", "lo", "root")


class Place(Watched):
    """A daemon on the link, and on a Unix socket that is beside it."""
    context, key, limited = None, "none", "none"
    key_lines = ()

    def __init__(self, folder):
        path = folder / "socket"
        self.daemon = Daemon(*TIMES, "--queue-work", "0", path=path)
        self.link, self.port = self.daemon.port, path  # the neighbour's is the socket
        self.daemon.client = Client(None, path=path)

    def let_go(self):
        """Until only the client beside has a connection, and whoever asks."""
        settle(self.daemon.client, {**AT_REST, "attention_http_connections": 2})


def suffer(place, deck, seconds, seed, seen):
    async def all_of_them():
        until = time.monotonic() + seconds
        await asyncio.gather(*(
            Sufferer(place, place.link, deck, random.Random(f"{seed} {n}"), seen).run(until)
            for n in range(CLIENTS)))
    asyncio.run(all_of_them())


def die(place, deck, seconds, seed, seen):
    """The link dies with whatever is on it, and with clients that wait for answers on and on.
    Returns after how many seconds the daemon had let go of them."""
    clients = threading.Thread(target=suffer, args=(place, deck, seconds, seed, seen))
    clients.start()
    time.sleep(seconds)
    narrow(DEAD)
    begin = time.monotonic()
    place.let_go()
    took = time.monotonic() - begin
    widen()
    clients.join()
    return took


def ask_once(place):
    call = calls.of_workers()[0]
    with raw.Connection(place.link, 20) as connection:
        answer = connection.ask(call.bytes())
    assert answer is not None and answer.status == 200


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    asked = parser.parse_args()
    if not enter():
        print("link: skipped, for no network namespace may be made here")
        return 1 if os.environ.get("CI") else 0
    run("ip", "link", "set", "lo", "mtu", "1500", "up")  # packets as of a network
    print(f"--seed {asked.seed}", flush=True)
    deck = calls.chooser(asked.seed, (10, calls.of_folders("valid")), (5, calls.of_workers()),
                         (3, calls.of_folders("invalid")), (2, calls.late()))
    seen = collections.Counter()
    with tempfile.TemporaryDirectory() as folder, Place(Path(folder)) as place:
        with Neighbour(place) as neighbour:
            narrow(NARROW)
            suffer(place, deck, asked.seconds / 2, f"{asked.seed} narrow", seen)
            place.let_go()
            answered = seen[200]
            took = die(place, deck, asked.seconds / 4, f"{asked.seed} dead", seen)
            ask_once(place)
        place.wait_for_rest()
    assert len(neighbour.bits) == 1, "the client beside got other bits"
    assert answered > 0 and seen["gave up"] > 0
    assert took < MOST
    print(f"a dead link's clients were let go after {took:.1f} s; "
          + ", ".join(f"{key}: {seen[key]}" for key in sorted(seen, key=str)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

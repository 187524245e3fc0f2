#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Moves sessions from one attentiond to another, by snapshots; their ids stay.

    build/venv/bin/python examples/python/move_session.py http://OLD:8080 http://NEW:8080 ID ...
    build/venv/bin/python examples/python/move_session.py http://OLD:8080 http://NEW:8080 --all

A session ends where it was once it is whole where it goes to. A step that comes meanwhile has it
taken again. Steps that come to the old place afterwards are answered 404: they belong to the new
one. Only in the moment between the last look and the end a step may be left behind. The position of
the next one then is not the length that the new place has: its 409 says which rows to send again.
"""
import argparse
import sys

from client_package import attentiond

ATTEMPTS = 5  # at a session that others append to


def move(facts, old, new):
    """One session; gives the sentence on what was done. Refused says why it could not be."""
    source = attentiond.Session(old, facts)
    for _ in range(ATTEMPTS):
        snapshot = source.snapshot()
        copy = new.restore(snapshot, id=source.id)
        source.refresh()
        if source.lengths == copy.lengths:
            source.delete()
            return f"{source.id}: {max(copy.lengths)} tokens, {len(snapshot)} bytes"
        copy.delete()
    raise attentiond.AttentionError(f"it was appended to in each of {ATTEMPTS} attempts: let its "
                                    "client wait, and try again")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="A key that both "
                                     "daemons know is taken from ATTENTION_KEY.")
    parser.add_argument("old", help="the address where sessions are, like http://127.0.0.1:8080")
    parser.add_argument("new", help="the address where they go")
    parser.add_argument("ids", nargs="*", metavar="ID", help="a session")
    parser.add_argument("--all", action="store_true", help="all that the key has")
    asked = parser.parse_args()
    if asked.all == bool(asked.ids):
        parser.error("name the sessions, or say --all")
    return asked


def chosen(asked, old):
    """What the daemon says of each session that is asked for."""
    there = {facts["id"]: facts for facts in old.sessions()}
    missing = [id for id in asked.ids if id not in there]
    if missing:
        sys.exit(f"there is no session {', '.join(missing)} at {asked.old}, or it is another key's")
    return list(there.values()) if asked.all else [there[id] for id in asked.ids]


def main():
    asked, failed = arguments(), 0
    try:
        with attentiond.Client(asked.old) as old, attentiond.Client(asked.new) as new:
            sessions = chosen(asked, old)
            new.sessions()  # whether it takes any, before the first has moved
            for facts in sessions:
                try:
                    print(move(facts, old, new))
                except attentiond.AttentionError as problem:
                    print(f"{facts['id']} stays: {problem}", file=sys.stderr)
                    failed += 1
    except attentiond.AttentionError as problem:
        sys.exit(str(problem))
    sys.exit(f"{failed} of {len(sessions)} were not moved" if failed else 0)


if __name__ == "__main__":
    main()

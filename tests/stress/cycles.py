#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Daemons that start and stop, many times and several at once: told to stop at once, when ready, in
the middle of their first request, or while connections come. Each ends with 0 and within seconds,
however early it is told; before it catches signals, a signal ends it as it ends any process.

    tests/stress/cycles.py --cycles 1000 [--seed 1]
"""
import argparse
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import raw
from support.daemon import Daemon

AT_ONCE = 4
MOST_SECONDS = 20  # a sanitizer's build on a busy machine


def at_once(daemon, generator):
    """Somewhere in its start."""
    time.sleep(generator.random() * 0.03)


def when_ready(daemon, generator):
    daemon.wait_until_ready()


def in_a_request(daemon, generator):
    """Part of it has come; the rest comes after the signal and is answered, or there is an end."""
    daemon.wait_until_ready()
    connection = raw.Connection(daemon.port)
    connection.send(raw.post()[:generator.randrange(1, len(raw.post()))])
    return connection


def among_connections(daemon, generator):
    daemon.wait_until_ready()
    opened = [raw.Connection(daemon.port) for _ in range(8)]
    for one in opened[:4]:
        one.send(raw.post())
    return opened[0]


MOMENTS = (at_once, when_ready, in_a_request, among_connections)


def cycle(generator, folder):
    """Seconds from the signal to the end."""
    moment = generator.choice(MOMENTS)
    path = Path(folder) / f"socket-{generator.randrange(1 << 60)}" if generator.random() < 0.3 \
        else None
    daemon = Daemon("--io-threads", str(generator.randrange(1, 5)), "--drain-timeout", "300ms",
                    "--threads", str(generator.randrange(1, 5)), path=path)
    held = moment(daemon, generator)
    daemon.client.close()
    begin = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    code = daemon.process.wait(MOST_SECONDS)
    took = time.monotonic() - begin
    said = daemon.output()
    assert code == 0 or (code == -signal.SIGTERM and moment is at_once and said == ""), \
        f"{moment.__name__}: {code}\n{said[-5000:]}"
    assert path is None or not path.exists(), f"{moment.__name__}: the socket's path is left"
    if held is not None:
        held.close()
    daemon.log.close()
    return took


class Runner(threading.Thread):
    def __init__(self, counter, seed, folder):
        super().__init__()
        self.counter, self.generator, self.folder = counter, random.Random(seed), folder
        self.longest, self.failure = 0, None

    def run(self):
        try:
            while next(self.counter, None) is not None:
                self.longest = max(self.longest, cycle(self.generator, self.folder))
        except Exception as failure:
            self.failure = failure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    asked = parser.parse_args()
    print(f"--seed {asked.seed}", flush=True)
    begin = time.monotonic()
    counter = iter(range(asked.cycles))
    with tempfile.TemporaryDirectory() as folder:
        runners = [Runner(counter, f"{asked.seed} {n}", folder) for n in range(AT_ONCE)]
        for runner in runners:
            runner.start()
        for runner in runners:
            runner.join()
    failures = [runner.failure for runner in runners if runner.failure is not None]
    for failure in failures:
        print(f"{type(failure).__name__}: {failure}", file=sys.stderr)
    print(f"{asked.cycles} daemons started and stopped in {time.monotonic() - begin:.0f} s; the "
          f"longest took {max(runner.longest for runner in runners):.2f} s to end")
    return len(failures) > 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Calls that fail while the daemon starts: it ends with a sentence and another code than 0, or does
without what it could not get and serves."""
import collections
import errno
import json
import random
import signal
import subprocess
import time

from support import raw
from support.certificates import Authority
from support.daemon import BINARY, bound, environment
from support.keys import KeyFile

from torture.faults import Fault, Wrong
from torture.page import SHORT, Kind, Page
from torture.victim import ANSWER_SECONDS, HELPLESS, LIBRARY, Connection, Stuck

NAME = "start"
REFUSED = (1, 2)  # it cannot start; its configuration is refused
FAULTS = [Fault("start: no memory", Kind.MEMORY, errno.ENOMEM),
          Fault("start: open EMFILE", Kind.OPEN, errno.EMFILE),
          Fault("start: read EIO", Kind.READ, errno.EIO),
          Fault("start: read EINTR", Kind.READ, errno.EINTR, (False,)),
          Fault("start: read one byte", Kind.READ, SHORT),
          Fault("start: thread EAGAIN", Kind.THREAD, errno.EAGAIN),
          Fault("start: epoll ENOSPC", Kind.EPOLL, errno.ENOSPC),
          Fault("start: socket ENFILE", Kind.SOCKET, errno.ENFILE)]


class Starter:
    def __init__(self, folder):
        """What needs most of all: keys, TLS with an authority of clients, two addresses, captures,
        and spans, to a collector that is not there."""
        folder = folder / NAME
        folder.mkdir()
        authority, keys = Authority(folder), KeyFile(folder / "keys")
        keys.add("alice")
        certificate, key = authority.sign("service")
        self.page, self.log = Page(folder / "page"), folder / "log"
        self.ops = folder / "ops"
        self.command = bound([
            BINARY, "--listen", f"127.0.0.1:0,unix:{folder / 'socket'}", "--ops-listen",
            f"unix:{self.ops}", "--key-file", str(keys.path), "--tls-certificate",
            str(certificate), "--tls-key", str(key), "--tls-client-ca",
            str(authority.certificate), "--threads", "2", "--io-threads", "2", "--captures",
            "--otlp-endpoint", "http://127.0.0.1:9", "--otlp-sample", "0"])

    def is_ready(self):
        try:
            with Connection(self.ops) as connection:
                answer = connection.ask(raw.get("/readyz", "Connection: close"))
            return answer is not None and answer.status == 200
        except (OSError, Stuck):
            return False

    def begin(self):
        with self.log.open("wb") as log:
            return subprocess.Popen(self.command, stdout=log, stderr=log,
                                    env={**environment(), **self.page.variables(LIBRARY)})

    def play(self, fault, number, persists=False):
        """The word for how it went; AssertionError when it went wrong."""
        self.page.arm(fault.kinds, fault.error, number, persists)
        process, deadline = self.begin(), time.monotonic() + ANSWER_SECONDS
        try:
            while process.poll() is None and b" on http" not in self.log.read_bytes():
                assert time.monotonic() < deadline, "it neither started nor ended"
                time.sleep(0.002)
            self.page.disarm()
            if process.poll() is None:
                return self.judge_started(process, deadline)
        finally:
            self.page.disarm()
            if process.poll() is None:
                process.kill()
            process.wait()
        text, frames = self.log.read_text(errors="replace"), self.page.frames()
        if process.returncode == -signal.SIGSEGV and frames and frames[0].startswith(HELPLESS):
            return f"ended by {HELPLESS}"
        assert process.returncode in REFUSED, f"ended with {process.returncode}: {text}"
        assert self.page.failed > 0, f"did not start, though nothing failed: {text}"
        last = text.splitlines()[-1:]
        assert last and last[0].startswith("attentiond: ") and last[0].isprintable() and \
            len(last[0]) > 20, f"does not say why: {text!r}"
        # Where libtasn1 writes a key without its memory, and says nothing, GnuTLS compares that.
        assert "does not belong" not in last[0] or frames[0].startswith(HELPLESS), \
            f"blames files that are fine: {text!r}"
        return "ended"

    def judge_started(self, process, deadline):
        while not self.is_ready():
            assert process.poll() is None and time.monotonic() < deadline, "not ready"
            time.sleep(0.002)
        process.terminate()
        code = process.wait(ANSWER_SECONDS)
        assert code == 0, f"ended with {code}: {self.log.read_text()}"
        last = self.log.read_text().splitlines()[-1]
        assert json.loads(last)["event"] == "stopped", last
        return "started"

    def count(self, fault):
        self.play(fault, 0)
        return self.page.counted


def torture(folder, share, seed, report):
    """All calls that are made to start, or that share of them, fail, once and persistently."""
    starter, generator = Starter(folder), random.Random(seed)
    for fault in FAULTS:
        begin, outcomes = time.monotonic(), collections.Counter()
        cases = [(number, persists) for number in range(1, starter.count(fault) + 1)
                 for persists in fault.modes]
        for number, persists in generator.sample(cases, max(1, round(share * len(cases)))):
            try:
                word = starter.play(fault, number, persists)
            except AssertionError as failure:
                report(Wrong(NAME, fault, number, persists, starter.page.frames(), failure))
                word = "wrong"
            outcomes[word] += 1
        report.add(NAME, fault, outcomes, time.monotonic() - begin)

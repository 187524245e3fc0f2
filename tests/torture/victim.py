# SPDX-License-Identifier: Apache-2.0
"""A daemon whose calls of the C library can be made to fail, and what it has to be after each
failure: up, at rest, and as able to answer as before."""
import json
import os
import re
import signal
import ssl
import time
from pathlib import Path

from support import png, raw
from support.certificates import Authority
from support.client import Answer
from support.daemon import BINARY, Daemon, free_port
from support.keys import KeyFile
from support.oip import LENGTH, Outputs
from support.packing import unpack

from torture import captures
from torture.exchanges import PNG_TYPE, SLOW
from torture.page import Page

LIBRARY = Path(os.environ.get("FAILING", str(Path(BINARY).parent / "torture" / "failing.so")))
AT_REST = {"attention_http_requests_in_flight": 1, "attention_in_flight_bytes": 0,
           "attention_queue_depth": 0, "attention_http_connections": 1}
ANSWER_SECONDS = 10  # a connection without an answer after this is stuck
NOT_KEPT = "there is no memory to keep the call now"
# What of a state is never twice the same: moments, how often it changed, ids that were drawn.
PASSING = re.compile(rb'"(expires_in_s|created|sequence)":[0-9.]+|\b[0-9a-f]{32}\b')
VOLATILE = ("id", "timings_ms", "instance", "expires_in_s", "url", "created", "sequence")


# GnuTLS has it write signatures and read certificates, and it uses what it could not allocate.
HELPLESS = "libtasn1"
# It loses a block of a handshake that it ends for want of another.
LOSING = ("libgnutls",)


class Stuck(AssertionError):
    pass


class Connection(raw.Connection):
    def __init__(self, port, context=None):
        super().__init__(port, ANSWER_SECONDS)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")

    def ask(self, data, has_body=True):
        """The answer, or None where the connection ended in its place or in its middle."""
        try:
            self.send(data)
            return self.answer(has_body)
        except TimeoutError as failure:
            raise Stuck("there was neither an answer nor an end") from failure
        except (OSError, AssertionError):
            return None


class Headers(dict):
    """Names as HTTP spells them, for those who ask so."""

    def __init__(self, lines):
        super().__init__((name.title(), value) for name, value in lines.items())


def without_volatile(value):
    if isinstance(value, list):
        return [without_volatile(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: without_volatile(item) for name, item in value.items() if name not in VOLATILE}


def content(exchange, answer):
    """What two answers to one request have in common, however they were packed."""
    kind = answer.headers.get("content-type", "")
    coding = answer.headers.get("content-encoding")
    body = unpack(coding, answer.body) if coding else answer.body
    whole = Answer(answer.status, Headers(answer.headers), body)
    if not exchange.stable or not exchange.has_body:
        parts = ()
    elif kind == PNG_TYPE:
        parts = [data for name, data in png.chunks(body) if name == b"IDAT"]
    elif answer.status == 200 and exchange.path.endswith("/infer"):
        whole.headers = {**Headers(answer.headers), LENGTH: answer.headers.get(LENGTH.lower()),
                         "Content-Type": kind}
        outputs = Outputs(whole)
        parts = {name: (array.shape, array.tobytes()) for name, array in outputs.items()}
    elif whole.tensors:
        parts = [{name: (x.shape, x.tobytes()) for name, x in whole.tensors.items()},
                 without_volatile(whole.meta), str(whole.stats)]
    elif isinstance(whole.json, dict):
        parts = without_volatile(whole.json)
    else:
        parts = body
    return answer.status, kind, parts


def without_capture(told):
    status, kind, (tensors, meta, stats) = told
    return status, kind, tensors, {**meta, "capture": None}, stats


def says_not_kept(answer):
    """Texts in an npz have four bytes for a character."""
    return any(NOT_KEPT.encode(form) in answer.body for form in ("utf-8", "utf-32-le"))


class Victim:
    def __init__(self, place, folder, *arguments):
        """`place`: "plain", "captures", "full", "traced", "keys" or "tls"."""
        self.place, folder = place, folder / place
        folder.mkdir(exist_ok=True)
        self.page, self.context, self.key = Page(folder / "page"), None, None
        self.ops, self.usual, self.blocks, self.lost = None, {}, None, 0
        self.states, self.ids = {}, {}
        arguments = ("--threads", "2", "--io-threads", "1", "--idle-timeout", "1m", *arguments)
        if place in ("keys", "tls"):
            self.ops = free_port()
            arguments += ("--ops-listen", f"127.0.0.1:{self.ops}")
        if place == "keys":
            self.keys = KeyFile(folder / "keys")
            self.key = self.keys.add("alice", "infer")
            arguments += ("--key-file", str(self.keys.path))
        if place == "tls":
            authority = Authority(folder)
            certificate, key = authority.sign("service")
            arguments += ("--tls-certificate", str(certificate), "--tls-key", str(key))
            self.context = ssl.create_default_context(cafile=authority.certificate)
        self.arguments = arguments

    def __enter__(self):
        self.daemon = Daemon(*self.arguments, variables=self.page.variables(LIBRARY))
        self.port, self.ops = self.daemon.port, self.ops or self.daemon.port
        self.process = self.daemon.process
        self.daemon.client.port = self.ops
        self.daemon.__enter__()
        self.daemon.client.close()
        return self

    def restart(self):
        """After it has ended, which nobody holds against it."""
        self.daemon.log.close()
        self.__enter__()
        self.learn(self.exchanges)

    def __exit__(self, *failure):
        self.page.disarm()
        self.daemon.stop()

    def open(self):
        return Connection(self.port, self.context)

    # ---- asking ----

    def ask(self, exchange):
        """(connection, answer) of a new connection; the answer is None where it was closed, the
        connection too where it could not be opened."""
        try:
            connection = self.open()
        except TimeoutError as failure:
            raise Stuck("the connection was not opened") from failure
        except (OSError, ssl.SSLError):
            return None, None
        return connection, self.ask_on(connection, exchange)

    def ask_on(self, connection, exchange):
        return connection.ask(self.with_ids(exchange.sent), exchange.has_body)

    def with_ids(self, request):
        """The request with ids in the place of names of captures."""
        for name, number in self.ids.items():
            request = request.replace(name, number)
        return request

    def learn_ids(self, exchange, connection):
        if exchange.has_names:
            listed = json.loads(connection.ask(raw.get("/v1/captures")).body)["captures"]
            self.ids = {captures.at(one["name"]).encode(): one["id"].encode() for one in listed
                        if len(one["name"]) < captures.ID_LENGTH}

    def prepare(self, exchange):
        """Sends what sets the stage; the answers are not looked at."""
        if not exchange.before:
            return
        with self.open() as connection:
            for request in exchange.before:
                if b"~" in request:
                    self.learn_ids(exchange, connection)
                connection.ask(self.with_ids(request))
            self.learn_ids(exchange, connection)
        time.sleep(0.002)  # the last of them is logged

    def clear(self, exchange):
        if exchange.after:
            with self.open() as connection:
                for request in exchange.after:
                    connection.ask(request)
            time.sleep(0.002)

    def read_state(self, exchange):
        if not exchange.state:
            return []
        with self.open() as connection:
            self.learn_ids(exchange, connection)
            answers = [connection.ask(self.with_ids(request)) for request in exchange.state]
        return [(answer.status, PASSING.sub(b"", answer.body) if answer.status == 200 else None)
                for answer in answers]

    def learn(self, exchanges):
        """Asks each, so that caches are filled, and remembers the answers and what stays held."""
        self.exchanges = exchanges
        for _ in range(2):
            self.ask_all(exchanges)
        if self.place == "full":  # its calls are over before the warden has found one
            self.ask(SLOW)[0].close()
        time.sleep(0.2)  # the last connections are closed
        self.blocks, self.files = self.page.live, self.open_files()

    def ask_all(self, exchanges):
        for exchange in exchanges:
            self.prepare(exchange)
            states = [self.read_state(exchange)]
            connection, answer = self.ask(exchange)
            assert answer is not None and answer.status == exchange.status, \
                (exchange.name, answer and (answer.status, answer.body[:500]))
            self.usual[exchange.name] = content(exchange, answer)
            connection.close()
            self.states[exchange.name] = [*states, self.read_state(exchange)]
            self.clear(exchange)
        self.wait_for_rest()

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    # ---- judging ----

    def is_usual(self, exchange, answer):
        return answer is not None and not says_not_kept(answer) and \
            content(exchange, answer) == self.usual[exchange.name]

    def is_not_kept(self, exchange, answer):
        """Whether it is the usual answer, but for the reason why the call was not kept."""
        return answer is not None and says_not_kept(answer) and without_capture(
            content(exchange, answer)) == without_capture(self.usual[exchange.name])

    def samples(self):
        with Connection(self.ops) as connection:
            answer = connection.ask(raw.get("/metrics", "Connection: close"))
        assert answer is not None and answer.status == 200, "there are no metrics"
        return raw.parse_samples(answer.body)

    def wait_for_rest(self):
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            samples = self.samples()
            wrong = {name: samples[name] for name, value in AT_REST.items()
                     if samples[name] != value}
            if not wrong:
                return samples
            assert time.monotonic() < deadline, f"not at rest: {wrong}"
            time.sleep(0.001)

    def settle(self, is_settled, seconds=2):
        """Connections are closed a moment after their answers."""
        deadline = time.monotonic() + seconds
        while not is_settled():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.0005)
        return True

    def settle_blocks(self):
        """libcurl has a few less for a connection to the collector that it had to make again."""
        if self.place == "traced":
            return self.settle(lambda: self.page.live <= self.blocks)
        return self.settle(lambda: self.page.live == self.blocks)

    def is_helpless(self):
        """Whether it ended, or soon will, in the library that cannot do without memory."""
        frames = self.page.frames()
        if not frames or not frames[0].startswith(HELPLESS):
            return False
        self.settle(lambda: self.process.poll() is not None, 0.1)
        return self.process.returncode == -signal.SIGSEGV

    def assert_alive(self):
        assert self.process.poll() is None, f"ended with {self.process.returncode}:\n" + \
            self.daemon.output()[-5000:]

    def judge_health(self, exchange, connection, answer, may_be_closed):
        """After a failure: the same request is answered as always, on the same connection if it
        stayed open, and nothing is held that was not before."""
        self.assert_alive()
        again = None
        if exchange.has_names:  # whoever looked at a capture that is dropped holds its bytes
            self.clear(exchange)
            assert self.settle(lambda: self.samples()["attention_in_flight_bytes"] == 0)
        self.prepare(exchange)
        if connection is not None and answer is not None and not answer.closes:
            again = self.ask_on(connection, exchange)
            assert again is not None or may_be_closed, "the connection is not usable"
        if connection is not None:
            connection.close()
        if again is None:
            connection, again = self.ask(exchange)
            if connection is not None:
                connection.close()
        assert self.is_usual(exchange, again), ("the next answer is another", again and (
            again.status, again.body[:500]))
        self.clear(exchange)
        self.wait_for_rest()
        assert self.settle(lambda: self.open_files() == self.files), \
            f"{self.open_files()} descriptors, before {self.files}"
        if self.settle_blocks():
            return
        self.ask_all(self.exchanges)  # workspaces that were given back are taken again
        if self.settle_blocks():
            return
        lost = self.page.live - self.blocks
        self.blocks = self.page.live
        assert is_of(LOSING, self.page.frames()), f"{lost} blocks of memory are not given back"
        self.lost += lost


def is_of(libraries, frames):
    """Whether it failed in one of these, not in what we asked another to do."""
    for frame in frames:
        if frame.startswith(libraries):
            return True
        if frame.startswith("attentiond+"):
            return False
    return False


def is_out_of_memory(exchange, answer):
    if answer is None or answer.status != 503:
        return False
    if not exchange.has_body:
        return True
    try:
        said = json.loads(answer.body)
    except ValueError:
        return False
    if exchange.path.startswith("/v2"):
        return list(said) == ["error"] and "memory" in said["error"]
    return said["type"] == "/problems/out-of-memory" and said["status"] == 503

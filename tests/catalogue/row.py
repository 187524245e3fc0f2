# SPDX-License-Identifier: Apache-2.0
"""What a row of the catalogue is made of: its inputs, each with the answer that it has to get."""
from collections.abc import Callable
from dataclasses import dataclass, field

from support import raw

HASTY = ("--header-timeout", "400ms", "--body-timeout", "400ms", "--send-timeout", "400ms")
BUSY = ("--threads", "1", "--inline-microseconds", "0")


def send_and_read(scene):
    """How an input is played, unless it has a way of its own: as a client that goes on to send
    what it has, and then looks whether there is an answer."""
    scene.send(scene.bytes())
    return scene.connection.answer(scene.input.has_body)


@dataclass(frozen=True)
class Input:
    """`sent` is bytes or a function of the scene; `play` may replace the sending, and returns the
    answer or None. `check` is given the scene and the answer."""
    sent: bytes | Callable = b""
    status: int | None = 200          # None: closed without an answer
    problem: str | None = None        # the last part of the problem's type
    stays: bool = True                # the connection takes another request afterwards
    by_library: bool = False          # answered below the daemon: HTML, not counted
    maybe_below: bool = False         # newer versions of the library refuse it themselves
    unfolded: bool = False            # newer versions join the lines, as RFC 9112 allows: skipped
    has_body: bool = True
    alone: bool = False               # no reference calls beside it: the daemon ends, or is full
    oip: bool = False                 # errors have the form of the Open Inference Protocol
    daemon: tuple = ()                # arguments
    with_keys: bool = False
    tls: bool = False                 # at the running daemon's tls_port; others ask at its socket
    log: str | None = None            # where the daemon's log goes
    note: str = ""                    # words of the answer's column, when the status is not enough
    play: Callable = send_and_read
    check: Callable = field(default=lambda scene, answer: None)

    @property
    def refusals(self):
        """{problem: how often it is counted}, unless the play says otherwise."""
        return {self.problem: 1} if self.problem and not self.by_library else {}

    @property
    def words(self):
        """The answer as docs/reliability.md has it."""
        if self.status is None:
            return self.note or "closed without an answer"
        text = f"{self.status}"
        if self.problem:
            text += f" `{self.problem}`"
        if self.by_library and self.status >= 400:
            text += " by the library"
        if self.note:
            text += f", {self.note}"
        return text if self.stays else text + ", closed"


@dataclass(frozen=True)
class Row:
    number: int
    name: str
    inputs: dict

    @property
    def slug(self):
        return f"row-{self.number:02d}-" + "-".join(
            "".join(c if c.isalnum() else " " for c in self.name).split())

    @property
    def line(self):
        answers = dict.fromkeys(item.words for item in self.inputs.values())
        return f"| {self.number} | {self.name} | {'; '.join(answers)} |"


def refused(sent, status, problem, **more):
    """By the daemon, on a connection that stays."""
    return Input(sent, status, problem, **more)


def shut(sent, status, problem, **more):
    """By the daemon, which then closes: nothing behind it is executed."""
    return Input(sent, status, problem, stays=False, **more)


def library(sent, status, **more):
    return Input(sent, status, stays=False, by_library=True, **more)


def accepted(sent, check=lambda scene, answer: None, **more):
    return Input(sent, check=check, **more)


def head(*lines, method="POST", version="HTTP/1.1"):
    first = f"{method} /v1/attention {version}"
    return "\r\n".join([first, "Host: localhost", "Content-Type: application/json", *lines]
                       ).encode("latin-1") + b"\r\n\r\n"


LENGTH = f"Content-Length: {len(raw.BODY)}"
IN_CHUNKS = "Transfer-Encoding: chunked"
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(raw.BODY), raw.BODY)


def typed(body, kind, *lines, path="/v1/attention"):
    """A POST of another media type than JSON."""
    return raw.post(body, *lines, path=path).replace(b"application/json", kind.encode(), 1)

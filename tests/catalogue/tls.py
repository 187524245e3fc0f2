# SPDX-License-Identifier: Apache-2.0
"""Row 95: handshakes that fail or do not come."""
import ssl
import time
import warnings

from support import raw

from catalogue.row import HASTY, Input, Row


def hello(context):
    """The first bytes of a client of this kind."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def old_client():
    context = ssl.create_default_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1
    return context


def closed_in_time(data):
    """A client that sends this and no more; what comes back is at most an alert."""
    def play(scene):
        assert scene.connection.ask(raw.get()).status == 200  # later it waits only between two
        begin = time.monotonic()
        with raw.Connection(scene.running.tls_port) as opened:
            opened.send(data)
            text = b""
            try:
                while piece := opened.socket.recv(4096):
                    text += piece
            except ConnectionError:
                pass
        assert time.monotonic() - begin < 5
        assert b"HTTP/" not in text and (data == b"" or text[:1] in (b"", b"\x15"))
    return play


def silent(data):
    return Input(status=None, daemon=HASTY, tls=True, play=closed_in_time(data))


ROWS = [
    Row(95, "TLS 1.0, no handshake, stalled handshake", {
        "TLS 1.0": silent(hello(old_client())), "none": silent(b""),
        "stalled": silent(hello(ssl.create_default_context())[:40])}),
]

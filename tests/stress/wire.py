# SPDX-License-Identifier: Apache-2.0
"""Answers from a stream, and the several ways in which a client can leave."""
import asyncio
import socket
import ssl
import struct

ABRUPTLY = struct.pack("ii", 1, 0)
CUT = (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, FileNotFoundError)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def stays(self):
        return self.headers.get("connection", "").lower() != "close"


async def head_of(reader):
    """(status, headers) of the next answer that is no interim one."""
    while True:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = text.split("\r\n")
        status = int(first.split()[1])
        if status >= 200:
            return status, dict(line.lower().split(": ", 1) for line in lines if line)


async def answer_of(reader):
    status, headers = await head_of(reader)
    return Answer(status, headers, await reader.readexactly(int(headers.get("content-length", 0))))


def reset(writer):
    """Leaves as a process does that is killed with unread bytes."""
    opened = writer.get_extra_info("socket")
    if opened is not None and opened.fileno() >= 0 and opened.family != socket.AF_UNIX:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABRUPTLY)
    writer.transport.abort()


def leave(writer, generator):
    """With a word or without one."""
    if generator.random() < 0.5:
        reset(writer)
    else:
        writer.close()

# SPDX-License-Identifier: Apache-2.0
"""What no service can be quicker than: it reads a body into memory that it has already touched and
sends as many bytes back, without a look at them.    python bare.py PORT"""
import re
import socket
import sys
import threading

BUFFER = bytearray(b"\1") * (1 << 29)


def serve(connection):
    head = b""
    with connection:
        while True:
            while b"\r\n\r\n" not in head:
                got = connection.recv(1 << 16)
                if not got:
                    return
                head += got
            body = head.index(b"\r\n\r\n") + 4
            length = re.search(rb"(?im)^content-length: *(\d+)", head)
            length, filled = int(length[1]) if length else 0, len(head) - body
            while filled < length:
                filled += connection.recv_into(memoryview(BUFFER)[filled:length])
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
            connection.sendall(memoryview(BUFFER)[:length])
            head = b""


with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
    while True:
        threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()

# SPDX-License-Identifier: Apache-2.0
"""Keep-alive clients in lock step: everybody asks, everybody is answered, again. A server whose
event loop repeats a blocking wait after a full batch of 128 events stalls here until something else
happens; a round of a healthy one takes milliseconds."""
import pytest
from support import raw
from support.daemon import Daemon

ROUNDS = 25
STALL_SECONDS = 5  # a healthy round of 257 under a sanitizer on a busy machine stays far below


@pytest.fixture(scope="module")
def one_thread():
    with Daemon("--io-threads", "1", "--log", "off") as daemon:
        yield daemon


@pytest.mark.parametrize("clients", (127, 128, 129, 255, 256, 257))
@pytest.mark.parametrize("request_bytes", (raw.get(), raw.post()), ids=("get", "post"))
def test_no_stall(one_thread, clients, request_bytes):
    connections = [raw.Connection(one_thread.port, STALL_SECONDS) for _ in range(clients)]
    try:
        for _ in range(ROUNDS):
            for connection in connections:
                connection.send(request_bytes)
            for connection in connections:
                assert connection.answer().status == 200
    finally:
        for connection in connections:
            connection.close()


def test_sleeping_requests_do_not_hold_up_others(one_thread):
    """Half of the clients' calls go to the workers and are resumed from there."""
    big = b'{"q":{"shape":[64,64],"dtype":"float32","data":[%s]},' % b",".join([b"1"] * 4096) + \
        b'"k":{"shape":[64,64],"dtype":"float32","data":[%s]},' % b",".join([b"1"] * 4096) + \
        b'"v":{"shape":[64,64],"dtype":"float32","data":[%s]}}' % b",".join([b"1"] * 4096)
    connections = [raw.Connection(one_thread.port, 30) for _ in range(128)]
    try:
        for _ in range(3):
            for number, connection in enumerate(connections):
                connection.send(raw.post(big) if number % 2 else raw.get())
            for connection in connections:
                assert connection.answer().status == 200
    finally:
        for connection in connections:
            connection.close()

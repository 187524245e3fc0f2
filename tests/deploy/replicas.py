# SPDX-License-Identifier: Apache-2.0
"""Two replicas of the daemon behind HAProxy with the configuration of docker/haproxy, all on
loopback."""
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from support.client import Client
from support.daemon import BINARY, bound, environment, free_port

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = ROOT / "docker" / "haproxy" / "haproxy.cfg"
LAME_DUCK = "2s"


def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so after {seconds} s"
        time.sleep(0.02)


def is_ready(port):
    client = Client(port)
    try:
        return client.get("/readyz").status == 200
    except OSError:
        return False
    finally:
        client.close()


class Replica:
    """One that comes back at the same port."""

    def __init__(self):
        self.port, self.process = free_port(), None
        self.log = tempfile.TemporaryFile()

    def start(self):
        command = [BINARY, "--listen", f"127.0.0.1:{self.port}", "--captures", "--lame-duck",
                   LAME_DUCK, "--log", "errors"]
        self.process = subprocess.Popen(bound(command), stdout=self.log, stderr=self.log,
                                        env=environment())
        wait_until(lambda: is_ready(self.port))

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(60)


class Proxy:
    """HAProxy before the replicas at these two ports, whether anything is there or not."""

    def __init__(self, first, second):
        self.port, self.metrics = free_port(), free_port()
        addresses = {"LISTEN": self.port, "METRICS": self.metrics, "REPLICA_1": first,
                     "REPLICA_2": second}
        variables = {name: f"127.0.0.1:{port}" for name, port in addresses.items()}
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(bound(["haproxy", "-db", "-f", str(CONFIGURATION)]),
                                        stdout=self.log, stderr=self.log,
                                        env={**os.environ, **variables})

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.end()

    def end(self):
        self.process.kill()
        self.process.wait()

    def serving(self):
        """The replicas that HAProxy sends calls to."""
        client = Client(self.metrics)
        text = client.get("/metrics").body.decode()
        client.close()
        return {number for number in (1, 2)
                if f'haproxy_server_status{{proxy="calls",server="replica-{number}",state="UP"}} 1'
                in text}


class Balanced:
    def __init__(self):
        self.replicas = [Replica(), Replica()]

    def __enter__(self):
        for replica in self.replicas:
            replica.start()
        self.proxy = Proxy(*(replica.port for replica in self.replicas))
        self.port, self.serving = self.proxy.port, self.proxy.serving
        wait_until(lambda: is_ready(self.port))
        self.wait_until_both_serve()
        return self

    def __exit__(self, *failure):
        self.proxy.end()
        codes = [replica.stop() for replica in self.replicas]
        assert codes == [0, 0], codes

    def wait_until_both_serve(self):
        wait_until(lambda: self.serving() == {1, 2})

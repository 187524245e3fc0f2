# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: made from what is committed and installed by apt where nothing else is; a
real systemd then runs the service, restarts it without losing a request, and starts it again when
it is killed or hangs."""
import subprocess
import threading

import pytest
from deploy import containers
from deploy.replicas import is_ready, wait_until
from support import raw
from support.client import Client
from support.daemon import free_port

INSTALL = r"""
set -eu
apt-get update -q >/dev/null
apt-get install -y -q --no-install-recommends systemd dbus /debs/*.deb >/install.log 2>&1 ||
    { tail -n 30 /install.log; exit 1; }
attentiond --version
attentiond --check-config --config /etc/attentiond/attentiond.conf >/dev/null && echo configured
"""
LINK = r"""
set -eu
apt-get install -y -q --no-install-recommends gcc pkg-config >/dev/null 2>&1
printf '#include <attention/attention.h>\nint main(void) { attn_start(); return 0; }\n' >/t.c
cc /t.c -o /t $(pkg-config --cflags --libs libattention) && /t && echo linked
"""
PURGE = r"""
apt-get purge -y -q attentiond libattention-dev >/dev/null 2>&1
find /etc /usr /lib/systemd -name '*attention*'
"""


@pytest.fixture(scope="module")
def system():
    """A container in which systemd runs, with the packages."""
    containers.need("dh", "dpkg-buildpackage")
    containers.prepare()
    done = subprocess.run(["make", "deb"], cwd=containers.ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    boot = ["sh", "-c", INSTALL + "\nexec /lib/systemd/systemd"]
    with containers.Container(containers.BASE, "--privileged", "--systemd", "always", "--volume",
                              f"{containers.ROOT}/build/deb:/debs:ro", "--stop-signal", "SIGKILL",
                              arguments=boot) as made:
        made.inside = lambda script, check=True: containers.run(
            "podman", "exec", made.id, "sh", "-c", script, check=check).stdout.strip()
        wait_until(lambda: "running" in made.inside("systemctl is-system-running || true"), 300)
        yield made


@pytest.fixture(scope="module")
def service(system):
    """Its port; the unit is started by its socket, with a watchdog that bites soon."""
    port = free_port()
    system.inside(f"""set -e
mkdir -p /etc/systemd/system/attentiond.socket.d /etc/systemd/system/attentiond.service.d
printf '[Socket]\\nListenStream=\\nListenStream=127.0.0.1:{port}\\n' \\
    >/etc/systemd/system/attentiond.socket.d/port.conf
printf '[Service]\\nWatchdogSec=2\\n' >/etc/systemd/system/attentiond.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart attentiond.socket
systemctl enable --now attentiond.service""")
    wait_until(lambda: is_ready(port))
    return port


def main_pid(system):
    return int(system.inside("systemctl show -P MainPID attentiond"))


def test_what_apt_installs(system):
    said = system.log()
    assert "attentiond 0." in said and "configured" in said
    assert "linked" in system.inside(LINK)


def test_it_has_no_rights(system, service):
    status = system.inside(f"cat /proc/{main_pid(system)}/status")
    assert "CapEff:\t0000000000000000" in status and "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status and "Uid:\t0" not in status


class Asker(threading.Thread):
    """One request after another, each answered 200 or counted."""

    def __init__(self, port):
        super().__init__()
        self.port, self.answered, self.failed, self.stopped = port, 0, [], threading.Event()

    def run(self):
        client = Client(self.port)
        body = b'{"q":[[1]],"k":[[1]],"v":[[7]]}'
        while not self.stopped.is_set():
            try:
                answer = client.send("POST", "/v1/attention", body,
                                     {"Content-Type": "application/json", "Connection": "close"})
                if answer.status == 200:
                    self.answered += 1
                else:
                    self.failed.append(answer.status)
            except OSError as error:
                self.failed.append(repr(error))
            client.close()


def test_a_restart_loses_no_request(system, service):
    askers = [Asker(service) for _ in range(4)]
    for asker in askers:
        asker.start()
    first = main_pid(system)
    for _ in range(3):
        before = sum(asker.answered for asker in askers)
        system.inside("systemctl restart attentiond")
        wait_until(lambda before=before: sum(a.answered for a in askers) > before + 50)
    for asker in askers:
        asker.stopped.set()
        asker.join()
    assert [asker.failed for asker in askers] == [[]] * 4
    assert main_pid(system) != first
    print(f"{sum(asker.answered for asker in askers)} requests, 3 restarts")


@pytest.mark.parametrize("how", ["KILL", "STOP"])
def test_it_comes_back(system, service, how):
    """Killed, or stopped so that it tells the watchdog nothing."""
    first = main_pid(system)
    system.inside(f"kill -{how} {first}")
    wait_until(lambda: main_pid(system) not in (0, first), 60)
    wait_until(lambda: is_ready(service))


def test_reload_reads_again(system, service):
    first = main_pid(system)
    system.inside("systemctl reload attentiond")
    assert main_pid(system) == first and is_ready(service)
    with raw.Connection(service) as connection:
        assert connection.ask(raw.get("/healthz")).status == 200


def test_purged_without_a_trace(system):
    assert system.inside("systemctl stop attentiond.socket attentiond; true") is not None
    system.inside("rm -r /etc/systemd/system/attentiond.*.d")
    assert system.inside(PURGE) == ""

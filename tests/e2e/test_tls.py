# SPDX-License-Identifier: Apache-2.0
"""TLS: what is spoken and what is not, certificates of both sides, and answers past the library."""
import json
import os
import random
import signal
import ssl
import subprocess
import threading
import time
import warnings

import numpy as np
import pytest
from support import raw, safetensors
from support.certificates import Authority
from support.client import SAFETENSORS_TYPE
from support.daemon import BINARY, Daemon, environment, free_port
from support.keys import KeyFile

SUCCESS = "attention_config_last_reload_successful"
EXPIRY = "attention_tls_certificate_expiry_timestamp_seconds"


class Tls(raw.Connection):
    """A raw connection under TLS."""

    def __init__(self, port, context, timeout=20):
        super().__init__(port, timeout)
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")


class Service:
    """A daemon that speaks TLS at `port`, and its metrics without at `ops`."""

    def __init__(self, folder, authority, *arguments):
        self.folder = folder
        self.certificate, self.key = authority.sign("service")
        self.context = ssl.create_default_context(cafile=authority.certificate)
        self.ops = free_port()
        self.daemon = Daemon("--ops-listen", f"127.0.0.1:{self.ops}", "--tls-certificate",
                             str(self.certificate), "--tls-key", str(self.key), *arguments)
        self.daemon.client.port, self.port = self.ops, self.daemon.port

    def __enter__(self):
        self.daemon.__enter__()
        return self

    def __exit__(self, *failure):
        self.daemon.stop()

    def open(self, context=None, timeout=20):
        return Tls(self.port, context or self.context, timeout)

    def metric(self, name):
        return raw.samples(self.daemon.client)[name]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def service(authority):
    with Service(authority.folder, authority, "--header-timeout", "2s") as running:
        yield running


def test_it_answers(service):
    with service.open() as opened:
        for _ in range(3):
            assert opened.ask(raw.post()).status == 200
        assert opened.socket.version() == "TLSv1.3"
        assert "https://127.0.0.1" in service.daemon.output()


def test_operators_and_paths_need_none(authority, tmp_path):
    certificate, key = authority.sign("service", "other")
    with Daemon("--tls-certificate", str(certificate), "--tls-key", str(key),
                path=tmp_path / "a.sock", tcp=False) as daemon:
        assert daemon.client.get("/v1").status == 200


@pytest.mark.parametrize("version, speaks", (
    (ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True),
    (ssl.TLSVersion.TLSv1_3, True)))
def test_versions(service, authority, version, speaks):
    context = ssl.create_default_context(cafile=authority.certificate)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():  # that the oldest is deprecated is what is tested
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1_1
        context.maximum_version = version
    if speaks:
        with service.open(context) as opened:
            assert opened.ask(raw.get()).status == 200
        return
    with pytest.raises((ssl.SSLError, ConnectionError)):
        service.open(context)


@pytest.mark.parametrize("data", (raw.get(), b"\x16\x03\x01\x00\x05hello",
                                  random.Random(3).randbytes(3000)), ids=("HTTP", "cut", "noise"))
def test_what_is_no_tls_is_closed(service, data):
    with raw.Connection(service.port) as opened:
        opened.send(data)
        try:
            while opened.socket.recv(4096):
                pass
        except ConnectionError:
            pass
    with service.open() as opened:
        assert opened.ask(raw.get()).status == 200


def call(count):
    q = np.random.default_rng(1).standard_normal((count, 64)).astype(np.float32)
    body = safetensors.write({"q": q, "k": q[:64], "v": q[:64]})
    return raw.post(body).replace(b"application/json", SAFETENSORS_TYPE.encode())


def tensors(answer):
    assert answer.status == 200
    return safetensors.parse(answer.body)[0]["output"].tobytes()


def test_large_bodies_are_the_same(service, daemon):
    request = call(40_000)
    with service.open() as secret, raw.Connection(daemon.port) as plain:
        assert tensors(secret.ask(request)) == tensors(plain.ask(request))


def test_many_at_once(service):
    results = []

    def run():
        with service.open() as opened:
            for _ in range(20):
                results.append(opened.ask(raw.post()).status)

    threads = [threading.Thread(target=run) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [200] * 480
    raw.until(lambda: service.metric("attention_in_flight_bytes") == 0)


def test_pipelined(service):
    with service.open() as opened:
        opened.send(raw.post() * 20)
        assert [opened.answer().status for _ in range(20)] == [200] * 20


def test_too_many_options(service):
    with service.open() as opened:
        answer = opened.ask(raw.get("/v1?" + "a=1&" * 200))
    assert (answer.status, answer.problem) == (400, "too-many-options")


def test_a_late_body_is_cut(authority):
    with Service(authority.folder, authority, "--body-timeout", "300ms") as service:
        begin = time.monotonic()
        with service.open() as opened:
            opened.send(raw.post(b"{", length=100))
            try:
                assert opened.socket.recv(100) == b""
            except (ssl.SSLError, ConnectionError):
                pass
        assert 0.2 < time.monotonic() - begin < 5
        raw.until(lambda: service.metric("attention_in_flight_bytes") == 0)


@pytest.mark.parametrize("first", (b"", b"\x16\x03\x01"))
def test_a_stalled_handshake_is_ended(authority, first):
    with Service(authority.folder, authority, "--header-timeout", "300ms") as service:
        begin = time.monotonic()
        with raw.Connection(service.port) as opened:
            opened.send(first)
            try:
                assert opened.socket.recv(100) == b""
            except ConnectionError:
                pass
        assert 0.2 < time.monotonic() - begin < 5


def test_half_a_handshake_disturbs_nobody(service):
    stalled = [raw.Connection(service.port) for _ in range(50)]
    for opened in stalled:
        opened.send(b"\x16\x03\x01\x02")
    with service.open() as opened:
        assert opened.ask(raw.post()).status == 200
    for opened in stalled:
        opened.close()


def slow():
    q = np.ones((24576, 64), np.float32)
    body = safetensors.write({"q": q, "k": q, "v": q},
                             {"attention": json.dumps({"kernel": "reference"})})
    return raw.post(body).replace(b"application/json", SAFETENSORS_TYPE.encode())


def test_a_client_that_is_gone_stops_its_call(service):
    opened = service.open()
    opened.send(slow())
    raw.until(lambda: service.metric("attention_in_flight_bytes") > 0)
    time.sleep(0.3)
    opened.socket.close()
    raw.until(lambda: service.metric("attention_in_flight_bytes") == 0, 10)


def test_a_drain_answers(authority):
    service = Service(authority.folder, authority)
    with service:
        with service.open() as opened:
            assert opened.ask(raw.get()).status == 200
            service.daemon.process.send_signal(signal.SIGTERM)
            assert service.daemon.process.wait(20) == 0


# ---- certificates ----

def serial(service):
    with service.open() as opened:
        return opened.socket.getpeercert()["serialNumber"]


def test_a_new_certificate_is_taken(authority, tmp_path):
    with Service(authority.folder, authority) as service:
        before = serial(service)
        with service.open() as old:
            authority.sign("service")
            service.daemon.process.send_signal(signal.SIGHUP)
            raw.until(lambda: serial(service) != before)
            assert old.ask(raw.post()).status == 200
        assert service.metric(SUCCESS) == 1


def expiry(file):
    shown = subprocess.run(["openssl", "x509", "-enddate", "-noout", "-in", file], check=True,
                           capture_output=True, text=True).stdout
    return ssl.cert_time_to_seconds(shown.strip().removeprefix("notAfter="))


def test_when_the_chain_expires(authority):
    """With the first of its certificates, whichever that is."""
    with Service(authority.folder, authority) as service:
        assert service.metric(EXPIRY) == expiry(service.certificate)
        authority.sign("service", days=5)
        alone = expiry(service.certificate)
        service.daemon.process.send_signal(signal.SIGHUP)
        raw.until(lambda: service.metric(EXPIRY) == alone)
        chain = service.certificate.read_bytes() + authority.certificate.read_bytes()
        service.certificate.write_bytes(chain)
        service.daemon.process.send_signal(signal.SIGHUP)
        raw.until(lambda: service.metric(EXPIRY) == expiry(authority.certificate) < alone)
        service.key.write_text("no key")
        service.daemon.process.send_signal(signal.SIGHUP)
        raw.until(lambda: service.metric(SUCCESS) == 0)
        assert service.metric(EXPIRY) == expiry(authority.certificate)


@pytest.mark.parametrize("spoil", ("garbage", "another's key", "nothing"))
def test_a_bad_certificate_keeps_the_old_one(authority, spoil):
    with Service(authority.folder, authority) as service:
        before, text = serial(service), service.key.read_bytes()
        if spoil == "garbage":
            service.key.write_text("no key")
        elif spoil == "nothing":
            service.key.unlink()
        else:
            service.key.write_bytes(authority.sign("client")[1].read_bytes())
        service.daemon.process.send_signal(signal.SIGHUP)
        raw.until(lambda: service.metric(SUCCESS) == 0)
        assert serial(service) == before
        assert "reload failed" in service.daemon.output()
        service.key.write_bytes(text)
        service.daemon.process.send_signal(signal.SIGHUP)
        raw.until(lambda: service.metric(SUCCESS) == 1)


def test_a_changed_certificate_is_noticed(authority):
    with Service(authority.folder, authority, "--reload-interval", "100ms") as service:
        before = serial(service)
        authority.sign("service")
        raw.until(lambda: serial(service) != before)


def shows(authority, certificate=None):
    context = ssl.create_default_context(cafile=authority.certificate)
    if certificate:
        context.load_cert_chain(*certificate)
    return context


def test_clients_with_certificates(authority, tmp_path):
    stranger = Authority(tmp_path, "stranger")
    with Service(authority.folder, authority, "--tls-client-ca",
                 str(authority.certificate)) as service:
        with service.open(shows(authority, authority.sign("client"))) as opened:
            assert opened.ask(raw.post()).status == 200
            assert opened.ask(raw.post()).status == 200
        with service.open(shows(authority)) as opened:
            answer = opened.ask(raw.post())
            assert (answer.status, answer.problem) == (403, "no-client-certificate")
        with service.open(shows(authority, stranger.sign("client"))) as opened:
            answer = opened.ask(raw.post())
            assert (answer.status, answer.problem) == (403, "no-client-certificate")
        assert service.metric("attention_in_flight_bytes") == 0


def check(*flags):
    return subprocess.run([BINARY, "--check-config", *map(str, flags)], capture_output=True,
                          text=True, env=environment(), timeout=60)


def test_what_is_refused_at_the_start(authority, tmp_path):
    certificate, key = authority.sign("service", "checked")
    _, other = authority.sign("client", "checked-other")
    (tmp_path / "garbage").write_text("no certificate")
    os.mkfifo(tmp_path / "pipe")
    for flags, says in (
            (["--tls-certificate", certificate], "both"),
            (["--tls-key", key], "both"),
            (["--tls-client-ca", certificate], "both"),
            (["--tls-certificate", certificate, "--tls-key", other], "does not belong"),
            (["--tls-certificate", tmp_path / "garbage", "--tls-key", key], "tls_certificate"),
            (["--tls-certificate", certificate, "--tls-key", tmp_path / "none"], "tls_key"),
            (["--tls-certificate", tmp_path / "pipe", "--tls-key", key], "no regular file"),
            (["--tls-certificate", certificate, "--tls-key", "/dev/zero"], "no regular file"),
            (["--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca",
              tmp_path / "garbage"], "tls_client_ca"),
            (["--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca",
              tmp_path / "pipe"], "no regular file")):
        refused = check(*flags)
        assert refused.returncode == 2 and says in refused.stderr, refused
    assert check("--tls-certificate", certificate, "--tls-key", key).returncode == 0


def test_keys_and_tls(authority, tmp_path):
    file = KeyFile(tmp_path / "keys")
    key = file.add("alice")
    with Service(authority.folder, authority, "--key-file", str(file.path)) as service, \
            service.open() as opened:
        assert opened.ask(raw.post()).status == 401
        assert opened.ask(raw.post(raw.BODY, f"Authorization: Bearer {key}")).status == 200

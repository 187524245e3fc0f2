# SPDX-License-Identifier: Apache-2.0
"""How the daemon is found and reached: its address, certificates of both sides, and what is said
where it is not reached."""
import asyncio
import inspect
import ssl
import time
import traceback

import attentiond
import pytest
from support.certificates import Authority
from support.daemon import Daemon, free_port
from support.keys import KeyFile


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secret(authority):
    """The https address of a daemon that asks for a client's certificate."""
    certificate, key = authority.sign("service")
    ops = free_port()
    daemon = Daemon("--tls-certificate", str(certificate), "--tls-key", str(key),
                    "--tls-client-ca", str(authority.certificate),
                    "--ops-listen", f"127.0.0.1:{ops}")
    daemon.client.port = ops
    with daemon:
        yield f"https://localhost:{daemon.port}"


def describe(kind, url=None, **settings):
    if kind is attentiond.Client:
        with attentiond.Client(url, **settings) as client:
            return client.describe()

    async def call():
        async with attentiond.AsyncClient(url, **settings) as client:
            return await client.describe()

    return asyncio.run(call())


both = pytest.mark.parametrize("kind", [attentiond.Client, attentiond.AsyncClient])


@both
def test_certificates_of_both_sides(secret, authority, kind):
    mine = authority.sign("client")
    assert describe(kind, secret, verify=authority.certificate, cert=mine)["kernels"]
    both_in_one = authority.folder / "both.pem"
    both_in_one.write_bytes(mine[0].read_bytes() + mine[1].read_bytes())
    context = ssl.create_default_context(cafile=authority.certificate)
    assert describe(kind, secret, verify=context, cert=str(both_in_one))["kernels"]
    with pytest.raises(attentiond.Refused) as refused:
        describe(kind, secret, verify=str(authority.certificate))
    assert refused.value.name == "no-client-certificate"


@both
def test_a_certificate_that_is_not_accepted(secret, kind):
    began = time.monotonic()
    with pytest.raises(attentiond.NotReachable, match="certificate of .* verify=PATH") as error:
        describe(kind, secret, retries=9)
    assert time.monotonic() - began < 5, "was tried again"
    assert len(traceback.format_exception(error.value)) < 20
    assert error.value.__suppress_context__


def test_tls_where_none_is_spoken(url):
    with pytest.raises(attentiond.NotReachable, match="no TLS with https"):
        describe(attentiond.Client, url.replace("http:", "https:"), retries=0)


def test_an_address_without_a_protocol():
    began = time.monotonic()
    with pytest.raises(attentiond.NotReachable, match="HOST:PORT"):
        describe(attentiond.Client, "localhost:8080", retries=9)
    assert time.monotonic() - began < 5, "was tried again"


@pytest.mark.parametrize("settings, says", [
    ({"verify": "no-such-file"}, "verify='no-such-file' .* No such file"),
    ({"verify": __file__}, "verify=.* cannot be read as certificates"),
    ({"cert": ("one", "two")}, r"cert=\('one', 'two'\) .* No such file"),
    ({"cert": __file__}, "cert=.* cannot be read as a certificate and its key")])
def test_files_that_do_not_do(settings, says):
    with pytest.raises(ValueError, match=says):
        attentiond.Client("https://localhost:1", **settings)


@both
def test_the_address_of_the_environment(url, kind, monkeypatch):
    monkeypatch.setenv("ATTENTION_URL", url)
    assert describe(kind)["kernels"]
    with pytest.raises(attentiond.NotReachable):
        describe(kind, "http://127.0.0.1:9", retries=0)


@both
def test_a_key(tmp_path, kind, monkeypatch):
    file = KeyFile(tmp_path / "keys")
    key = file.add("alice")
    with Daemon("--key-file", str(file.path)) as daemon:
        url = f"http://127.0.0.1:{daemon.port}"
        assert describe(kind, url, api_key=key)["kernels"]
        with pytest.raises(attentiond.Refused):
            describe(kind, url)
        monkeypatch.setenv("ATTENTION_KEY", key)
        assert describe(kind, url)["kernels"]
        with pytest.raises(attentiond.Refused):
            describe(kind, url, api_key="")


@both
def test_arguments_stand_in_help(kind):
    said = inspect.signature(kind).parameters
    assert {"url", "api_key", "timeout", "retries", "patience", "verify", "cert"} == set(said)
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\.__init__\(\) got .*'key'"):
        kind(key="k")

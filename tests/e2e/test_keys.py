# SPDX-License-Identifier: Apache-2.0
"""API keys: who is let in, for what, how much of it, and how keys change while all runs."""
import json
import os
import signal
import subprocess
import time

import pytest
from support import raw
from support.daemon import BINARY, Daemon, environment
from support.keys import KeyFile, make_key

PUBLIC = ("/", "/healthz", "/readyz", "/openapi.yaml", "/docs", "/v2/health/live",
          "/v2/health/ready")
SCOPED = {"infer": ("/v2/models", "/v2/models/attention", "/v2/models/attention/config"),
          "metrics": ("/metrics",)}
ANY = ("/v1", "/v2")


class Keys:
    def __init__(self, folder):
        self.file = KeyFile(folder / "keys")
        self.infer = self.file.add("alice", "infer")
        self.metrics = self.file.add("scraper", "metrics")
        self.all = self.file.add("root", "infer,sessions,captures,metrics,admin")
        self.slow = self.file.add("slow", "infer", "requests_per_second=0.001", "burst=3")
        self.small = self.file.add("small", "infer", "memory_mib=1")
        self.narrow = self.file.add("narrow", "infer", "memory_mib=3")
        self.lazy = self.file.add("lazy", "infer", "gflops_per_second=0.000001")
        self.single = self.file.add("single", "infer", "calls=1")


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def guarded(keys):
    with Daemon("--key-file", str(keys.file.path), "--log", "all") as running:
        yield running


@pytest.fixture
def connection(guarded):
    with raw.Connection(guarded.port) as opened:
        yield opened


def bearer(key):
    return f"Authorization: Bearer {key}"


def ask(connection, path, key=None, *lines):
    return connection.ask(raw.get(path, *([bearer(key)] if key else []), *lines))


@pytest.mark.parametrize("path", PUBLIC)
def test_public_without_a_key(connection, path):
    assert ask(connection, path).status == 200


@pytest.mark.parametrize("path", [*ANY, *SCOPED["infer"], *SCOPED["metrics"]])
def test_no_key_no_answer(connection, path):
    answer = ask(connection, path)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="attentiond"'
    assert b"Authorization: Bearer KEY" in answer.body
    assert not answer.closes


@pytest.mark.parametrize("path", ANY)
def test_any_key_will_do(connection, keys, path):
    for key in (keys.infer, keys.metrics, keys.all):
        assert ask(connection, path, key).status == 200


@pytest.mark.parametrize("scope", SCOPED)
def test_scopes(connection, keys, scope):
    held = {"infer": keys.infer, "metrics": keys.metrics}
    for path in SCOPED[scope]:
        for name, key in held.items():
            answer = ask(connection, path, key)
            if name == scope:
                assert answer.status == 200
                continue
            assert answer.status == 403
            assert answer.headers["www-authenticate"].endswith(
                f'error="insufficient_scope", scope="{scope}"')
        assert ask(connection, path, keys.all).status == 200


def test_errors_of_the_open_inference_protocol_keep_their_form(connection, keys):
    answer = ask(connection, "/v2/models")
    assert answer.status == 401
    assert list(json.loads(answer.body)) == ["error"]


@pytest.mark.parametrize("value", (
    "Bearer {}x", "Bearer x{}", "Bearer ", "Bearer", "Basic {}", "{}", "Bearer {} {}",
    "Bearer " + "a" * 8000, "Bearer \"{}\"", "Bearer {},{}"))
def test_what_is_no_key(connection, keys, value):
    answer = connection.ask(raw.get("/v1", "Authorization: " + value.replace("{}", keys.infer)))
    assert answer.status == 401


def test_the_scheme_has_any_case(connection, keys):
    for scheme in ("bearer", "BEARER", "Bearer  "):
        assert connection.ask(raw.get("/v1", f"Authorization: {scheme} {keys.infer}")).status == 200


def test_blanks_around_the_key_are_none_of_it(connection, keys):
    for blanks in (" ", "\t", " \t "):
        assert ask(connection, "/v1", keys.infer + blanks).status == 200


def test_two_keys_are_none(connection, keys):
    answer = ask(connection, "/v1", keys.infer, bearer(keys.all))
    assert (answer.status, answer.problem, answer.closes) == (400, "bad-framing", True)


def test_refused_before_the_body(guarded):
    with raw.Connection(guarded.port) as opened:
        opened.send(raw.post(b"", "Expect: 100-continue", length=100 << 20))
        answer = opened.answer()
    assert (answer.status, answer.problem) == (401, "no-key")


def test_a_preflight_needs_no_key(connection):
    answer = connection.ask(raw.get("/v1/attention", "Origin: http://localhost:3000",
                                    "Access-Control-Request-Method: POST", method="OPTIONS"))
    assert answer.status == 204
    assert "authorization" in answer.headers["access-control-allow-headers"].lower()


def test_a_name_does_not_matter_with_keys(guarded, keys):
    with raw.Connection(guarded.port) as opened:
        answer = opened.ask(
            f"GET /v1 HTTP/1.1\r\nHost: evil.example\r\n{bearer(keys.infer)}\r\n\r\n".encode())
    assert answer.status == 200


def test_no_key_in_the_log(guarded, keys, connection):
    ask(connection, "/v1", keys.infer, "X-Request-Id: logged-one")
    ask(connection, "/v1", keys.infer + "x")
    time.sleep(0.05)
    text = guarded.output()
    line = next(json.loads(line) for line in text.splitlines() if "logged-one" in line)
    assert line["key"] == "alice"
    assert "attn_" not in text
    digest = keys.file.lines[0].split()[1].removeprefix("sha256:")
    assert digest not in text


# ---- quotas ----

def quota(answer):
    assert (answer.status, answer.problem) == (429, "quota-exceeded"), answer.body
    assert int(answer.headers["retry-after"]) >= 1
    return json.loads(answer.body)


def test_a_rate(guarded, keys):
    with raw.Connection(guarded.port) as opened:
        assert [ask(opened, "/v1", keys.slow).status for _ in range(3)] == [200] * 3
        answer = ask(opened, "/v1", keys.slow)
        assert quota(answer)["limit"] == 0.001
        assert answer.headers["retry-after"] == "60"
        assert ask(opened, "/v1", keys.infer).status == 200


def test_memory_for_ever_too_little(guarded, keys):
    with raw.Connection(guarded.port) as opened:
        answer = opened.ask(raw.post(raw.BODY, bearer(keys.small)))
        assert answer.status == 200
        opened.send(raw.post(b"", bearer(keys.small), "Expect: 100-continue", length=2 << 20))
        answer = opened.answer()
    assert (answer.status, answer.problem) == (413, "body-too-large")
    assert json.loads(answer.body)["limit"] == 1 << 20


def test_memory_that_another_call_holds(guarded, keys):
    body = b'{"q":[[1]],"k":[[1]],"v":[[1]],"scale":1' + b" " * 150_000 + b"}"
    with raw.Connection(guarded.port) as first, raw.Connection(guarded.port) as second:
        first.send(raw.post(body, bearer(keys.small))[:-1])
        time.sleep(0.2)
        quota(second.ask(raw.post(body, bearer(keys.small))))
        first.send(b"}")
        assert first.answer().status == 200
        # Its memory is there again when the service has seen the answer leave.
        raw.until(lambda: second.ask(raw.post(body, bearer(keys.small))).status == 200)


def test_work(guarded, keys):
    body = json.dumps({name: [[1.0] * 8] * 64 for name in "qkv"}).encode()
    with raw.Connection(guarded.port) as opened:
        assert opened.ask(raw.post(body, bearer(keys.lazy))).status == 200
        answer = opened.ask(raw.post(body, bearer(keys.lazy)))
        assert quota(answer)["limit"] == 1000
        assert int(answer.headers["retry-after"]) > 30
        assert opened.ask(raw.post(body, bearer(keys.infer))).status == 200


def test_calls_at_once(guarded, keys):
    with raw.Connection(guarded.port) as first, raw.Connection(guarded.port) as second:
        first.send(raw.post(raw.BODY, bearer(keys.single))[:-1])
        time.sleep(0.2)
        quota(ask(second, "/v1", keys.single))
        first.send(raw.BODY[-1:])
        assert first.answer().status == 200
        raw.until(lambda: ask(second, "/v1", keys.single).status == 200, 5)


@pytest.mark.parametrize("limit", ("single", "narrow"))
def test_an_answered_call_is_none_in_flight(guarded, keys, limit):
    """Also while the worker that computed it has not come to let go of it: it has to share."""
    rows = [[0.5] * 64] * 200
    body = json.dumps({"q": rows, "k": rows, "v": rows}).encode()
    burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(4)]
    try:
        with raw.Connection(guarded.port) as opened:
            statuses = {opened.ask(raw.post(body, bearer(getattr(keys, limit)))).status
                        for _ in range(200)}
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    assert statuses == {200}


def test_nothing_is_left_behind(guarded, keys):
    with raw.Connection(guarded.port) as opened:
        text = ask(opened, "/metrics", keys.metrics).body.decode()
    assert "attention_in_flight_bytes 0\n" in text
    assert f"attention_keys {len(keys.file.lines)}\n" in text
    assert 'attention_rejections_total{reason="quota-exceeded"}' in text


# ---- changes ----

def metric(daemon, key, name):
    with raw.Connection(daemon.port) as opened:
        text = ask(opened, "/metrics", key).body.decode()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name + " ")))


SUCCESS = "attention_config_last_reload_successful"


@pytest.fixture
def changing(tmp_path):
    file = KeyFile(tmp_path / "keys")
    key = file.add("first", "infer,metrics")
    with Daemon("--key-file", str(file.path), "--reload-interval", "100ms") as running:
        yield running, file, key


def is_let_in(daemon, key):
    with raw.Connection(daemon.port) as opened:
        return ask(opened, "/v1", key).status == 200


def test_sighup_reads_keys_again(changing):
    daemon, file, first = changing
    second = file.add("second", "infer")
    assert not is_let_in(daemon, second)
    daemon.process.send_signal(signal.SIGHUP)
    raw.until(lambda: is_let_in(daemon, second))
    assert is_let_in(daemon, first)
    del file.lines[1]
    file.write()
    daemon.process.send_signal(signal.SIGHUP)
    raw.until(lambda: not is_let_in(daemon, second))


def test_a_changed_file_is_noticed(changing):
    daemon, file, first = changing
    second = file.add("second", "infer")
    raw.until(lambda: is_let_in(daemon, second))


def test_what_a_key_kept_goes_with_it(changing):
    daemon, file, first = changing
    gone, stays = (file.add(name, "infer,sessions,metrics") for name in ("gone", "stays"))
    raw.until(lambda: is_let_in(daemon, stays))
    for key in (gone, stays):
        made = daemon.client.send(
            "POST", "/v1/sessions", json.dumps({"layers": 1, "kv_heads": 1, "head_dim": 4,
                                                "dtype": "float32", "capacity": 16}).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
        assert made.status == 201, made.body
    assert metric(daemon, stays, "attention_sessions") == 2
    del file.lines[1]
    file.write()
    raw.until(lambda: metric(daemon, stays, "attention_sessions") == 1)
    assert metric(daemon, stays, 'attention_sessions_ended_total{reason="key_removed"}') == 1
    assert not is_let_in(daemon, gone) and is_let_in(daemon, stays)


def test_a_symbolic_link_that_leads_elsewhere_is_noticed(tmp_path):
    old, new = KeyFile(tmp_path / "old"), KeyFile(tmp_path / "new")
    first, second = old.add("first"), new.add("second")
    link = tmp_path / "keys"
    link.symlink_to("old")
    with Daemon("--key-file", str(link), "--reload-interval", "100ms") as daemon:
        assert is_let_in(daemon, first) and not is_let_in(daemon, second)
        fresh = tmp_path / "fresh"
        fresh.symlink_to("new")
        fresh.rename(link)
        raw.until(lambda: is_let_in(daemon, second))
        assert not is_let_in(daemon, first)


@pytest.mark.parametrize("text", ("nonsense\n", "", None))
def test_a_bad_file_keeps_the_old_keys(changing, text):
    daemon, file, key = changing
    assert metric(daemon, key, SUCCESS) == 1
    stamp = metric(daemon, key, "attention_config_last_reload_success_timestamp_seconds")
    if text is None:
        file.path.unlink()
    else:
        file.path.write_text(text)
    daemon.process.send_signal(signal.SIGHUP)
    raw.until(lambda: metric(daemon, key, SUCCESS) == 0)
    assert metric(daemon, key,
                  "attention_config_last_reload_success_timestamp_seconds") == stamp
    assert "reload failed" in daemon.output()
    file.write()
    daemon.process.send_signal(signal.SIGHUP)
    raw.until(lambda: metric(daemon, key, SUCCESS) == 1)


def test_a_pipe_in_its_place_holds_nothing_up(changing):
    """Opening one waits for a writer, and the thread that heeds signals must not."""
    daemon, file, key = changing
    file.path.unlink()
    os.mkfifo(file.path)
    daemon.process.send_signal(signal.SIGHUP)
    raw.until(lambda: metric(daemon, key, SUCCESS) == 0)
    assert "no regular file" in daemon.output()
    file.write()
    daemon.process.send_signal(signal.SIGHUP)
    raw.until(lambda: metric(daemon, key, SUCCESS) == 1)


def test_sighup_without_keys_is_nothing():
    with Daemon() as daemon:
        daemon.process.send_signal(signal.SIGHUP)
        time.sleep(0.1)
        assert daemon.client.get("/readyz").status == 200


# ---- before it runs ----

def run(*arguments):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60,
                          env=environment())


@pytest.mark.parametrize("address", ("0.0.0.0:0", "[::]:0", "127.0.0.1:0,0.0.0.0:0"))
def test_not_open_by_an_oversight(address):
    refused = run("--listen", address)
    assert refused.returncode == 2
    assert "--make-key" in refused.stderr and "--insecure" in refused.stderr


def test_open_on_purpose_or_with_keys(tmp_path):
    file = KeyFile(tmp_path / "keys")
    file.add("alice")
    for flags in (["--insecure"], ["--key-file", str(file.path)]):
        assert run("--listen", "0.0.0.0:0", "--check-config", *flags).returncode == 0
    assert run("--listen", "unix:/run/x,127.0.0.1:0", "--check-config").returncode == 0


def test_a_bad_key_file_is_refused_at_the_start(tmp_path):
    (tmp_path / "keys").write_text("alice\n")
    refused = run("--key-file", str(tmp_path / "keys"), "--check-config")
    assert refused.returncode == 2
    assert f"{tmp_path}/keys:1: a line needs" in refused.stderr


def test_made_keys_differ_and_names_are_checked():
    assert len({make_key()[0] for _ in range(8)}) == 8
    assert run("--make-key", "two words").returncode == 2
    assert run("--make-key").returncode == 2
    assert os.linesep not in make_key()[0]
    assert "the key file" in run("--make-key", "alice").stderr

# SPDX-License-Identifier: Apache-2.0
"""/metrics: what is counted, how it is labelled, and that Prometheus itself can use it."""
import json
import re
import subprocess
import time

import pytest
from support import raw, tables
from support.daemon import Daemon
from support.prometheus import Prometheus

FAMILIES = {
    "attention_http_requests_total": "counter",
    "attention_http_request_duration_seconds": "histogram",
    "attention_stage_duration_seconds": "histogram",
    "attention_http_requests_in_flight": "gauge",
    "attention_http_connections": "gauge",
    "attention_queue_depth": "gauge",
    "attention_backlog_seconds": "gauge",
    "attention_shedding": "gauge",
    "attention_in_flight_bytes": "gauge",
    "attention_memory_budget_bytes": "gauge",
    "attention_workers": "gauge",
    "attention_captures": "gauge", "attention_capture_bytes": "gauge",
    "attention_captures_added_total": "counter", "attention_captures_evicted_total": "counter",
    "attention_captures_refused_total": "counter",
    "attention_log_lines_lost_total": "counter",
    "attention_trace_spans_sent_total": "counter", "attention_trace_spans_dropped_total": "counter",
    "attention_config_last_reload_successful": "gauge",
    "attention_config_last_reload_success_timestamp_seconds": "gauge",
    "attention_tls_certificate_expiry_timestamp_seconds": "gauge",
    "attention_keys": "gauge",
    "attention_worker_busy_seconds_total": "counter",
    "attention_compute_flops_total": "counter",
    "attention_score_elements_computed_total": "counter",
    "attention_score_elements_skipped_total": "counter",
    "attention_kernel_calls_total": "counter",
    "attention_compressed_bodies_total": "counter",
    "attention_inference_requests_total": "counter",
    "attention_sessions": "gauge",
    "attention_session_pages": "gauge",
    "attention_session_bytes": "gauge",
    "attention_session_memory_budget_bytes": "gauge",
    "attention_sessions_created_total": "counter",
    "attention_sessions_ended_total": "counter",
    "attention_session_tokens_total": "counter",
    "attention_session_step_duration_seconds": "histogram",
    "attention_rejections_total": "counter",
    "attention_build_info": "gauge",
    "process_cpu_seconds_total": "counter",
    "process_resident_memory_bytes": "gauge",
    "process_virtual_memory_bytes": "gauge",
    "process_open_fds": "gauge",
    "process_max_fds": "gauge",
    "process_start_time_seconds": "gauge",
    "process_threads": "gauge",
}
STATUSES = set(re.findall(r"^ +'(\d{3})':", (tables.ROOT / "openapi.yaml").read_text(), re.M))
STAGES = ("read", "decode", "queue", "compute", "encode", "write")


@pytest.fixture(scope="module")
def server():
    """One of its own, so that its numbers are this file's alone."""
    with Daemon("--log", "off") as daemon:
        yield daemon


def ask(server, request):
    with raw.Connection(server.port) as connection:
        return connection.ask(request)


def grown(server, request, name):
    """By how much a request makes a sample grow."""
    before = raw.samples(server.client).get(name, 0)
    answer = ask(server, request)
    raw.until(lambda: raw.samples(server.client).get(name, 0) != before)
    return answer, raw.samples(server.client)[name] - before


def text_of(server, **headers):
    return server.client.get("/metrics", **headers)


def test_promtool(server):
    ask(server, raw.post())
    ask(server, raw.post(b"{"))
    checked = subprocess.run(["promtool", "check", "metrics"], input=text_of(server).body,
                             capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_every_status_has_a_name_of_its_own():
    """Another is counted as 0."""
    text = (tables.ROOT / "server" / "metrics_internal.h").read_text()
    assert STATUSES <= set(re.findall(r"X\((\d{3})\)", text))


def test_families(server):
    text = text_of(server).body.decode()
    assert dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)) == FAMILIES
    assert set(re.findall(r"^# HELP (\S+) \S", text, re.M)) == set(FAMILIES)


def test_without_tls_there_is_no_certificate_to_expire(server):
    assert "attention_tls_certificate_expiry_timestamp_seconds" not in raw.samples(server.client)


def test_content_types(server):
    plain = text_of(server)
    assert plain.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    for accept in ("text/html", "*/*", "text/plain, application/openmetrics-text;q=0.5"):
        assert b"# EOF" not in text_of(server, Accept=accept).body
    prometheus = ("application/openmetrics-text;version=1.0.0,"
                  "application/openmetrics-text;version=0.0.1;q=0.75,"
                  "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
    answer = text_of(server, Accept=prometheus)
    assert answer.headers["Content-Type"] == \
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    text = answer.body.decode()
    assert text.endswith("\n# EOF\n")
    assert "# TYPE attention_http_requests counter\n" in text
    assert "\nattention_http_requests_total{" in text


@pytest.mark.parametrize("request_bytes, labels", (
    (raw.post(), 'route="/v1/attention",method="POST",code="200"'),
    (raw.post(b"{"), 'route="/v1/attention",method="POST",code="400"'),
    (raw.get("/v1/attention"), 'route="/v1/attention",method="GET",code="405"'),
    (raw.get("/nowhere/17"), 'route="unmatched",method="GET",code="404"'),
    (raw.get("/healthz%00"), 'route="unmatched",method="GET",code="404"'),
    (raw.get("/healthz", method="BREW"), 'route="/healthz",method="other",code="501"'),
    (raw.get("/healthz"), 'route="/healthz",method="GET",code="200"'),
))
def test_requests_are_counted(request_bytes, labels, server):
    _, by = grown(server, request_bytes, f"attention_http_requests_total{{{labels}}}")
    assert by == 1


def test_sizes_have_four_classes(server):
    name = ('attention_http_request_duration_seconds_count'
            '{{route="/v1/attention",code_class="2xx",size="{}"}}')
    for size, padding in (("4KiB", 0), ("256KiB", 5000), ("16MiB", 300_000)):
        _, by = grown(server, raw.post(raw.BODY + b" " * padding), name.format(size))
        assert by == 1


def test_histograms_add_up(server):
    ask(server, raw.post())
    values = raw.samples(server.client)
    for name in [name for name in values if "_count{" in name]:
        family, labels = re.fullmatch(r"(\w+)_count\{(.*)\}", name).groups()
        bounds = [(float(re.search(r'le="([^"]+)"', key).group(1)), value)
                  for key, value in values.items()
                  if key.startswith(f"{family}_bucket{{{labels},le=")]
        assert [bound for bound, _ in bounds] == sorted(bound for bound, _ in bounds)
        counts = [count for _, count in bounds]
        assert counts == sorted(counts)
        assert bounds[-1] == (float("inf"), values[name])
        assert bounds[0][0] == 1e-4 and bounds[-2][0] == 60
        assert values[f"{family}_sum{{{labels}}}"] >= 0


def test_every_stage_of_a_call(server):
    names = [f'attention_stage_duration_seconds_count{{stage="{stage}"}}' for stage in STAGES]
    before = raw.samples(server.client)
    ask(server, raw.post())
    raw.until(lambda: raw.samples(server.client)[names[-1]] > before[names[-1]])
    after = raw.samples(server.client)
    assert {name: after[name] - before[name] for name in names} == dict.fromkeys(names, 1)


def test_work_is_counted(server):
    body = json.dumps({"q": [[1, 0]] * 3, "k": [[1, 0]] * 3, "v": [[1, 2]] * 3,
                       "kernel": "reference"}).encode()
    answer, by = grown(server, raw.post(body), "attention_score_elements_computed_total")
    assert (answer.status, by) == (200, 9)
    answer, by = grown(server, raw.post(body), "attention_compute_flops_total")
    assert by == json.loads(answer.body)["meta"]["flops"]
    _, by = grown(server, raw.post(body), 'attention_kernel_calls_total{kernel="reference"}')
    assert by == 1


def test_rejections_have_reasons(server):
    for request, reason in ((raw.post(b"{"), "malformed"), (raw.get("/x"), "not-found"),
                            (raw.post(b'{"qq":1}'), "unknown-field")):
        _, by = grown(server, request, f'attention_rejections_total{{reason="{reason}"}}')
        assert by == 1


def test_no_request_makes_a_new_series(server):
    def series():
        names = raw.samples(server.client)
        return {name for name in names if not name.startswith("attention_http_request")}

    before = series()
    for n in range(20):
        ask(server, raw.get(f"/{n}?a={n}", f"X-Request-Id: {n}", method=f"M{n}"))
    assert series() == before


@pytest.fixture
def prometheus(server, tmp_path):
    with Prometheus(tmp_path, server.port) as running:
        yield running


def test_prometheus_answers_a_quantile(server, prometheus):
    deadline = time.monotonic() + 60
    expression = ("histogram_quantile(0.95, sum by (le) (rate("
                  'attention_http_request_duration_seconds_bucket{route="/v1/attention"}[30s])))')
    result = []
    while not result or result[0]["value"][1] == "NaN":
        assert time.monotonic() < deadline, f"no quantile: {result}"
        ask(server, raw.post())
        time.sleep(0.2)
        result = prometheus.query(expression)
    assert 0 < float(result[0]["value"][1]) < 60
    assert prometheus.query("up")[0]["value"][1] == "1"


def test_a_log_that_cannot_be_written_holds_nobody_up():
    """A full disk: each line is lost and counted, and every request is answered."""
    with Daemon(log="/dev/full") as daemon:
        lost = raw.samples(daemon.client)["attention_log_lines_lost_total"]
        assert lost >= 2  # that it listens, and who asked whether it is ready
        for _ in range(5):
            assert daemon.client.attention([[1.0]], [[1.0]], [[2.0]], wire="nested").status == 200
        raw.until(lambda: raw.samples(daemon.client)["attention_log_lines_lost_total"] >= lost + 5)
    with Daemon() as daemon:
        assert raw.samples(daemon.client)["attention_log_lines_lost_total"] == 0

# SPDX-License-Identifier: Apache-2.0
"""The scaling experiment against numpy itself: the same generator, drawn in the published order."""
import json
import time

import numpy as np
import pytest
from support import raw
from support.client import JSON_TYPE
from support.daemon import Daemon

PATH = "/v1/experiments/scaling"
# As printed: the variances, and the softmax rows for the divisors 1, root of d_k and d_k.
PUBLISHED = {
    4: ("4.03", [[.0706, .0054, .9240], [.2043, .0565, .7392], [.2917, .1534, .5549]]),
    64: ("62.57", [[.0000, .6850, .3150], [.0982, .4728, .4290], [.2924, .3559, .3516]]),
    512: ("535.53", [[1.0000, .0000, .0000], [.5826, .3035, .1139], [.3446, .3348, .3206]]),
}
LONG = b'{"d_k": [512], "samples": 97000}'  # two seconds of a worker
# A machine that is busy beside takes longer, and several of them are not to be refused for that.
PATIENT = ("--queue-work", "10m", "--queue-timeout", "2m")


@pytest.fixture(scope="module")
def daemon():
    with Daemon(*PATIENT) as started:
        yield started


def ask(client, query="", **given):
    answer = client.send("POST", PATH + query, json.dumps(given), {"Content-Type": JSON_TYPE})
    assert answer.status == 200, answer.body
    return answer.json


def softmax(scores):
    p = np.exp(scores - scores.max())
    return p / p.sum()


def by_numpy(d_k, samples, keys, seed):
    """[(variance, [(divisor, scores, weights, max, entropy, gradient health)])] per size."""
    stream = np.random.RandomState(seed)
    tables = []
    for size in d_k:
        q, k = stream.randn(size), stream.randn(keys, size)
        rows = []
        for divisor in (1, np.sqrt(size), size):
            p = softmax(k @ q / divisor)
            with np.errstate(divide="ignore", invalid="ignore"):
                entropy = -np.where(p > 0, p * np.log(p), 0).sum()
            rows.append((divisor, k @ q / divisor, p, p.max(), entropy, 1 - (p * p).sum()))
        tables.append(rows)
    variances = [np.var([stream.randn(size) @ stream.randn(size) for _ in range(samples)])
                 for size in d_k]
    return list(zip(variances, tables, strict=True))


def test_the_published_numbers_as_printed(client):
    answer = ask(client, d_k=[4, 64, 512], samples=2000, keys=3, seed=3)
    assert [result["d_k"] for result in answer["results"]] == list(PUBLISHED)
    for result in answer["results"]:
        variance, rows = PUBLISHED[result["d_k"]]
        assert f"{result['variance']:.2f}" == variance
        assert [[round(p, 4) for p in row["weights"]] for row in result["rows"]] == rows


def test_nothing_given_is_the_published_experiment(client):
    given = ask(client, d_k=[4, 64, 512], samples=2000, keys=3, seed=3)
    assert ask(client)["results"] == given["results"]
    assert ask(client)["meta"]["seed"] == 3


@pytest.mark.parametrize(("d_k", "samples", "keys", "seed"), [
    ([4, 64, 512], 2000, 3, 3), ([5], 1, 1, 0), ([1, 2, 3], 101, 7, 1), ([33, 33], 50, 64, 12345),
    ([1000], 10, 2, 2**32 - 1)])
def test_it_agrees_with_numpy(client, d_k, samples, keys, seed):
    """To what sums of up to 1000 products in float64 differ by when taken in another order."""
    answer = ask(client, d_k=d_k, samples=samples, keys=keys, seed=seed)
    expected = by_numpy(d_k, samples, keys, seed)
    assert [result["d_k"] for result in answer["results"]] == d_k
    for result, (variance, rows) in zip(answer["results"], expected, strict=True):
        assert result["variance"] == pytest.approx(variance, rel=1e-11, abs=1e-25)
        assert [row["divided_by"] for row in result["rows"]] == ["1", "sqrt(d_k)", "d_k"]
        for got, (divisor, scores, weights, largest, entropy, health) in zip(
                result["rows"], rows, strict=True):
            assert got["divisor"] == divisor
            np.testing.assert_allclose(got["scores"], scores, rtol=1e-11, atol=1e-11)
            np.testing.assert_allclose(got["weights"], weights, rtol=1e-10, atol=0)
            assert got["max"] == pytest.approx(largest, rel=1e-11)
            assert got["entropy"] == pytest.approx(entropy, rel=1e-10, abs=1e-14)
            assert got["gradient_health"] == pytest.approx(health, rel=1e-10, abs=1e-14)


def test_the_variance_is_d_k(client):
    """Within five standard errors of a sample variance, √(2/n) of it and more for small d_k."""
    for result in ask(client, d_k=[16, 256], samples=20000, seed=8)["results"]:
        assert result["variance"] == pytest.approx(result["d_k"], rel=5 * np.sqrt(2.4 / 20000))


def test_options_in_the_query(client):
    assert ask(client, "?d_k=4,8&samples=9&keys=2&seed=5")["results"] == \
        ask(client, d_k=[4, 8], samples=9, keys=2, seed=5)["results"]


def test_a_small_one_is_done_at_once_and_a_large_one_by_a_worker(client):
    assert ask(client, d_k=[2], samples=1, keys=1)["meta"]["timings_ms"]["queue"] == 0
    assert ask(client)["meta"]["timings_ms"]["queue"] > 0


def test_the_io_threads_stay_free(daemon):
    """While experiments keep every worker, small questions are answered at once."""
    connections = [raw.Connection(daemon.port) for _ in range(4)]
    for connection in connections:
        connection.send(raw.post(LONG, path=PATH))
    raw.until(lambda: raw.samples(daemon.client)["attention_http_requests_in_flight"] > 4)
    began = time.monotonic()
    for _ in range(20):
        assert daemon.client.get("/healthz").status == 200
    assert time.monotonic() - began < 1
    for connection in connections:
        connection.close()
    raw.until(lambda: raw.samples(daemon.client)["attention_backlog_seconds"] == 0, 20)


def test_a_deadline_ends_it(client):
    began = time.monotonic()
    answer = client.send("POST", PATH + "?timeout_ms=100", LONG, {"Content-Type": JSON_TYPE})
    assert (answer.status, answer.json["type"]) == (504, "/problems/deadline-exceeded")
    assert time.monotonic() - began < 1


def test_a_client_that_leaves_ends_it(daemon):
    def spent():
        raw.until(lambda: raw.samples(daemon.client)["attention_in_flight_bytes"] == 0)
        return raw.samples(daemon.client)["attention_worker_busy_seconds_total"]

    before = spent()
    assert daemon.client.send("POST", PATH, LONG, {"Content-Type": JSON_TYPE}).status == 200
    whole = spent() - before
    with raw.Connection(daemon.port) as connection:
        connection.send(raw.post(LONG, path=PATH))
        raw.until(lambda: raw.samples(daemon.client)["attention_in_flight_bytes"] > 1000)
    assert spent() - before - whole < whole / 2


def test_one_that_waits_meets_its_deadline():
    """The only worker is at an experiment just as long, which it does not interrupt for another;
    its client's leaving ends that."""
    with Daemon("--threads", "1", *PATIENT) as daemon, raw.Connection(daemon.port) as other:
        other.send(raw.post(LONG, path=PATH))
        raw.until(lambda: raw.samples(daemon.client)["attention_in_flight_bytes"] > 1000)
        time.sleep(0.2)  # until it is submitted; and a worker that has not begun would take either
        raw.until(lambda: raw.samples(daemon.client)["attention_queue_depth"] == 0)
        answer = daemon.client.send("POST", PATH + "?timeout_ms=100", LONG,
                                    {"Content-Type": JSON_TYPE})
        other.close()
        assert (answer.status, answer.json["type"]) == (504, "/problems/deadline-exceeded")

# SPDX-License-Identifier: Apache-2.0
"""The output's bits depend on inputs, arithmetic options, kernel and instruction set, on nothing
else: not on the encoding, the number of threads, what else was asked for, or the load."""
import threading

import numpy as np
import pytest
from support import safetensors
from support.cases import DTYPES, random_case
from support.client import JSON_TYPE, SAFETENSORS_TYPE, WIRES, Client, pack, wires_of
from support.daemon import Daemon

OUTPUTS = ["output", "lse", "weights", "scores"]
SIZES = (1, 2, 7, 33, 64, 65, 97, 130, 257, 600)


def bits(answer, names=OUTPUTS):
    return {name: answer[name].tobytes() for name in names}


def value_bits(answer):
    """Bits of the numbers, for encodings that cannot tell one NaN from another or say a dtype."""
    return {name: answer[name].astype(np.float64).tobytes() for name in OUTPUTS}


@pytest.mark.parametrize("Tk", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_encoding_gives_equal_bits(client, dtype, Tk):
    case = random_case(Tk, dtype, 60)
    options = {**case.options, "return": OUTPUTS}
    answers = {wire: client.attention(case.q, case.k, case.v, options, case.tensors, wire)
               for wire in wires_of(dtype) if wire != "nested"}
    for wire, answer in answers.items():
        assert answer["output"].dtype == case.q.dtype, wire
        assert bits(answer) == bits(answers["safetensors"]), wire


@pytest.mark.parametrize("Tk", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nested_arrays_give_equal_bits(client, dtype, Tk):
    """Nested arrays carry float32, or float64 under that precision."""
    case = random_case(Tk, dtype, 61)
    options = {**case.options, "return": OUTPUTS}
    if dtype == "float64":
        options["precision"] = "float64"
    raw = client.attention(case.q, case.k, case.v, options, case.tensors)
    nested = client.attention(case.q, case.k, case.v, options, case.tensors, "nested")
    assert value_bits(nested) == value_bits(raw)
    for name in OUTPUTS:
        assert nested[name].astype(raw[name].dtype).tobytes() == raw[name].tobytes()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("asked", ["nested", "flat", "base64", SAFETENSORS_TYPE])
def test_the_answers_encoding_can_be_chosen(client, wire, asked):
    case = random_case(33, "float32", 62)
    options = {**case.options, "return": OUTPUTS}
    usual = client.attention(case.q, case.k, case.v, options, case.tensors)
    accept = SAFETENSORS_TYPE if asked == SAFETENSORS_TYPE else JSON_TYPE
    if accept == JSON_TYPE:
        options["encoding"] = asked
    body, kind = pack(case.q, case.k, case.v, options, case.tensors, wire)
    answer = client.send("POST", "/v1/attention", body, {"Content-Type": kind, "Accept": accept})
    assert answer.status == 200, answer.body[:500]
    assert answer.headers["Content-Type"].split(";")[0] == accept
    if asked in ("flat", "base64"):
        assert {"flat": "data"}.get(asked, asked) in answer.json["output"]
    assert bits(answer) == bits(usual)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_asked_for_changes_the_output(client, kernels, dtype):
    for Tk in (1, 33, 97, 257):
        case = random_case(Tk, dtype, 63)
        for kernel in kernels:
            def output(**more):
                options = {**case.options, "kernel": kernel, **more}
                answer = client.attention(case.q, case.k, case.v, options, case.tensors)
                return answer["output"].tobytes()

            alone = output()
            for name in ("lse", "weights", "scores"):
                assert output(**{"return": ["output", name]}) == alone, name
            assert output(**{"return": OUTPUTS}) == alone
            for choice in ({"heads": [0]}, {"rows": [0, 1]}, {"cols": [Tk - 1, Tk]},
                           {"stage": "raw"}, {"stage": "masked"}):
                assert output(**{"return": ["output", "weights"]}, weights=choice) == alone, choice


@pytest.mark.parametrize("stage", ["raw", "scaled", "capped", "masked", "weights"])
def test_a_region_is_cut_from_the_whole_map(client, kernels, stage):
    case = random_case(130, "float32", 64)
    case.options["softcap"] = 2.0
    Tq = client.attention(case.q, case.k, case.v, {**case.options, "return": ["lse"]},
                          case.tensors)["lse"].shape[-1]
    for kernel in kernels:
        options = {**case.options, "kernel": kernel, "return": ["weights"]}
        whole = client.attention(case.q, case.k, case.v, {**options, "weights": {"stage": stage}},
                                 case.tensors)["weights"]
        for rows in ([0, 1], [Tq // 2, Tq]):
            choice = {"stage": stage, "rows": rows, "cols": [63, 129]}
            part = client.attention(case.q, case.k, case.v, {**options, "weights": choice},
                                    case.tensors)["weights"]
            assert part.tobytes() == whole[..., rows[0]:rows[1], 63:129].tobytes()


@pytest.mark.parametrize("Tk", SIZES)
def test_layouts_give_equal_bits(client, kernels, Tk):
    rng = np.random.default_rng(Tk)
    native = [rng.standard_normal(s).astype(np.float32)
              for s in ((2, 4, 33, 15), (2, 2, Tk, 15), (2, 2, Tk, 7))]
    swapped = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in native]
    merged = [x.reshape(2, x.shape[1], -1) for x in swapped]
    for kernel in kernels:
        first = client.attention(*native, {"kernel": kernel})["output"]
        second = client.attention(*swapped, {"kernel": kernel, "layout": "bthd"})["output"]
        third = client.attention(*merged, {"kernel": kernel, "num_heads": 4, "num_kv_heads": 2})
        assert second.transpose(0, 2, 1, 3).tobytes() == first.tobytes()
        assert third["output"].tobytes() == second.tobytes()


def test_batch_mates_do_not_matter(client, kernels):
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((3, 2, 97, 16)).astype(np.float32) for _ in range(3))
    for kernel in kernels:
        together = client.attention(q, k, v, {"kernel": kernel})["output"]
        for b in range(3):
            alone = client.attention(q[b:b + 1], k[b:b + 1], v[b:b + 1], {"kernel": kernel})
            assert alone["output"].tobytes() == together[b:b + 1].tobytes()


def test_misaligned_tensors_give_equal_bits(client):
    """An entry of one byte in front moves every float off its alignment; the daemon copies it."""
    case = random_case(33, "float32", 65)
    straight = client.attention(case.q, case.k, case.v, {"sink": [0]})
    body = safetensors.write({"s": np.zeros(1, np.uint8), "q": case.q, "k": case.k, "v": case.v},
                             {"attention": '{"sink":[0],"mask":{"type":"hide","tensor":"s"}}'})
    answer = client.send("POST", "/v1/attention", body, {"Content-Type": SAFETENSORS_TYPE})
    assert answer.status == 200, answer.body
    assert answer["output"].tobytes() == straight["output"].tobytes()


@pytest.fixture(scope="module")
def by_threads():
    """Daemons with one, two and three compute threads."""
    daemons = []
    try:
        for count in (1, 2, 3):
            daemons.append(Daemon("--threads", str(count)).__enter__())
        yield daemons
    finally:
        for running in daemons:
            running.stop()


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_do_not_matter(by_threads, kernels, dtype):
    for Tk in SIZES:
        case = random_case(Tk, dtype, 66)
        for kernel in kernels:
            options = {**case.options, "kernel": kernel, "return": OUTPUTS}
            answers = [bits(running.client.attention(case.q, case.k, case.v, options, case.tensors))
                       for running in by_threads]
            assert answers[0] == answers[1] == answers[2], f"{kernel} {case}"


def test_threads_do_not_matter_on_many_tiles(by_threads, kernels):
    """Long enough that several workers share one head and steal from each other."""
    rng = np.random.default_rng(8)
    q, k, v = (rng.standard_normal((4, 700, 16)).astype(np.float32) for _ in range(3))
    for kernel in kernels:
        options = {"mask": "causal", "sink": [0, 1, 2, 3], "kernel": kernel,
                   "return": ["output", "lse"]}
        answers = [bits(running.client.attention(q, k, v, options), ["output", "lse"])
                   for running in by_threads]
        assert answers[0] == answers[1] == answers[2], kernel


@pytest.mark.parametrize("wire", ["nested", "flat"])
def test_threads_do_not_matter_to_long_texts(by_threads, wire):
    """Long enough that workers read one array in pieces, and write the answer's so; four clients
    at once share the workers."""
    rng = np.random.default_rng(9)
    q = rng.standard_normal((2, 3000, 24)).astype(np.float32)
    k, v = (rng.standard_normal((2, 5, 24)).astype(np.float32) for _ in range(2))
    expected = by_threads[0].client.attention(q, k, v)["output"].tobytes()
    failures = []

    def repeat(running):
        own = Client(running.port)
        for _ in range(3):
            if own.attention(q, k, v, wire=wire)["output"].tobytes() != expected:
                failures.append(running.command)
        own.close()

    threads = [threading.Thread(target=repeat, args=(running,))
               for running in by_threads for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_load_does_not_matter(daemon):
    """Six clients at once, each with its own case and other wishes each time, against the answers
    had alone."""
    cases = [random_case(Tk, "float32", 67) for Tk in (3, 33, 64, 97, 130, 257)]
    alone = [bits(daemon.client.attention(c.q, c.k, c.v, {**c.options, "return": OUTPUTS},
                                          c.tensors)) for c in cases]
    failures = []

    def repeat(case, expected):
        client = Client(daemon.port)
        for turn in range(16):
            names = OUTPUTS[:1 + turn % len(OUTPUTS)]
            answer = client.attention(case.q, case.k, case.v,
                                      {**case.options, "return": names}, case.tensors)
            if bits(answer, names) != {name: expected[name] for name in names}:
                failures.append(str(case))
        client.close()

    def guarded(case, expected):
        try:
            repeat(case, expected)
        except BaseException as failure:
            failures.append(repr(failure))

    threads = [threading.Thread(target=guarded, args=pair) for pair in zip(cases, alone)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []

# SPDX-License-Identifier: Apache-2.0
"""Triton's own Python clients, unmodified, against the daemon: what they send and how they read."""
import asyncio
import re

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from ml_dtypes import bfloat16
from support import tables
from tritonclient.utils import np_to_triton_dtype

DTYPES = {"FP32": np.float32, "FP64": np.float64, "FP16": np.float16, "BF16": bfloat16}
CODINGS = [None, "gzip", "deflate"]
MODEL = "attention"


@pytest.fixture(scope="module")
def address(daemon):
    return f"127.0.0.1:{daemon.port}"


@pytest.fixture(scope="module")
def server(address):
    with triton.InferenceServerClient(address) as opened:
        yield opened


def operands(dtype=np.float32):
    rng = np.random.default_rng(7)
    return {name: rng.standard_normal((1, 2, 24, 16)).astype(dtype) for name in "qkv"}


def as_inputs(arrays, binary=True, module=triton):
    chosen = binary if isinstance(binary, dict) else dict.fromkeys(arrays, binary)
    return [module.InferInput(name, list(x.shape), np_to_triton_dtype(x.dtype)).set_data_from_numpy(
        x, binary_data=chosen[name]) for name, x in arrays.items()]


def as_bits(array):
    return array.view(np.uint16) if array.dtype == bfloat16 else array


def usual(client, arrays, **options):
    plain = {name: as_bits(x) for name, x in arrays.items()}
    return client.attention(plain["q"], plain["k"], plain["v"], options)["output"]


def test_what_clients_ask_before(server):
    assert server.is_server_live() and server.is_server_ready() and server.is_model_ready(MODEL)
    assert server.is_model_ready(MODEL, "1") and not server.is_model_ready("resnet")
    assert server.get_server_metadata()["name"] == "attentiond"
    metadata, config = server.get_model_metadata(MODEL), server.get_model_config(MODEL)
    assert [x["name"] for x in metadata["inputs"]] == [x["name"] for x in config["input"]]
    assert [x["name"] for x in config["input"] if not x["optional"]] == ["q", "k", "v"]
    assert config["max_batch_size"] == 0
    index = server.get_model_repository_index()
    assert {model["name"]: model["state"] for model in index} == {
        "attention": "READY", "onnx_attention": "READY"}
    server.load_model(MODEL)
    server.unload_model(MODEL)
    with pytest.raises(triton.InferenceServerException, match="no model"):
        server.load_model("resnet")
    assert server.is_model_ready(MODEL)


@pytest.mark.parametrize("answer", [True, False, None], ids=["bytes", "numbers", "unasked"])
@pytest.mark.parametrize("binary", [True, False, {"q": True, "k": False, "v": True}],
                         ids=["bytes", "numbers", "mixed"])
@pytest.mark.parametrize("datatype", DTYPES)
def test_infer(server, client, datatype, binary, answer):
    arrays = operands(DTYPES[datatype])
    if datatype == "BF16":
        binary = True  # the client refuses to send it otherwise
    outputs = None if answer is None else [
        triton.InferRequestedOutput("output", binary_data=answer)]
    result = server.infer(MODEL, as_inputs(arrays, binary), outputs=outputs, request_id="7")
    assert result.get_response()["id"] == "7"
    assert result.get_output("output")["datatype"] == datatype
    got = result.as_numpy("output")
    assert as_bits(got).tobytes() == usual(client, arrays).tobytes()


@pytest.mark.parametrize("answer", CODINGS)
@pytest.mark.parametrize("request_coding", CODINGS)
@pytest.mark.parametrize("binary", [True, False], ids=["bytes", "numbers"])
def test_compression(server, client, request_coding, answer, binary):
    arrays = operands()
    result = server.infer(MODEL, as_inputs(arrays, binary),
                          outputs=[triton.InferRequestedOutput("output", binary_data=binary)],
                          request_compression_algorithm=request_coding,
                          response_compression_algorithm=answer)
    assert result.as_numpy("output").tobytes() == usual(client, arrays).tobytes()


def test_parameters(server, client):
    arrays = operands()
    result = server.infer(MODEL, as_inputs(arrays), priority=1, timeout=60_000_000, sequence_id=5,
                          sequence_start=True, sequence_end=True,
                          parameters={"mask": "causal", "scale": 0.5})
    assert result.as_numpy("output").tobytes() == usual(client, arrays, mask="causal",
                                                        scale=0.5).tobytes()


def test_errors_are_read(server):
    with pytest.raises(triton.InferenceServerException) as caught:
        server.infer(MODEL, as_inputs(operands()), parameters={"is_causal": True})
    assert "mask" in caught.value.message() and caught.value.status() == "422"
    with pytest.raises(triton.InferenceServerException) as caught:
        server.infer(MODEL, as_inputs({**operands(), "k": np.zeros((1, 3, 24, 16), np.float32)}))
    assert "Head counts of k and v" in caught.value.message()
    with pytest.raises(triton.InferenceServerException) as caught:
        server.infer("resnet", as_inputs(operands()))
    assert caught.value.status() == "404"


def counts(server, model=MODEL):
    statistics, = server.get_inference_statistics(model)["model_stats"]
    return statistics


def test_statistics(server):
    """perf_analyzer reads all eight durations without asking whether they are there."""
    before = counts(server)
    for _ in range(3):
        server.infer(MODEL, as_inputs(operands()))
    with pytest.raises(triton.InferenceServerException):
        server.infer(MODEL, as_inputs(operands()), parameters={"scale": "x"})
    after = counts(server)
    assert (after["name"], after["version"]) == (MODEL, "1")
    assert after["inference_count"] - before["inference_count"] == 3
    assert after["last_inference"] > 1.6e12
    durations = after["inference_stats"]
    assert set(durations) == {"success", "fail", "queue", "compute_input", "compute_infer",
                              "compute_output", "cache_hit", "cache_miss"}
    grown = {name: (duration["count"] - before["inference_stats"][name]["count"],
                    duration["ns"] - before["inference_stats"][name]["ns"])
             for name, duration in durations.items()}
    assert (grown["success"][0], grown["fail"][0]) == (3, 1)
    assert all(grown[name][0] == 3 and grown[name][1] > 0 for name in (
        "success", "compute_input", "compute_infer", "compute_output"))
    assert grown["success"][1] >= sum(grown[name][1] for name in (
        "compute_input", "compute_infer", "compute_output"))
    everything = server.get_inference_statistics()["model_stats"]
    assert [statistics["name"] for statistics in everything] == ["attention", "onnx_attention"]


@pytest.mark.parametrize("coding", CODINGS)
def test_aio(address, client, coding):
    """aiohttp adds a Content-Type and an Accept-Encoding of its own."""
    arrays = operands()

    async def ask():
        async with triton_aio.InferenceServerClient(address) as server:
            assert await server.is_server_live() and await server.is_model_ready(MODEL)
            results = await asyncio.gather(*[
                server.infer(MODEL, as_inputs(arrays, binary, triton_aio),
                             request_compression_algorithm=coding,
                             response_compression_algorithm=coding)
                for binary in (True, False, {"q": False, "k": True, "v": False})])
            with pytest.raises(triton.InferenceServerException, match="no output"):
                await server.infer(MODEL, as_inputs(arrays, True, triton_aio),
                                   outputs=[triton_aio.InferRequestedOutput("map")])
            return [result.as_numpy("output").tobytes() for result in results]

    assert set(asyncio.run(ask())) == {usual(client, arrays).tobytes()}


def test_the_lines_of_the_page_work(daemon, capsys):
    page = (tables.ROOT / "docs" / "open-inference-protocol.md").read_text()
    lines, = (block for block in re.findall(r"^```python\n(.*?)^```", page, flags=re.S | re.M)
              if "triton" in block)
    exec(compile(lines.replace("127.0.0.1:8080", f"127.0.0.1:{daemon.port}"), "page", "exec"), {})
    assert capsys.readouterr().out.startswith("(1, 8, 128, 64) ")

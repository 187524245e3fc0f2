# SPDX-License-Identifier: Apache-2.0
"""KServe's Python client calls the service: kserve_calls.py http://HOST:PORT FOLDER

FOLDER has q, k and v, float32 [1,2,24,16]. Prints lines of a name, a tab and what came: bits as
hexadecimal digits, or the text of an error. The environment of its own in which it runs is made
from requirements.txt beside it.
"""
import asyncio
import sys
from pathlib import Path

import httpx
import numpy as np
from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import RequestedOutput

SHAPE = (1, 2, 24, 16)
MODEL = "attention"


def made(arrays, binary, outputs=(), **parameters):
    inputs = []
    for name, array in arrays.items():
        datatype = "FP16" if array.dtype == np.float16 else "FP32"
        one = InferInput(name, list(array.shape), datatype)
        one.set_data_from_numpy(array, binary_data=binary)
        inputs.append(one)
    wanted = [RequestedOutput(name, {"binary_data": as_bytes}) for name, as_bytes in outputs]
    return InferRequest(MODEL, inputs, parameters=parameters or None, request_outputs=wanted)


def bits(answer, name="output"):
    output, = (output for output in answer.outputs if output.name == name)
    return output.as_numpy().tobytes().hex()


async def refusal(call):
    try:
        await call
    except httpx.HTTPStatusError as refused:
        return str(refused)
    return "none"


async def calls(address, folder):
    arrays = {name: np.fromfile(folder / name, "<f4").reshape(SHAPE) for name in "qkv"}
    halves = {name: array.astype(np.float16) for name, array in arrays.items()}
    client = InferenceRESTClient(RESTConfig(protocol="v2"))

    async def infer(*wanted, **parameters):
        return await client.infer(address, made(*wanted, **parameters), model_name=MODEL)

    yield "live", await client.is_server_live(address)
    yield "ready", await client.is_server_ready(address)
    yield "model ready", await client.is_model_ready(address, MODEL)
    yield "model unknown", await client.is_model_ready(address, "resnet")
    for binary, name in ((True, "bytes"), (False, "numbers")):
        answer = await infer(arrays, binary, [("output", binary), ("lse", not binary)])
        yield name, bits(answer)
        yield f"lse {'numbers' if binary else 'bytes'}", bits(answer, "lse")
    yield "unasked", bits(await infer(arrays, True))
    yield "half bytes", bits(await infer(halves, True, binary_data_output=True))
    yield "causal", bits(await infer(arrays, True, [("output", True)], mask="causal", scale=0.5))
    empty = {name: array[:, :, :0] for name, array in arrays.items()}
    yield "empty", bits(await infer(empty, True, [("output", True)])) + "."
    yield "error", await refusal(infer(arrays, True, is_causal=True))
    yield "no such model", await refusal(client.infer(address, made(arrays, True), model_name="m"))


async def main(address, folder):
    async for name, came in calls(address, Path(folder)):
        print(name, came, sep="\t")


asyncio.run(main(*sys.argv[1:]))

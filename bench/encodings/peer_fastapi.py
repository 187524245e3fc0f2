# SPDX-License-Identifier: Apache-2.0
"""FastAPI and numpy, as quick as its users know to make them: orjson both ways for JSON, and for
bodies of bytes the readers of numpy and of safetensors.    python peer_fastapi.py PORT"""
import io
import sys

import numpy as np
import orjson
import safetensors.numpy
import uvicorn
from fastapi import FastAPI, Request, Response
from formula import attention

app = FastAPI()


def answer(body, media_type, milliseconds):
    return Response(body, media_type=media_type, headers={"X-Compute-Ms": f"{milliseconds:.3f}"})


@app.get("/ready")
def ready():
    return {}


@app.post("/json")
async def json_call(request: Request):
    call = orjson.loads(await request.body())
    output, spent = attention(*(np.array(call[name], np.float32) for name in "qkv"))
    body = orjson.dumps({"output": np.ascontiguousarray(output)},
                        option=orjson.OPT_SERIALIZE_NUMPY)
    return answer(body, "application/json", spent)


@app.post("/npz")
async def npz_call(request: Request):
    call = np.load(io.BytesIO(await request.body()))
    output, spent = attention(*(call[name] for name in "qkv"))
    body = io.BytesIO()
    np.savez(body, output=output)
    return answer(body.getvalue(), "application/x-npz", spent)


@app.post("/safetensors")
async def safetensors_call(request: Request):
    call = safetensors.numpy.load(await request.body())
    output, spent = attention(*(call[name] for name in "qkv"))
    body = safetensors.numpy.save({"output": np.ascontiguousarray(output)})
    return answer(body, "application/vnd.safetensors", spent)


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", log_level="error")

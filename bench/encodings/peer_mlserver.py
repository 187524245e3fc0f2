# SPDX-License-Identifier: Apache-2.0
"""The model that MLServer hosts; `mlserver start` of the folder that compare.py makes."""
from formula import attention
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class AttentionModel(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        tensors = {tensor.name: NumpyCodec.decode_input(tensor) for tensor in payload.inputs}
        output, spent = attention(*(tensors[name] for name in "qkv"))
        return InferenceResponse(model_name=self.name, parameters={"compute_ms": spent},
                                 outputs=[NumpyCodec.encode_output("output", output)])

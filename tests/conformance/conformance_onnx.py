# SPDX-License-Identifier: Apache-2.0
"""The node cases that the onnx package has of its operator `Attention`, and what is exact."""
import warnings

import numpy as np
from onnx import helper
from onnx.backend.test.case.node import collect_testcases
from onnx.reference import ReferenceEvaluator
from support.cases import widen
from support.onnx_call import INPUTS, OUTPUTS, named_inputs, named_outputs, widened


class OnnxCase:
    def __init__(self, case):
        self.name, self.model = case.name, case.model
        self.node, = case.model.graph.node
        self.attributes = {a.name: helper.get_attribute_value(a) for a in self.node.attribute}
        (inputs, outputs), = case.data_sets
        self.inputs = named_inputs(self.node, inputs)
        self.expected = named_outputs(self.node, outputs)

    def is_half(self):
        return self.inputs["Q"].dtype in (np.float16, np.uint16)


def collect():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the generators of other operators overflow on purpose
        generated = collect_testcases("Attention")
    by_name = {case.name: case for case in generated}
    # Each case also comes with the node replaced by the body of its function: same numbers.
    names = [name for name in by_name if not name.endswith("_expanded")]
    assert {f"{name}_expanded" for name in names} == set(by_name) - set(names)
    return [OnnxCase(by_name[name]) for name in names]


CASES = collect()


def evaluate(attributes, inputs, opset=25):
    """The operator's four outputs by onnx's own reference, in the type of the inputs."""
    names = [name if name in inputs else "" for name in INPUTS]
    node = helper.make_node("Attention", names, OUTPUTS, **attributes)
    kinds = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in inputs.items()}
    graph = helper.make_graph(
        [node], "attention",
        [helper.make_tensor_value_info(n, kinds[n], x.shape) for n, x in inputs.items()],
        [helper.make_tensor_value_info(n, kinds["Q"], None) for n in OUTPUTS])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    with np.errstate(all="ignore"):
        return dict(zip(OUTPUTS, ReferenceEvaluator(model).run(None, inputs), strict=True))


def exactly(case):
    return evaluate(case.attributes, widened(case.inputs), case.model.opset_import[0].version)


def number(x):
    return widen(x).astype(np.float64)

# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's operators: a model of one node, and its tensors in memory of their own."""
import numpy


def session(operator, domain, opset, feeds, outputs, attributes, threads):
    """A model of one node; `outputs` has (shape, dtype) by name."""
    import onnxruntime
    from onnx import helper

    def info(name, shape, dtype):
        kind = helper.np_dtype_to_tensor_dtype(numpy.dtype(dtype))
        return helper.make_tensor_value_info(name, kind, shape)
    names = [name if value is not None else "" for name, value in feeds.items()]
    node = helper.make_node(operator, names, list(outputs), domain=domain, **attributes)
    graph = helper.make_graph(
        [node], operator,
        [info(name, value.shape, value.dtype)
         for name, value in feeds.items() if value is not None],
        [info(name, *output) for name, output in outputs.items()])
    model = helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # Its threads spin within a run but not after it, where they would take our processors.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


def bind(made, feeds, outputs, shared=()):
    """A function that runs it, with every tensor in memory of its own and those of `shared`, pairs
    of an output and an input, in the same; and its tensors by name."""
    import onnxruntime
    binding = made.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value)
              for name, value in feeds.items() if value is not None}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for name, (shape, dtype) in outputs.items():
        given = dict(shared).get(name)
        values[name] = values[given] if given else onnxruntime.OrtValue.ortvalue_from_numpy(
            numpy.zeros(shape, dtype))
        binding.bind_ortvalue_output(name, values[name])
    return lambda: made.run_with_iobinding(binding), values

"""ONNX models for tests: one node or a few, made with onnx.helper, run by ipu_core and by the reference of onnx."""

import numpy
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.reference

import ipu_core


def make_model(nodes, inputs, outputs, version, constants=None):
    """A model whose inputs and constants are arrays by name; nodes are (type, operands, results, attributes)."""
    made = [
        onnx.helper.make_node(kind, operands, results, name=f"{kind}_{i}", **attributes)
        for i, (kind, operands, results, attributes) in enumerate(nodes)
    ]
    graph = onnx.helper.make_graph(
        made,
        "graph",
        [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()
        ],
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in outputs],
        [onnx.numpy_helper.from_array(numpy.asarray(array), name) for name, array in (constants or {}).items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)], ir_version=8)


def reference(model, inputs):
    return onnx.reference.ReferenceEvaluator(model).run(None, inputs)


def ours(model, inputs, **options):
    session = ipu_core.compile_model(ipu_core.read_onnx(model), **options)
    names = [value.name for value in model.graph.output]
    outputs = session.run(inputs)
    session.detach()
    return [outputs[name] for name in names]


def assert_same(got, expected, rtol=2e-6, atol=2e-6):
    assert len(got) == len(expected)
    for ours_, theirs in zip(got, expected):
        theirs = numpy.asarray(theirs)
        narrowed = {numpy.dtype("int64"): numpy.int32, numpy.dtype("float64"): numpy.float32}
        assert ours_.dtype == narrowed.get(theirs.dtype, theirs.dtype)
        assert ours_.shape == theirs.shape
        numpy.testing.assert_allclose(ours_, theirs, rtol=rtol, atol=atol)

"""Models and sessions of the tests of popart's sessions."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import popart

SHAPE = [2, 3]
TYPES = {np.dtype("float32"): TensorProto.FLOAT, np.dtype("float16"): TensorProto.FLOAT16}


def model(nodes, inputs, initialisers=(), metadata=()):
    """Bytes of a model. `inputs`: (name, ONNX type, shape); `initialisers`: (name, array)."""
    inputs = [helper.make_tensor_value_info(*one) for one in inputs]
    tensors = [numpy_helper.from_array(value, name) for name, value in initialisers]
    inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in tensors]
    graph = helper.make_graph(nodes, "BuilderGraph_0", inputs, [], tensors)
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 10), helper.make_opsetid("ai.graphcore", 1)], ir_version=6
    )
    helper.set_model_props(made, dict(metadata))
    return made.SerializeToString()


def linear(weight, shape=tuple(SHAPE), **more):
    """y = x @ w; loss = sum(y)."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("ReduceSum", ["y"], ["loss"], axes=[0, 1], keepdims=0),
    ]
    return model(nodes, [("x", TYPES[weight.dtype], shape)], [("w", weight)], **more)


def identity(shape, dtype=TensorProto.FLOAT, **more):
    """y = -x."""
    return model([helper.make_node("Neg", ["x"], ["y"])], [("x", dtype, shape)], **more)


def cpu():
    return popart.DeviceManager().createCpuDevice()


def ipu_model(count=1):
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": count, "tilesPerIPU": 1472})


def options(**values):
    made = popart.SessionOptions()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def training(data, anchors=("loss",), batches=1, device=None, optimizer=None, prepare=True, name="training", **values):
    anchors = anchors if isinstance(anchors, dict) else list(anchors)
    session = popart.TrainingSession(
        data,
        popart.DataFlow(batches, anchors),
        "loss",
        optimizer or popart.SGD({"defaultLearningRate": (0.1, False)}),
        device or cpu(),
        userOptions=options(**values),
        name=name,
    )
    if prepare:
        session.prepareDevice()
        session.weightsFromHost()
    return session


def inference(data, anchors=("y",), batches=1, device=None, prepare=True, name="inference", **values):
    anchors = anchors if isinstance(anchors, dict) else list(anchors)
    session = popart.InferenceSession(
        data, popart.DataFlow(batches, anchors), device or cpu(), userOptions=options(**values), name=name
    )
    if prepare:
        session.prepareDevice()
    return session


def step(session, **inputs):
    """One run; the anchors' arrays."""
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO(inputs, arrays))
    return arrays


def weights(session, **shapes):
    """Values of variables: name=array like it."""
    out = {name: np.empty_like(like) for name, like in shapes.items()}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(out))
    return out


def initialisers(data):
    return {t.name: t for t in onnx.load_from_string(data).graph.initializer}

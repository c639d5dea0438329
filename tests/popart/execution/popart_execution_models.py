"""Small models for tests of options and execution modes, and runs of them."""

from __future__ import annotations

from typing import Any

import numpy
import popart
from onnx import TensorProto, helper, numpy_helper

SGD = {"defaultLearningRate": (0.05, False)}
MOMENTUM = {"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, True)}
TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int32": TensorProto.INT32}


def node(
    type: str, inputs: list[str], output: str, ipu: Any = None, stage: Any = None, phase: Any = None, **attributes: Any
) -> Any:
    """A node with the annotations that are given."""
    for name, value in (("__ipu_number", ipu), ("__pipeline_stage", stage), ("__execution_phase", phase)):
        if value is not None:
            attributes[name] = value
    return helper.make_node(type, inputs, [output], **attributes)


def model(
    nodes: list[Any], inputs: dict[str, tuple[int, ...]], weights: dict[str, numpy.ndarray], **metadata: Any
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "BuilderGraph_0",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
        + [
            helper.make_tensor_value_info(name, TYPES[str(value.dtype)], value.shape) for name, value in weights.items()
        ],
        [],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)])
    helper.set_model_props(proto, {key: str(value) for key, value in metadata.items()})
    return proto.SerializeToString()


def weights(seed: int = 0, size: int = 4) -> dict[str, numpy.ndarray]:
    rng = numpy.random.default_rng(seed)
    return {f"w{i}": (rng.normal(size=(size, size)) / 2).astype(numpy.float32) for i in range(3)}


def layers(values: dict[str, numpy.ndarray], places: Any = None, rows: int = 2, **metadata: Any) -> bytes:
    """relu(x @ w0), relu(. @ w1), . @ w2, the loss is the mean of squares. `places`: annotations of each of the three."""
    places = places or [{}, {}, {}]
    size = values["w0"].shape[0]
    first, second, third = places
    nodes = [
        node("MatMul", ["x", "w0"], "m0", **first),
        node("Relu", ["m0"], "h0", **first),
        node("MatMul", ["h0", "w1"], "m1", **second),
        node("Relu", ["m1"], "h1", **second),
        node("MatMul", ["h1", "w2"], "y", **third),
        node("Mul", ["y", "y"], "square", **third),
        node("ReduceMean", ["square"], "loss", axes=[0, 1], keepdims=0, **third),
    ]
    return model(nodes, {"x": (rows, size)}, values, **metadata)


def device(ipus: int = 1) -> Any:
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": ipus, "tilesPerIPU": 1472})


def batches(count: int, rows: int = 2, size: int = 4, seed: int = 1) -> numpy.ndarray:
    return numpy.random.default_rng(seed).normal(size=(count, rows, size)).astype(numpy.float32)


def train(
    proto: bytes,
    names: list[str],
    x: numpy.ndarray,
    steps: int = 1,
    ipus: int = 1,
    optimizer: Any = None,
    anchors: Any = None,
    **options: Any,
) -> dict[str, numpy.ndarray]:
    """Anchors and weights after one run over all of `x`; `steps`: batches of it."""
    session = popart.TrainingSession(
        proto,
        popart.DataFlow(steps, anchors or {"loss": popart.AnchorReturnType("All")}),
        "loss",
        popart.SGD(SGD) if optimizer is None else optimizer,
        device(ipus),
        userOptions=options_of(**options),
    )
    session.prepareDevice()
    session.weightsFromHost()
    results = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x.copy()}, results))
    session.weightsToHost()
    initial = {name: numpy.zeros(session.getInfo(name).shape(), numpy.float32) for name in names}
    session.readWeights(popart.PyWeightsIO(initial))
    return {**results, **initial}


def options_of(**values: Any) -> Any:
    options = popart.SessionOptions()
    if values.get("accumulationFactor", 1) > 1:
        options.enableGradientAccumulation = True
    if values.get("replicatedGraphCount", 1) > 1:
        options.enableReplicatedGraphs = True
    for name, value in values.items():
        setattr(options, name, value)
    return options


def infer(
    proto: bytes, x: numpy.ndarray, anchors: Any, steps: int = 1, ipus: int = 1, **options: Any
) -> dict[str, numpy.ndarray]:
    session = popart.InferenceSession(
        proto, popart.DataFlow(steps, anchors), device(ipus), userOptions=options_of(**options)
    )
    session.prepareDevice()
    session.weightsFromHost()
    results: dict[str, numpy.ndarray] = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": x.copy()}, results))
    return results

"""A model whose gradients are its inputs: loss = Σ a·x + Σ b·y, so that a rule can be written out beside it."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import popart

SIZE = 5


def model(dtype=np.float32, states=()):
    element = TensorProto.FLOAT16 if dtype == np.float16 else TensorProto.FLOAT
    nodes, inputs, initialisers = [], [], []
    for weight, given in (("a", "x"), ("b", "y")):
        inputs.append(helper.make_tensor_value_info(given, element, [SIZE]))
        nodes.append(helper.make_node("Mul", [weight, given], [weight + "_product"]))
        nodes.append(helper.make_node("ReduceSum", [weight + "_product"], [weight + "_sum"], axes=[0], keepdims=0))
        initialisers.append(numpy_helper.from_array(start(weight, dtype), weight))
    nodes.append(helper.make_node("Add", ["a_sum", "b_sum"], ["loss"]))
    for name, value in dict(states).items():
        initialisers.append(numpy_helper.from_array(value, name))
    outputs = [helper.make_tensor_value_info("loss", element, [])]
    graph = helper.make_graph(nodes, "sums", inputs, outputs, initialisers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    onnx.checker.check_model(made)
    return made.SerializeToString()


def start(weight, dtype=np.float32):
    return np.random.default_rng(1 if weight == "a" else 2).uniform(-1, 1, SIZE).astype(dtype)


class Training:
    """A session of the model that is trained update by update with random gradients."""

    def __init__(self, optimizer, dtype=np.float32, accumulation=1, replicas=1, reduction="Sum", states=(), anchors=()):
        options = popart.SessionOptions()
        options.enableGradientAccumulation = accumulation > 1
        options.accumulationFactor = accumulation
        options.enableReplicatedGraphs = replicas > 1
        options.replicatedGraphCount = replicas
        if reduction != "Sum":
            options.accumulationAndReplicationReductionType = popart.ReductionType.Mean
            options.meanAccumulationAndReplicationReductionStrategy = popart.MeanReductionStrategy[reduction]
        self.shape = tuple(n for n in (accumulation, replicas) if n > 1) + (SIZE,)
        self.dtype, self.random = dtype, np.random.default_rng(3)
        final = popart.AnchorReturnType("Final")
        self.session = popart.TrainingSession(
            model(dtype, states),
            popart.DataFlow(1, {"loss": final, **dict.fromkeys(anchors, final)}),
            "loss",
            optimizer,
            popart.DeviceManager().createIpuModelDevice({"numIPUs": replicas}),
            userOptions=options,
        )
        self.session.prepareDevice()
        self.session.weightsFromHost()
        self.anchors = self.session.initAnchorArrays()

    def step(self):
        """Trains one update and returns the gradients of its micro-batches, [micro-batches, SIZE] for each weight."""
        data = {name: self.random.uniform(-1, 1, self.shape).astype(self.dtype) for name in "xy"}
        self.session.run(popart.PyStepIO(data, self.anchors))
        return {weight: data[name].astype(np.float64).reshape(-1, SIZE) for weight, name in (("a", "x"), ("b", "y"))}

    def read(self, *names, dtypes=None):
        values = {name: np.zeros(SIZE, (dtypes or {}).get(name, self.dtype)) for name in names}
        self.session.weightsToHost()
        self.session.readWeights(popart.PyWeightsIO(values))
        return values

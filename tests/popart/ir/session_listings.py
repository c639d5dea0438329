"""Small models for tests of what a session lists of its program."""

import json

import numpy as np

import popart

FORMAT = popart.IrSerializationFormat.JSON


class Model:
    """A builder with short ways to add tensors."""

    def __init__(self, opset=10):
        self.builder = popart.Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1})
        self.onnx, self.graphcore = self.builder.aiOnnx, self.builder.aiGraphcore
        self.generator = np.random.default_rng(7)

    def input(self, shape, name="x", dtype="FLOAT"):
        return self.builder.addInputTensor(popart.TensorInfo(dtype, shape), name)

    def weight(self, shape, name="w", dtype=np.float32):
        return self.builder.addInitializedInputTensor(self.generator.normal(size=shape).astype(dtype), name)

    def loss(self, value):
        return self.graphcore.l1loss([value], 0.1)

    def session(self, anchors, loss=None, options=None, patterns=None, optimizer=None, ipus=1, device=None):
        device = device or popart.DeviceManager().createIpuModelDevice({"numIPUs": ipus})
        flow = popart.DataFlow(1, anchors if isinstance(anchors, dict) else list(anchors))
        common = {"deviceInfo": device, "userOptions": options or popart.SessionOptions(), "patterns": patterns}
        if loss is None:
            return popart.InferenceSession(self.builder.getModelProto(), flow, **common)
        optimizer = optimizer or popart.SGD({"defaultLearningRate": (0.1, False)})
        return popart.TrainingSession(self.builder.getModelProto(), flow, loss, optimizer, **common)


def graphs_of(session):
    return json.loads(session._serializeIr(FORMAT))


def ops_of(session, graph="maingraph"):
    return graphs_of(session)[graph]


def types_of(session, graph="maingraph"):
    return [op["type"] for op in ops_of(session, graph)]


def of_type(session, word):
    """Ops of all graphs whose type contains the word."""
    return [op for ops in graphs_of(session).values() for op in ops if word in op["type"]]


def ids(op, side="inputs"):
    return [each["name"] for each in op[side]]


def options(**fields):
    made = popart.SessionOptions()
    for name, value in fields.items():
        setattr(made, name, value)
    return made

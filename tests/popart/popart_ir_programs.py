"""Small programs by hand, for the tests of popart._internal.ir."""

import numpy

import popart._internal.ir as _ir


def identifier(kind, domain="ai.onnx", version=1):
    return _ir.OperatorIdentifier(domain, kind, version, _ir.NumInputs(1, 2), 1)


def info(*shape, dtype="FLOAT"):
    return _ir.TensorInfo(dtype, list(shape))


class Program:
    """An Ir with a graph "g" of two inputs, and short ways to add ops to it."""

    def __init__(self, shape=(2, 3), second=None):
        self.ir = _ir.Ir()
        self.main = self.ir.getMainGraph()
        self.graph = self.ir.createGraph("g")
        self.graph.addInput("g/x", info(*shape))
        self.graph.addInput("g/y", info(*(shape if second is None else second)))

    def settings(self, name="op", graph=None):
        return _ir.Settings(graph or self.graph, name)

    def op(self, kind, inputs, output, *arguments, graph=None, **named):
        """createConnectedOp_<kind>Op with one output."""
        graph = graph or self.graph
        create = getattr(graph, f"createConnectedOp_{kind}Op")
        ins = dict(enumerate(inputs))
        return create(ins, {0: output}, identifier(kind), *arguments, settings=self.settings(kind, graph), **named)

    def op_in_place(self, kind, inputs, output, *arguments, **named):
        """As `op`, of a class that takes no identifier."""
        create = getattr(self.graph, f"createConnectedOp_{kind}Op")
        return create(dict(enumerate(inputs)), {0: output}, *arguments, settings=self.settings(kind), **named)

    def variable(self, id, value):
        array = numpy.asarray(value, numpy.float32)
        self.main.addVarInit(id, info(*array.shape), array)
        return self.ir.getTensor(id)

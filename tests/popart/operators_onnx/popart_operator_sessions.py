"""Operators of a builder, run by sessions as users do: values, gradients of operands, and what is refused where."""

import numpy

import popart


class Constant:
    """An operand that the model states."""

    def __init__(self, array):
        self.array = numpy.asarray(array)


class Program:
    """A builder of one opset, its operands and what `make` builds of them.

    Args:
        make: takes the builder, aiOnnx, aiGraphcore and the ids of the operands; gives one id or a list.
        operands: arrays, or Constants.
        trained: operands that are initialisers.
    """

    def __init__(self, make, operands, opset=10, trained=()):
        self.builder = popart.Builder()
        self.onnx = getattr(self.builder, f"aiOnnxOpset{opset}")
        self.ids, self.feeds = [], {}
        for i, operand in enumerate(operands):
            if isinstance(operand, Constant):
                self.ids.append(self.onnx.constant(operand.array))
            elif i in trained:
                self.ids.append(self.builder.addInitializedInputTensor(operand, f"w{i}"))
            else:
                self.ids.append(self.builder.addInputTensor(popart.TensorInfo(operand), f"x{i}"))
                self.feeds[self.ids[-1]] = operand
        results = make(self.builder, self.onnx, self.builder.aiGraphcore, self.ids)
        self.results = list(results) if isinstance(results, (list, tuple)) else [results]

    def session(self, anchors, loss=None, options=None):
        flow = popart.DataFlow(1, {id: popart.AnchorReturnType("All") for id in anchors})
        device = popart.DeviceManager().createCpuDevice()
        options = popart.SessionOptions() if options is None else options
        if loss is None:
            return popart.InferenceSession(
                fnModel=self.builder.getModelProto(), dataFlow=flow, deviceInfo=device, userOptions=options
            )
        return popart.TrainingSession(
            fnModel=self.builder.getModelProto(),
            dataFlow=flow,
            loss=loss,
            optimizer=popart.ConstSGD(0.1),
            deviceInfo=device,
            userOptions=options,
        )

    def run(self, session):
        session.prepareDevice()
        session.weightsFromHost()
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO(self.feeds, anchors))
        return anchors


def values(make, operands, opset=10, options=None):
    """What an inference session gives for each result."""
    program = Program(make, operands, opset)
    anchors = program.run(program.session(program.results, options=options))
    return [anchors[id] for id in program.results]


def gradients(make, operands, of, opset=10, trained=None):
    """Gradients of the sum of the first result for the operands `of`; these are trained unless others are named."""
    program = Program(make, operands, opset, of if trained is None else trained)
    loss = program.builder.aiGraphcore.identityloss([program.results[0]], popart.ReductionType.Sum)
    names = [f"Gradient___{program.ids[i]}" for i in of]
    anchors = program.run(program.session([*names, loss], loss))
    return [anchors[name] for name in names]

"""Which gradients a training session makes and shows, and what it refuses to differentiate."""

import numpy as np
import pytest

import popart

R = popart.ReductionType
GRADIENT = popart.reservedGradientPrefix()


class Training:
    def __init__(self):
        self.builder = popart.Builder(opsets={"ai.onnx": 10, "ai.graphcore": 1})
        self.onnx, self.graphcore, self.arrays = self.builder.aiOnnx, self.builder.aiGraphcore, {}

    def input(self, array, name="x"):
        self.arrays[name] = np.asarray(array)
        return self.builder.addInputTensor(popart.TensorInfo(self.arrays[name]), name)

    def weight(self, array, name):
        return self.builder.addInitializedInputTensor(np.asarray(array, np.float32), name)

    def session(self, anchors, loss):
        device = popart.DeviceManager().createCpuDevice()
        flow = popart.DataFlow(1, list(anchors))
        optimizer = popart.SGD({"defaultLearningRate": (0.5, False)})
        return popart.TrainingSession(self.builder.getModelProto(), flow, loss, optimizer, device)

    def run(self, anchors, loss):
        self.made = self.session(anchors, loss)
        self.made.prepareDevice()
        self.made.weightsFromHost()
        out = self.made.initAnchorArrays()
        self.made.run(popart.PyStepIO(self.arrays, out))
        return [out[id] for id in anchors]


# --- probabilities before a negative log-likelihood
LABELS = np.int32([0, 2])


@pytest.mark.parametrize("reduction, count", [(R.Mean, 2), (R.Sum, 1)])
@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("renamed", [False, True])
def test_gradients_of_probabilities_are_shown(reduction, count, detached, renamed):
    t = Training()
    x, labels = t.input(np.float32([[1, 2, 3], [0, 0, 0]])), t.input(LABELS, "labels")
    p = t.onnx.softmax([x], 1)
    read = t.onnx.identity([p]) if renamed else p
    loss = t.graphcore.nllloss([read, labels], reduction)
    if detached:
        loss = t.onnx.add([loss, t.onnx.reducesum([t.graphcore.detach([p])], [0, 1], 0)])
    of_p, of_x, probabilities = t.run([GRADIENT + p, GRADIENT + x, p], loss)
    wanted = np.zeros((2, 3), np.float32)
    wanted[[0, 1], LABELS] = -1 / (count * probabilities[[0, 1], LABELS])
    np.testing.assert_allclose(of_p, wanted, rtol=1e-5)
    np.testing.assert_allclose(of_x, (probabilities - (wanted != 0)) / count, rtol=1e-5, atol=1e-7)


def test_a_gradient_that_nobody_sees_leaves_softmax_and_loss_fused():
    """The gradient of the scores is that of the logarithm, however small the probability."""
    t = Training()
    x, labels = t.input(np.float32([[0, 200]])), t.input(np.int32([0]), "labels")
    loss = t.graphcore.nllloss([t.onnx.softmax([x], 1), labels], R.Sum)
    np.testing.assert_allclose(t.run([GRADIENT + x], loss)[0], [[-1, 1]])


# --- sorting
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("descending", [0, 1])
def test_gradients_go_back_to_where_sorted_values_came_from(axis, descending):
    t = Training()
    data = np.random.default_rng(2).permutation(12).reshape(3, 4).astype(np.float32)
    factors = np.random.default_rng(3).normal(size=(3, 4)).astype(np.float32)
    x = t.input(data)
    values, _ = t.graphcore.sort([x], axis=axis, descending=descending)
    loss = t.graphcore.identityloss([t.onnx.mul([values, t.input(factors, "f")])], R.Sum)
    order = np.argsort(-data if descending else data, axis)
    wanted = np.empty_like(data)
    np.put_along_axis(wanted, order, factors, axis)
    np.testing.assert_array_equal(t.run([GRADIENT + x], loss)[0], wanted)


def test_the_sum_of_sorted_values_has_a_gradient_of_ones():
    t = Training()
    x = t.input(np.float32([3, 1, 2, 0]))
    loss = t.graphcore.identityloss([t.graphcore.sort([x])[0]], R.Sum)
    np.testing.assert_array_equal(t.run([GRADIENT + x], loss)[0], [1, 1, 1, 1])


# --- normalisation
STATISTICS = {"s": [1, 2, 3], "b": [0, 1, 0], "m": [0.5, 0, -1], "v": [1, 2, 4]}
DATA = np.random.default_rng(4).normal(size=(2, 3, 4)).astype(np.float32)


def normalised(t, domain, outputs, ordinary=(), constant=False):
    x = t.input(DATA)
    operands = []
    for name, values in STATISTICS.items():
        array = np.float32(values)
        if constant:
            operands.append(t.onnx.constant(array))
        else:
            operands.append(t.input(array, name) if name in ordinary else t.weight(array, name))
    return (t.onnx if domain == "onnx" else t.graphcore).batchnormalization([x, *operands], outputs)


@pytest.mark.parametrize("domain", ["onnx", "graphcore"])
@pytest.mark.parametrize("place", ["on the path", "behind detach", "off the path"])
def test_one_output_is_refused_on_a_path_to_the_loss(domain, place):
    """Even where no variable and no anchor needs a gradient through it."""
    t = Training()
    (y,) = normalised(t, domain, 1, constant=True)
    value = {"on the path": y, "behind detach": t.graphcore.detach([y]), "off the path": t.onnx.neg(["x"])}[place]
    loss = t.graphcore.l1loss([t.onnx.add([value, t.weight([1, 1, 1, 1], "w")])], 0.1)
    if place == "on the path":
        with pytest.raises(
            popart.popart_exception, match="not differentiable.*BatchNormalization.* has no gradient in PopART"
        ):
            t.session([loss], loss)
    else:
        assert np.isfinite(t.run([loss, y], loss)[0])


def test_what_refuses_differentiation_refuses_on_any_path_to_the_loss():
    """In callees too."""
    t = Training()
    body = t.builder.createSubgraphBuilder()
    inside = body.addUntypedInputTensor("i")
    body.addOutputTensor(body.aiOnnx.pad([inside], [0, 1, 0, 0, 1, 0], "reflect"))
    x = t.input(DATA)
    for made in (t.onnx.pad([x], [0, 1, 0, 0, 1, 0], "reflect"), t.graphcore.call([x], 1, body)[0]):
        loss = t.graphcore.l1loss([made], 0.1)
        with pytest.raises(popart.popart_exception, match="has no gradient in PopART"):
            t.session([loss], loss)


@pytest.mark.parametrize("domain", ["onnx", "graphcore"])
@pytest.mark.parametrize("ordinary", [(), ("m",), ("v",), ("m", "v")])
def test_running_values_of_ordinary_inputs_are_outputs_alone(domain, ordinary):
    t = Training()
    results = normalised(t, domain, 5, ordinary)
    loss = t.graphcore.l1loss([results[0]], 0.1)
    y, mean, variance = t.run(results[:3], loss)
    batch = DATA.mean((0, 2)), DATA.var((0, 2), ddof=0 if domain == "onnx" else 1)
    for got, name, of_batch in ((mean, "m", batch[0]), (variance, "v", batch[1])):
        np.testing.assert_allclose(got, 0.9 * np.float32(STATISTICS[name]) + 0.1 * of_batch, rtol=1e-4, atol=1e-6)
    t.made.weightsToHost()
    for name, got in (("m", mean), ("v", variance)):
        if name not in ordinary:  # variables are updated in place
            value = {name: np.empty(3, np.float32)}
            t.made.readWeights(popart.PyWeightsIO(value))
            np.testing.assert_allclose(value[name], got, rtol=1e-6)

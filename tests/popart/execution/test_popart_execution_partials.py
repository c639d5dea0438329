"""Partial sums of single products and convolutions in float16: Builder.setPartialsType."""

import numpy
import popart
import pytest
from popart_execution_models import device

K = 512


def product(builder, generator):
    """A product of float16 whose sums are long; returns what takes the setting and a row of values of the input."""
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [4, K]))
    w = builder.addInitializedInputTensor(generator.standard_normal((K, 8)).astype(numpy.float16))
    return x, w, builder.aiOnnx.matmul([x, w]), (4, K)


def convolution(builder, generator):
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [1, K, 4, 4]))
    w = builder.addInitializedInputTensor(generator.standard_normal((8, K, 3, 3)).astype(numpy.float16))
    return x, w, builder.aiOnnx.conv([x, w], pads=[1, 1, 1, 1]), (1, K, 4, 4)


def two_convolutions(builder, *types):
    """Two convolutions of one input with the same weights, joined."""
    generator = numpy.random.default_rng(7)
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [1, K, 4, 4]))
    w = builder.addInitializedInputTensor(generator.standard_normal((8, K, 3, 3)).astype(numpy.float16))
    both = builder.aiGraphcore.multiconv([[x, w], [x, w]], pads=[[1, 1, 1, 1], [1, 1, 1, 1]], partialsTypes=list(types))
    return x, w, builder.aiOnnx.concat(both, 1), (1, K, 4, 4)


def infer(make, partials=None, **options):
    generator, builder = numpy.random.default_rng(7), popart.Builder()
    x, _, y, shape = make(builder, generator)
    builder.addOutputTensor(y)
    if partials is not None:
        builder.setPartialsType(y, partials)
    user = popart.SessionOptions()
    for name, value in options.items():
        setattr(user, name, value)
    flow = popart.DataFlow(1, {y: popart.AnchorReturnType("All")})
    session = popart.InferenceSession(builder.getModelProto(), flow, device(1), userOptions=user)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.weightsFromHost()
    session.run(popart.PyStepIO({x: generator.standard_normal(shape).astype(numpy.float16)}, anchors))
    return numpy.array(anchors[y])


def train(partials):
    """The gradient of the weights, by one step of plain SGD from weights that are all zero."""
    generator, builder = numpy.random.default_rng(7), popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT16", [K, 4]))
    w = builder.addInitializedInputTensor(numpy.zeros((4, 8), numpy.float16), "w")
    y = builder.aiOnnx.matmul([x, w])
    factors = generator.standard_normal((K, 8)).astype(numpy.float16)
    loss = builder.aiGraphcore.identityloss(
        [builder.aiOnnx.mul([y, builder.aiOnnx.constant(factors)])], popart.ReductionType.Sum
    )
    builder.setPartialsType(y, partials)
    flow = popart.DataFlow(1, {loss: popart.AnchorReturnType("All")})
    session = popart.TrainingSession(builder.getModelProto(), flow, loss, popart.ConstSGD(1.0), device(1))
    session.prepareDevice()
    session.weightsFromHost()
    values = generator.standard_normal((K, 4)).astype(numpy.float16)
    session.run(popart.PyStepIO({x: values}, session.initAnchorArrays()))
    session.weightsToHost()
    read = numpy.zeros((4, 8), numpy.float16)
    session.readWeights(popart.PyWeightsIO({w: read}))
    return read, -(values.astype(numpy.float64).T @ factors.astype(numpy.float64))


@pytest.mark.shows("popart.Builder.setPartialsType")
@pytest.mark.parametrize(
    ("make", "options"),
    [
        (product, {"partialsTypeMatMuls": "half"}),
        (convolution, {"convolutionOptions": {"partialsType": "half"}}),
    ],
)
def test_partials_of_one_op_are_those_of_the_option_for_all(make, options):
    full, half = infer(make), infer(make, "HALF")
    assert not numpy.array_equal(half, full)
    numpy.testing.assert_array_equal(half, infer(make, **options))
    numpy.testing.assert_array_equal(infer(make, "FLOAT"), full)
    numpy.testing.assert_array_equal(infer(make, "FLOAT", **options), full)  # the setting of the op comes first


@pytest.mark.shows("popart.Builder.setPartialsType")
def test_gradients_have_the_partials_of_their_product():
    (full, exact), (half, _) = train("FLOAT"), train("HALF")
    assert not numpy.array_equal(half, full)
    assert numpy.abs(full - exact).mean() < numpy.abs(half - exact).mean()


def test_each_convolution_of_several_has_its_own_partials():
    def halves(*types, **options):
        return numpy.split(infer(lambda builder, _: two_convolutions(builder, *types), **options), 2, axis=1)

    full, half = halves()[0], halves("half", "half")[0]
    assert not numpy.array_equal(half, full)
    for types, expected in ((("half", "float"), (half, full)), (("float", "half"), (full, half))):
        numpy.testing.assert_array_equal(halves(*types), expected)
    numpy.testing.assert_array_equal(halves(convolutionOptions={"partialsType": "half"}), (half, half))


def test_an_unknown_type_of_partials_is_refused():
    with pytest.raises(popart.popart_exception, match="'double' in 'partialsTypes'; there are half and float"):
        infer(lambda builder, _: two_convolutions(builder, "float", "double"))

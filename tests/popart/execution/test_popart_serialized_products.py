"""setSerializeMatMul: products in pieces."""

import numpy as np
import popart
import pytest
from popart_execution_models import device

RNG = np.random.default_rng(4)


def trained(a, b, mode="none", factor=0, keeps=False, dtype=np.float32):
    """The product, and the gradients of both operands of the sum of its squares; and the program."""
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(dtype, a.shape), "a")
    w = builder.addInitializedInputTensor(b.astype(dtype), "b")
    y = builder.aiOnnx.matmul([x, w])
    if mode != "none":
        builder.setSerializeMatMul({y}, mode, factor, keeps)
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.mul([y, y])], popart.ReductionType.Sum)
    anchors = {id: popart.AnchorReturnType("All") for id in (y, "Gradient___a", "Gradient___b")}
    session = popart.TrainingSession(
        builder.getModelProto(), popart.DataFlow(1, anchors), loss, popart.ConstSGD(0.01), device()
    )
    session.prepareDevice()
    session.weightsFromHost()
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: a.astype(dtype)}, arrays))
    return arrays, session._program.text()


def products(text):
    return text.count(" matmul(") + text.count(" linear(")


SHAPES = [
    ((6, 4), (4, 8)),
    ((2, 6, 4), (4, 8)),
    ((3, 6, 4), (3, 4, 8)),
    ((2, 1, 6, 4), (3, 4, 8)),
    ((3, 6, 4), (1, 4, 8)),
]


@pytest.mark.shows("popart.Builder.setSerializeMatMul")
@pytest.mark.parametrize("mode", ["input_channels", "reducing_dim", "output_channels"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_pieces_give_the_product_and_its_gradients(mode, shapes):
    a, b = (RNG.normal(size=shape).astype(np.float32) for shape in shapes)
    expected, plain = trained(a, b)
    got, text = trained(a, b, mode, 2)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    # The product and both gradients, each in two pieces.
    assert (products(plain), products(text)) == (3, 6)


@pytest.mark.parametrize("shapes", [((4,), (4, 8)), ((4,), (2, 4, 8)), ((2, 6, 4), (4,))], ids=str)
def test_a_product_with_a_vector_can_be_cut_along_the_reducing_dimension(shapes):
    a, b = (RNG.normal(size=shape).astype(np.float32) for shape in shapes)
    for name, value in trained(a, b, "reducing_dim", 4)[0].items():
        np.testing.assert_allclose(value, trained(a, b)[0][name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_partial_sums_can_keep_their_precision():
    # 2049 is no f16, 2050 is one.
    a, b = np.array([[2048, 1, 1, 0]]), np.ones((4, 1))
    y = "MatMul:0"
    assert trained(a, b, "reducing_dim", 2, False, np.float16)[0][y].item() == 2048
    assert trained(a, b, "reducing_dim", 2, True, np.float16)[0][y].item() == 2050


@pytest.mark.parametrize(
    "mode, factor, size", [("input_channels", 4, 6), ("reducing_dim", 3, 4), ("output_channels", 0, 8)]
)
def test_a_factor_has_to_divide_its_dimension(mode, factor, size):
    a, b = np.ones((6, 4), np.float32), np.ones((4, 8), np.float32)
    with pytest.raises(popart.popart_exception, match=f"'{mode}' into {factor} parts.*{size} elements"):
        trained(a, b, mode, factor)

"""Models whose shapes a builder does not know: a session derives every one itself, and refuses what no shape fits."""

import numpy as np
import pytest
from popart_session_models import inference, step

import popart

X = np.arange(12, dtype=np.float32).reshape(3, 4)
OPSETS = {"ai.onnx": 10, "ai.graphcore": 1}


def whole(b, numbers, dtype=np.int32):
    return b.aiOnnx.constant(np.array(numbers, dtype))


def reshaped(b, x, shape):
    return b.reshape_const(b.aiOnnx, [x], shape)


def transposed(b, x, **more):
    weight = b.aiOnnx.constant(np.arange(1, 5, dtype=np.float32).reshape(1, 1, 2, 2))
    return b.aiOnnx.convtranspose([reshaped(b, x, [1, 1, 3, 4]), weight], **more)


# What is built of x [3,4], the opsets, and the result.
LEGAL = {
    "concat": (lambda b, x: b.aiOnnx.concat([x, x], -1), range(6, 12), np.hstack([X, X])),
    "concat, first axis": (lambda b, x: b.aiOnnx.concat([x, x], -2), range(6, 12), np.vstack([X, X])),
    "flatten": (lambda b, x: b.aiOnnx.flatten([x], -1), range(6, 12), X),
    "flatten, first axis": (lambda b, x: b.aiOnnx.flatten([x], -2), range(6, 12), X.reshape(1, 12)),
    "expand": (lambda b, x: b.aiOnnx.expand([x, whole(b, [2, 3, 4])]), range(8, 12), np.stack([X, X])),
    "constantofshape": (
        lambda b, x: b.aiOnnx.add([x, b.aiOnnx.constantofshape([whole(b, [3, 4])], np.array([2], np.float32))]),
        range(9, 12), X + 2,
    ),
    "resize": (
        lambda b, x: b.aiOnnx.resize([reshaped(b, x, [1, 1, 3, 4]), "", "", whole(b, [1, 1, 6, 4])]),
        [11], X.repeat(2, 0).reshape(1, 1, 6, 4),
    ),
    "reshape of a shape": (
        lambda b, x: b.aiOnnx.reshape([x, b.aiOnnx.shape([b.aiOnnx.transpose([x], [1, 0])])]), range(6, 12), X.reshape(4, 3),
    ),
    "convtranspose": (lambda b, x: b.aiOnnx.shape([transposed(b, x, output_shape=[5, 6])]), [6, 8, 10, 11], [1, 1, 5, 6]),
    "convtranspose with padding": (
        lambda b, x: b.aiOnnx.shape([transposed(b, x, strides=[2, 2], output_padding=[1, 1], pads=[1, 0, 0, 1])]),
        [6, 8, 10, 11], [1, 1, 6, 8],
    ),
}  # fmt: skip


def of_opset(opset, build):
    builder = popart.Builder(opsets=OPSETS | {"ai.onnx": opset})
    x = builder.addInputTensor("FLOAT", [3, 4], "x")
    y = build(builder, x)
    builder.addOutputTensor(y)
    return builder, y


@pytest.mark.parametrize("case", LEGAL)
def test_a_session_runs_what_a_builder_cannot_infer(case):
    build, opsets, wanted = LEGAL[case]
    for opset in opsets:
        builder, y = of_opset(opset, lambda b, x: b.aiOnnx.identity([build(b, x)]))
        session = inference(builder.getModelProto(), [y])
        assert session.getInfo(y).shape() == list(np.shape(wanted)), opset
        np.testing.assert_array_equal(step(session, x=X)[y], wanted)


def test_what_is_behind_an_unknown_shape_runs_too():
    """The builder knows nothing of the network behind a concatenation, and the session trains it."""
    builder, wide = of_opset(10, lambda b, x: b.aiOnnx.concat([x, x], -1))
    weight = builder.addInitializedInputTensor(np.ones((8, 2), np.float32), "w")
    hidden = builder.aiOnnx.relu([builder.aiOnnx.matmul([wide, weight])])
    loss = builder.aiGraphcore.identityloss([hidden], popart.ReductionType.Sum, debugContext="loss")
    assert builder.getTensorShape(hidden) == []
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(1, [hidden, loss]),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createCpuDevice(),
    )
    session.prepareDevice()
    session.weightsFromHost()
    got = step(session, x=X)
    np.testing.assert_allclose(got[hidden], np.hstack([X, X]) @ np.ones((8, 2)), rtol=1e-6)


def test_a_builder_writes_and_reads_only_what_the_checker_takes(tmp_path):
    """The checker wants the shapes of outputs, which sessions do not."""
    builder, y = of_opset(10, lambda b, x: b.aiOnnx.concat([x, x], -1))
    for call in (
        lambda: builder.saveModelProto(str(tmp_path / "model.onnx")),
        lambda: popart.Builder(builder.getModelProto()),
        lambda: popart.GraphTransformer(builder.getModelProto()),
    ):
        with pytest.raises(RuntimeError, match="the ONNX checker refuses the model") as raised:
            call()
        assert raised.type is RuntimeError
    np.testing.assert_array_equal(step(inference(builder.getModelProto(), [y]), x=X)[y], np.hstack([X, X]))


def ones(b, *shape):
    return b.addInitializedInputTensor(np.ones(shape, np.float32))


ILLEGAL = {
    "matmul of unequal inner sizes": (lambda b, x: b.aiOnnx.matmul([x, ones(b, 3, 4)]), "inner sizes differ"),
    "matmul with a scalar": (lambda b, x: b.aiOnnx.matmul([x, ones(b)]), "at least one dimension"),
    "matmul of a scalar": (lambda b, x: b.aiOnnx.matmul([ones(b), x]), "at least one dimension"),
    **{
        f"{name} that does not broadcast": (
            lambda b, x, name=name: getattr(b.aiOnnx, name)([x, ones(b, 3)]), r"\[3,4\] and \[3\] do not broadcast",
        )
        for name in ("add", "sub", "mul", "div", "pow", "less", "greater", "max", "min", "sum", "mean")
    },
    "reshape with two open sizes": (lambda b, x: b.aiOnnx.reshape([x, whole(b, [-1, -1], np.int64)]), "two sizes left open"),
    "reshape of another size": (lambda b, x: b.aiOnnx.reshape([x, whole(b, [5, 3], np.int64)]), "has 15 elements"),
    "tile with a negative number": (lambda b, x: b.aiOnnx.tile([x, whole(b, [-1, 2], np.int64)]), "none may be negative"),
    "tile with too few numbers": (lambda b, x: b.aiOnnx.tile([x, whole(b, [2], np.int64)]), r"repeats \[2\]"),
    "concat": (lambda b, x: b.aiOnnx.concat([x, ones(b, 2, 3)], 0), "must agree in all dimensions but 0"),
    "concat along what is not there": (lambda b, x: b.aiOnnx.concat([x, x], -3), "names dimension -3 of 2"),
    "flatten at what is not there": (lambda b, x: b.aiOnnx.flatten([x], -3), "axis -3"),
    "gemm": (lambda b, x: b.aiOnnx.gemm([x, x, x]), "4 columns.* 3 rows"),
    "squeeze": (lambda b, x: b.aiOnnx.squeeze([x], [0]), "not 1"),
    "transpose": (lambda b, x: b.aiOnnx.transpose([x], [0, 0]), "perm"),
    "split": (lambda b, x: b.aiOnnx.split([x], 2, 1, [2, 3])[0], "4 elements into 2 pieces"),
    "expand": (lambda b, x: b.aiOnnx.expand([x, whole(b, [2, 3], np.int64)]), "do not broadcast"),
    "subsample with a stride of 0": (lambda b, x: b.aiGraphcore.subsample([x], [0, 1]), "strides"),
}  # fmt: skip


@pytest.mark.parametrize("make", ["inference", "training"])
@pytest.mark.parametrize("case", ILLEGAL)
def test_a_session_refuses_shapes_that_do_not_fit(case, make):
    build, message = ILLEGAL[case]
    builder, y = of_opset(10, build)
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.cast([y], "FLOAT")])
    with pytest.raises(popart.popart_exception, match=message):
        if make == "inference":
            inference(builder.getModelProto(), [y])
        else:
            flow = popart.DataFlow(1, [loss])
            device = popart.DeviceManager().createCpuDevice()
            popart.TrainingSession(builder.getModelProto(), flow, loss, popart.ConstSGD(0.1), device)


@pytest.mark.parametrize("method, name", [("conv", "strides"), ("maxpool", "strides"), ("averagepool", "kernel_shape")])
def test_windows_of_no_size_are_refused_by_the_builder(method, name):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [1, 1, 4, 4])
    operands = [x, ones(builder, 1, 1, 2, 2)] if method == "conv" else [x]
    kernel = {} if method == "conv" else {"kernel_shape": [2, 2]}
    arguments = [operands, 1] if method == "maxpool" else [operands]
    with pytest.raises(popart.popart_exception, match=f"{name} is .0, 0."):
        getattr(builder.aiOnnx, method)(*arguments, **kernel | {name: [0, 0]})

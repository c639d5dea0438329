"""Products, convolutions, pools, norms, softmax, losses, and updates of variables."""

import numpy as np
import pytest
import tensorflow as tf
from raw_ops import Const, Given, Of, Same, Table, V, X, case

IMAGES = [((2, 5, 6, 3), [1, 1, 1, 1]), ((1, 7, 5, 3), [1, 2, 2, 1]), ((2, 6, 6, 3), [1, 3, 2, 1])]
ONCE = ("float32",)


def sizes(image, kernel, strides, padding, dilation=1):
    """[height, width] of a result."""
    found = []
    for size, k, stride in zip(image[1:3], kernel, strides[1:3]):
        extent = dilation * (k - 1) + 1
        found.append(-(-size // stride) if padding == "SAME" else (size - extent) // stride + 1)
    return found


def convolutions():
    for image, strides in IMAGES:
        for padding in ("SAME", "VALID"):
            options = {"strides": strides, "padding": padding, "slack": 4.0}
            h, w = sizes(image, (3, 2), strides, padding)
            kernel, dy = (3, 2, 3, 4), (image[0], h, w, 4)
            yield case("Conv2D", X(image), X(kernel), **options)
            yield case("Conv2DBackpropInput", Const(image), X(kernel), X(dy), **options)
            yield case("Conv2DBackpropFilter", X(image), Const(kernel), X(dy), **options)
            if strides[1] != strides[2]:
                continue
            kernel, dy = (3, 2, 3, 2), (image[0], h, w, 6)
            options["dtypes"] = ONCE
            yield case("DepthwiseConv2dNative", X(image), X(kernel), **options)
            yield case("DepthwiseConv2dNativeBackpropInput", Const(image), X(kernel), X(dy), **options)
            yield case("DepthwiseConv2dNativeBackpropFilter", X(image), Const(kernel), X(dy), **options)
    pads = [0, 0, 1, 2, 0, 1, 0, 0]
    yield case(
        "Conv2D",
        X((2, 5, 6, 3)),
        X((3, 2, 3, 4)),
        strides=[1] * 4,
        padding="EXPLICIT",
        explicit_paddings=pads,
        slack=4.0,
    )
    yield case(
        "Conv2D", X((2, 7, 8, 3)), X((3, 2, 3, 4)), strides=[1] * 4, padding="SAME", dilations=[1, 2, 2, 1], slack=4.0
    )
    yield case("Conv2D", X((2, 5, 5, 4)), X((3, 3, 2, 6)), strides=[1] * 4, padding="SAME", dtypes=ONCE, slack=4.0)
    for padding in ("SAME", "VALID"):
        options = {"strides": [1, 2, 1, 1, 1], "padding": padding, "dtypes": ONCE, "slack": 4.0}
        yield case("Conv3D", X((1, 4, 5, 3, 2)), X((2, 3, 2, 2, 3)), **options)
        dy = (1, 2, 5, 3, 3) if padding == "SAME" else (1, 2, 3, 2, 3)
        yield case("Conv3DBackpropInputV2", Const((1, 4, 5, 3, 2)), X((2, 3, 2, 2, 3)), X(dy), **options)


def pools():
    for image, strides in IMAGES:
        for padding in ("SAME", "VALID"):
            options = {"ksize": [1, 3, 2, 1], "strides": strides, "padding": padding, "slack": 2.0}
            y = (image[0], *sizes(image, (3, 2), strides, padding), image[3])
            yield case("MaxPool", X(image), **options)
            yield case("AvgPool", X(image), **options)
            pooled = Of(function=lambda x, **given: tf.raw_ops.MaxPool(input=x, **given))
            yield case("MaxPoolGrad", X(image), pooled, X(y), **options)
            yield case("AvgPoolGrad", Const(image), X(y), **options)
    yield case("MaxPoolV2", X((1, 4, 4, 2)), Const([1, 2, 2, 1]), Const([1, 2, 2, 1]), padding="VALID")
    yield case(
        "MaxPool3D",
        X((1, 4, 4, 4, 2)),
        ksize=[1, 2, 2, 2, 1],
        strides=[1, 2, 2, 2, 1],
        padding="VALID",
        dtypes=ONCE,
        wider=False,
    )
    yield case(
        "AvgPool3D",
        X((1, 5, 4, 4, 2)),
        ksize=[1, 2, 2, 2, 1],
        strides=[1, 2, 2, 2, 1],
        padding="SAME",
        dtypes=ONCE,
        wider=False,
    )


def norms():
    channel = X((3,), 0.5, 1.5)
    for shape in ((4, 3, 2, 3), (2, 5, 5, 3), (1, 2, 1, 3)):
        # Reserved results are for the gradient alone: the last is of GPUs.
        options = {"wider": False, "slack": 8.0, "results": (0, 1, 2, 3, 4)}
        dtypes = {"dtypes": ONCE}
        yield case(
            "FusedBatchNormV3",
            X(shape),
            channel,
            channel,
            channel,
            channel,
            is_training=True,
            epsilon=0.01,
            **options,
            **dtypes,
        )
        yield case(
            "FusedBatchNormV3", X(shape), channel, channel, channel, channel, is_training=False, **options, **dtypes
        )
        yield case(
            "FusedBatchNormV3",
            X(shape),
            channel,
            channel,
            channel,
            channel,
            exponential_avg_factor=0.25,
            **options,
            **dtypes,
        )
        more = {**options, "results": (0, 1, 2), **dtypes}
        statistics = [X((3,), 0.5, 1.5), X((3,), 0.5, 1.5), X((), 0, 1)]
        for training in (True, False):
            yield case("FusedBatchNormGradV3", X(shape), X(shape), channel, *statistics, is_training=training, **more)
    yield case("LRN", X((1, 2, 3, 8)), depth_radius=2, bias=1.5, alpha=0.5, beta=0.75, dtypes=ONCE, wider=False)


def losses():
    for shape in ((4, 5), (1, 3), (7, 2)):
        yield case("Softmax", X(shape))
        yield case("LogSoftmax", X(shape))
        yield case("SoftmaxCrossEntropyWithLogits", X(shape), X(shape, 0.0, 1.0), slack=2.0)
        for integers in (np.int32, np.int64):
            labels = Given(np.arange(shape[0]) % shape[1], integers)
            yield case("SparseSoftmaxCrossEntropyWithLogits", X(shape), labels, slack=2.0)
    yield case("Softmax", X((2, 3, 4)))
    yield case("SoftmaxCrossEntropyWithLogits", X((4, 3)), X((1, 3), 0.0, 1.0))


def products():
    for a, b in (((2, 3), (3, 4)), ((1, 5), (5, 1)), ((7, 2), (2, 3))):
        for ta, tb in ((False, False), (True, False), (False, True)):
            left, right = X(a[::-1] if ta else a), X(b[::-1] if tb else b)
            yield case("MatMul", left, right, transpose_a=ta, transpose_b=tb, slack=2.0)
    for type in ("BatchMatMul", "BatchMatMulV2"):
        yield case(type, X((2, 3, 4)), X((2, 4, 5)), slack=2.0)
        yield case(type, X((2, 4, 3)), X((2, 5, 4)), adj_x=True, adj_y=True, slack=2.0)
    yield case("BatchMatMulV2", X((2, 1, 3, 4)), X((5, 4, 2)), slack=2.0)
    yield case("BatchMatMulV2", X((3, 4)), X((5, 2, 4)), adj_y=True, slack=2.0)
    for shape in ((2, 3), (2, 4, 3), (1, 2, 2, 3)):
        yield case("BiasAdd", X(shape), X((3,)))
        yield case("BiasAddGrad", X(shape), slack=2.0)
    yield case("BiasAdd", X((2, 3, 4, 4)), X((3,)), data_format="NCHW", dtypes=ONCE)
    for equation, shapes in (
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij,bkj->bik", [(2, 3, 4), (2, 5, 4)]),
        ("ij->ji", [(2, 3)]),
    ):
        yield case("Einsum", [X(shape) for shape in shapes], equation=equation, slack=2.0)


RATE, SHARE, TINY, G = Same(0.1), Same(0.9), Same(1e-3), X((2, 3))


def updates():
    var, accum = V((2, 3)), V((2, 3))
    rules = {
        "GradientDescent": [var, RATE, G],
        "Momentum": [var, accum, RATE, G, SHARE],
        "KerasMomentum": [var, accum, RATE, G, SHARE],
        "Adam": [var, accum, accum, SHARE, Same(0.99), RATE, SHARE, Same(0.99), TINY, G],
        "AdamWithAmsgrad": [var, accum, accum, accum, SHARE, Same(0.99), RATE, SHARE, Same(0.99), TINY, G],
        "AdaMax": [var, accum, accum, SHARE, RATE, SHARE, Same(0.99), TINY, G],
        "RMSProp": [var, accum, accum, RATE, SHARE, Same(0.5), TINY, G],
        "CenteredRMSProp": [var, V((2, 3), 0.0, 0.1), V((2, 3), 3.0, 4.0), accum, RATE, SHARE, Same(0.5), TINY, G],
        "Adagrad": [var, accum, RATE, G],
        "AdagradV2": [var, accum, RATE, TINY, G],
        "Adadelta": [var, accum, accum, RATE, SHARE, TINY, G],
        "ProximalGradientDescent": [var, RATE, Same(0.2), Same(0.3), G],
        "ProximalAdagrad": [var, accum, RATE, Same(0.2), Same(0.3), G],
        "Ftrl": [var, accum, accum, G, RATE, Same(0.2), Same(0.3), Same(-0.5)],
        "FtrlV2": [var, accum, accum, G, RATE, Same(0.2), Same(0.3), Same(0.1), Same(-0.5)],
        "AddSign": [var, accum, RATE, Same(1.0), SHARE, SHARE, G],
        "PowerSign": [var, accum, RATE, Same(1.0), SHARE, SHARE, G],
    }
    for name, operands in rules.items():
        dtypes = ONCE if name.startswith("Proximal") else ("float32", "float16")  # as TensorFlow's kernels
        yield case(f"ResourceApply{name}", *operands, slack=4.0, dtypes=dtypes)
    for name in ("Momentum", "KerasMomentum", "Adam"):
        yield case(f"ResourceApply{name}", *rules[name], use_nesterov=True, slack=4.0)
    yield case("ResourceApplyAdagrad", *rules["Adagrad"], update_slots=False, slack=4.0)
    yield case("ResourceApplyFtrl", *rules["Ftrl"][:-1], Same(-0.75), slack=4.0)
    yield case("ResourceApplyFtrl", *rules["Ftrl"], multiply_linear_by_lr=True, slack=4.0)


CASES = [*products(), *convolutions(), *pools(), *norms(), *losses(), *updates()]
TABLE = Table(CASES)


@pytest.mark.parametrize("name", TABLE.names())
def test_heavy_op_is_that_of_tensorflow(name):
    TABLE.check(name)

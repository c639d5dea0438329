"""Norms, convolutions and the LSTM of ai.graphcore."""

import numpy as np
import pytest

import ipu_core
from graphcore_models import Gradients, Values, make_model, normal, refusal, run, train


def columns(a, x):
    return np.reshape(a, (1, -1) + (1,) * (np.ndim(x) - 2))


def batch_norm(x, scale, bias, mean, var, eps=1e-5):
    return (x - columns(mean, x)) / np.sqrt(columns(var, x) + eps) * columns(scale, x) + columns(bias, x)


def by_its_batch(x, scale, bias, eps=1e-5):
    axes = (0, *range(2, np.ndim(x)))
    return batch_norm(x, scale, bias, np.mean(x, axes), np.var(x, axes), eps)


PARAMETERS = [
    np.float32([1.5, -0.5, 2]),
    np.float32([0.1, 0.2, -0.3]),
    np.float32([0.5, 0, -1]),
    np.float32([1, 2, 0.5]),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_batch_normalisation(dtype):
    values = Values()
    for shape in ((4, 3, 5), (2, 3, 2, 2)):
        x, parameters = normal(*shape).astype(dtype), [a.astype(dtype) for a in PARAMETERS]
        wide = x.astype(np.float64)
        y = batch_norm(wide, *parameters, eps=0.01).astype(dtype)
        values.add("BatchNormalization", [x, *parameters], y, 1e-2 if dtype == np.float16 else 1e-5, epsilon=0.01)
        axes = (0, *range(2, x.ndim))
        mean, var, unbiased = wide.mean(axes), wide.var(axes), wide.var(axes, ddof=1)
        expected = [
            by_its_batch(wide, *parameters[:2]),
            0.75 * parameters[2] + 0.25 * mean,
            0.75 * parameters[3] + 0.25 * unbiased,
            mean,
            var,
        ]
        expected = [a.astype(dtype) for a in expected]
        values.add(
            "BatchNormalization", [x, *parameters], expected, 1e-2 if dtype == np.float16 else 1e-5, momentum=0.75
        )
    values.check()


NORM = ["BatchNormalization", ["x", "scale", "bias", "mean", "var"], ["y"], {"momentum": 0.5}]
LOSS = ("IdentityLoss", ["y"], ["loss"], {"reduction": "Sum"})


def test_training_by_the_batch_moves_the_statistics_and_inference_by_given_ones_is_not_differentiated():
    x, names = normal(4, 3, 5), ["scale", "bias", "mean", "var"]
    node = tuple(NORM[:2] + [["y", "m", "v", "sm", "sv"]] + NORM[3:])
    model = make_model([node, LOSS], {"x": x}, ["loss"], dict(zip(names, PARAMETERS)))
    session = ipu_core.compile_model(
        ipu_core.read_onnx(model, trained=["scale"]), ipu_core.Program(loss="loss", optimizer={"lr": 0.0})
    )
    session.run({"x": x})
    np.testing.assert_allclose(session.read("mean"), 0.5 * PARAMETERS[2] + 0.5 * x.mean((0, 2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(session.read("var"), 0.5 * PARAMETERS[3] + 0.5 * x.var((0, 2), ddof=1), rtol=1e-5)
    session.detach()
    constants = dict(zip(names, PARAMETERS))
    scale = constants.pop("scale")
    with pytest.raises(ipu_core.Error, match="BatchNormalization_0.* has no gradient"):
        train([tuple(NORM), LOSS], {"x": x, **constants}, {"scale": scale}, ["loss"])


def grouped(x, scale, bias, groups, eps=1e-5):
    x = np.asarray(x, np.float64)
    parts = x.reshape(len(x), groups, -1)
    mean, deviation = parts.mean(2, keepdims=True), np.sqrt(parts.var(2, keepdims=True) + eps)
    y = ((parts - mean) / deviation).reshape(x.shape) * columns(scale, x) + columns(bias, x)
    return y, mean.ravel(), 1 / deviation.ravel()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_group_normalisation_gives_mean_and_inverse_deviation_too(dtype):
    x, values = normal(2, 4, 3, 2).astype(dtype), Values()
    scale, bias = normal(4).astype(dtype), normal(4, seed=1).astype(dtype)
    for groups in (1, 2, 4):
        expected = [a.astype(dtype) for a in grouped(x, scale, bias, groups, 0.125)]
        values.add(
            "GroupNormalization",
            [x, scale, bias],
            expected,
            1e-2 if dtype == np.float16 else 1e-5,
            num_groups=groups,
            epsilon=0.125,
        )
    values.check()


def test_gradients_of_norms():
    gradients = Gradients()
    x, scale, bias = normal(3, 4, 2), normal(4), normal(4, seed=1)
    gradients.add(
        "GroupNormalization",
        {0: x, 1: scale, 2: bias},
        lambda *a: grouped(*a, 2)[0],
        outputs=3,
        num_groups=2,
        tolerance=1e-3,
    )
    gradients.add(
        "GroupNormalization",
        {0: x},
        lambda x: grouped(x, scale, bias, 2)[2],
        {1: scale, 2: bias},
        outputs=3,
        output=2,
        num_groups=2,
        tolerance=1e-3,
    )
    x = normal(4, 3, 2)
    gradients.add(
        "BatchNormalization",
        {0: x, 1: PARAMETERS[0], 2: PARAMETERS[1]},
        by_its_batch,
        {3: PARAMETERS[2], 4: PARAMETERS[3]},
        outputs=5,
        tolerance=1e-3,
    )
    gradients.check()


# --- LSTM


def lstm(x, weights, bias=None, initial=None, lengths=None, full=True):
    """Gates: forget, input, candidate, output."""
    steps, batch, inputs = x.shape
    hidden = weights.shape[2]
    h, c = np.zeros((2, batch, hidden)) if initial is None else np.array(initial, np.float64)
    bias = np.zeros((4, hidden)) if bias is None else bias
    lengths = np.full(batch, steps) if lengths is None else np.asarray(lengths, int)
    y, sigmoid = np.zeros((steps, batch, hidden)), lambda v: 1 / (1 + np.exp(-v))
    for t in range(steps):
        gates = np.einsum("bi,gih->gbh", np.concatenate([x[t], h], 1), weights) + bias[:, None]
        next_c = sigmoid(gates[0]) * c + sigmoid(gates[1]) * np.tanh(gates[2])
        next_h = sigmoid(gates[3]) * np.tanh(next_c)
        runs = (t < lengths)[:, None]
        h, c = np.where(runs, next_h, h), np.where(runs, next_c, c)
        y[t] = np.where(runs, next_h, 0)
    return (y if full else h), c


X, W, B, S = normal(5, 3, 2), normal(4, 2 + 4, 4) * 0.5, normal(4, 4), normal(2, 3, 4)
SIZES = np.int32([5, 2, 0])
LSTMS = [(), (B,), (B, S), (None, S), (B, S, SIZES), (None, None, SIZES)]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("full", [1, 0])
def test_lstm_follows_its_formula(dtype, full):
    values = Values()
    for more in LSTMS:
        operands = [a if a is None or a.dtype == np.int32 else a.astype(dtype) for a in (X, W, *more)]
        wide = [a if a is None else a.astype(np.float64) for a in operands]
        expected = [a.astype(dtype) for a in lstm(*wide, full=full)]
        values.add("LSTM", operands, expected, 5e-3 if dtype == np.float16 else 1e-5, outputFullSequence=full)
    values.check()


def test_gradients_of_lstm():
    gradients = Gradients()
    x, w = X[:3, :2], W
    b, s, sizes = B, S[:, :2], np.int32([3, 1])
    for output in (0, 1):
        gradients.add(
            "LSTM", {0: x, 1: w}, lambda x, w, o=output: lstm(x, w)[o], outputs=2, output=output, tolerance=1e-3
        )
        gradients.add(
            "LSTM",
            {0: x, 1: w, 2: b, 3: s},
            lambda *a, o=output: lstm(*a, sizes)[o],
            {4: sizes},
            outputs=2,
            output=output,
            tolerance=1e-3,
        )
    gradients.add(
        "LSTM",
        {1: w, 3: s},
        lambda w, s: lstm(x, w, b, s, sizes, False)[0],
        {0: x, 2: b, 4: sizes},
        outputs=2,
        outputFullSequence=0,
        tolerance=1e-3,
    )
    gradients.check()


# --- convolutions


def dilated(x, by):
    for axis, d in enumerate(by, 2):
        shape = list(x.shape)
        shape[axis] = (shape[axis] - 1) * d + 1
        wide = np.zeros(shape)
        wide[(slice(None),) * axis + (slice(None, None, d),)] = x
        x = wide
    return x


def padded(x, pads):
    rank = len(pads) // 2
    return np.pad(x, [(0, 0), (0, 0)] + [(pads[d], pads[rank + d]) for d in range(rank)])


def conv(x, w, bias=None, strides=None, pads=None, dilations=None, in_dilations=None, out_pads=None):
    rank, one = w.ndim - 2, [1] * (w.ndim - 2)
    x = padded(dilated(np.asarray(x, np.float64), in_dilations or one), pads or [0] * 2 * rank)
    w = dilated(np.asarray(w, np.float64), dilations or one)
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=tuple(range(2, rank + 2)))
    windows = windows[(slice(None),) * 2 + tuple(slice(None, None, s) for s in strides or one)]
    groups, letters = x.shape[1] // w.shape[1], "ijk"[:rank]
    sizes = "xyz"[:rank]
    y = np.concatenate(
        [
            np.einsum(f"nc{sizes}{letters},oc{letters}->no{sizes}", part, kernel)
            for part, kernel in zip(np.split(windows, groups, 1), np.split(w, groups, 0))
        ],
        1,
    )
    if bias is not None:
        y = y + columns(bias, y)
    return padded(y, out_pads or [0] * 2 * rank)


def test_several_convolutions_in_one_node():
    x0, w0, b0 = normal(2, 3, 6), normal(4, 3, 3), normal(4)
    x1, w1 = normal(1, 4, 5, 6), normal(6, 2, 3, 2)
    x2, w2 = normal(1, 2, 3, 3, 3), normal(2, 2, 2, 2, 2)
    plain = [conv(x0, w0, b0), conv(x1, w1), conv(x2, w2)]
    values = Values()
    values.add("MultiConv", [x0, w0, b0, x1, w1, None, x2, w2], [a.astype(np.float32) for a in plain], 1e-5)
    shaped = [
        conv(x0, w0, b0, [2], [1, 2], [2], [2], [1, 0]),
        conv(x1, w1, None, [1, 2], [1, 0, 0, 1], [1, 1], [2, 1], [0, 0, 0, 3]),
    ]
    values.add(
        "MultiConv",
        [x0, w0, b0, x1, w1, None],
        [a.astype(np.float32) for a in shaped],
        1e-5,
        strides=[2, 1, 2],
        pads=[1, 2, 1, 0, 0, 1],
        dilations=[2, 1, 1],
        inDilations=[2, 2, 1],
        outPads=[1, 0, 0, 0, 0, 3],
        availableMemoryProportions=[0.1, 0.2],
        planType="serial",
    )
    half = [a.astype(np.float16) for a in (x0, w0)]
    values.add("MultiConv", half, conv(*half).astype(np.float16), 2e-2)
    values.check()


def test_gradients_of_several_convolutions():
    gradients, x0, w0, b0, x1, w1 = (
        Gradients(),
        normal(1, 2, 4),
        normal(2, 2, 2),
        normal(2),
        normal(1, 2, 3, 3),
        normal(2, 1, 2, 2),
    )
    attributes = {"inDilations": [2, 1, 2], "pads": [1, 0, 0, 1, 1, 0], "strides": [2, 1, 1]}
    gradients.add(
        "MultiConv",
        {0: x0, 1: w0, 2: b0},
        lambda x, w, b: conv(x, w, b, [2], [1, 0], None, [2]),
        {3: x1, 4: w1},
        outputs=2,
        **attributes,
    )
    gradients.add(
        "MultiConv",
        {3: x1, 4: w1},
        lambda x, w: conv(x, w, None, [1, 1], [0, 1, 1, 0], None, [1, 2]),
        {0: x0, 1: w0},
        outputs=2,
        output=1,
        **attributes,
    )
    gradients.check()


def test_what_cannot_be_is_refused_with_its_numbers():
    x, three = normal(2, 3, 4), [np.ones(3, np.float32)] * 4
    assert "[2,3]" in refusal("BatchNormalization", [normal(2, 3), *three], {})
    assert "[4] as operand 2" in refusal("BatchNormalization", [x, three[0], normal(4), *three[:2]], {})
    assert "2 outputs" in refusal("BatchNormalization", [x, *three], {}, results=2)
    assert "num_groups 2" in refusal("GroupNormalization", [x, *three[:2]], {"num_groups": 2}, results=3)
    assert "[4] as operand 1" in refusal("GroupNormalization", [x, normal(4), three[0]], {"num_groups": 3}, results=3)
    assert "[4,7,4]" in refusal("LSTM", [X, normal(4, 7, 4)], {}, results=2)
    assert "[4,3] as operand 2" in refusal("LSTM", [X, W, normal(4, 3)], {}, results=2)
    assert "[2,2,4] as operand 3" in refusal("LSTM", [X, W, B, S[:, :2]], {}, results=2)
    assert "[2] as operand 4" in refusal("LSTM", [X, W, B, S, SIZES[:2]], {}, results=2)
    image, kernel = normal(1, 2, 4, 4), normal(2, 2, 3, 3)
    assert "3 numbers in 'strides'" in refusal("MultiConv", [image, kernel], {"strides": [1, 1, 1]})
    assert "has 0 in 'strides'" in refusal("MultiConv", [image, kernel], {"strides": [0, 1]})
    assert "for 2 convolutions" in refusal("MultiConv", [image, kernel], {}, results=2)
    assert "[2,3,3,3]" in refusal("MultiConv", [image, normal(2, 3, 3, 3)], {})


def test_a_lone_output_of_a_norm_is_enough():
    got = run(
        [("GroupNormalization", ["x", "s", "b"], ["y"], {"num_groups": 1})],
        {"x": normal(2, 3), "s": normal(3), "b": normal(3)},
        ["y"],
    )
    assert got["y"].shape == (2, 3)

"""The recurrent layers of the TensorFlow package as nodes, against numpy."""

import numpy
import pytest
from unit_records import Records

import ipu_core

f32 = numpy.float32
T, B, I, H = 3, 2, 4, 5


def numbers(*shape, seed=7):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(f32)


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def lstm(x, h, c, kernel, recurrent, bias):
    rows = []
    for step in x:
        i, f, g, o = numpy.split(step @ kernel + h @ recurrent + bias, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * numpy.tanh(g)
        h = sigmoid(o) * numpy.tanh(c)
        rows.append(h)
    return numpy.stack(rows), h, c


def gru(x, h, kernel, recurrent, bias, state_bias):
    rows = []
    for step in x:
        (z, r, g), (of_z, of_r, of_g) = [
            numpy.split(part, 3, 1) for part in (step @ kernel + bias, h @ recurrent + state_bias)
        ]
        z, g = sigmoid(z + of_z), numpy.tanh(g + sigmoid(r + of_r) * of_g)
        h = z * h + (1 - z) * g
        rows.append(h)
    return numpy.stack(rows), h


LSTM = [(T, B, I), (B, H), (B, H), (I, 4 * H), (H, 4 * H), (4 * H,)]
GRU = [(T, B, I), (B, H), (I, 3 * H), (H, 3 * H), (3 * H,), (3 * H,)]
LAYERS = {"Lstm": (lstm, LSTM, 5), "Gru": (gru, GRU, 4)}


def unit_of(kind, shapes, results):
    """Of one node that reads inputs of these shapes."""
    r = Records([(f"x{i}", f32, shape) for i, shape in enumerate(shapes)])
    names = [f"x{i}" for i in range(len(shapes))]
    return ipu_core.Unit(r.returns(*r.node(kind, *names, results=results, domain="ipu")).unit())


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer(kind):
    function, shapes, results = LAYERS[kind]
    arrays = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    got, _ = unit_of(kind, shapes, results).run(arrays, {})
    for mine, wanted in zip(got, function(*arrays)):
        numpy.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-5)


WRONG = {
    "rank": (0, (T, B), r"of x \[3,2\] and weights of the state \[5,20\]; they are \[T, B, I\] and \[H, 4 \* H\]"),
    "state": (1, (B + 1, H), r"has \[3,5\] as operand 1, where it takes \[2,5\]"),
    "kernel": (3, (I, 3 * H), r"has \[4,15\] as operand 3, where it takes \[4,20\]"),
    "recurrent": (4, (H, 4 * H + 1), r"weights of the state \[5,21\]"),
    "bias": (5, (1,), r"has \[1\] as operand 5, where it takes \[20\]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_shapes_that_do_not_fit(name):
    place, shape, text = WRONG[name]
    shapes = [shape if i == place else given for i, given in enumerate(LSTM)]
    with pytest.raises(ipu_core.Error, match=text):
        unit_of("Lstm", shapes, 5).text()


@pytest.mark.parametrize("place", [1, 6, 9, 10, 11])
def test_a_gradient_of_shapes_that_do_not_fit(place):
    upstream = [(T, B, H), (B, H), (B, H), (T, B, H)]
    shapes = [*LSTM, (T, B, H), (B, H), (B, H), (T, B, H), (T, B, 4 * H), *upstream]
    assert len(unit_of("LstmGradient", shapes, 6).text()) > 0
    shapes[place] = ()
    with pytest.raises(ipu_core.Error, match="shape mismatch|must be"):
        unit_of("LstmGradient", shapes, 6).text()

"""Medians, splines, dropout, collectives, printing and aborts of ai.graphcore."""

import numpy as np
import pytest

import ipu_core
from graphcore_models import Gradients, Values, make_model, normal, refusal, run, train

LOSS = ("IdentityLoss", ["y"], ["loss"], {"reduction": "Sum"})

# --- medians


def median(x, axes=None, keepdims=1):
    axes = sorted({a % x.ndim for a in (range(x.ndim) if axes is None else axes)})
    kept = [d for d in range(x.ndim) if d not in axes]
    rows = x.transpose(kept + axes).reshape([x.shape[d] for d in kept] + [-1])
    place = np.argsort(rows, -1, kind="stable")[..., (rows.shape[-1] - 1) // 2]
    values = np.take_along_axis(rows, place[..., None], -1)[..., 0]
    shape = [1 if d in axes else x.shape[d] for d in range(x.ndim)] if keepdims else list(values.shape)
    return values.reshape(shape), place.reshape(shape).astype(np.int32)


AXES = [None, [], [1], [-1, 0], [0, 2, 2], [2]]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint32])
def test_medians_and_their_places(dtype):
    x, values = (np.abs(normal(3, 4, 5)) * 20).astype(dtype), Values()
    for axes in AXES:
        for keepdims in (0, 1):
            attributes = {"keepdims": keepdims} | ({} if axes is None else {"axes": axes})
            values.add("ReduceMedian", [x], list(median(x, axes, keepdims)), 0, **attributes)
    values.add("ReduceMedian", [np.asarray([3, 1, 2, 3], dtype)], [np.asarray([2], dtype), np.int32([2])], 0)
    values.check()


def test_the_gradient_of_a_median_goes_to_what_was_taken():
    gradients, x = Gradients(), normal(3, 4, 5)
    for axes in AXES:
        attributes = {} if axes is None else {"axes": axes}
        gradients.add("ReduceMedian", {0: x}, lambda x, a=axes: median(x, a)[0], outputs=2, **attributes)
    gradients.check()


# --- splines


def spline(v, degree):
    """The pieces at a fraction, by the recursion of B-splines on whole knots."""

    def b(i, d, t):
        if d == 0:
            return (t >= i) & (t < i + 1)
        return (t - i) / d * b(i, d - 1, t) + (i + d + 1 - t) / d * b(i + 1, d - 1, t)

    return [b(j - degree, degree, v) for j in range(degree + 1)]


def spline_basis(pseudo, sizes, is_open, degree):
    count, dims = pseudo.shape
    near = (degree + 1) ** dims
    basis, index = np.ones((count, near)), np.zeros((count, near), np.int32)
    for e in range(count):
        for s in range(near):
            rest, stride = s, 1
            for d in range(dims):
                j, rest = rest % (degree + 1), rest // (degree + 1)
                u = np.float64(pseudo[e, d]) * (int(sizes[d]) - degree * int(is_open[d]))
                basis[e, s] *= spline(u - np.floor(u), degree)[j]
                index[e, s] += (int(np.floor(u)) + j) % sizes[d] * stride
                stride *= sizes[d]
    return basis, index


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_spline_bases(degree):
    values, random = Values(), np.random.default_rng(degree)
    for dims in (1, 2, 3):
        sizes, is_open = random.integers(4, 7, dims).astype(np.int32), random.integers(0, 2, dims).astype(np.uint8)
        for dtype in (np.float32, np.float16):
            pseudo = (random.integers(0, 64, (5, dims)) / 64 + 1 / 128).astype(dtype)
            basis, index = spline_basis(pseudo, sizes, is_open, degree)
            tolerance = 1e-2 if dtype == np.float16 else 2e-5
            values.add("SplineBasis", [pseudo, sizes, is_open], [basis.astype(dtype), index], tolerance, degree=degree)
    values.check()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_spline_weighting(dtype):
    x, weight, basis = normal(6, 3).astype(dtype), normal(4, 3, 2).astype(dtype), normal(6, 2).astype(dtype)
    index = np.random.default_rng(1).integers(0, 4, (6, 2)).astype(np.int32)
    wide = [a.astype(np.float64) for a in (x, weight, basis)]
    expected = np.einsum("es,ei,esim->em", wide[2], wide[0], wide[1][index]).astype(dtype)
    values = Values()
    values.add("SplineWeighting", [x, weight, basis, index], expected, 2e-2 if dtype == np.float16 else 1e-5)
    values.check()


# --- dropout


def test_dropped_elements_share_a_mask_and_the_gradient_has_the_same():
    w = np.ones((64, 32), np.float32)
    nodes = [("ShapedDropout", ["w"], ["y"], {"shape": [64, 1], "ratio": 0.25}), LOSS]
    model = make_model(nodes, {}, ["loss", "y"], {"w": w})
    session = ipu_core.compile_model(
        ipu_core.read_onnx(model, trained=["w"]), ipu_core.Program(loss="loss", optimizer={"lr": 1.0})
    )
    got = session.run({"rng.seed": np.uint32([1, 2])})["y"]
    rows = got[:, 0]
    assert (got == rows[:, None]).all()
    assert set(np.round(np.unique(rows), 5)) == {0, np.float32(1.33333)}
    assert 0.55 < np.count_nonzero(rows) / 64 < 0.95
    np.testing.assert_allclose(w - session.read("w"), got, rtol=1e-6)
    session.detach()
    values = Values()
    values.add("ShapedDropout", [w], w, 0, shape=[32])
    values.check()


# --- collectives

REPLICAS = 4


def groups_of(kind, size):
    if kind == 0:
        return [range(REPLICAS)]
    if kind == 1:
        return [range(first, first + size) for first in range(0, REPLICAS, size)]
    if kind == 2:
        return [range(first, REPLICAS, REPLICAS // size) for first in range(REPLICAS // size)]
    return [[replica] for replica in range(REPLICAS)]


@pytest.mark.parametrize("kind, size", [(0, 0), (1, 2), (2, 2), (3, 0)])
def test_collectives_of_every_group(kind, size):
    x = normal(REPLICAS, 5)
    group = [kind, size]
    operators = {0: np.sum, 1: np.mean, 2: np.prod, 3: np.min, 4: np.max, 7: lambda a, axis: np.sum(a * a, axis)}
    nodes = [
        ("ReplicatedAllReduce", ["x"], [f"r{i}"], {"__collectiveOperator": i, "__collectiveCommGroup": group})
        for i in operators
    ]
    nodes.append(("ReplicatedReduceScatter", ["x"], ["s"], {"__collectiveOperator": 0, "__collectiveCommGroup": group}))
    nodes.append(("ReplicatedReduceScatter", ["x"], ["l"], {"__collectiveOperator": 8, "__collectiveCommGroup": group}))
    nodes.append(("ReplicatedAllGather", ["x"], ["g"], {"__collectiveCommGroup": group}))
    names = [*(f"r{i}" for i in operators), "s", "l", "g"]
    model = make_model(nodes, {"x": x[0]}, names)
    session = ipu_core.compile_model(ipu_core.read_onnx(model), ipu_core.Program(replicas=REPLICAS))
    got = session.run({"x": x})
    session.detach()
    for members in groups_of(kind, size):
        part, count = x[list(members)], len(members)
        length = -(-5 // count)
        flat = np.zeros((count, length * count), np.float32)
        flat[:, :5] = part
        for place, replica in enumerate(members):
            for i, operator in operators.items():
                np.testing.assert_allclose(got[f"r{i}"][replica], operator(part, 0), rtol=1e-5, err_msg=str(i))
            mine = slice(place * length, (place + 1) * length)
            np.testing.assert_allclose(got["s"][replica], flat.sum(0)[mine], rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(got["l"][replica], flat[place][mine])
            np.testing.assert_array_equal(got["g"][replica], part.ravel())


def test_one_replica_reduces_to_itself_and_sums_have_gradients():
    x, values = normal(2, 3), Values()
    values.add("ReplicatedAllReduce", [x], x, 0)
    values.add("ReplicatedReduceScatter", [x], x.ravel(), 0)
    values.add("ReplicatedAllGather", [x], x.ravel(), 0)
    values.add("ReplicatedAllReduce", [np.int32([1, 2])], np.int32([1, 2]), 0)
    values.check()
    gradients = Gradients()
    gradients.add("ReplicatedAllReduce", {0: x}, lambda x: x)
    gradients.add("ReplicatedReduceScatter", {0: x}, np.ravel)
    gradients.add("ReplicatedAllGather", {0: x}, np.ravel)
    gradients.check()


# --- what happens beside the values


def printed(capfd, x, **attributes):
    run([("PrintTensor", ["x"], ["y"], attributes)], {"x": x}, ["y"])
    return capfd.readouterr().err


def test_printed_text(capfd):
    assert printed(capfd, np.int32([6, 9, 12])) == "x: [ 6  9 12]\n"
    assert printed(capfd, np.float32([1, -2.5]), title="t") == "t: [ 1.0000000 -2.5000000]\n"
    x = np.int32([[1, 20], [300, 4]])
    assert printed(capfd, x) == "x: [[  1  20]\n [300   4]]\n"
    assert printed(capfd, x, digits=0) == "x: [[1 20]\n [300 4]]\n"
    assert printed(capfd, x, separator=",", openBracket="(", closeBracket=")") == "x: ((  1, 20)\n (300,  4))\n"
    assert printed(capfd, np.float32([0.5]), floatFormat=2, digits=3) == "x: [5.00e-01]\n"
    assert printed(capfd, np.float32([0.1, 12]), floatFormat=3) == "x: [0.1  12]\n"
    long = np.arange(10, dtype=np.int32)
    assert printed(capfd, long, summariseThreshold=9, edgeItems=2) == "x: [0 1 ... 8 9]\n"
    assert printed(capfd, long, summariseThreshold=0) == "x: [0 1 2 3 4 5 6 7 8 9]\n"
    assert printed(capfd, long, maxLineWidth=12) == "x: [0 1 2 3 4\n 5 6 7 8 9]\n"
    assert printed(capfd, np.arange(40, dtype=np.int32), maxLineWidth=0).count("\n") == 1


@pytest.mark.parametrize(
    "attributes, lines",
    [
        ({}, ["w: [1.0000000 2.0000000]", "Gradient___w: [2.0000000 4.0000000]"]),
        ({"title": "t"}, ["t: [1.0000000 2.0000000]", "t_gradient: [2.0000000 4.0000000]"]),
        ({"print_gradient": 0}, ["w: [1.0000000 2.0000000]"]),
    ],
)
def test_gradients_are_printed_under_names_of_their_own(capfd, attributes, lines):
    nodes = [("PrintTensor", ["w"], ["p"], attributes), ("onnx.Mul", ["p", "c"], ["y"], {}), LOSS]
    w = np.float32([1, 2])
    np.testing.assert_allclose(train(nodes, {"c": w * 2}, {"w": w}, ["loss"])["w"], w * 2)
    assert capfd.readouterr().err.splitlines() == lines


def test_prints_and_aborts_happen_though_nobody_reads_them(capfd):
    run([("PrintTensor", ["x"], ["unread"], {}), ("Nop", ["x"], ["y"], {})], {"x": np.int32([7])}, ["y"])
    assert capfd.readouterr().err == "x: [7]\n"
    nodes = [("Abort", ["a"], [], {}), ("Nop", ["a"], ["y"], {})]
    for dtype in (np.int32, np.float32, np.float16, np.bool_, np.uint8):
        zeros = np.zeros(3, dtype)
        np.testing.assert_array_equal(run(nodes, {"a": zeros}, ["y"])["y"], zeros)
        zeros[2] = 1
        with pytest.raises(ipu_core.Error, match="program aborted.*element 2 of its operand"):
            run(nodes, {"a": zeros}, ["y"])
    np.testing.assert_array_equal(run(nodes, {"a": np.float32([-0.0])}, ["y"])["y"], [0])
    with pytest.raises(ipu_core.Error, match="program aborted"):
        run([("Abort", [], [], {}), ("Nop", ["x"], ["y"], {})], {"x": normal(2)}, ["y"])


def test_what_cannot_be_is_refused_with_its_numbers():
    x = normal(2, 3)
    assert "dimension 2" in refusal("ReduceMedian", [x], {"axes": [2]}, results=2)
    assert "[0,3]" in refusal("ReduceMedian", [normal(0, 3)], {}, results=2)
    sizes, is_open = np.int32([4, 4, 4]), np.uint8([1, 1, 1])
    assert "degree 4" in refusal("SplineBasis", [x, sizes, is_open], {"degree": 4}, results=2)
    assert "[2] as operand 1" in refusal("SplineBasis", [x, sizes[:2], is_open], {"degree": 1}, results=2)
    assert "[3,2,1]" in refusal("SplineWeighting", [x, normal(3, 2, 1), x, np.zeros((2, 3), np.int32)], {})
    assert "ratio 1" in refusal("ShapedDropout", [x], {"shape": [3], "ratio": 1.0})
    assert "[2]" in refusal("ShapedDropout", [x], {"shape": [2]})
    assert "groups of 3" in refusal("ReplicatedAllReduce", [x], {"__collectiveCommGroup": [1, 3]})
    assert "[4,1]" in refusal("ReplicatedAllReduce", [x], {"__collectiveCommGroup": [4, 1]})
    assert "operator 8" in refusal("ReplicatedAllReduce", [x], {"__collectiveOperator": 8})
    assert "floatFormat 4" in refusal("PrintTensor", [x], {"floatFormat": 4})
    assert 'separator = "ab"' in refusal("PrintTensor", [x], {"separator": "ab"})
    assert "digits = -1" in refusal("PrintTensor", [x], {"digits": -1})

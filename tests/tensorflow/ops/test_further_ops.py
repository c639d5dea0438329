"""Op types that programs reach beyond the common ones: volumes, resizes, decompositions, diagonals, segments."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from raw_ops import ALL, Const, Given, Of, Same, Table, V, X, case

ONCE = ("float32",)


def volumes():
    shapes = [
        ((2, 4, 5, 6, 3), (2, 3, 2, 3, 4)),
        ((1, 5, 4, 4, 2), (3, 1, 3, 2, 2)),
        ((2, 3, 3, 3, 1), (1, 1, 1, 1, 3)),
    ]
    for (shape, filter), strides, padding in itertools.product(shapes, ([1] * 5, [1, 2, 1, 2, 1]), ("SAME", "VALID")):
        spatial = [
            -(-n // s) if padding == "SAME" else (n - k) // s + 1
            for n, k, s in zip(shape[1:4], filter[:3], strides[1:4])
        ]
        dy = X((shape[0], *spatial, filter[-1]))
        window = {"strides": strides, "padding": padding}
        yield case("Conv3DBackpropFilterV2", X(shape), Const(filter), dy, **window, slack=4.0, dtypes=ONCE)
    for kind, strides, padding in itertools.product(
        ("Max", "Avg"), ([1, 2, 2, 2, 1], [1, 1, 2, 1, 1]), ("SAME", "VALID")
    ):
        window = {"ksize": [1, 2, 3, 2, 1], "strides": strides, "padding": padding}
        for shape in ((2, 4, 6, 5, 2), (1, 3, 4, 3, 1), (1, 2, 3, 2, 3)):
            spatial = [
                -(-n // s) if padding == "SAME" else (n - k) // s + 1
                for n, k, s in zip(shape[1:4], (2, 3, 2), strides[1:4])
            ]
            dy = X((shape[0], *spatial, shape[-1]), whole=True)
            if kind == "Max":
                y = Of((), function=lambda x, **given: tf.raw_ops.MaxPool3D(input=x, **given))
                yield case("MaxPool3DGrad", X(shape), y, dy, **window, wider=False, dtypes=ONCE)
            else:
                yield case("AvgPool3DGrad", Const(shape), dy, **window, wider=False, slack=4.0, dtypes=ONCE)


def images():
    for (shape, size), (aligned, centred) in itertools.product(
        [((2, 4, 4, 3), (7, 9)), ((1, 5, 6, 2), (3, 2)), ((1, 3, 3, 1), (3, 8)), ((1, 1, 4, 1), (2, 1))],
        [(False, False), (True, False), (False, True)],
    ):
        given = {"align_corners": aligned, "half_pixel_centers": centred}
        small, large = X(shape), X((shape[0], *size, shape[-1]))
        yield case("ResizeBilinear", small, Const(size), **given, wider=False, slack=4.0)
        yield case("ResizeNearestNeighbor", small, Const(size), **given, dtypes=ALL)
        yield case("ResizeBilinearGrad", large, small, **given, wider=False, slack=4.0, dtypes=ONCE)
        yield case("ResizeNearestNeighborGrad", large, Const(shape[1:3]), **given, slack=4.0, dtypes=ONCE)


class Matrix(X):
    """Positive definite matrices, or triangular ones: far from those that have no inverse."""

    def array(self, draw, dtype):
        drawn = draw.uniform(-1, 1, self.shape)
        n = self.shape[-1]
        return (drawn @ np.swapaxes(drawn, -1, -2) + n * np.eye(n)).astype(dtype)


class Rows(Matrix):
    """In another order, so that pivots are looked for."""

    def array(self, draw, dtype):
        return np.roll(super().array(draw, dtype), 1, axis=-2)


def matrices():
    for shape in ((3, 3), (1, 1), (2, 5, 5), (2, 3, 4, 4)):
        yield case("Cholesky", Matrix(shape), dtypes=ONCE, slack=8.0)
        for adjoint in (False, True):
            yield case("MatrixInverse", Rows(shape), adjoint=adjoint, dtypes=ONCE, slack=8.0)
            right = X((*shape[:-1], 2))
            yield case("MatrixSolve", Rows(shape), right, adjoint=adjoint, dtypes=ONCE, slack=8.0)
            for lower in (False, True):
                given = {"lower": lower, "adjoint": adjoint}
                yield case("MatrixTriangularSolve", Matrix(shape), right, **given, dtypes=ONCE, slack=8.0)


def diagonals():
    for shape in ((3,), (2, 4), (2, 3, 1)):
        yield case("MatrixDiag", X(shape), dtypes=ALL)
        rest = [Const(0), Const(-1), Const(-1), Same(0)]
        yield case("MatrixDiagV3", X(shape), *rest, dtypes=ONCE)
        yield case("Diag", X(shape), dtypes=("float32", "int32"))
    for shape, count in (((3, 3), 3), ((2, 2, 4), 2), ((2, 5, 3), 3)):
        yield case("MatrixDiagPart", X(shape), dtypes=ALL)
        yield case("MatrixDiagPartV3", X(shape), Const(0), Same(0), dtypes=ONCE)
        yield case("MatrixSetDiag", X(shape), X((*shape[:-2], count)), dtypes=ALL)
        yield case("MatrixSetDiagV3", X(shape), X((*shape[:-2], count)), Const(0), dtypes=ONCE)
    for shape in ((3, 3), (2, 3, 2, 3), (1, 1)):
        yield case("DiagPart", X(shape), dtypes=("float32", "int32"))


def segments():
    for name in ("Sum", "Prod", "Min", "Max", "Mean"):
        for shape, ids in (((4, 2), [0, 0, 1, 1]), ((3,), [0, 2, 2]), ((5, 2, 3), [1, 1, 3, 3, 4])):
            yield case(f"Segment{name}", X(shape, whole=True), Const(ids), slack=2.0, dtypes=("float32", "float16"))
    for name in ("Min", "Max"):
        yield case(f"ResourceScatterNd{name}", V((4, 3)), Given([[1, 2], [3, 0]]), X((2,)), dtypes=ONCE)
        yield case(f"ResourceScatterNd{name}", V((4, 3)), Given([[2], [0]]), X((2, 3)), dtypes=ONCE)


def sparse_updates():
    rate, share, tiny = Same(0.1), Same(0.9), Same(1e-3)
    for shape, ids in (((5, 2), [1, 3, 1]), ((3,), [0, 2]), ((4, 2, 3), [3, 3, 3, 0])):
        var, accum, small = V(shape), V(shape), V(shape, 0.0, 0.1)
        g, rows = X((len(ids), *shape[1:])), Given(ids)
        rules = {
            "Momentum": [var, accum, rate, g, rows, share],
            "KerasMomentum": [var, accum, rate, g, rows, share],
            "Adagrad": [var, accum, rate, g, rows],
            "AdagradV2": [var, accum, rate, tiny, g, rows],
            "Adadelta": [var, accum, accum, rate, share, tiny, g, rows],
            "RMSProp": [var, accum, accum, rate, share, Same(0.5), tiny, g, rows],
            "CenteredRMSProp": [var, small, V(shape, 3.0, 4.0), accum, rate, share, Same(0.5), tiny, g, rows],
            "ProximalGradientDescent": [var, rate, Same(0.2), Same(0.3), g, rows],
            "ProximalAdagrad": [var, accum, rate, Same(0.2), Same(0.3), g, rows],
            "Ftrl": [var, accum, accum, g, rows, rate, Same(0.2), Same(0.3), Same(-0.5)],
            "FtrlV2": [var, accum, accum, g, rows, rate, Same(0.2), Same(0.3), Same(0.1), Same(-0.5)],
        }
        for name, operands in rules.items():
            dtypes = ONCE if name.startswith("Proximal") else ("float32", "float16")
            yield case(f"ResourceSparseApply{name}", *operands, slack=8.0, dtypes=dtypes)
    yield case("ResourceSparseApplyMomentum", var, accum, rate, g, rows, share, use_nesterov=True, slack=8.0)
    yield case("ResourceSparseApplyAdagrad", var, accum, rate, g, rows, update_slots=False, slack=8.0)


def others():
    for shape in ((2, 3, 4, 7), (1, 2, 2, 3), (1, 1, 1, 12)):
        for given in ({"depth_radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.75}, {"depth_radius": 1}):
            yield case("LRNGrad", X(shape), X(shape), X(shape), **given, wider=False, slack=4.0, dtypes=ONCE)
    for shapes in ([(2, 3)], [(4,), (4,)], [(2, 1, 3)] * 3):
        yield case("AccumulateNV2", [X(shape) for shape in shapes], shape=shapes[0], wider=False)
    for shape in ((4,), (2, 3), ()):
        yield case("CheckNumerics", X(shape), message="all is well")
        yield case("CheckNumericsV2", X(shape), message="all is well")


TABLE = Table([*volumes(), *images(), *matrices(), *diagonals(), *segments(), *sparse_updates(), *others()])


@pytest.mark.parametrize("name", TABLE.names())
def test_further_op_is_that_of_tensorflow(name):
    TABLE.check(name)

"""Matrix products: shapes, dtypes of results and partial sums, float8, gradients, refusals."""

import numpy as np
import popart
import popxl
import pytest
from one_program import OneProgram, check, check_gradients, op_types
from popxl import ops

rng = np.random.default_rng(5)


def array(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


PAIRS = [
    (array(3, 4), array(4, 2)),
    (array(4), array(4)),
    (array(4), array(4, 2)),
    (array(3, 4), array(4)),
    (array(2, 3, 4), array(4, 5)),
    (array(2, 3, 4), array(4)),
    (array(4), array(2, 4, 3)),
    (array(2, 1, 3, 4), array(5, 4, 2)),
    (array(2, 3, 0), array(0, 2)),
]


@pytest.mark.shows("popxl.ops.matmul")
def test_matmul_follows_numpy_for_all_ranks():
    check([(f"{a.shape} {b.shape}", ops.matmul, (a, b), np.asarray(a @ b)) for a, b in PAIRS if a.size])
    check([("operator", lambda a, b: a @ b, PAIRS[0], PAIRS[0][0] @ PAIRS[0][1])])


@pytest.mark.shows("popxl.ops.matmul")
def test_the_gradients_of_matmul_reduce_over_what_was_broadcast():
    check_gradients([(f"{a.shape} {b.shape}", ops.matmul, np.matmul, (a, b)) for a, b in PAIRS if a.size])


@pytest.mark.shows("popxl.ops.matmul")
def test_matmul_gives_the_asked_output_type():
    a, b = array(3, 64).astype(np.float16), array(64, 2).astype(np.float16)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    check(
        [
            # Not rounded to float16 in between.
            ("wider", lambda a, b: ops.matmul(a, b, output_type=popxl.float32), (a, b), exact.astype(np.float32)),
            ("as the left operand", lambda a, b: ops.matmul(a, b), (a, b), exact.astype(np.float16)),
            (
                "narrower",
                lambda a, b: ops.matmul(a, b, 0.3, output_type=popxl.float16),
                (a.astype(np.float32), b.astype(np.float32)),
                exact.astype(np.float16),
            ),
        ]
    )


@pytest.mark.shows("popxl.ops.matmul")
def test_half_partials_lose_what_float_partials_keep():
    # 2048 + 1 is no float16: in float16 the sum of 16 products at a time stays where it is.
    row = np.array([[2048.0] + [0.0] * 15 + [1.0] + [0.0] * 15 + [1.0]], np.float16)
    ones = np.ones((33, 1), np.float16)
    options = {"float": 2050.0, "half": 2048.0, "": 2050.0}
    check(
        [
            ("float", lambda a, b: ops.matmul(a, b, partials_type=popxl.float32), (row, ones), np.float16([[2050]])),
            ("half", lambda a, b: ops.matmul(a, b, partials_type=popxl.float16), (row, ones), np.float16([[2048]])),
        ]
    )
    for option, value in options.items():
        with OneProgram() as p:
            p.ir._pb_ir.getSessionOptions().partialsTypeMatMuls = option
            p.out(ops.matmul(p.of(row), p.of(ones)))
        assert p.run()[0].item() == value


def eight(values):
    return popxl.utils.to_numpy(np.asarray(values, np.float32), popxl.float8_143)


@pytest.mark.shows("popxl.ops.matmul_pow2scaled")
def test_float8_products_are_scaled_by_a_power_of_two():
    a = np.array([[0.5, 1.25, -2.0], [16.0, 0.25, 3.0]], np.float32)
    b = np.array([[1.0, -0.5], [2.0, 0.75], [0.25, 8.0]], np.float32)
    with OneProgram() as p:
        left = popxl.variable(a, popxl.float8_143)
        right = popxl.variable(b, popxl.float8_152)
        for scale in (-2, 0, 3):
            y = ops.matmul_pow2scaled(left, right, popxl.constant(scale, popxl.int32), 0.5)
            assert y.dtype is popxl.float16 and y.name.startswith("matmul_pow2scaled_out")
            p.out(y)
        assert op_types(p.ir.main_graph)[::2] == ["MatMul"] * 3
    for value, scale in zip(p.run(), (-2, 0, 3)):
        np.testing.assert_array_equal(value, (a @ b * 2.0**scale).astype(np.float16))


@pytest.mark.shows("popxl.ops.matmul_pow2scaled")
def test_float8_products_check_their_operands_before_anything_is_added():
    with OneProgram() as p:
        left, right = popxl.variable(np.ones((2, 2)), popxl.float8_143), popxl.variable(np.ones((2, 2)))
        scale, floats, row = (
            popxl.constant(0, popxl.int32),
            popxl.constant(0.0),
            popxl.constant([1], popxl.int32),
        )
        before = len(p.ir.main_graph.tensors)
        with pytest.raises(TypeError, match="rhs"):
            ops.matmul_pow2scaled(left, right, scale)
        with pytest.raises(ValueError, match="shape"):
            ops.matmul_pow2scaled(left, left, row)
        with pytest.raises(TypeError, match="int32"):
            ops.matmul_pow2scaled(left, left, floats)
        assert len(p.ir.main_graph.tensors) == before

        def product(a, b, s):
            return ops.matmul_pow2scaled(a, b, s)

        graph = p.ir.create_graph(product, left, left, scale)
        with pytest.raises(popart.popart_exception, match="float8"):
            # Its input is made of floats, so a gradient would have to pass.
            def through(x, b, s):
                return ops.matmul_pow2scaled(ops.pow2scale_cast_to_fp8(x, s, popxl.float8_143), b, s)

            outer = p.ir.create_graph(through, popxl.variable(np.ones((2, 2), np.float16)), left, scale)
            popxl.transforms.autodiff(outer, grads_required=[outer.inputs[0]])
        assert op_types(graph) == ["MatMul"]


@pytest.mark.shows("popxl.ops.matmul")
def test_matmul_refuses_what_does_not_fit():
    with OneProgram() as p:
        a, b = p.of(array(2, 3)), p.of(array(2, 3))
        with pytest.raises(ValueError, match="partials_type"):
            ops.matmul(a, b, partials_type=popxl.int32)
        with pytest.raises(popart.popart_exception, match=r"\[2,3\].*inner"):
            ops.matmul(a, b)
        with pytest.raises(popart.popart_exception, match="at least one dimension"):
            ops.matmul(a, p.of(np.float32(1)))
        p.ir._pb_ir.getSessionOptions().partialsTypeMatMuls = "double"
        with pytest.raises(ValueError, match="partialsTypeMatMuls"):
            ops.matmul(a, b)
        with popxl.ipu(0):
            left = a + 1
        with popxl.ipu(1):
            right = ops.ipu_copy(a + 2, 1)
            with pytest.raises(ValueError, match="different IPUs"):
                ops.matmul(left, right, partials_type=popxl.float32)


@pytest.mark.shows("popxl.ops.matmul")
def test_gradient_graphs_of_matmul_have_one_op_for_each_operand():
    with OneProgram() as p:
        graph = p.ir.create_graph(lambda a, b: ops.matmul(a, b), p.of(array(2, 3)), p.of(array(3, 4)))
        info = popxl.transforms.autodiff(graph)
        assert sorted(op_types(info.graph)) == ["MatMulLhsGrad", "MatMulRhsGrad", "Sum", "Sum"]

"""`ipu.math_ops` (chapter 12.5)."""

import both
import numpy as np
import pytest
import tensorflow as tf
from both import some
from tensorflow.python import ipu

serialized_matmul = ipu.math_ops.serialized_matmul


@pytest.mark.shows("ipu.ops.math_ops.serialized_matmul")
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("transpose_a, transpose_b", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dimension", ["a_columns", "a_rows_b_columns", "b_rows"])
def test_a_product_in_parts_is_the_product(dimension, transpose_a, transpose_b, batch):
    a = some(*batch, *((4, 6) if transpose_a else (6, 4)))
    b = some(*batch, *((8, 4) if transpose_b else (4, 8)), seed=1)

    def net(x, y):
        product = serialized_matmul(x, y, 2, dimension, transpose_a, transpose_b)
        kinds = [op.type for op in product.graph.get_operations()]
        assert kinds.count("MatMul") + kinds.count("BatchMatMulV2") + kinds.count("BatchMatMulV3") == 2
        return product, *tf.gradients(tf.reduce_sum(tf.sin(product)), [x, y])

    (got,), _ = both.check(net, (a, b))
    left = np.swapaxes(a, -1, -2) if transpose_a else a
    right = np.swapaxes(b, -1, -2) if transpose_b else b
    cosine = np.cos(left @ right)
    of_a, of_b = cosine @ np.swapaxes(right, -1, -2), np.swapaxes(left, -1, -2) @ cosine
    wanted = (
        left @ right,
        np.swapaxes(of_a, -1, -2) if transpose_a else of_a,
        np.swapaxes(of_b, -1, -2) if transpose_b else of_b,
    )
    for mine, theirs in zip(got, wanted):
        assert np.allclose(mine, theirs, atol=1e-5)


def in_four(x, y):
    return serialized_matmul(x, y, 4, "a_rows_b_columns")


def whole_numbers(dtype):
    return (np.arange(12).reshape(3, 4) - 5).astype(dtype), (np.arange(8).reshape(4, 2) - 3).astype(dtype)


def test_a_product_of_float16():
    a, b = whole_numbers(np.float16)
    (got,), _ = both.check(in_four, (a, b))
    assert got[0].dtype == np.float16 and (got[0] == a @ b).all()


def test_a_product_of_integers_is_one_of_the_cpu():
    a, b = whole_numbers(np.int32)
    ((product,),), *_ = both.plain(in_four, [(a, b)])
    assert product.dtype == np.int32 and (product == a @ b).all()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"matmul is i32; allowed are f32, f16"):
        both.ours(in_four, [(a, b)])


@pytest.mark.parametrize(
    "shapes, factor, dimension, text",
    [
        (([4, 6], [6, 4]), 0, "b_rows", "is 0, and is at least 1"),
        (([4], [4, 4]), 1, "b_rows", "a has shape .* is a matrix or several"),
        (([4, 4], [4]), 1, "b_rows", "b has shape .* is a matrix or several"),
        (([4, 6], [6, 4]), 3, "a_columns", "3 does not divide a dimension of 4"),
        (([4, 6], [6, 4]), 4, "a_rows_b_columns", "4 does not divide a dimension of 6"),
        (([4, 6], [6, 4]), 3, "b_rows", "3 does not divide a dimension of 4"),
        (([4, 6], [5, 4]), 2, "b_rows", "6 columns of a, .* and 5 rows of b, .* are not as many"),
        (([4, 6], [6, 4]), 2, "rows", "no serialization_dimension 'rows'"),
    ],
)
def test_what_cannot_be_split(shapes, factor, dimension, text):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=text):
        serialized_matmul(tf.ones(shapes[0]), tf.ones(shapes[1]), factor, dimension)

"""Op types of TensorFlow from records written by hand, against numpy: what needs no TensorFlow to be said."""

import numpy
import pytest
from unit_records import Records

import ipu_core

f32, f16, i32, i64 = numpy.float32, numpy.float16, numpy.int32, numpy.int64


def run(records, *arrays, variables=None):
    return ipu_core.Unit(records.unit()).run(list(arrays), variables or {})


def numbers(*shape, dtype=f32):
    return numpy.random.default_rng(7).standard_normal(shape).astype(dtype)


def convolved(x, w, low, stride):
    """x [N, H, W, C] with w [KH, KW, C, O], `low` zeros in front and as many behind as the windows need."""
    n, h, width, _ = x.shape
    kh, kw, _, o = w.shape
    out = -(-h // stride), -(-width // stride)
    padded = numpy.pad(x, ((0, 0), (low, kh), (low, kw), (0, 0)))
    y = numpy.zeros((n, *out, o), f32)
    for i in range(out[0]):
        for j in range(out[1]):
            window = padded[:, i * stride : i * stride + kh, j * stride : j * stride + kw]
            y[:, i, j] = numpy.tensordot(window, w, 3)
    return y


def conv(records, x, w, **attributes):
    given = {"T": "float32", "strides": [1, 2, 2, 1], "padding": "SAME", "data_format": "NHWC", "dilations": [1] * 4}
    given |= {"use_cudnn_on_gpu": True, "explicit_paddings": []}
    return records.node("Conv2D", x, w, **{**given, **attributes})


def test_same_padding_puts_the_odd_zero_behind():
    x, w = numbers(2, 4, 6, 3), numbers(3, 3, 3, 4)
    r = Records([("x", f32, x.shape), ("w", f32, w.shape)])
    (y,), _ = run(r.returns(conv(r, "x", "w")), x, w)
    numpy.testing.assert_allclose(y, convolved(x, w, 0, 2), rtol=1e-5, atol=1e-5)


def test_running_variance_is_that_of_a_sample():
    x = numbers(4, 3, 2, 5)
    ones, none = numpy.ones(5, f32), numpy.zeros(0, f32)
    r = Records([("x", f32, x.shape), ("s", f32, [5]), ("none", f32, [0])])
    results = r.node(
        "FusedBatchNormV3",
        "x",
        "s",
        "s",
        "none",
        "none",
        results=6,
        is_training=True,
        epsilon=0.001,
        data_format="NHWC",
    )
    (y, mean, variance, kept, biased), _ = run(r.returns(*results[:5]), x, ones, none)
    axes = (0, 1, 2)
    numpy.testing.assert_allclose(mean, x.mean(axes), rtol=1e-5, atol=1e-6)
    numpy.testing.assert_allclose(variance, x.var(axes, ddof=1), rtol=1e-5)
    numpy.testing.assert_allclose(biased, x.var(axes), rtol=1e-5)
    numpy.testing.assert_allclose(y, (x - kept) / numpy.sqrt(biased + 0.001) + 1, rtol=1e-4, atol=1e-5)


def test_average_pool_counts_what_is_there():
    x = numpy.ones((1, 3, 3, 1), f32)
    r = Records([("x", f32, x.shape)])
    y = r.node("AvgPool", "x", ksize=[1, 3, 3, 1], strides=[1, 1, 1, 1], padding="SAME", data_format="NHWC")
    (y,), _ = run(r.returns(y), x)
    numpy.testing.assert_array_equal(y, x)


def test_strided_slice_with_all_its_masks():
    x = numbers(4, 5, 6)
    r = Records([("x", f32, x.shape)])
    begin, end, strides = (r.const(value, i32) for value in ([1, 0, 0, -1], [0, 0, 0, -7], [1, 1, 1, -2]))
    masks = {"shrink_axis_mask": 1, "new_axis_mask": 2, "ellipsis_mask": 4, "begin_mask": 0, "end_mask": 8}
    y = r.node("StridedSlice", "x", begin, end, strides, Index="int32", T="float32", **masks)
    (y,), _ = run(r.returns(y), x)
    numpy.testing.assert_array_equal(y, x[1, numpy.newaxis, ..., -1::-2])


def test_adam_reads_all_before_it_writes():
    w, m, v, g = numbers(3, 2), numbers(3, 2), numpy.abs(numbers(3, 2)), numbers(3, 2)
    r = Records([("g", f32, g.shape)], {name: (f32, [3, 2]) for name in "wmv"})
    scalars = [r.const(value, f32) for value in (0.9, 0.99, 0.1, 0.9, 0.99, 1e-3)]
    r.node("ResourceApplyAdam", "w", "m", "v", *scalars, "g", results=0, use_locking=False, use_nesterov=False)
    _, written = run(r.returns(), g, variables={"w": w, "m": m, "v": v})
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    numpy.testing.assert_allclose(written["m"], m, rtol=1e-5)
    numpy.testing.assert_allclose(written["v"], v, rtol=1e-5)
    rate = 0.1 * numpy.sqrt(1 - 0.99) / (1 - 0.9)
    numpy.testing.assert_allclose(written["w"], w - rate * m / (numpy.sqrt(v) + 1e-3), rtol=1e-5)


def test_update_of_a_half_is_rounded_once():
    w, g = numpy.full(4, 1.0, f16), numpy.full(4, 2.0**-11, f16)
    r = Records([("g", f16, [4])], {"w": (f16, [4])})
    r.node("ResourceApplyGradientDescent", "w", r.const(3.0, f16), "g", results=0, use_locking=False)
    _, written = run(r.returns(), g, variables={"w": w})
    numpy.testing.assert_array_equal(written["w"], (1.0 - 3.0 * 2.0**-11 * numpy.ones(4)).astype(f16))


def test_axes_of_any_width_are_constants():
    x = numbers(2, 3)
    for dtype in (i32, i64):
        r = Records([("x", f32, x.shape)])
        y = r.node("Sum", "x", r.const([1], dtype), keep_dims=False, Tidx=numpy.dtype(dtype).name)
        (y,), _ = run(r.returns(y), x)
        numpy.testing.assert_allclose(y, x.sum(1), rtol=1e-6)


def test_equal_seeds_draw_equal_numbers_and_others_do_not():
    r = Records()
    shape = r.const([2000], i32)
    draws = [
        r.node("RandomUniform", shape, dtype="float32", seed=a, seed2=b) for a, b in ((1, 2), (1, 2), (1, 3), (0, 0))
    ]
    (a, b, c, d), _ = run(r.returns(*draws))
    numpy.testing.assert_array_equal(a, b)
    assert not (a == c).any() and not (a == d).any()
    assert a.min() >= 0 and a.max() < 1 and abs(a.mean() - 0.5) < 0.03


def test_truncated_normal_has_the_spread_that_it_should():
    r = Records()
    (z,), _ = run(r.returns(r.node("TruncatedNormal", r.const([40000], i32), dtype="float32", seed=3, seed2=4)))
    assert abs(z).max() <= 2.0 and abs(z.mean()) < 0.02
    assert abs(z.std() - 0.8796) < 0.01  # of a standard normal distribution cut at two deviations


def test_random_integers_shuffles_and_classes_are_what_they_should():
    r = Records([("x", i32, [500]), ("p", f32, [1, 3])])
    shape = r.const([3000], i32)
    whole = r.node("RandomUniformInt", shape, r.const(-2, i32), r.const(3, i32), Tout="int32", seed=1, seed2=1)
    order = r.node("RandomShuffle", "x", seed=2, seed2=1)
    classes = r.node("Multinomial", "p", r.const(6000, i32), seed=3, seed2=1, output_dtype="int64")
    normal = r.node("RandomStandardNormal", shape, dtype="float16", seed=4, seed2=1)
    given = numpy.arange(500, dtype=i32), numpy.log(numpy.array([[0.5, 0.3, 0.2]], f32))
    (whole, order, classes, normal), _ = run(r.returns(whole, order, classes, normal), *given)
    assert sorted(set(whole)) == [-2, -1, 0, 1, 2] and abs(whole.mean()) < 0.1
    assert sorted(order) == list(range(500)) and list(order) != sorted(order)
    numpy.testing.assert_allclose(numpy.bincount(classes[0]) / 6000, [0.5, 0.3, 0.2], atol=0.03)
    assert normal.dtype == f16 and abs(normal.astype(f32).std() - 1) < 0.05


REFUSED = {
    "padding over channels": (
        lambda r: conv(r, "x", "w", strides=[1, 1, 1, 2]),
        "strides over the batch or the channels",
    ),
    "a layout nobody knows": (lambda r: conv(r, "x", "w", data_format="NCHW_VECT_C"), 'data_format "NCHW_VECT_C"'),
    "doubles": (lambda r: r.node("Cast", "x", SrcT="float32", DstT="float64"), "element type 'float64'"),
    "an attribute of a later version": (
        lambda r: r.node("Relu", "x", negative_slope=0.1),
        "attribute 'negative_slope'",
    ),
    "an option": (lambda r: r.node("Equal", "x", "x", incompatible_shape_error=False), "'incompatible_shape_error'"),
    "a computed axis": (lambda r: r.node("Sum", "x", "axis", keep_dims=False), "'reduction_indices', is computed"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_imported_says_why(what):
    write, why = REFUSED[what]
    r = Records([("x", f32, [1, 4, 4, 3]), ("w", f32, [3, 3, 3, 2]), ("axis", i32, [1])])
    with pytest.raises(ipu_core.Error, match="unsupported operation") as caught:
        ipu_core.Unit(r.returns(write(r)).unit()).text()
    assert why in str(caught.value)


def normed(kind, x, *weights, results=1, **attributes):
    """Of one node of the package's norms that reads inputs like these arrays."""
    arrays = [x, *weights]
    r = Records([(f"x{i}", f32, array.shape) for i, array in enumerate(arrays)])
    names = [f"x{i}" for i in range(len(arrays))]
    made = r.node(kind, *names, results=results, domain="ipu", **attributes)
    return ipu_core.Unit(r.returns(*([made] if results == 1 else made)).unit())


def test_a_norm_over_the_last_dimensions():
    x, gamma, beta = numbers(2, 3, 4), numbers(4), numpy.arange(4, dtype=f32)
    attributes = {"axis": 1, "scales": True, "centers": True, "epsilon": 0.01}
    ((y,), _) = normed("LayerNorm", x, gamma, beta, **attributes).run([x, gamma, beta], {})
    mean, variance = [getattr(x, f)((1, 2), keepdims=True) for f in ("mean", "var")]
    numpy.testing.assert_allclose(y, (x - mean) / numpy.sqrt(variance + 0.01) * gamma + beta, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "shapes", "attributes", "text"),
    [
        ("LayerNorm", [(2, 3, 4)], {"axis": 3}, "axis"),
        ("LayerNorm", [(2, 3, 4), (3,)], {"scales": True}, "do not broadcast"),
        ("LayerNormGradient", [(2, 4), ()], {}, "and the gradient .* of y"),
    ],
)
def test_norms_of_shapes_that_do_not_fit(kind, shapes, attributes, text):
    given = {"axis": 1, "scales": False, "centers": False, "epsilon": 0.1}
    with pytest.raises(ipu_core.Error, match=text):
        normed(kind, *[numbers(*shape) for shape in shapes], **given | attributes).text()


def test_dropout_by_two_numbers():
    x, seed = numpy.ones((50, 4), f32), numpy.array([1, 2], i32)

    def dropped(**attributes):
        r = Records([("x", f32, x.shape), ("seed", i32, [2])])
        made = r.node("Dropout", "x", "seed", domain="ipu", **attributes)
        return run(r.returns(made), x, seed)[0][0]

    y = dropped(rate=0.5)
    assert set(y.ravel()) == {0, 2} and (y == dropped(rate=0.5)).all() and (y != y[:, :1]).any()
    rows = dropped(rate=0.5, mask=[50, 1])
    assert set(rows.ravel()) == {0, 2} and (rows == rows[:, :1]).all()
    assert (dropped(rate=0.0) == x).all() and (dropped(rate=0.0, mask=[50, 1]) == x).all()
    for mask in ([50, 2], [50], [50, 4, 1]):
        with pytest.raises(ipu_core.Error, match=r"of \[50,4\] and a mask of|broadcast"):
            dropped(rate=0.5, mask=mask)

"""Convolutions, transposed ones and pools against torch, their gradients against differences."""

import numpy as np
import popart
import popxl
import pytest
import torch
from one_program import OneProgram, check, check_gradients, op_types
from popxl import ops
from popxl._impl.build import create

rng = np.random.default_rng(7)
CONV = {1: torch.nn.functional.conv1d, 2: torch.nn.functional.conv2d, 3: torch.nn.functional.conv3d}
TRANSPOSED = {
    1: torch.nn.functional.conv_transpose1d,
    2: torch.nn.functional.conv_transpose2d,
    3: torch.nn.functional.conv_transpose3d,
}


def array(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def padded(x, pads, value=0.0):
    """begins and ends of spatial dimensions; negative cuts."""
    n = len(pads) // 2
    widths = [item for d in reversed(range(n)) for item in (pads[d], pads[n + d])]
    return torch.nn.functional.pad(torch.as_tensor(x), widths, value=value)


def conv(x, w, stride=1, padding=None, dilation=1, groups=1):
    n = w.ndim - 2
    x = padded(x, padding or [0] * 2 * n)
    return CONV[n](x, torch.as_tensor(w), stride=stride, dilation=dilation, groups=groups).numpy()


CONVOLUTIONS = [
    ("plain", array(2, 3, 5, 4), array(4, 3, 3, 2), {}),
    (
        "all at once",
        array(2, 4, 8, 7),
        array(6, 2, 3, 2),
        {"stride": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2), "groups": 2},
    ),
    (
        "one dimension",
        array(2, 3, 9),
        array(4, 3, 3),
        {"stride": (2,), "padding": (1, 1), "dilation": (2,)},
    ),
    (
        "three dimensions",
        array(1, 2, 4, 5, 4),
        array(3, 2, 2, 3, 2),
        {"stride": (1, 2, 1), "padding": (1, 0, 0, 0, 1, 1), "dilation": (1, 1, 2)},
    ),
]


@pytest.mark.shows("popxl.ops.conv")
def test_convolutions_of_one_to_three_dimensions():
    check([(name, lambda x, w, k=k: ops.conv(x, w, **k), (x, w), conv(x, w, **k)) for name, x, w, k in CONVOLUTIONS])


@pytest.mark.shows("popxl.ops.conv")
def test_the_gradients_of_convolutions():
    small = [
        (array(1, 2, 4, 3), array(2, 2, 2, 2), {}),
        (array(1, 2, 5, 5), array(2, 1, 2, 2), CONVOLUTIONS[1][3]),
        (array(1, 2, 6), array(2, 2, 2), CONVOLUTIONS[2][3]),
        (array(1, 1, 3, 3, 4), array(2, 1, 2, 2, 2), CONVOLUTIONS[3][3]),
    ]
    check_gradients(
        [
            (f"{x.ndim} {k}", lambda x, w, k=k: ops.conv(x, w, **k), lambda x, w, k=k: conv(x, w, **k), (x, w))
            for x, w, k in small
        ],
        rtol=1e-3,
    )


@pytest.mark.shows("popxl.ops.conv")
def test_pad_types_decide_the_size():
    x, w = array(1, 2, 7, 6), array(2, 2, 3, 2)
    check(
        [
            # ceil(7 / 2) = 4 and ceil(6 / 2) = 3 outputs: 2 and 0 elements of padding.
            (
                "same_upper",
                lambda x, w: ops.conv(x, w, stride=(2, 2), pad_type="same_upper"),
                (x, w),
                conv(x, w, 2, [1, 0, 1, 0]),
            ),
            # ceil(7 / 1), ceil(6 / 1): 2 and 1; the odd one at the end or at the beginning.
            ("upper", lambda x, w: ops.conv(x, w, pad_type="same_upper"), (x, w), conv(x, w, 1, [1, 0, 1, 1])),
            ("lower", lambda x, w: ops.conv(x, w, pad_type="same_lower"), (x, w), conv(x, w, 1, [1, 1, 1, 0])),
            (
                "valid, whatever the padding",
                lambda x, w: ops.conv(x, w, padding=(5, 5, 5, 5), pad_type="valid"),
                (x, w),
                conv(x, w),
            ),
        ]
    )


def transposed(x, w, stride=1, padding=None, groups=1, extra=None):
    n = w.ndim - 2
    full = TRANSPOSED[n](torch.as_tensor(x), torch.as_tensor(w), stride=stride, groups=groups)
    pads = list(padding or [0] * 2 * n)
    for d, more in enumerate(extra or ()):
        pads[n + d] -= more
    return padded(full, [-p for p in pads]).numpy()


@pytest.mark.shows("popxl.ops.conv_transpose")
def test_transposed_convolutions():
    x, w = array(2, 4, 3, 4), array(4, 3, 3, 2)
    cases = [
        ("plain", {}, transposed(x, w)),
        (
            "stride, padding, output_padding",
            {"stride": (2, 3), "padding": (1, 0, 0, 1), "output_padding": (1, 2)},
            transposed(x, w, (2, 3), [1, 0, 0, 1], extra=(1, 2)),
        ),
        ("groups", {"groups": 2, "stride": (2, 2)}, transposed(x, w, 2, groups=2)),
        ("more padding than the kernel", {"padding": (2, 1, 2, 1)}, transposed(x, w, 1, [2, 1, 2, 1])),
        # 2 * 2 + 3 = 7 and 2 * 3 + 2 = 8 elements; 4 and 5 of them stay.
        (
            "output_shape, not_set",
            {"stride": (2, 2), "output_shape": (4, 5)},
            transposed(x, w, 2, [2, 2, 1, 1]),
        ),
        (
            "output_shape, same_upper",
            {"stride": (2, 2), "output_shape": (2, 3, 4, 5), "pad_type": "same_upper"},
            transposed(x, w, 2, [1, 1, 2, 2]),
        ),
        (
            "output_shape beyond",
            {"output_shape": (7, 6), "pad_type": "same_lower"},
            transposed(x, w, 1, [-1, -1, -1, 0]),
        ),
        ("valid", {"padding": (1, 1, 1, 1), "pad_type": "valid"}, transposed(x, w)),
    ]
    check([(name, lambda x, w, k=k: ops.conv_transpose(x, w, **k), (x, w), want) for name, k, want in cases])
    line, volume = (array(2, 3, 5), array(3, 2, 3)), (array(1, 2, 3, 2, 3), array(2, 2, 2, 3, 2))
    check(
        [
            (
                "one dimension",
                lambda x, w: ops.conv_transpose(x, w, (2,), (1, 0), (1,)),
                line,
                transposed(*line, 2, [1, 0]),
            ),
            (
                "three dimensions",
                lambda x, w: ops.conv_transpose(x, w, (2, 1, 2), (1, 0, 0, 0, 1, 1), (1, 1, 1)),
                volume,
                transposed(*volume, (2, 1, 2), [1, 0, 0, 0, 1, 1]),
            ),
        ]
    )


def test_a_convolution_of_spread_data_with_flipped_weights_is_the_transposed_one():
    # What a session makes of it.
    x, w = array(2, 4, 3, 4), array(4, 3, 3, 2)
    with OneProgram() as p:
        data, weight = p.of(x), p.of(w)
        for pads in ([2, 1, 2, 1], [1, -1, -1, 2]):  # kernel - 1, and less: a part is cut off
            flipped = create("ConvFlipWeights", {0: weight}, ("flipped",), {"group": 2})[0]
            assert flipped.shape == (6, 2, 3, 2)
            attributes = {"inDilations": [2, 3], "pads": pads, "group": 2}
            p.out(create("Conv", {0: data, 1: flipped}, ("conv_out",), attributes)[0])
    whole, part = p.run()
    np.testing.assert_allclose(whole, transposed(x, w, (2, 3), groups=2), rtol=1e-5, atol=1e-6)
    want = transposed(x, w, (2, 3), [1, 2, 3, -1], groups=2)
    np.testing.assert_allclose(part, want, rtol=1e-5, atol=1e-6)


@pytest.mark.shows("popxl.ops.conv_pow2scaled")
@pytest.mark.shows("popxl.ops.conv_transpose_pow2scaled")
def test_float8_convolutions_are_scaled():
    x, w = rng.integers(-4, 5, (1, 2, 4, 4)) / 4, rng.integers(-4, 5, (2, 2, 3, 3)) / 2
    x, w = x.astype(np.float32), w.astype(np.float32)
    with OneProgram() as p:
        data, weight = popxl.variable(x, popxl.float8_152), popxl.variable(w, popxl.float8_143)
        scale = popxl.constant(-1, popxl.int32)
        p.out(ops.conv_pow2scaled(data, weight, scale, padding=(1, 1, 1, 1)))
        p.out(ops.conv_transpose_pow2scaled(data, weight, scale, stride=(2, 2)))
        assert [t for t in op_types(p.ir.main_graph) if t != "HostStore"] == ["Conv", "ConvTranspose"]
        with pytest.raises(TypeError, match="t, .* float8"):
            ops.conv_pow2scaled(p.of(x), weight, scale)
        with pytest.raises(ValueError, match="shape"):
            ops.conv_transpose_pow2scaled(data, weight, popxl.constant([1, 2], popxl.int32))
    same, wide = p.run()
    np.testing.assert_array_equal(same, (conv(x, w, 1, [1, 1, 1, 1]) / 2).astype(np.float16))
    np.testing.assert_array_equal(wide, (transposed(x, w, 2) / 2).astype(np.float16))


@pytest.mark.shows("popxl.ops.conv")
def test_half_partials_of_a_convolution():
    x = np.array([2048.0] + [0.0] * 15 + [1.0] + [0.0] * 15 + [1.0], np.float16).reshape(1, 33, 1, 1)
    w = np.ones((1, 33, 1, 1), np.float16)
    check(
        [
            ("float", lambda x, w: ops.conv(x, w, partials_types=["float"]), (x, w), np.float16([[[[2050]]]])),
            ("half", lambda x, w: ops.conv(x, w, partials_types=["half"]), (x, w), np.float16([[[[2048]]]])),
        ]
    )


def max_pool(x, kernel, stride=1, pads=None, dilation=1, ceil=False):
    n = x.ndim - 2
    x = padded(x, pads or [0] * 2 * n, -np.inf)
    function = {1: torch.nn.functional.max_pool1d, 2: torch.nn.functional.max_pool2d, 3: torch.nn.functional.max_pool3d}
    return function[n](x, kernel, stride, dilation=dilation, ceil_mode=ceil).numpy()


def mean_pool(x, kernel, stride=None, pads=None, dilation=1):
    """Sum over count, by convolutions with ones."""
    ones = np.ones((x.shape[1], 1, *kernel), x.dtype)
    options = {"stride": stride or 1, "padding": pads, "dilation": dilation, "groups": x.shape[1]}
    return conv(x, ones, **options) / conv(np.ones_like(x), ones, **options)


X = array(2, 3, 7, 6)
POOLS = [
    ("ones for strides", X, (2, 3), {}, {}),
    (
        "strides and padding",
        X,
        (3, 2),
        {"stride": (2, 2), "padding": (1, 0, 1, 1)},
        {"stride": (2, 2), "pads": [1, 0, 1, 1]},
    ),
    ("dilation", X, (2, 2), {"dilation": (2, 3)}, {"dilation": (2, 3)}),
    ("one dimension", array(2, 3, 8), (3,), {"stride": (2,)}, {"stride": (2,)}),
    (
        "three dimensions",
        array(1, 2, 4, 5, 4),
        (2, 3, 2),
        {"stride": (2, 1, 2), "padding": (0, 1, 0, 0, 1, 0)},
        {"stride": (2, 1, 2), "pads": [0, 1, 0, 0, 1, 0]},
    ),
]


@pytest.mark.shows("popxl.ops.max_pool")
def test_max_pools():
    check(
        [(name, lambda x, k=k, o=o: ops.max_pool(x, k, **o), (x,), max_pool(x, k, **t)) for name, x, k, o, t in POOLS]
    )


@pytest.mark.shows("popxl.ops.average_pool")
def test_average_pools_do_not_count_padding():
    check(
        [
            (name, lambda x, k=k, o=o: ops.average_pool(x, k, **o), (x,), mean_pool(x, k, **t))
            for name, x, k, o, t in POOLS
        ]
    )


@pytest.mark.shows("popxl.ops.average_pool")
@pytest.mark.shows("popxl.ops.max_pool")
def test_sizes_of_pools_follow_the_padding_and_the_rounding():
    check(
        [
            (
                "same_lower",
                lambda x: ops.average_pool(x, (2, 2), auto_pad="same_lower"),
                (X,),
                mean_pool(X, (2, 2), 1, [1, 1, 0, 0]),
            ),
            (
                "valid",
                lambda x: ops.max_pool(x, (2, 2), (2, 2), auto_pad="valid"),
                (X,),
                max_pool(X, (2, 2), 2),
            ),
            # (7 - 2) / 2 rounds up to 3, so the last window has one row alone.
            (
                "ceil_mode",
                lambda x: ops.max_pool(x, (2, 2), (2, 2), ceil_mode=True),
                (X,),
                max_pool(X, (2, 2), 2, ceil=True),
            ),
            (
                "ceil_mode of a mean",
                lambda x: ops.average_pool(x, (2, 2), (2, 2), ceil_mode=True),
                (X,),
                mean_pool(X, (2, 2), 2, [0, 0, 1, 0]),
            ),
            (
                "out_pads",
                lambda x: ops.max_pool(x, (2, 2), (2, 2), out_pads=(1, 0, 0, 2)),
                (X,),
                np.pad(max_pool(X, (2, 2), 2), ((0, 0), (0, 0), (1, 0), (0, 2))),
            ),
            (
                "in_dilations",
                lambda x: ops.max_pool(x, (2, 1), in_dilations=(3, 1)),
                (X,),
                max_pool(np.insert(X, np.repeat(range(1, 7), 2), 0, axis=2), (2, 1)),
            ),
        ]
    )


@pytest.mark.shows("popxl.ops.average_pool")
@pytest.mark.shows("popxl.ops.max_pool")
def test_the_gradients_of_pools():
    check_gradients(
        [
            (f"{op.__name__} {name}", lambda x, k=k, o=o, f=op: f(x, k, **o), lambda x, k=k, t=t, f=np_op: f(x, k, **t), (x,))
            for op, np_op in ((ops.max_pool, max_pool), (ops.average_pool, mean_pool))
            for name, x, k, o, t in ((name, x[:1, :1], *more) for name, x, *more in POOLS)
        ],
        rtol=1e-3,
    )


@pytest.mark.shows("popxl.ops.conv")
def test_convolutions_add_one_op_each_with_the_published_names():
    with OneProgram() as p:
        x, w = p.of(array(1, 2, 5, 5)), p.of(array(2, 2, 3, 3))
        outs = [ops.conv(x, w), ops.conv_transpose(x, w), ops.average_pool(x, (2, 2)), ops.max_pool(x, (2, 2))]
        assert [t.id for t in outs] == ["conv_out", "convtranspose_out", "averagepool_out", "maxpool_out"]
        assert op_types(p.ir.main_graph) == ["Conv", "ConvTranspose", "AveragePool", "MaxPool"]
        graph = p.ir.create_graph(lambda x, w: ops.conv(x, w), x, w)
        info = popxl.transforms.autodiff(graph)
        assert sorted(op_types(info.graph)) == ["ConvDataGrad", "ConvWeightsGrad", "Sum", "Sum"]


@pytest.mark.shows("popxl.ops.conv_transpose")
def test_windows_refuse_what_does_not_fit():
    with OneProgram() as p:
        x, w = p.of(array(1, 2, 5, 5)), p.of(array(2, 2, 3, 3))
        for op in (ops.conv, ops.conv_transpose):
            with pytest.raises(ValueError, match="'same'"):
                op(x, w, pad_type="same")
        for op in (ops.average_pool, ops.max_pool):
            with pytest.raises(KeyError, match="SAME"):
                op(x, (2, 2), auto_pad="SAME")
            with pytest.raises(popart.popart_exception, match="kernel.*2 spatial dimensions"):
                op(x, (2, 2, 2))
        failures = [
            (lambda: ops.conv(x, w, groups=2), "2 channels.*groups=2"),
            (lambda: ops.conv(x, w, stride=(1,)), "strides.*2 entries"),
            (lambda: ops.conv(x, p.of(array(2, 2, 6, 3))), "6 elements does not fit"),
            (lambda: ops.conv_transpose(x, p.of(array(3, 2, 3, 3))), "channels"),
            (lambda: ops.conv_transpose(x, w, dilation=(2, 1)), "dilation"),
            (lambda: ops.conv_transpose(x, w, output_shape=(4, 4), pad_type="valid"), "valid"),
            (lambda: ops.max_pool(x, (2, 2), storage_order="column"), "column"),
        ]
        for call, message in failures:
            with pytest.raises(popart.popart_exception, match=message):
                call()
        graph = p.ir.create_graph(lambda x, w: ops.conv_transpose(x, w), x, w)
        with pytest.raises(popart.popart_exception, match="no gradient arises"):
            popxl.transforms.autodiff(graph)

"""Norms, resizing and regions of images: values, gradients, what they add to a graph, and what they refuse."""

import numpy as np
import popart
import popxl
import pytest
import torch
from one_program import OneProgram, check, check_gradients, op_types
from popxl import ops

rng = np.random.default_rng(13)


def array(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def group_norm(x, w, b, groups, eps=1e-5):
    parts = x.reshape(x.shape[0], groups, -1)
    y = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + eps)
    affine = (1, -1) + (1,) * (x.ndim - 2)
    return y.reshape(x.shape) * w.reshape(affine) + b.reshape(affine)


NORMS = [
    ("groups of an image", array(2, 6, 3, 2), 3, 1e-5),
    ("rows", array(3, 8), 2, 1e-3),
    ("one group", array(2, 4, 5), 1, 1e-5),
]


@pytest.mark.shows("popxl.ops.group_norm")
@pytest.mark.shows("popxl.ops.layer_norm")
@pytest.mark.edge("29.20")
def test_group_norm_normalises_groups_of_channels_and_layer_norm_all():
    cases = []
    for name, x, groups, eps in NORMS:
        w, b = array(x.shape[1]), array(x.shape[1])
        cases.append(
            (
                name,
                lambda x, w, b, g=groups, e=eps: ops.group_norm(x, w, b, g, e),
                (x, w, b),
                group_norm(x, w, b, groups, eps),
            )
        )
        cases.append((f"layer {name}", ops.layer_norm, (x, w, b), group_norm(x, w, b, 1)))
    check(cases)
    half = [a.astype(np.float16) for a in (array(2, 4, 3), array(4), array(4))]
    want = group_norm(*(a.astype(np.float64) for a in half), 2).astype(np.float16)
    check([("float16", lambda x, w, b: ops.group_norm(x, w, b, 2), half, want)])


@pytest.mark.shows("popxl.ops.group_norm")
def test_the_gradients_of_norms():
    check_gradients(
        [
            (
                name,
                lambda x, w, b, g=groups, e=eps: ops.group_norm(x, w, b, g, e),
                lambda x, w, b, g=groups, e=eps: group_norm(x, w, b, g, e),
                (x, array(x.shape[1]), array(x.shape[1])),
            )
            for name, x, groups, eps in NORMS
        ],
        rtol=1e-3,
    )


@pytest.mark.shows("popxl.ops.layer_norm")
def test_norms_have_hidden_outputs_and_one_gradient_op_with_three():
    with OneProgram() as p:
        x, w = p.of(array(2, 4, 3)), p.of(array(4))
        before = len(p.ir.main_graph.tensors)
        ops.group_norm(x, w, w, 2)
        made = {t.id: t.shape for t in p.ir.main_graph.tensors if t.id.startswith("group_norm")}
        assert made == {"group_norm_out": (2, 4, 3), "group_norm_mean": (4,), "group_norm_inv_std_dev": (4,)}
        assert len(p.ir.main_graph.tensors) == before + 3
        assert op_types(p.ir.main_graph) == ["GroupNormalization"]
        graph = p.ir.create_graph(lambda x, w, b: ops.layer_norm(x, w, b), x, w, w)
        info = popxl.transforms.autodiff(graph)
        assert sorted(op_types(info.graph)) == ["GroupNormalizationGrad", "Sum", "Sum", "Sum"]
        # The provided gradient, x, scale, mean and 1 / deviation; the last two are new outputs of the forward graph.
        assert len(info.graph.inputs) == 5 and len(graph.outputs) == 3


@pytest.mark.shows("popxl.ops.batch_norm_inference")
def test_batch_norm_uses_the_statistics_it_is_given():
    x, scale, bias, mean = array(2, 3, 4, 2), array(3), array(3), array(3)
    var = rng.uniform(0.5, 2, 3).astype(np.float32)
    shape = (1, 3, 1, 1)
    want = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-2) * scale.reshape(shape) + bias.reshape(shape)
    check([("image", lambda *a: ops.batch_norm_inference(*a, epsilon=1e-2), (x, scale, bias, mean, var), want)])
    with OneProgram() as p:
        vector = p.of(var)
        with pytest.raises(popart.popart_exception, match="three dimensions"):
            ops.batch_norm_inference(p.of(array(2, 3)), vector, vector, vector, vector)
        with pytest.raises(popart.popart_exception, match="each channel"):
            ops.batch_norm_inference(p.of(x), vector, vector, vector, p.of(array(4)))
        graph = p.ir.create_graph(lambda x, v: ops.batch_norm_inference(x, v, v, v, v), p.of(x), vector)
        with pytest.raises(popart.popart_exception, match="BatchNormalization"):
            popxl.transforms.autodiff(graph)


def place(mode, i, size, scale):
    """Coordinate in the input, in float32; one axis."""
    i, scale, one = np.float32(i), np.float32(scale), np.float32(1)
    product = np.float32(size) * scale
    if mode == "asymmetric":
        return float(i / scale)
    if mode == "align_corners":
        return float(i * np.float32(size - 1) / (product - one)) if product != 1 else 0.0
    if mode == "pytorch_half_pixel" and product <= 1:
        return 0.0
    return float((i + np.float32(0.5)) / scale - np.float32(0.5))


ROUND = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def cubic(d, a=-0.75):
    d = abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def weights(size_in, size_out, mode, nearest, coordinates, scale):
    """[out, in] of one axis."""
    w = np.zeros((size_out, size_in))
    for i in range(size_out):
        at = place(coordinates, i, size_in, scale)
        if mode == "linear":
            at = max(at, 0.0)
        low = int(np.floor(at))
        if mode == "nearest":
            taps = [(int(ROUND[nearest](at)), 1.0)]
        elif mode == "linear":
            taps = [(low, 1 - (at - low)), (low + 1, at - low)]
        else:
            taps = [(low + k, cubic(at - low - k)) for k in (-1, 0, 1, 2)]
        for k, weight in taps:
            w[i, min(max(k, 0), size_in - 1)] += weight
    return w


def interpolate(x, scales, mode="nearest", nearest="round_prefer_floor", coordinates="half_pixel"):
    for axis, scale in enumerate(scales):
        size = int(np.floor(x.shape[axis] * scale))
        if scale == 1:
            continue
        w = weights(x.shape[axis], size, mode, nearest, coordinates, scale)
        x = np.moveaxis(np.tensordot(w, np.moveaxis(x, axis, 0), 1), 0, axis)
    return x


IMAGE = array(1, 2, 4, 3)
SCALES = (1.0, 1.0, 1.6, 2.0)
RESIZES = (
    [("nearest", n, c) for n in ROUND for c in ("half_pixel", "asymmetric")]
    + [("nearest", "floor", "align_corners"), ("nearest", "ceil", "pytorch_half_pixel")]
    + [
        (m, "floor", c)
        for m in ("linear", "cubic")
        for c in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    ]
)


@pytest.mark.shows("popxl.ops.interpolate")
def test_interpolation_in_every_mode():
    cases = [
        (
            f"{m} {n} {c}",
            lambda x, m=m, n=n, c=c: ops.interpolate(x, SCALES, m, n, c),
            (IMAGE,),
            interpolate(IMAGE.astype(np.float64), SCALES, m, n, c).astype(np.float32),
        )
        for m, n, c in RESIZES
    ]
    for scales in ((2.0, 1.0, 0.5, 0.4), (1.0, 0.5, 0.25, 3.0)):  # other axes, and smaller
        for mode, coordinates in (("nearest", "half_pixel"), ("linear", "pytorch_half_pixel"), ("cubic", "half_pixel")):
            want = interpolate(IMAGE.astype(np.float64), scales, mode, coordinates=coordinates).astype(np.float32)
            cases.append(
                (
                    f"{scales} {mode}",
                    lambda x, s=scales, m=mode, c=coordinates: ops.interpolate(
                        x, s, m, coordinate_transformation_mode=c
                    ),
                    (IMAGE,),
                    want,
                )
            )
    check(cases, rtol=1e-6)


FACTORS = (0.3, 0.55, 0.9, 1.1, 1.37, 2.3, 3.01)  # size * factor is a whole number for hardly any


def of_torch(x, factor, mode):
    return torch.nn.functional.interpolate(
        torch.as_tensor(x), scale_factor=factor, mode=mode, recompute_scale_factor=False
    ).numpy()


@pytest.mark.shows("popxl.ops.interpolate")
def test_positions_come_from_the_factor_as_in_torch():
    cases = []
    for size in (4, 5, 7):
        row, image = array(1, 2, size), array(1, 1, size, size + 1)
        for factor in FACTORS:
            if size * factor < 1 or int(size * factor) == size:  # torch copies where the size stays
                continue
            line, plane = (1.0, 1.0, factor), (1.0, 1.0, factor, factor)
            for name, function, data, want in (
                (
                    "nearest",
                    lambda x, s=line: ops.interpolate(x, s, "nearest", "floor", "asymmetric"),
                    row,
                    of_torch(row, factor, "nearest"),
                ),
                ("linear", lambda x, s=line: ops.interpolate(x, s, "linear"), row, of_torch(row, factor, "linear")),
                ("cubic", lambda x, s=plane: ops.interpolate(x, s, "cubic"), image, of_torch(image, factor, "bicubic")),
            ):
                cases.append((f"{name} {size} {factor}", function, (data,), want))
    check(cases, rtol=1e-5)


@pytest.mark.shows("popxl.ops.interpolate")
def test_interpolated_rows_are_those_of_the_specification():
    row = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    with OneProgram() as p:
        x, scales = p.of(row), (1.0, 1.0, 2.3)
        p.out(ops.interpolate(x, scales, "linear"))
        p.out(ops.interpolate(x, scales, "nearest", "floor", "asymmetric"))
        p.out(ops.interpolate(x, scales, "linear", coordinate_transformation_mode="align_corners"))
        p.out(ops.interpolate(x, (1.0, 1.0, 1.1), "linear"))  # as many elements, and others
    linear, nearest, corners, same_size = (y.ravel() for y in p.run())
    want = [0, 0.152174, 0.586957, 1.021739, 1.456522, 1.891304, 2.326087, 2.760870, 3.195652, 3.630435, 4]
    np.testing.assert_allclose(linear, want, atol=1e-6)
    assert nearest.tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 4]
    np.testing.assert_allclose(corners, np.arange(11) * 4 / 10.5, atol=1e-6)
    np.testing.assert_allclose(same_size, np.maximum((np.arange(5) + 0.5) / 1.1 - 0.5, 0), atol=1e-6)


@pytest.mark.shows("popxl.ops.interpolate")
def test_cubic_interpolation_is_that_of_torch():
    want = torch.nn.functional.interpolate(
        torch.as_tensor(IMAGE), scale_factor=(2.0, 2.0), mode="bicubic", align_corners=False
    )
    check([("bicubic", lambda x: ops.interpolate(x, (1.0, 1.0, 2.0, 2.0), "cubic"), (IMAGE,), want.numpy())])


@pytest.mark.shows("popxl.ops.interpolate")
def test_the_gradients_of_interpolation():
    check_gradients(
        [
            (
                mode,
                lambda x, m=mode: ops.interpolate(x, (1.0, 1.0, 1.6, 2.3), m),
                lambda x, m=mode: interpolate(x, (1.0, 1.0, 1.6, 2.3), m),
                (IMAGE,),
            )
            for mode in ("nearest", "linear", "cubic")
        ]
    )


@pytest.mark.shows("popxl.ops.interpolate")
def test_interpolation_refuses_what_it_has_not():
    with OneProgram() as p:
        x = p.of(IMAGE)
        for words in (("quintic",), ("nearest", "round"), ("nearest", "floor", "corners")):
            with pytest.raises(ValueError, match=words[-1]):
                ops.interpolate(x, SCALES, *words)
        with pytest.raises(popart.popart_exception, match="3 scales for 4 dimensions"):
            ops.interpolate(x, (1.0, 2.0, 2.0))
        with pytest.raises(popart.popart_exception, match="tf_crop_and_resize"):
            ops.interpolate(x, coordinate_transformation_mode="tf_crop_and_resize")
        assert len(p.ir.main_graph.tensors) == 1
        assert ops.interpolate(x).id == "interpolate_out" and op_types(p.ir.main_graph) == ["Resize"]


def bilinear(image, y, x):
    h, w = image.shape[-2:]
    if y < -1 or y > h or x < -1 or x > w:
        return np.zeros(image.shape[:-2])
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    y0, x0 = int(y), int(x)
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    fy, fx = y - y0, x - x0
    top = image[..., y0, x0] * (1 - fx) + image[..., y0, x1] * fx
    return top * (1 - fy) + (image[..., y1, x0] * (1 - fx) + image[..., y1, x1] * fx) * fy


def roi_align(image, rois, batch, size, scale, samples):
    y = np.zeros((len(rois), image.shape[1], *size))
    for r, (x1, y1, x2, y2) in enumerate(np.asarray(rois) * scale):
        height, width = max(y2 - y1, 1) / size[0], max(x2 - x1, 1) / size[1]
        for i, j in np.ndindex(*size):
            for a, b in np.ndindex(samples, samples):
                at = (y1 + height * (i + (a + 0.5) / samples), x1 + width * (j + (b + 0.5) / samples))
                y[r, :, i, j] += bilinear(image[batch[r]], *at) / samples**2
    return y


ROIS = np.array([[0, 0, 7, 5], [2, 1, 3, 8], [-6, -4, 4, 30], [5, 5, 5, 5]], np.float32)
BATCH = np.array([0, 1, 1, 0], np.int32)


@pytest.mark.shows("popxl.ops.roi_align")
def test_roi_align_averages_bilinear_samples():
    image = array(2, 3, 6, 5)
    cases = [
        (
            f"{size} {scale} {samples}",
            lambda t, r, b, s=size, k=scale, n=samples: ops.roi_align(t, r, b, s, k, n),
            (image, ROIS, BATCH),
            roi_align(image, ROIS, BATCH, size, scale, samples).astype(np.float32),
        )
        for size, scale, samples in (((2, 3), 0.5, 2), ((1, 1), 1.0, 3), ((3, 2), 0.25, 1))
    ]
    check(cases)


@pytest.mark.shows("popxl.ops.roi_align")
def test_roi_align_has_a_gradient_for_the_image_alone():
    image = array(2, 2, 4, 4)
    with OneProgram() as p:
        inputs = [p.of(a) for a in (image, ROIS, BATCH)]
        graph = p.ir.create_graph(lambda t, r, b: ops.roi_align(t, r, b, (2, 2), 0.5, 2), *inputs)
        info = popxl.transforms.autodiff(graph, grads_required=[graph.inputs[0]])
        assert sorted(op_types(info.graph)) == ["RoiAlignGrad", "Sum"]
        call = ops.call_with_info(graph, *inputs)
        (gradient,) = ops.call_with_info(
            info.graph, popxl.constant(np.ones((4, 2, 2, 2), np.float32)), inputs_dict=info.inputs_dict(call)
        ).outputs
        p.out(gradient)
        for arguments, message in (
            ((inputs[0], inputs[1], inputs[2], (2, 2), 1.0, 0), "sampling_ratio 0"),
            ((inputs[0], inputs[1], inputs[1], (2, 2), 1.0, 1), "batch index"),
            ((inputs[1], inputs[1], inputs[2], (2, 2), 1.0, 1), "four dimensions"),
        ):
            with pytest.raises(popart.popart_exception, match=message):
                ops.roi_align(*arguments)
    want, step = np.zeros(image.shape), 1e-4
    for at in np.ndindex(image.shape):
        for sign in (1, -1):
            moved = image.astype(np.float64)
            moved[at] += sign * step
            want[at] += sign * roi_align(moved, ROIS, BATCH, (2, 2), 0.5, 2).sum() / (2 * step)
    np.testing.assert_allclose(p.run()[0], want, rtol=1e-4, atol=1e-4)

"""Images of TensorFlow have the channels last: between convolutions nothing moves them."""

import re

import numpy
from unit_records import Records

import ipu_core

f32 = numpy.float32
# From what an importer makes to what kernels run on, as `ipu-opt --list` names it.
PASSES = ["inline-calls", "fold-constants", "sink-transposes", "simplify", "cse", "dce", "decompose", "simplify", "dce"]
HOST = ["channels-last", "pack-weights", "fuse-into-convolutions"]
WINDOW = {"strides": [1, 1, 1, 1], "padding": "SAME", "data_format": "NHWC"}


def training_step():
    """Convolution, bias, norm, activation, convolution, and the gradients of both filters."""
    image, first, second = [2, 8, 8, 3], [3, 3, 3, 4], [3, 3, 4, 4]
    r = Records([("x", f32, image), ("w", f32, first), ("b", f32, [4]), ("v", f32, second), ("none", f32, [0])])
    a = r.node("Conv2D", "x", "w", **WINDOW)
    biased = r.node("BiasAdd", a, "b", data_format="NHWC")
    norm = r.node("FusedBatchNormV3", biased, "b", "b", "none", "none", results=6, is_training=True, epsilon=0.001)
    active = r.node("Relu", norm[0])
    y = r.node("Conv2D", active, "v", **WINDOW)
    total = r.node("AddV2", y, active)
    dy = r.node("Mul", total, r.const(0.5, f32))
    dv = r.node("Conv2DBackpropFilter", active, r.const(second, numpy.int32), dy, **WINDOW)
    into = r.node("Conv2DBackpropInput", r.const([2, 8, 8, 4], numpy.int32), "v", dy, **WINDOW)
    back = r.node("ReluGrad", r.node("AddN", into, dy), active)
    reserved = norm[3:]
    gradients = r.node("FusedBatchNormGradV3", back, biased, "b", *reserved, results=5, is_training=True, epsilon=0.001)
    dw = r.node("Conv2DBackpropFilter", "x", r.const(first, numpy.int32), gradients[0], **WINDOW)
    db = r.node("BiasAddGrad", gradients[0])
    return r.returns(total, dv, dw, db, gradients[1], norm[1], norm[2])


def moved_images(text):
    """Transposes and conversions of images [2, ...] that are more than another name for the same bytes."""
    layouts = dict(re.findall(r"(%\w+)(?:, %\w+)* = .*? : f32\[2,[\d,]*\](:acdb)?", text))
    found = []
    for line in text.splitlines():
        made = re.search(r"(%\w+) = (transpose|layout.convert)\((%\w+)\).*? : f32\[2,[\d,]+\](:acdb)?(?: |$)", line)
        if made is None:
            continue
        name, kind, operand, last = made.groups()
        if kind == "layout.convert" or (layouts.get(operand, "") == "") == (last is None):
            found.append(line.strip())
    return found


def test_no_image_moves_between_convolutions():
    text = ipu_core.Unit(training_step().unit()).text()
    assert text.count("transpose(") > 12
    shared = ipu_core.run_passes(text, PASSES)
    images = [line for line in shared.splitlines() if re.search(r"transpose\(.* : f32\[2,", line)]
    assert len(images) == 3, images  # of what is given, of the result, and of what the gradient of the bias sums
    assert moved_images(shared) == [line.strip() for line in images]  # before layouts are chosen
    assert moved_images(ipu_core.run_passes(shared, HOST)) == []


def test_the_step_gives_what_it_gives_without_the_passes():
    draw = numpy.random.default_rng(3)
    unit = ipu_core.Unit(training_step().unit())
    shapes = [(2, 8, 8, 3), (3, 3, 3, 4), (4,), (3, 3, 4, 4), (0,)]
    given = [draw.standard_normal(shape).astype(f32) for shape in shapes]
    ours, _ = unit.run(given, {})
    streams, _ = ipu_core.interpret(unit.text(), {f"in:{i}": [array] for i, array in enumerate(given)})
    for i, mine in enumerate(ours):
        numpy.testing.assert_allclose(mine, streams[f"out:{i}"][0], rtol=2e-4, atol=2e-4)

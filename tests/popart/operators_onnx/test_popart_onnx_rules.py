"""Where PopART's rules are not the text of ONNX: what is refused, what training writes, random numbers, resizing."""

import numpy
import onnx
import onnx.helper
import onnx.reference
import pytest

import ipu_core
from popart_onnx_cases import Batch, Case, Stated, ints, normal, one_node, run, train, uniform
from popart_onnx_samples import layer

X = normal(2, 3, 4)
IMAGE = normal(1, 2, 5, 4)
F32 = numpy.float32


def stated(*values):
    return Stated(F32(values))


REFUSED = [
    ("MaxPool", [IMAGE], 11, {"kernel_shape": [2, 2], "dilations": [2, 2]}, r"dilations \[2,2\]"),
    ("MaxPool", [IMAGE], 11, {"kernel_shape": [2, 2], "storage_order": 1}, "storage_order=1"),
    ("BatchNormalization", [X[0], *[normal(4)] * 4], 9, {}, "at least three"),
    ("BatchNormalization", [X, *[normal(4)] * 4], 9, {}, r"operand 1 .* must be \[3\]"),
    ("Conv", [IMAGE, normal(3, 2, 3, 3)], 11, {"kernel_shape": [2, 2]}, "Conv .* kernel_shape"),
    ("Dropout", [X], 10, {"ratio": 1.0}, "ratio of 1"),
    ("Expand", [X, numpy.int64([2, 3, 4])], 10, {}, "'shape', is computed when the program runs"),
    ("MatMul", [X, normal(3)], 9, {}, "MatMul"),
    ("MatMul", [X, F32(1)], 9, {}, "MatMul"),
    ("Add", [X, normal(3)], 10, {}, "Add"),
    ("Add", [X, numpy.ones((2, 3, 4), numpy.int32)], 10, {}, "Add"),
    ("ReduceSum", [X], 11, {"axes": [3]}, "ReduceSum .* names dimension 3 of 3"),
    ("Tile", [X, numpy.int64([1, 1, 2])], 10, {}, "'repeats', is computed"),
    ("TopK", [X, numpy.int64([2])], 10, {}, "'K', is computed"),
    ("Reshape", [X, numpy.int64([-1])], 10, {}, "'shape', is computed"),
    ("OneHot", [numpy.int64([1]), numpy.int64([3]), F32([0, 1])], 10, {}, "'depth', is computed"),
    ("RandomNormal", [], 10, {"shape": [2], "seed": 1.0}, "seed"),
    ("Flatten", [X], 10, {"axis": -4}, "axis -4"),
    ("Flatten", [X], 8, {"axis": 4}, "axis 4"),
    ("Resize", [IMAGE, None, stated(1, 1, 2, 2)], 11, {"exclude_outside": 1}, "exclude_outside"),
    ("Resize", [IMAGE, None, stated(1, 1, 2, 2), ints(1, 2, 10, 8)], 11, {}, "both scales and sizes"),
    ("Resize", [IMAGE, None, None], 11, {}, "neither scales nor sizes"),
    ("Resize", [IMAGE, None, stated(1, 2)], 11, {}, "2 scales for 4"),
    (
        "Resize",
        [IMAGE, None, stated(1, 1, 2, 2)],
        11,
        {"coordinate_transformation_mode": "tf_crop_and_resize"},
        "tf_crop",
    ),
    ("RoiAlign", [IMAGE, normal(1, 4), numpy.int32([0])], 10, {"mode": "max"}, "mode 'max'"),
    ("LSTM", layer(4), 10, {"direction": "reverse"}, "direction 'reverse'"),
    ("LSTM", layer(4), 10, {"clip": 1.0}, "attribute 'clip'"),
    ("LSTM", layer(4), 10, {"hidden_size": 3}, "hidden_size"),
    ("LSTM", layer(4), 10, {"input_forget": 1}, "input_forget"),
    ("LSTM", layer(4), 10, {"activation_alpha": [1.0]}, "activation_alpha"),
    ("LSTM", layer(4), 10, {"activations": ["Sigmoid", "Affine", "Affine"]}, "activation 'Affine'"),
    ("LSTM", layer(4), 10, {"activations": ["Sigmoid", "Tanh", "Relu"]}, "must be equal"),
    ("LSTM", layer(4), 10, {"activations": ["Sigmoid"] * 4}, "too many"),
    ("GRU", layer(3), 10, {"activations": ["Relu", "Tanh"]}, "a GRU has Sigmoid and Tanh"),
    ("GRU", layer(3), 10, {"direction": "bidirectional"}, "direction 'bidirectional'"),
    ("RNN", layer(1), 10, {"activations": ["Tanh", "Tanh"]}, "too many"),
]


@pytest.mark.parametrize("kind, operands, opset, attributes, message", REFUSED)
def test_what_popart_refuses_is_refused_with_the_reason(kind, operands, opset, attributes, message):
    batch = one_node(kind, operands, opset, **attributes)
    with pytest.raises(ipu_core.Error, match=message):
        run(batch.model(), batch.inputs)


@pytest.mark.parametrize(
    "kind, operands, attributes",
    [
        ("Pad", [X, ints(0, 1, 1, 0, 1, 1)], {"mode": "edge"}),
        ("Pad", [X, ints(0, 1, 1, 0, 1, 1)], {"mode": "reflect"}),
        ("Resize", [IMAGE, None, stated(1, 1, 2, 2)], {"mode": "linear"}),
        ("BatchNormalization", [X, *[uniform(1, 2, 3)] * 4], {}),
    ],
)
def test_a_gradient_that_popart_does_not_have_is_an_error_and_values_are_not(kind, operands, attributes):
    case = Case(kind, operands, lambda x, *_: numpy.zeros(run_shape), (11, 11), (0,), **attributes)
    batch = one_node(kind, operands, 11, **attributes)
    run_shape = next(iter(run(batch.model(), batch.inputs).values())).shape
    with pytest.raises(ipu_core.Error, match="not differentiable.*no gradient in PopART"):
        Batch([case], 11, training=True).gradients()


def test_places_outside_of_a_dimension_give_something_and_no_error():
    batch = one_node("Gather", [X, numpy.int32([-7, 1, 5])], 11)
    (found,) = run(batch.model(), batch.inputs).values()
    assert found.shape == (3, 3, 4)
    numpy.testing.assert_array_equal(found[1], X[1])


# --- resizing


def nearest(x, scales, index):
    for d, scale in enumerate(scales):
        if scale != 1:
            out = int(numpy.floor(numpy.float32(x.shape[d]) * numpy.float32(scale)))
            x = numpy.take(x, [min(max(index(i, scale, x.shape[d]), 0), x.shape[d] - 1) for i in range(out)], d)
    return x


def prefer_floor(x):
    return int(numpy.floor(x) if x - numpy.floor(x) <= 0.5 else numpy.ceil(x))


NEAREST = [
    ({}, (1, 1, 1.5, 0.6), lambda i, s, n: prefer_floor((i + 0.5) / s - 0.5)),
    ({}, (2, 1, 3, 1), lambda i, s, n: i // s),
    ({"nearest_mode": "ceil"}, (1, 1, 2, 0.5), lambda i, s, n: int(numpy.ceil((i + 0.5) / s - 0.5))),
    ({"nearest_mode": "floor"}, (1, 1, 2, 0.5), lambda i, s, n: int(numpy.floor((i + 0.5) / s - 0.5))),
    ({"nearest_mode": "pytorch"}, (1, 1, 1.5, 2), lambda i, s, n: int(i / s)),
    (
        {"nearest_mode": "round_prefer_ceil", "coordinate_transformation_mode": "asymmetric"},
        (1, 1, 2, 1.25),
        lambda i, s, n: int(numpy.floor(i / s + 0.5)),
    ),
    (
        {"nearest_mode": "floor", "coordinate_transformation_mode": "align_corners"},
        (1, 1, 2, 1.5),
        lambda i, s, n: int(numpy.floor(i * (n - 1) / (n * s - 1))),
    ),
]


@pytest.mark.parametrize("attributes, scales, index", NEAREST)
def test_nearest_takes_the_element_that_the_modes_say(attributes, scales, index):
    batch = one_node("Resize", [IMAGE, None, stated(*scales)], 11, **attributes)
    (found,) = run(batch.model(), batch.inputs).values()
    numpy.testing.assert_array_equal(found, nearest(IMAGE, scales, index))


def test_the_gradient_of_nearest_goes_to_the_element_before_whatever_the_mode():
    case = Case(
        "Resize",
        [IMAGE, None, stated(1, 1, 1, 2)],
        lambda x, _: numpy.repeat(x, 2, 3),
        (11, 11),
        (0,),
        nearest_mode="ceil",
    )
    batch = Batch([case], 11, training=True)
    weight = batch.weight(0).reshape(1, 2, 5, 4, 2).sum(-1)
    numpy.testing.assert_allclose(batch.gradients()[0][0], weight, rtol=1e-5)


@pytest.mark.parametrize("mode", ("linear", "cubic"))
@pytest.mark.parametrize("places", ("half_pixel", "asymmetric", "align_corners"))
def test_values_between_elements_are_those_of_onnx(mode, places):
    scales = F32([1, 1, 1.5 if places != "align_corners" else 2, 2])
    operands = [IMAGE[:, :, :4], Stated(F32([])), Stated(scales)]
    batch = one_node("Resize", operands, 11, mode=mode, coordinate_transformation_mode=places)
    model = batch.model()
    (found,) = run(model, batch.inputs).values()
    (expected,) = onnx.reference.ReferenceEvaluator(model).run(None, batch.inputs)
    numpy.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_the_gradient_of_cubic_is_the_transpose_of_its_map():
    def expect(x, _):
        batch = one_node("Resize", [x.astype(F32), Stated(F32([])), stated(1, 2)], 11, mode="cubic")
        (found,) = onnx.reference.ReferenceEvaluator(batch.model()).run(None, batch.inputs)
        return found.astype(float)

    x = normal(1, 4)
    case = Case("Resize", [x, None, stated(1, 2)], expect, (11, 11), (0,), mode="cubic")
    batch = Batch([case], 11, training=True)
    rows = numpy.stack([expect(one[None], None)[0] for one in numpy.eye(4)])
    numpy.testing.assert_allclose(batch.gradients()[0][0][0], rows @ batch.weight(0)[0], rtol=1e-4, atol=1e-5)


# --- training


def trained_model(nodes, inputs, constants, opset=10, outputs=("loss",)):
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, a.shape) for n, a in inputs.items()],
        [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in outputs],
        [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=4)


@pytest.mark.parametrize("opset", (6, 7, 9))
def test_training_writes_the_running_statistics(opset):
    x = normal(4, 3, 2)
    constants = {
        "scale": uniform(1, 2, 3),
        "bias": normal(3),
        "mean": normal(3, seed=1),
        "var": uniform(1, 2, 3, seed=1),
    }
    nodes = [
        onnx.helper.make_node(
            "BatchNormalization", ["x", *constants], ["y", "m", "v", "sm", "sv"], momentum=0.7, epsilon=0.01
        ),
        onnx.helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0),
    ]
    model = trained_model(nodes, {"x": x}, constants, opset, ("loss", "sm", "sv"))
    records = ipu_core.read_onnx(model, trained=["scale", "bias"], dialect="popart")
    session = ipu_core.compile_model(records, ipu_core.Program(loss="loss", optimizer={"kind": "sgd", "lr": 1.0}))
    found = session.run({"x": x})
    mean, var = x.mean((0, 2)), x.var((0, 2))
    numpy.testing.assert_allclose(found["sm"], mean, rtol=1e-5)
    numpy.testing.assert_allclose(found["sv"], var, rtol=1e-5)
    numpy.testing.assert_allclose(session.read("mean"), 0.7 * constants["mean"] + 0.3 * mean, rtol=1e-5)
    numpy.testing.assert_allclose(session.read("var"), 0.7 * constants["var"] + 0.3 * var, rtol=1e-5)
    session.detach()


@pytest.mark.parametrize("opset, attributes", [(6, {}), (6, {"is_test": 1}), (7, {}), (10, {})])
def test_dropout_keeps_with_its_probability_and_says_what(opset, attributes):
    w = numpy.ones(4000, F32)
    nodes = [
        onnx.helper.make_node("Dropout", ["w"], ["y", "mask"], ratio=0.25, **attributes),
        onnx.helper.make_node("ReduceSum", ["y"], ["loss"], keepdims=0),
    ]
    model = trained_model(nodes, {}, {"w": w}, opset, ("loss", "y", "mask"))
    found, after = train(model, {}, ["w"])
    if attributes:
        assert found["mask"].all() and (found["y"] == w).all()
        return
    assert 0.7 < found["mask"].mean() < 0.8
    expected = numpy.where(found["mask"], F32(4 / 3), 0)
    numpy.testing.assert_allclose(found["y"], expected, rtol=1e-6)
    numpy.testing.assert_allclose(w - after["w"], expected, rtol=1e-6)


@pytest.mark.parametrize("half", (False, True))
@pytest.mark.parametrize(
    "kind, attributes, mean, deviation",
    [
        ("RandomNormal", {"mean": 2.0, "scale": 0.5}, 2.0, 0.5),
        ("RandomUniform", {"low": -1.0, "high": 3.0}, 1.0, 4 / 12**0.5),
    ],
)
def test_random_tensors_have_their_mean_and_deviation(kind, attributes, mean, deviation, half):
    dtype = onnx.TensorProto.FLOAT16 if half else onnx.TensorProto.FLOAT
    nodes = [
        onnx.helper.make_node(kind, [], ["a"], shape=[50, 80], dtype=dtype, **attributes),
        onnx.helper.make_node(kind + "Like", ["x"], ["b"], dtype=dtype, **attributes),
        onnx.helper.make_node(kind + "Like", ["x"], ["c"], **attributes),
    ]
    x = numpy.zeros((4000,), F32)
    found = run(trained_model(nodes, {"x": x}, {}, 10, ("a", "b", "c")), {"x": x})
    assert found["a"].shape == (50, 80) and found["b"].shape == (4000,)
    assert found["a"].dtype == found["b"].dtype == (numpy.float16 if half else F32) and found["c"].dtype == F32
    for values in found.values():
        assert abs(values.astype(float).mean() - mean) < 0.08
        assert abs(values.astype(float).std() - deviation) < 0.05
    assert not (found["a"].ravel() == found["b"]).all()

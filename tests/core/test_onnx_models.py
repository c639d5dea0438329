"""Whole ONNX models without torch: inference, training against numbers in float64, properties over shapes, errors."""

import os
import pathlib
import subprocess
import sys

import numpy
import onnx
import onnx.helper
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ipu_core
from onnx_models import assert_same, make_model, ours, reference

ROOT = pathlib.Path(__file__).resolve().parents[2]


def normal(*shape, seed=0, scale=1.0):
    return (numpy.random.default_rng([seed, *shape]).standard_normal(shape) * scale).astype(numpy.float32)


# A small network of convolution, batch norm, pooling, a fully connected layer and log-softmax.
WEIGHTS = {
    "conv.w": normal(4, 1, 3, 3, scale=0.5),
    "conv.b": normal(4, scale=0.1),
    "norm.scale": numpy.float32([1.0, 0.9, 1.1, 1.2]),
    "norm.bias": normal(4, seed=3, scale=0.1),
    "fc.w": normal(3, 16, scale=0.4),
    "fc.b": normal(3, seed=2, scale=0.1),
}
STATISTICS = {"norm.mean": numpy.zeros(4, numpy.float32), "norm.variance": numpy.ones(4, numpy.float32)}


def network(training, dtype=numpy.float32, version=17):
    nodes = [
        ("Conv", ["x", "conv.w", "conv.b"], ["c"], {"pads": [1, 1, 1, 1]}),
        (
            "BatchNormalization",
            ["c", "norm.scale", "norm.bias", "norm.mean", "norm.variance"],
            ["n", "next_mean", "next_variance"] if training else ["n"],
            {"training_mode": int(training)},
        ),
        ("Relu", ["n"], ["r"], {}),
        ("MaxPool", ["r"], ["p"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Shape", ["p"], ["sizes"], {}),
        ("Gather", ["sizes", "zero"], ["batch"], {}),
        ("Concat", ["batch", "rest"], ["flat_shape"], {"axis": 0}),
        ("Reshape", ["p", "flat_shape"], ["f"], {}),
        ("Gemm", ["f", "fc.w", "fc.b"], ["g"], {"transB": 1}),
        ("LogSoftmax", ["g"], ["scores"], {}),
        ("NegativeLogLikelihoodLoss", ["scores", "label"], ["loss"], {}),
    ]
    constants = {name: array.astype(dtype) for name, array in {**WEIGHTS, **STATISTICS}.items()}
    constants |= {"zero": numpy.int64([0]), "rest": numpy.int64([-1])}
    inputs = {"x": normal(8, 1, 4, 4).astype(dtype), "label": numpy.int64([0, 1, 2, 0, 1, 2, 1, 1])}
    return make_model(nodes, inputs, ["scores", "loss"], version, constants), inputs


def test_a_network_computes_what_the_reference_does():
    for training in (False, True):
        model, inputs = network(training)
        assert_same(ours(model, inputs), reference(model, inputs), rtol=1e-5, atol=1e-5)


class Float64Network:
    """The same network in NumPy, in float64: its loss, and the gradient by differences of its loss."""

    def __init__(self):
        self.weights = {name: value.astype(numpy.float64) for name, value in WEIGHTS.items()}
        self.mean, self.variance = numpy.zeros(4), numpy.ones(4)
        _, inputs = network(True)
        self.x, self.label = inputs["x"].astype(numpy.float64), inputs["label"]

    def loss(self, weights):
        x = numpy.pad(self.x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = numpy.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
        c = numpy.einsum("nchwij,ocij->nohw", windows, weights["conv.w"]) + weights["conv.b"][:, None, None]
        self.batch_mean, self.batch_variance = c.mean((0, 2, 3)), c.var((0, 2, 3))
        n = (c - self.batch_mean[:, None, None]) / numpy.sqrt(self.batch_variance[:, None, None] + 1e-5)
        n = n * weights["norm.scale"][:, None, None] + weights["norm.bias"][:, None, None]
        p = numpy.maximum(n, 0).reshape(8, 4, 2, 2, 2, 2).max((3, 5)).reshape(8, -1)
        g = p @ weights["fc.w"].T + weights["fc.b"]
        shifted = g - g.max(1, keepdims=True)
        scores = shifted - numpy.log(numpy.exp(shifted).sum(1, keepdims=True))
        return -scores[numpy.arange(8), self.label].mean()

    def gradients(self, step=1e-5):
        result = {}
        for name, value in self.weights.items():
            gradient = numpy.zeros_like(value)
            for place in numpy.ndindex(value.shape):
                changed = {key: array.copy() for key, array in self.weights.items()}
                changed[name][place] += step
                above = self.loss(changed)
                changed[name][place] -= 2 * step
                gradient[place] = (above - self.loss(changed)) / (2 * step)
            result[name] = gradient
        return result

    def train(self, rate):
        loss = self.loss(self.weights)
        self.mean = 0.9 * self.mean + 0.1 * self.batch_mean
        self.variance = 0.9 * self.variance + 0.1 * self.batch_variance
        for name, gradient in self.gradients().items():
            self.weights[name] = self.weights[name] - rate * gradient
        return loss


def test_twenty_steps_of_training_give_the_losses_weights_and_statistics_of_float64():
    model, inputs = network(True)
    records = ipu_core.read_onnx(model, trained=WEIGHTS)
    session = ipu_core.compile_model(records, ipu_core.Program(loss="loss", optimizer={"kind": "sgd", "lr": 0.1}))
    twin = Float64Network()
    losses, expected = [], []
    for _ in range(20):
        losses.append(float(session.run(inputs)["loss"]))
        expected.append(twin.train(0.1))
    numpy.testing.assert_allclose(losses, expected, rtol=2e-5)
    assert losses[-1] < 0.5 * losses[0]
    for name, value in twin.weights.items():
        numpy.testing.assert_allclose(session.read(name), value, rtol=2e-4, atol=2e-5)
    numpy.testing.assert_allclose(session.read("norm.mean"), twin.mean, rtol=1e-4, atol=1e-5)
    numpy.testing.assert_allclose(session.read("norm.variance"), twin.variance, rtol=1e-4)


LINEAR = [
    ("Gemm", ["x", "w"], ["y"], {}),
    ("Sub", ["y", "t"], ["d"], {}),
    ("Mul", ["d", "d"], ["s"], {}),
    ("ReduceMean", ["s"], ["loss"], {"keepdims": 0}),
]


def linear_records(rows=4):
    inputs = {"x": normal(rows, 3), "t": normal(rows, 2, seed=1)}
    return ipu_core.read_onnx(make_model(LINEAR, inputs, ["loss"], 17, {"w": normal(3, 2)}), trained=["w"]), inputs


def gradient(w, x, t):
    return 2 * x.T @ (x @ w - t) / t.size


def test_iterations_accumulation_and_replicas_are_the_same_updates():
    records, _ = linear_records()
    x, t = normal(2 * 3 * 2, 4, 3), normal(2 * 3 * 2, 4, 2, seed=1)
    options = {"device_iterations": 2, "accumulation": 3, "replicas": 2}
    session = ipu_core.compile_model(
        records, ipu_core.Program(loss="loss", optimizer={"kind": "sgd", "lr": 0.1}, **options)
    )
    assert session.streams()["x"][2] == (12, 4, 3)
    losses = session.run({"x": x, "t": t})["loss"]
    w = normal(3, 2).astype(numpy.float64)
    for update in range(2):
        places = range(update * 6, update * 6 + 6)
        w = w - 0.1 * numpy.mean([gradient(w, x[i].astype(float), t[i]) for i in places], 0)
    assert losses.shape == (12,)
    numpy.testing.assert_allclose(session.read("w"), w, rtol=1e-5)


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw", "rmsprop", "lamb"])
def test_every_optimizer_lowers_the_loss(kind):
    records, inputs = linear_records()
    optimizer = {"kind": kind, "lr": 0.05} | ({"momentum": 0.5} if kind == "sgd" else {})
    session = ipu_core.compile_model(records, ipu_core.Program(loss="loss", optimizer=optimizer))
    losses = [float(session.run(inputs)["loss"]) for _ in range(20)]
    assert losses[-1] < 0.8 * losses[0]


def test_momentum_is_that_of_the_equation():
    records, inputs = linear_records()
    session = ipu_core.compile_model(
        records, ipu_core.Program(loss="loss", optimizer={"kind": "sgd", "lr": 0.1, "momentum": 0.9})
    )
    w, velocity = normal(3, 2).astype(numpy.float64), 0.0
    for _ in range(5):
        session.run(inputs)
        velocity = 0.9 * velocity + gradient(w, inputs["x"].astype(float), inputs["t"])
        w = w - 0.1 * velocity
    numpy.testing.assert_allclose(session.read("w"), w, rtol=1e-5)


def test_statistics_are_variables_for_the_nodes_before_too():
    """Read through the names of other nodes, in front of the node that collects them."""
    x = normal(4, 3)
    nodes = [
        ("Reshape", ["mean", "row"], ["seen"], {}),
        ("Clip", ["variance"], ["same"], {}),
        ("Identity", ["mean"], ["named"], {}),
        ("Add", ["x", "seen"], ["y"], {}),
        ("BatchNormalization", ["x", "scale", "bias", "mean", "variance"], ["h", "m", "v"], {"training_mode": 1}),
        ("ReduceMean", ["h"], ["loss"], {"keepdims": 0}),
    ]
    ones = numpy.ones(3, numpy.float32)
    constants = dict.fromkeys(("scale", "bias", "mean", "variance"), ones) | {"row": numpy.int64([1, 3])}
    names = ["loss", "seen", "same", "named", "y"]
    records = ipu_core.read_onnx(make_model(nodes, {"x": x}, names, 17, constants), trained=["scale"])
    session = ipu_core.compile_model(records, ipu_core.Program(loss="loss", optimizer={"kind": "sgd", "lr": 0.1}))
    mean, variance = ones.astype(numpy.float64), ones.astype(numpy.float64)
    for _ in range(3):
        got = session.run({"x": x})
        for name, expected in (("seen", mean[None]), ("same", variance), ("named", mean), ("y", x + mean)):
            numpy.testing.assert_allclose(got[name], expected, rtol=1e-5, atol=1e-6)
        mean, variance = 0.9 * mean + 0.1 * x.mean(0), 0.9 * variance + 0.1 * x.var(0)
    session.detach()


def test_dropout_drops_in_training_alone():
    nodes = [
        ("Dropout", ["x", "ratio", "yes"], ["d"], {}),
        ("Mul", ["d", "w"], ["y"], {}),
        ("ReduceMean", ["y"], ["loss"], {"keepdims": 0}),
    ]
    constants = {"ratio": numpy.float32(0.25), "yes": numpy.bool_(True), "w": numpy.ones(1, numpy.float32)}
    inputs = {"x": numpy.ones(10000, numpy.float32)}
    model = make_model(nodes, inputs, ["y", "loss"], 17, constants)
    numpy.testing.assert_array_equal(ours(model, inputs)[0], inputs["x"])
    records = ipu_core.read_onnx(model, trained=["w"])
    session = ipu_core.compile_model(records, ipu_core.Program(loss="loss", optimizer={"kind": "sgd", "lr": 0.0}))
    assert session.streams()["rng.seed"][1:] == (numpy.dtype("uint32"), (2,))
    runs = [session.run(inputs | {"rng.seed": numpy.uint32([seed, 0])})["y"] for seed in (1, 1, 2)]
    numpy.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()
    assert set(numpy.unique(runs[0])) == {numpy.float32(0), numpy.float32(4 / 3)}
    assert abs((runs[0] == 0).mean() - 0.25) < 0.02


def test_integers_are_narrowed_at_the_edge_and_values_that_change_are_an_error():
    nodes = [("Add", ["x", "x"], ["y"], {})]
    model = make_model(nodes, {"x": numpy.int64([1, -2])}, ["y"], 17)
    assert ours(model, {"x": numpy.int64([1, -2])})[0].tolist() == [2, -4]
    session = ipu_core.compile_model(ipu_core.read_onnx(model))
    with pytest.raises(ipu_core.Error, match="5000000000"):
        session.run({"x": numpy.int64([1, 5_000_000_000])})


@st.composite
def broadcast_shapes(draw):
    result = draw(st.lists(st.integers(1, 4), min_size=0, max_size=4))
    pair = []
    for _ in range(2):
        kept = draw(st.integers(0, len(result)))
        pair.append(tuple(draw(st.sampled_from([1, size])) for size in result[kept:]))
    return pair


@settings(max_examples=40)
@given(shapes=broadcast_shapes(), kind=st.sampled_from(["Add", "Sub", "Mul", "Max", "Less", "Pow"]))
def test_broadcasting_is_that_of_the_reference(shapes, kind):
    inputs = {"a": numpy.abs(normal(*shapes[0])) + 0.5, "b": normal(*shapes[1], seed=1)}
    inputs = {name: numpy.asarray(value, numpy.float32) for name, value in inputs.items()}
    model = make_model([(kind, ["a", "b"], ["y"], {})], inputs, ["y"], 17)
    assert_same(ours(model, inputs), reference(model, inputs), rtol=1e-5)


@settings(max_examples=40)
@given(data=st.data())
def test_slices_are_those_of_the_reference(data):
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    starts, ends, steps, sizes = [], [], [], {}
    for axis in axes:
        start, end = (data.draw(st.integers(-7, 7)) for _ in range(2))
        step = data.draw(st.sampled_from([-3, -2, -1, 1, 2, 3]))
        sizes[axis] = len(range(shape[axis])[start:end:step])
        starts, ends, steps = [*starts, start], [*ends, end], [*steps, step]
    if 0 in sizes.values():
        return
    constants = {n: numpy.int64(v) for n, v in (("s", starts), ("e", ends), ("a", axes), ("t", steps))}
    inputs = {"x": normal(*shape)}
    model = make_model([("Slice", ["x", "s", "e", "a", "t"], ["y"], {})], inputs, ["y"], 17, constants)
    assert_same(ours(model, inputs), reference(model, inputs))


@settings(max_examples=30)
@given(data=st.data())
def test_windows_are_those_of_the_reference(data):
    size = [data.draw(st.integers(3, 8)) for _ in range(2)]
    kernel = [data.draw(st.integers(1, 3)) for _ in range(2)]
    pads = [data.draw(st.integers(0, k - 1)) for k in kernel * 2]
    options = {"pads": pads, "strides": [data.draw(st.integers(1, 3)) for _ in range(2)]}
    x, w = normal(2, 2, *size), normal(3, 2, *kernel, seed=1)
    conv = make_model([("Conv", ["x", "w"], ["y"], options)], {"x": x}, ["y"], 17, {"w": w})
    assert_same(ours(conv, {"x": x}), reference(conv, {"x": x}), rtol=1e-5, atol=1e-5)
    pool = make_model([("MaxPool", ["x"], ["y"], options | {"kernel_shape": kernel})], {"x": x}, ["y"], 17)
    # The reference has no maxima for some windows that lie at a border padded on one side.
    padded = numpy.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=-numpy.inf)
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))
    steps = options["strides"]
    assert_same(ours(pool, {"x": x}), [windows[:, :, :: steps[0], :: steps[1]].max((4, 5))])


def test_files_and_bytes_are_read(tmp_path):
    model, inputs = network(False)
    path = tmp_path / "network.onnx"
    onnx.save(model, path)
    expected = ours(model, inputs)
    for source in (path, str(path), model.SerializeToString()):
        got = ipu_core.compile_model(ipu_core.read_onnx(source)).run(inputs)
        numpy.testing.assert_array_equal(got["scores"], expected[0])


def test_the_text_of_a_model_is_a_program():
    records, inputs = linear_records()
    text = ipu_core.model_text(records)
    assert "entry main" in text and "variable @w: f32[3,2]" in text
    (expected,) = (ipu_core.compile_model(records).run(inputs)["loss"],)
    numpy.testing.assert_array_equal(ipu_core.compile(text).run(inputs)["loss"], expected)


# --- what is refused


def raises(match):
    return pytest.raises(ipu_core.Error, match=match)


def test_all_operators_without_an_importer_are_named_at_once():
    nodes = [("NonZero", ["x"], ["a"], {}), ("Det", ["x"], ["b"], {}), ("Relu", ["x"], ["y"], {})]
    model = make_model(nodes, {"x": normal(2, 2)}, ["y"], 17)
    with raises(r"(?s)<model> uses 2 operators.*ai\.onnx::Det, version 17  x1.*ai\.onnx::NonZero, version 17  x1"):
        ipu_core.compile_model(ipu_core.read_onnx(model))


def test_sizes_that_are_not_known_are_refused():
    model = make_model([("Relu", ["x"], ["y"], {})], {"x": normal(2, 2)}, ["y"], 17)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    with raises(r"unknown size: input 'x' of <model> has shape \['batch', 2\]"):
        ipu_core.read_onnx(model)


def test_functions_of_the_model_are_refused():
    model = make_model([("Relu", ["x"], ["y"], {})], {"x": normal(2, 2)}, ["y"], 17)
    body = [onnx.helper.make_node("Relu", ["a"], ["b"])]
    model.functions.append(
        onnx.helper.make_function("mine", "F", ["a"], ["b"], body, [onnx.helper.make_opsetid("", 17)])
    )
    with raises("defines functions of its own: mine::F"):
        ipu_core.read_onnx(model)


def test_inputs_that_are_no_tensors_are_refused():
    model = make_model([("Relu", ["x"], ["y"], {})], {"x": normal(2, 2)}, ["y"], 17)
    model.graph.input.append(onnx.helper.make_tensor_sequence_value_info("list", onnx.TensorProto.FLOAT, [2]))
    with raises("input 'list' of <model> is no tensor"):
        ipu_core.read_onnx(model)


def test_tensors_and_texts_that_cannot_be_read_are_named():
    whole = make_model([("Conv", ["x", "w"], ["y"], {"auto_pad": "VALID"})], {"x": normal(1, 1, 2, 2)}, ["y"], 17)
    for change, message in (
        (
            lambda m: m.graph.initializer.add(name="w", data_type=1, dims=[2], raw_data=b"abc"),
            "'w' of <model> cannot be",
        ),
        (lambda m: m.graph.initializer.add(name="w", data_type=99, dims=[2]), "'w' of <model> cannot be read"),
        (
            lambda m: m.graph.input[0].type.tensor_type.ClearField("elem_type"),
            "input 'x' of <model> has no element type",
        ),
        (
            lambda m: setattr(m.graph.node[0].attribute[0], "s", b"\xff"),
            "attribute 'auto_pad' of Conv 'Conv_0' in <model>",
        ),
    ):
        model = onnx.ModelProto.FromString(whole.SerializeToString())
        change(model)
        with raises(f"unsupported model.*{message}"):
            ipu_core.read_onnx(model)


def test_values_of_training_are_checked():
    records, _ = linear_records()
    with raises("training takes both a loss and an optimizer"):
        ipu_core.compile_model(records, ipu_core.Program(loss="loss"))
    with raises("accumulation is 2: it is for training"):
        ipu_core.compile_model(records, ipu_core.Program(accumulation=2))
    with raises(r"unknown optimizer \[IPU-E410\]: 'newton'; adam, adamw, lamb, rmsprop or sgd"):
        ipu_core.compile_model(records, ipu_core.Program(loss="loss", optimizer={"kind": "newton", "lr": 1}))
    with raises("unknown value of the optimizer: 'momentun'; sgd has lr, weight_decay, momentum"):
        ipu_core.compile_model(
            records, ipu_core.Program(loss="loss", optimizer={"kind": "sgd", "lr": 1, "momentun": 0.9})
        )
    with raises("unknown value of the optimizer: 'nesterov'; adam has lr, weight_decay"):
        ipu_core.compile_model(
            records, ipu_core.Program(loss="loss", optimizer={"kind": "adam", "lr": 1, "nesterov": True})
        )
    with raises("group 0 has no lr"):
        ipu_core.compile_model(records, ipu_core.Program(loss="loss", optimizer={"kind": "sgd"}))
    with raises(r"replicas is 0 \[IPU-E414\]: it must be at least 1"):
        ipu_core.compile_model(records, ipu_core.Program(replicas=0))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda r: r.pop("graph"), "missing data .*: the model has no 'graph'"),
        (lambda r: r["graph"].pop("nodes"), "missing data .*: the graph has no 'nodes'"),
        (lambda r: r["graph"].update(inputs=["x"]), "an input must be a tuple of a name, a NumPy type and a shape"),
        (lambda r: r["graph"].update(inputs=[("x", "float32", [-1])]), "the shape of input 'x' must be sizes"),
        (lambda r: r["graph"].update(inputs=[("x", "complex64", [1])]), "unsupported type .*: input 'x' is complex64"),
        (lambda r: r["graph"].update(trained=["v"]), "unknown initialiser .*: 'v' is to be trained"),
        (lambda r: r["graph"]["initialisers"].update(w="text"), "initialiser 'w' is"),
        (lambda r: r["graph"]["nodes"][0].update(operands="x"), "'operands' of a node Gemm must be a list of names"),
        (
            lambda r: r["graph"]["nodes"][0].update(attributes={"alpha": {}}),
            "attribute 'alpha' of a node Gemm must be a",
        ),
        (lambda r: r["graph"]["nodes"][0].update(attributes={"alpha": [1, "a"]}), "must be strings, all of them"),
    ],
)
def test_data_of_another_form_is_refused(change, message):
    records, _ = linear_records()
    change(records)
    with raises(message):
        ipu_core.compile_model(records)


def test_graphs_inside_each_other_without_end_are_refused():
    records, _ = linear_records()
    records["graph"]["nodes"][0]["subgraphs"] = {"then_branch": records["graph"]}
    with raises("nested too deeply .*: subgraphs lie in each other more than 100 times"):
        ipu_core.compile_model(records)


def test_outputs_have_names_of_their_own():
    model = make_model([("Relu", ["x"], ["y"], {})], {"x": normal(2, 2)}, ["y"], 17)
    records = ipu_core.read_onnx(model)
    for outputs, other in (
        (["y", "x"], "'x' is an output of <model> and an input"),
        (["y", "y"], "and another output"),
    ):
        records["graph"]["outputs"] = outputs
        with raises(f"duplicate name .*{other}. Give each output a name of its own"):
            ipu_core.compile_model(records)


def test_torch_is_not_loaded(tmp_path):
    model, inputs = network(True)
    onnx.save(model, tmp_path / "network.onnx")
    numpy.savez(tmp_path / "inputs.npz", **inputs)
    program = """if True:
        import sys, numpy, ipu_core
        records = ipu_core.read_onnx(sys.argv[1] + "/network.onnx", trained=["fc.w"])
        session = ipu_core.compile_model(records, ipu_core.Program(loss="loss", optimizer={"kind": "sgd", "lr": 0.1}))
        session.run(dict(numpy.load(sys.argv[1] + "/inputs.npz")))
        print([name for name in sys.modules if name.split(".")[0] == "torch"])
    """
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.strip() == "[]"


def test_onnx_is_loaded_where_it_is_needed_alone():
    program = "import sys, ipu_core; print('onnx' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.strip() == "False"

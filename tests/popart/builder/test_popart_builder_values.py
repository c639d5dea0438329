"""Which values builder methods take, and which attributes they write of them."""

import numpy as np
import onnx
import pytest

import popart

OPSETS = {"ai.onnx": 10, "ai.graphcore": 1}


class Own:
    def __float__(self):
        return 0.5


class Broken:
    def __float__(self):
        raise ValueError("no number")


NUMBERS = [
    0.5,
    1,
    True,
    np.float16(0.5),
    np.int64(2),
    np.bool_(True),
    np.array(0.5, np.float32),
    np.array([0.5]),
    Own(),
]
NO_NUMBERS = ["1", b"1", 1j, np.complex64(1), [1.0], None, np.array([1.0, 2.0]), np.array("1"), Broken()]
METHODS = {
    "mean": lambda b, value: b.aiOnnx.randomnormal(shape=[3], mean=value),
    "scale": lambda b, value: b.aiOnnx.randomnormal(shape=[3], scale=value),
    "low": lambda b, value: b.aiOnnx.randomuniform(shape=[3], low=value),
    "high": lambda b, value: b.aiOnnx.randomuniform(shape=[3], high=value),
    "alpha": lambda b, value: b.aiOnnx.leakyrelu([b.addInputTensor("FLOAT", [2])], value),
    "increment": lambda b, value: b.aiGraphcore.incrementmod([b.addInputTensor("FLOAT", [2])], value, 7),
}


def attributes(builder, kind=onnx.helper.get_attribute_value):
    node = onnx.load_from_string(builder.getModelProto()).graph.node[-1]
    return {attribute.name: kind(attribute) for attribute in node.attribute}


@pytest.mark.parametrize("name", METHODS)
def test_whatever_stands_for_a_number_is_one(name):
    for value in NUMBERS:
        builder = popart.Builder(opsets=OPSETS)
        METHODS[name](builder, value)
        assert attributes(builder).get(name, 0.0 if name in ("mean", "low") else 1.0) == float(
            np.ravel(value)[0] if isinstance(value, np.ndarray) else value
        )
    for value in NO_NUMBERS:
        with pytest.raises(TypeError, match="incompatible function arguments"):
            METHODS[name](popart.Builder(opsets=OPSETS), value)


@pytest.mark.shows("popart.Builder.setPartialsType", "popart.Builder.getPartialsType")
@pytest.mark.parametrize("text", ["half", "HALF", "Half", "float", "FLOAT", "double", ""])
@pytest.mark.parametrize("kind", ["matmul", "conv"])
def test_types_of_partial_sums_are_texts_that_sessions_judge(kind, text):
    builder = popart.Builder(opsets=OPSETS)
    shape = [2, 2] if kind == "matmul" else [1, 2, 3, 3]
    x = builder.addInputTensor("FLOAT16", shape)
    w = builder.addInitializedInputTensor(np.ones([2, 2] if kind == "matmul" else [2, 2, 1, 1], np.float16))
    y = getattr(builder.aiOnnx, kind)([x, w])
    assert builder.getPartialsType(y) == "FLOAT"
    builder.setPartialsType(y, text)
    assert builder.getPartialsType(y) == text

    def session():
        device = popart.DeviceManager().createCpuDevice()
        return popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)

    if text.upper() in ("HALF", "FLOAT"):
        session().prepareDevice()
        is_half = 'partials="half"' in session()._program.text()
        assert is_half == (text.upper() == "HALF")
    else:
        with pytest.raises(popart.popart_exception, match=f"no type of partial sums.*'{text}'.*FLOAT and HALF"):
            session()


LAYERS = {"rnn": (1, 2), "gru": (3, 2), "lstm": (4, 3)}


def layer(kind, **more):
    builder = popart.Builder(opsets=OPSETS)
    gates, outputs = LAYERS[kind]
    operands = [builder.addInputTensor("FLOAT", [3, 1, 4], "x")]
    for name in ("w", "r"):
        operands.append(builder.addInitializedInputTensor(np.full((1, 4 * gates, 4), 0.1, np.float32), name))
    return builder, getattr(builder.aiOnnx, kind)(operands, outputs, **more)


def run(builder, y):
    device = popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": np.ones((3, 1, 4), np.float32)}, anchors))
    return anchors[y]


@pytest.mark.parametrize("kind", LAYERS)
def test_a_direction_is_written_where_it_is_not_forward(kind):
    plain, ids = layer(kind)
    named, _ = layer(kind, direction="forward")
    assert "direction" not in attributes(plain) and "direction" not in attributes(named)
    wanted = run(plain, ids[0])
    plain.addNodeAttribute("direction", "forward", set(ids))
    np.testing.assert_array_equal(run(plain, ids[0]), wanted)
    other, _ = layer(kind, direction="reverse")
    assert attributes(other)["direction"] == b"reverse"


def test_an_rnn_has_one_activation():
    builder, ids = layer("rnn")
    builder.addNodeAttribute("activations", [], set(ids))
    with pytest.raises(popart.popart_exception, match="an empty list of activations"):
        run(builder, ids[0])


@pytest.mark.parametrize(
    "call, name, default",
    [
        (lambda b, x, **more: b.aiOnnx.pad([x], [0, 0, 1, 1], **more), "mode", "constant"),
        (
            lambda b, x, **more: b.aiOnnx.upsample([x, b.aiOnnx.constant(np.ones(2, np.float32))], **more),
            "mode",
            "nearest",
        ),
    ],
)
def test_texts_that_are_their_default_are_not_written(call, name, default):
    for more in ({}, {name: default}):
        builder = popart.Builder(opsets=OPSETS)
        call(builder, builder.addInputTensor("FLOAT", [2, 3]), **more)
        assert name not in attributes(builder)
    builder = popart.Builder(opsets=OPSETS)
    call(builder, builder.addInputTensor("FLOAT", [2, 3]), **{name: "linear" if default == "nearest" else "edge"})
    assert name in attributes(builder)


@pytest.mark.parametrize("pads", [[], [1], [1, 1], [0] * 3, [0] * 6])
def test_pads_are_two_for_each_dimension(pads):
    builder = popart.Builder(opsets=OPSETS)
    x = builder.addInputTensor("FLOAT", [2, 3])
    with pytest.raises(popart.popart_exception, match="2 numbers are needed for each of the 2 dimensions"):
        builder.aiOnnx.pad([x], pads)
    assert builder.getTensorShape(builder.aiOnnx.pad([x], [1, 0, 0, 2])) == [3, 5]
    unknown = builder.aiOnnx.concat([x, x], -1)  # whose shape the session finds
    assert builder.aiOnnx.pad([unknown], pads or [1])

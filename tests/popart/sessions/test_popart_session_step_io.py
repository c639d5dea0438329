"""What goes into a run and comes out of it: arrays with offsets, callbacks, checks."""

import numpy as np
import onnx
import pytest
from popart_session_models import identity, inference, ipu_model, linear, model, step, training

import popart

A = popart.AnchorReturnType


# --- arrays
@pytest.mark.shows("popart.PyStepIO", "popart.InferenceSession.run")
def test_outputs_are_written_in_place():
    session = inference(identity([2]), batches=2)
    arrays = session.initAnchorArrays()
    place = arrays["y"].ctypes.data
    x = np.arange(4, dtype=np.float32)
    io = popart.PyStepIO({"x": x}, arrays)
    session.run(io)
    np.testing.assert_array_equal(arrays["y"], -x.reshape(2, 2))
    x += 10  # the arrays are read anew in every run
    session.run(io)
    np.testing.assert_array_equal(arrays["y"], -x.reshape(2, 2))
    assert arrays["y"].ctypes.data == place and io.input_offsets == {"x": 0}


@pytest.mark.shows("popart.IStepIO.enableRuntimeAsserts")
def test_without_asserts_arrays_go_on_and_begin_again():
    session = inference(identity([2]), batches=3)
    x = np.arange(4, dtype=np.float32)  # two micro-batches for three
    y = np.zeros(10, np.float32)  # room for five
    io = popart.PyStepIO({"x": x}, {"y": y})
    with pytest.raises(
        popart.popart_runtime_error, match="unexpected number of input elements for 'x': expected 6 .* 4"
    ):
        session.run(io)
    io.enableRuntimeAsserts(False)
    session.run(io)
    np.testing.assert_array_equal(y, [0, -1, -2, -3, 0, -1, 0, 0, 0, 0])
    session.run(io)  # inputs go on with the second, outputs with the fourth
    np.testing.assert_array_equal(y, [-2, -3, -2, -3, 0, -1, -2, -3, 0, -1])
    assert io.input_offsets == {"x": 0} and io.output_offsets == {"y": 2}
    uneven = popart.PyStepIO({"x": np.zeros(3, np.float32)}, {"y": y})
    uneven.enableRuntimeAsserts(False)
    with pytest.raises(popart.popart_runtime_error, match="micro-batches of 2 elements do not fill an array of 3"):
        session.run(uneven)


F = np.float32


@pytest.mark.parametrize(
    "inputs, outputs, message",
    [
        ({}, {"y": np.zeros((2, 3), F)}, "no tensor 'x' was provided in PyStepIO's inputs"),
        ({"x": np.zeros((2, 3), F)}, {}, "no tensor 'y' was provided in PyStepIO's outputs"),
        ({"x": np.zeros((2, 3), F), "y": np.zeros((2, 4), F)}, {"y": np.zeros((2, 4), F)}, "'y' in PyStepIO's inputs"),
        ({"x": np.zeros((2, 3), F), "no": np.zeros(1, F)}, {"y": np.zeros((2, 4), F)}, "'no' in PyStepIO's inputs"),
        ({"x": np.zeros((2, 3), F)}, {"y": np.zeros((2, 4), F), "x": np.zeros(6, F)}, "'x' in PyStepIO's outputs"),
        (
            {"x": np.zeros((2, 2), F)},
            {"y": np.zeros((2, 4), F)},
            "unexpected number of input elements .* expected 6 .* 4",
        ),
        (
            {"x": np.zeros((2, 3), F)},
            {"y": np.zeros((2, 3), F)},
            "unexpected number of output elements .* expected 8 .* 6",
        ),
        ({"x": np.zeros((2, 3))}, {"y": np.zeros((2, 4), F)}, "type discrepancy: the array of 'x' has float64"),
        ({"x": np.zeros((2, 3), F)}, {"y": np.zeros((2, 4), np.int32)}, "type discrepancy: the array of 'y' has int32"),
        (
            {"x": np.zeros((2, 3), F), "w": np.zeros(3, F)},
            {"y": np.zeros((2, 4), F)},
            "unexpected number of input elements for 'w': expected 12",
        ),
    ],
)
def test_arrays_that_do_not_fit(inputs, outputs, message):
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    session = inference(linear(weight))
    with pytest.raises(popart.popart_runtime_error, match=message) as raised:
        session.run(popart.PyStepIO(inputs, outputs))
    assert raised.type is popart.popart_runtime_error
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(step(session, x=x)["y"], x @ weight)  # the session lives on


def test_types_are_checked_without_asserts_too():
    session = inference(identity([2]))
    io = popart.PyStepIO({"x": np.zeros(2)}, session.initAnchorArrays())
    io.enableRuntimeAsserts(False)
    with pytest.raises(popart.popart_runtime_error, match="type discrepancy"):
        session.run(io)


def test_a_key_of_an_initialiser_is_tolerated():
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    session = inference(linear(weight))
    x = np.ones((2, 3), np.float32)
    arrays = step(session, x=x, w=np.zeros((3, 4), np.float32))
    np.testing.assert_array_equal(arrays["y"], x @ weight)


def test_64_bit_integers_are_cast_for_32_bit_ones():
    session = inference(identity([2], onnx.TensorProto.INT32))
    np.testing.assert_array_equal(step(session, x=np.array([1, -2]))["y"], np.array([-1, 2], np.int32))
    out = {"y": np.zeros(2, np.int64)}
    session.run(popart.PyStepIO({"x": np.array([3, 4], np.int32)}, out))
    np.testing.assert_array_equal(out["y"], [-3, -4])


def test_an_unused_input_may_be_missing_or_given():
    data = model(
        [onnx.helper.make_node("Neg", ["x"], ["y"])],
        [("x", onnx.TensorProto.FLOAT, [2]), ("unused", onnx.TensorProto.FLOAT, [5])],
    )
    session = inference(data)
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(step(session, x=x)["y"], -x)
    np.testing.assert_array_equal(step(session, x=x, unused=np.zeros(5, np.float32))["y"], -x)
    calls = Callbacks(x[None], np.zeros(2, np.float32))
    session.run(calls.io())
    assert {id for what, id, *_ in calls.calls if what == "give"} == {"x"}


def test_an_unused_input_takes_no_memory():
    data = model(
        [onnx.helper.make_node("Neg", ["x"], ["y"])],
        [("x", onnx.TensorProto.FLOAT, [2]), ("unused", onnx.TensorProto.FLOAT, [2**31 - 1, 4])],
    )
    session = inference(data)
    assert session.getInfo("unused").shape() == [2**31 - 1, 4]
    np.testing.assert_array_equal(step(session, x=np.ones(2, np.float32))["y"], [-1, -1])


def test_all_replicas_get_the_elements_of_a_broadcast_input():
    data = model(
        [onnx.helper.make_node("Add", ["x", "b"], ["y"])],
        [("x", onnx.TensorProto.FLOAT, [2]), ("b", onnx.TensorProto.FLOAT, [2])],
        metadata={"__tile_set/b": "0", "__exchange_strategy/b": "0", "__replicated_stream_mode/b": "0"},
    )
    session = inference(data, batches=3, device=ipu_model(2), enableReplicatedGraphs=True, replicatedGraphCount=2)
    x, b = np.arange(12, dtype=np.float32).reshape(3, 2, 2), 100 * np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(step(session, x=x, b=b)["y"], x + b[:, None])
    asked = []

    def give(id, prefetch):
        asked.append(id)
        return x.reshape(6, 2)[asked.count("x") - 1] if id == "x" else b[asked.count("b") - 1]

    got = []
    out = np.zeros(2, np.float32)
    session.run(popart.PyStepIOCallback(give, lambda id: None, lambda id: out, lambda id: got.append(out.copy())))
    assert asked.count("x") == 6 and asked.count("b") == 3
    np.testing.assert_array_equal(np.reshape(got, (3, 2, 2)), x + b[:, None])


# --- callbacks
class Callbacks:
    def __init__(self, x, out):
        self.x, self.out = x, out
        self.calls, self.taken = [], []

    def io(self):
        return popart.PyStepIOCallback(self.give, self.given, self.room, self.filled)

    def give(self, id, prefetch):
        self.calls.append(("give", id, prefetch))
        return self.x[sum(call[0] == "given" for call in self.calls) % len(self.x)]

    def given(self, id):
        self.calls.append(("given", id))

    def room(self, id):
        self.calls.append(("room", id))
        return self.out

    def filled(self, id):
        self.calls.append(("filled", id))
        self.taken.append(self.out.copy())

    def count(self, what):
        return sum(call[0] == what for call in self.calls)


@pytest.mark.shows("popart.PyStepIOCallback")
@pytest.mark.parametrize("accumulation, replicas", [(1, 1), (3, 2)])
def test_callbacks_are_called_once_for_each_micro_batch(accumulation, replicas):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(3, 4)).astype(np.float32)
    session = training(
        linear(weight),
        {"y": A("All")},
        2,
        ipu_model(replicas),
        popart.SGD({"defaultLearningRate": (0.0, False)}),
        enableGradientAccumulation=accumulation > 1,
        accumulationFactor=accumulation,
        enableReplicatedGraphs=replicas > 1,
        replicatedGraphCount=replicas,
    )
    count = 2 * accumulation * replicas
    x = rng.normal(size=(count, 2, 3)).astype(np.float32)
    calls = Callbacks(x, np.zeros((2, 4), np.float32))
    for run in (1, 2):
        session.run(calls.io())
        assert [calls.count(what) for what in ("give", "given", "room", "filled")] == [run * count] * 4
    np.testing.assert_allclose(calls.taken, np.concatenate([x @ weight] * 2), rtol=1e-5, atol=1e-6)


def test_callbacks_of_a_last_value_are_called_once():
    session = inference(identity([2]), {"y": A("Final")}, 3)
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    calls = Callbacks(x, np.zeros(2, np.float32))
    session.run(calls.io())
    assert calls.count("give") == 3 and calls.count("filled") == 1
    np.testing.assert_array_equal(calls.taken, -x[2:])


@pytest.mark.parametrize("kind, values", [("All", [0.25] * 4), ("Final", [0.25]), ("Sum", [1.0])])
def test_callbacks_get_numbers_of_the_optimizer(kind, values):
    scalar = "scaledLearningRate0___default___FLOAT"
    session = training(
        linear(np.zeros((3, 4), np.float32)),
        {scalar: A(kind)},
        2,
        optimizer=popart.SGD({"defaultLearningRate": (0.25, False)}),
        enableGradientAccumulation=True,
        accumulationFactor=2,
    )
    calls = Callbacks(np.zeros((4, 2, 3), np.float32), np.full(1, -1, np.float32))
    session.run(calls.io())
    assert [id for what, id, *_ in calls.calls if what == "room"] == [scalar] * len(values)
    np.testing.assert_array_equal(np.ravel(calls.taken), values)
    calls.out = np.zeros(1, np.float64)
    with pytest.raises(popart.popart_exception, match=scalar):
        session.run(calls.io())


class Mine(Exception):
    pass


def _raise(*_):
    raise Mine("no more data")


@pytest.mark.parametrize(
    "change, kind, message",
    [
        ({"give": _raise}, popart.popart_runtime_error, "a callback of the run raised Mine: no more data"),
        ({"filled": _raise}, popart.popart_runtime_error, "raised Mine"),
        ({"give": lambda id, prefetch: None}, popart.popart_runtime_error, "gave no data for 'x'"),
        ({"give": lambda id, prefetch: np.float32(1)}, popart.popart_runtime_error, "gave no data for 'x'"),
        ({"give": lambda id, prefetch: np.zeros(2)}, popart.popart_runtime_error, "type discrepancy"),
        ({"give": lambda id, prefetch: np.zeros(1, np.float32)}, popart.popart_runtime_error, "has 1 elements"),
        ({"give": lambda id, prefetch: np.zeros(4, np.float32)[::2]}, popart.popart_exception, "not C-contiguous"),
        ({"room": lambda id: np.zeros(2, np.float16)}, popart.popart_runtime_error, "type discrepancy"),
    ],
)
def test_an_error_of_a_callback_is_one_of_the_run(change, kind, message):
    session = inference(identity([2]), batches=2)
    calls = Callbacks(np.ones((2, 2), np.float32), np.zeros(2, np.float32))
    for name, function in change.items():
        setattr(calls, name, function)
    with pytest.raises(kind, match=message) as raised:
        session.run(calls.io())
    assert raised.type is kind
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    np.testing.assert_array_equal(step(session, x=x)["y"], -x)


@pytest.mark.parametrize(
    "call",
    [
        lambda: popart.PyStepIO({"x": [1.0, 2.0]}, {}),
        lambda: popart.PyStepIO({}, {"y": None}),
        lambda: popart.PyStepIO([np.zeros(2)], {}),
        lambda: popart.PyWeightsIO({"w": [1.0]}),
        lambda: popart.DataFlow(1, {"y": "All"}),
    ],
)
def test_what_is_no_array_and_no_return_type_is_a_type_error(call):
    with pytest.raises(TypeError, match="incompatible"):
        call()


@pytest.mark.shows("popart.SessionOptions.syntheticDataMode")
@pytest.mark.shows("popart.SyntheticDataMode")
def test_synthetic_data_move_no_arrays():
    session = inference(identity([2]), syntheticDataMode=popart.SyntheticDataMode.RandomNormal)
    arrays = {"y": np.full(2, 7, np.float64)}
    session.run(popart.PyStepIO({"x": np.zeros(5)}, arrays))
    np.testing.assert_array_equal(arrays["y"], [7, 7])


@pytest.mark.shows("popart.TrainingSession.connectStreamToCallback")
def test_a_function_behind_a_stream():
    weight = np.ones((3, 4), np.float32)
    session = training(linear(weight), optimizer=popart.SGD({"defaultLearningRate": (0.0, False)}), batches=2)
    session.connectStreamToCallback("x", lambda: np.ones((2, 3), np.float32), 0)
    got = []
    session.connectStreamToCallback("loss", lambda array: got.append(float(array)))
    session._native.run({}, "main")
    assert got == [24, 24]
    with pytest.raises(popart.popart_exception, match="no stream 'z'"):
        session.connectStreamToCallback("z", print)


def test_a_function_behind_a_stream_takes_the_place_of_the_arrays_of_a_run():
    weight = np.ones((3, 4), np.float32)
    session = training(linear(weight), optimizer=popart.SGD({"defaultLearningRate": (0.0, False)}), batches=2)
    zeros, got = np.zeros((2, 2, 3), np.float32), []
    session.connectStreamToCallback("x", lambda: np.ones((2, 3), np.float32), 0)
    session.connectStreamToCallback("loss", lambda array: got.append(float(array)))
    anchors = {"loss": np.full(2, 7, np.float32)}
    for stepio in (
        popart.PyStepIO({}, {}),
        popart.PyStepIO({"x": zeros}, anchors),
        popart.PyStepIOCallback(*[lambda *_: pytest.fail("it was asked")] * 4),
    ):
        got.clear()
        session.run(stepio)
        assert got == [24, 24]
    assert anchors["loss"].tolist() == [7, 7]
    session.prepareDevice()  # and after the program was loaded anew
    session.weightsFromHost()
    session.run(popart.PyStepIO({}, {}))
    assert got == [24, 24] * 2
    for stream in ("x", "loss"):
        session.connectStreamToCallback(stream, None)
    session.run(popart.PyStepIO({"x": zeros}, anchors))
    assert anchors["loss"].tolist() == [0, 0] and len(got) == 4

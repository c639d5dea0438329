"""Variables of a session: to the device and back, groups of replicas, saved models, files of tensors."""

import os
import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from popart_session_models import (
    identity,
    inference,
    initialisers,
    ipu_model,
    linear,
    model,
    step,
    training,
    weights,
)

import popart

RNG = np.random.default_rng(3)
W = RNG.normal(size=(3, 4)).astype(np.float32)
X = RNG.normal(size=(2, 3)).astype(np.float32)
GRADIENT = X.T @ np.ones((2, 4), np.float32)
STATELESS = popart.SGD({"defaultLearningRate": (0.1, False)})


def adam():
    return popart.Adam({"defaultLearningRate": (0.1, False), "defaultWeightDecay": (0.0, True)})


def nesterov():
    return popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, False), "nesterov": (True, True)})


def scaled_adam():
    return popart.Adam({"lossScaling": (4.0, False)}, scaled_optimizer_state=True)


def centred():
    return popart.Adaptive({"defaultMomentum": (0.5, True)}, mode=popart.AdaptiveMode.CenteredRMSProp)


@pytest.mark.shows(
    "popart.TrainingSession.weightsFromHost",
    "popart.TrainingSession.weightsToHost",
    "popart.TrainingSession.readWeights",
    "popart.TrainingSession.writeWeights",
    "popart.PyWeightsIO",
)
def test_weights_go_to_the_device_and_back():
    session = training(linear(W), optimizer=STATELESS)
    step(session, x=X)
    np.testing.assert_allclose(weights(session, w=W)["w"], W - 0.1 * GRADIENT, rtol=1e-5, atol=1e-6)
    session.writeWeights(popart.PyWeightsIO({"w": 2 * W, "unknown": X}))
    with pytest.raises(popart.popart_runtime_error, match="call weightsFromHost first"):
        step(session, x=X)
    session.weightsFromHost()
    step(session, x=X)
    np.testing.assert_allclose(weights(session, w=W)["w"], 2 * W - 0.1 * GRADIENT, rtol=1e-5, atol=1e-6)


def test_arrays_of_weights_that_do_not_fit():
    session = training(linear(W), optimizer=STATELESS)
    read = (
        (popart.popart_runtime_error, {"w": np.zeros(11, np.float32)}, "has 44 bytes, and the variable 48"),
        (popart.popart_exception, {"w": np.zeros((4, 3), np.float32).T}, "not C-contiguous"),
    )
    for kind, arrays, message in read:
        with pytest.raises(kind, match=message):
            session.readWeights(popart.PyWeightsIO(arrays))
    for array in (np.zeros(12, np.float32), np.zeros((3, 4))):
        with pytest.raises(popart.popart_internal_exception, match="and the variable float32"):
            session.writeWeights(popart.PyWeightsIO({"w": array}))
    flat = np.zeros(12, np.float32)  # only the bytes count
    session.readWeights(popart.PyWeightsIO({"w": flat}))
    np.testing.assert_array_equal(flat, W.reshape(-1))


def test_training_needs_weights_on_the_device_and_a_prepared_device():
    session = training(linear(W), prepare=False)
    for name in ("run", "weightsFromHost", "weightsToHost", "modelToHost"):
        arguments = {"run": [popart.PyStepIO({}, {})], "modelToHost": ["x.onnx"]}.get(name, [])
        with pytest.raises(popart.popart_runtime_error, match=f"{name}: the device is not prepared"):
            getattr(session, name)(*arguments)
    with pytest.raises(popart.popart_exception, match="not prepared"):
        session.loadEngineAndConnectStreams()
    session.prepareDevice()
    with pytest.raises(popart.popart_runtime_error, match="call weightsFromHost first"):
        step(session, x=X)
    session.weightsFromHost()
    assert np.isfinite(step(session, x=X)["loss"])


@pytest.mark.shows("popart.SessionOptions.constantWeights")
def test_weights_of_inference():
    constant = inference(linear(W))
    other = linear(2 * W)
    for change in (
        lambda s: s.writeWeights(popart.PyWeightsIO({"w": 2 * W})),
        lambda s: s.resetHostWeights(other),
    ):
        with pytest.raises(popart.popart_runtime_error, match="constants of its program"):
            change(constant)
    np.testing.assert_allclose(step(constant, x=X)["y"], X @ W, rtol=1e-5)
    session = inference(linear(W), constantWeights=False)
    np.testing.assert_allclose(step(session, x=X)["y"], X @ W, rtol=1e-5)
    session.resetHostWeights(other)
    session.weightsFromHost()
    np.testing.assert_allclose(step(session, x=X)["y"], X @ (2 * W), rtol=1e-5)
    session.writeWeights(popart.PyWeightsIO({"w": 3 * W}))
    session.weightsFromHost()
    np.testing.assert_allclose(step(session, x=X)["y"], X @ (3 * W), rtol=1e-5)


def test_weights_that_must_be_copied_are_so_one_after_another():
    count, size = 8, 1 << 15
    values = [np.full(size, i, np.float32) for i in range(count)]
    nodes = [helper.make_node("Sum", ["x", *(f"w{i}" for i in range(count))], ["y"])]
    data = model(nodes, [("x", TensorProto.FLOAT, [size])], [(f"w{i}", value) for i, value in enumerate(values)])
    session = inference(data, constantWeights=False)
    for i, value in enumerate(values):  # as views of a model's bytes may lie
        session._weights.values[f"w{i}"] = np.frombuffer(b"-" + value.tobytes(), np.float32, offset=1)
    tracemalloc.start()
    try:
        session.weightsFromHost()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * values[0].nbytes
    assert step(session, x=np.zeros(size, np.float32))["y"][0] == sum(range(count))


@pytest.mark.shows("popart.TrainingSession.resetHostWeights")
def test_resetting_weights_from_another_model():
    session = training(linear(W), optimizer=STATELESS)
    more = model([onnx.helper.make_node("Neg", ["w"], ["n"])], [], [("w", 2 * W), ("other", W)])
    with pytest.raises(popart.popart_runtime_error, match="initialiser 'other'"):
        session.resetHostWeights(more)
    with pytest.raises(popart.popart_runtime_error, match=r"float32 \(12,\), and the session's is float32 \(3, 4\)"):
        session.resetHostWeights(model([onnx.helper.make_node("Neg", ["w"], ["n"])], [], [("w", W.reshape(-1))]))
    session.resetHostWeights(more, ignoreWeightsInModelWithoutCorrespondingHostWeight=True)
    with pytest.raises(popart.popart_runtime_error, match="call weightsFromHost first"):
        step(session, x=X)
    session.weightsFromHost()
    np.testing.assert_array_equal(weights(session, w=W)["w"], 2 * W)


# --- groups of replicas
def _settings(kind, size, mode):
    return {
        "__variable_settings/w": str(mode.value),
        "__comm_group_type/w": str(kind.value),
        "__comm_group_size/w": str(size),
    }


ONE, ALL = popart.VariableRetrievalMode.OnePerGroup, popart.VariableRetrievalMode.AllReplicas


@pytest.mark.shows("popart.VariableSettings", "popart.VariableRetrievalMode")
@pytest.mark.parametrize(
    "kind, size, mode, groups, returned",
    [
        (popart.CommGroupType.All, 0, ONE, [0, 0, 0, 0], 1),
        (popart.CommGroupType.All, 0, ALL, [0, 0, 0, 0], 4),
        (popart.CommGroupType.Consecutive, 2, ONE, [0, 0, 1, 1], 2),
        (popart.CommGroupType.Consecutive, 2, ALL, [0, 0, 1, 1], 4),
        (popart.CommGroupType.Orthogonal, 2, ONE, [0, 1, 0, 1], 2),
        (popart.CommGroupType.Ungrouped, 0, ONE, [0, 1, 2, 3], 4),
    ],
)
def test_variables_of_groups_of_replicas(tmp_path, kind, size, mode, groups, returned):
    count = max(groups) + 1
    weight = RNG.normal(size=(count, 3, 4)).astype(np.float32)
    data = linear_of_groups(weight if count > 1 else weight[0], _settings(kind, size, mode))
    session = training(
        data, ["y"], device=ipu_model(4), optimizer=STATELESS, enableReplicatedGraphs=True, replicatedGraphCount=4
    )
    x = RNG.normal(size=(4, 2, 3)).astype(np.float32)
    y = step(session, x=x)["y"]
    np.testing.assert_allclose(y, np.stack([x[r] @ weight[groups[r]] for r in range(4)]), rtol=1e-4, atol=1e-5)
    gradients = np.zeros_like(weight)
    for replica, group in enumerate(groups):
        gradients[group] += x[replica].T @ np.ones((2, 4), np.float32)
    expected = weight - 0.1 * gradients
    host = np.empty(((returned,) if returned > 1 else ()) + (3, 4), np.float32)
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO({"w": host}))
    wanted = expected[groups] if returned == 4 else expected
    np.testing.assert_allclose(host.reshape(-1), wanted.reshape(-1), rtol=1e-4, atol=1e-5)
    session.modelToHost(tmp_path / "m.onnx")
    saved = numpy_helper.to_array(initialisers((tmp_path / "m.onnx").read_bytes())["w"])
    np.testing.assert_allclose(saved, expected if count > 1 else expected[0], rtol=1e-4, atol=1e-5)
    session.writeWeights(popart.PyWeightsIO({"w": host}))
    session.weightsFromHost()
    np.testing.assert_allclose(weights(session, w=host)["w"], host)


def linear_of_groups(weight, metadata):
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["y"]),
        onnx.helper.make_node("ReduceSum", ["y"], ["loss"], axes=[0, 1], keepdims=0),
    ]
    return model(nodes, [("x", onnx.TensorProto.FLOAT, [2, 3])], [("w", weight)], metadata)


def test_initial_values_that_are_not_one_for_each_group():
    settings = _settings(popart.CommGroupType.Consecutive, 2, ONE)
    with pytest.raises(popart.popart_internal_exception, match="'w' have shape .* must be the 2 groups"):
        training(
            linear_of_groups(W, settings),
            device=ipu_model(4),
            prepare=False,
            enableReplicatedGraphs=True,
            replicatedGraphCount=4,
        )


# --- saved models
@pytest.mark.shows("popart.TrainingSession.modelToHost")
@pytest.mark.parametrize(
    "optimizer, states",
    [
        (lambda: STATELESS, []),
        (lambda: popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, False)}), ["Accl___w"]),
        (adam, ["Accl1___w", "Accl2___w", "Step___w"]),
        (nesterov, ["Accl___w", "Accl___w_nesterovGrad"]),
        (scaled_adam, ["Accl1___w", "Accl2___w", "PreviousLossScaling_FLOAT", "Step___w"]),
        (centred, ["Accl1___w", "Accl2___w", "Accl3___w"]),
    ],
)
def test_a_saved_model_continues_training_exactly(tmp_path, optimizer, states):
    session = training(linear(W), optimizer=optimizer())
    xs = RNG.normal(size=(4, 2, 3)).astype(np.float32)
    for x in xs[:2]:
        step(session, x=x)
    path = tmp_path / "saved.onnx"
    session.modelToHost(str(path))
    saved = path.read_bytes()
    session.modelToHost(str(path))
    assert path.read_bytes() == saved
    assert list(initialisers(saved)) == ["w", *states]
    if "Step___w" in states:
        count = initialisers(saved)["Step___w"]
        assert list(count.dims) == [] and list(count.float_data) == [2.0]
    again = training(saved, optimizer=optimizer())
    for x in xs[2:]:
        step(session, x=x)
        step(again, x=x)
    np.testing.assert_array_equal(weights(again, w=W)["w"], weights(session, w=W)["w"])
    assert not np.array_equal(weights(again, w=W)["w"], W)


def test_saving_before_weights_were_sent_gives_the_values_of_the_model(tmp_path):
    session = training(linear(W), optimizer=adam(), prepare=False)
    session.prepareDevice()
    session.modelToHost(tmp_path / "m.onnx")
    tensors = initialisers((tmp_path / "m.onnx").read_bytes())
    np.testing.assert_array_equal(numpy_helper.to_array(tensors["w"]), W)
    assert not numpy_helper.to_array(tensors["Accl1___w"]).any()


def test_a_model_without_variables_is_saved_byte_by_byte(tmp_path):
    for data in (identity([2]), linear(W)):
        session = inference(data)
        session.modelToHost(tmp_path / "m.onnx")
        assert (tmp_path / "m.onnx").read_bytes() == data


def test_values_are_stored_in_the_field_that_held_them(tmp_path):
    for dtype in (np.float32, np.float16):
        proto = onnx.load_from_string(linear(W.astype(dtype)))
        tensor = proto.graph.initializer[0]
        raw = np.frombuffer(tensor.raw_data, dtype).copy()
        tensor.ClearField("raw_data")
        if dtype is np.float32:
            tensor.float_data.extend(raw.tolist())
        else:
            tensor.int32_data.extend(raw.view(np.int32).tolist())
        session = training(proto.SerializeToString(), optimizer=STATELESS)
        step(session, x=X.astype(dtype))
        session.modelToHost(tmp_path / "m.onnx")
        saved = initialisers((tmp_path / "m.onnx").read_bytes())["w"]
        assert not saved.HasField("raw_data")
        values = np.array(saved.float_data, np.float32)
        if dtype is np.float16:
            assert len(saved.int32_data) == 6
            values = np.array(saved.int32_data, np.int32).view(np.float16)
        np.testing.assert_array_equal(values.reshape(3, 4), weights(session, w=W.astype(dtype))["w"])
        assert not np.array_equal(values.reshape(3, 4), W.astype(dtype))


def test_a_state_of_another_type():
    data = onnx.load_from_string(linear(W))
    data.graph.initializer.append(numpy_helper.from_array(np.zeros((3, 4), np.float16), "Accl1___w"))
    with pytest.raises(
        popart.popart_exception, match="state 'Accl1___w' as float16, and the optimizer makes it float32"
    ):
        training(data.SerializeToString(), optimizer=adam())


def test_a_state_of_another_shape():
    data = onnx.load_from_string(linear(W))
    data.graph.initializer.append(numpy_helper.from_array(np.zeros((3, 5), np.float32), "Accl1___w"))
    with pytest.raises(
        popart.popart_exception, match=r"'Accl1___w' with the shape \(3, 5\), and the optimizer makes it \(3, 4\)"
    ):
        training(data.SerializeToString(), optimizer=adam())


# --- tensors in files of their own
def _external(path):
    proto = onnx.load_from_string(linear(W))
    tensor = proto.graph.initializer[0]
    path.write_bytes(b"head" + tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", str(path)), ("offset", "4"), ("length", "48")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return proto.SerializeToString()


@pytest.mark.shows("popart.TrainingSession.updateExternallySavedTensorLocations")
def test_tensors_in_a_file_are_written_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, moved, target = tmp_path / "w.bin", tmp_path / "moved.bin", tmp_path / "m.onnx"
    session = training(_external(path), optimizer=adam())
    step(session, x=X)
    session.modelToHost(target)
    values = weights(session, w=W)["w"]
    data = path.read_bytes()
    assert data[:4] == b"head" and data[4:52] == values.tobytes() and not np.array_equal(values, W)
    saved = initialisers(target.read_bytes())
    assert list(saved) == ["w", "Accl1___w", "Accl2___w", "Step___w"]
    assert {e.key: e.value for e in saved["Accl1___w"].external_data}["location"] == str(path)
    assert len(data) == 4 + 48 * 3 + 4
    again = training(target.read_bytes(), optimizer=adam())
    step(session, x=X)
    step(again, x=X)
    np.testing.assert_array_equal(weights(again, w=W)["w"], weights(session, w=W)["w"])
    session.updateExternallySavedTensorLocations(str(path), str(moved))
    before = path.read_bytes()
    session.modelToHost(target)
    assert path.read_bytes() == before and moved.read_bytes()[:48] == weights(session, w=W)["w"].tobytes()
    os.remove(moved)
    with pytest.raises(popart.popart_runtime_error, match="cannot be opened"):
        session.modelToHost(target)
    assert np.isfinite(step(session, x=X)["loss"])


def test_locations_that_cannot_be_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "w.bin"
    session = training(_external(path), optimizer=STATELESS)
    other = tmp_path / "other.bin"
    other.write_bytes(b"")
    for old, new, message in (
        (path, other, "exists already"),
        (tmp_path / "no.bin", tmp_path / "new.bin", "does not exist"),
        (other, tmp_path / "new.bin", "no initialiser of the model lies in"),
    ):
        with pytest.raises(popart.popart_runtime_error, match=message):
            session.updateExternallySavedTensorLocations(str(old), str(new))


def test_a_missing_file_of_tensors(tmp_path):
    data = _external(tmp_path / "w.bin")
    os.remove(tmp_path / "w.bin")
    with pytest.raises(RuntimeError, match="with the data of tensor 'w' is not there") as raised:
        training(data)
    assert raised.type is RuntimeError


# --- what weightsFromHost sends
OPTIMIZERS = {
    "sgd with momentum": lambda: popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, False)}),
    "separate sgd": lambda: popart.SGD(
        {"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, False)},
        accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate,
    ),
    "nesterov": nesterov,
    "adam": adam,
    "scaled adam": scaled_adam,
    "adamax": lambda: popart.Adam({"defaultLearningRate": (0.1, False)}, mode=popart.AdamMode.AdaMax),
    "lamb": lambda: popart.Adam({"defaultLearningRate": (0.1, False)}, mode=popart.AdamMode.Lamb),
    "centred rmsprop": centred,
    "adadelta": lambda: popart.Adaptive({}, mode=popart.AdaptiveMode.AdaDelta),
    "adagrad": lambda: popart.Adaptive({}, mode=popart.AdaptiveMode.AdaGrad),
}


def _two_batches(session):
    return step(session, x=np.stack([X, X]))["y"]


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_weights_from_the_host_bring_the_state_of_the_optimizer(tmp_path, optimizer, accumulation):
    """Equal steps after it are equal, from the first values as from those that were brought to the host."""
    more = {"enableGradientAccumulation": True, "accumulationFactor": 2} if accumulation == 2 else {}
    session = training(linear(W), anchors=("y",), batches=2 // accumulation, optimizer=OPTIMIZERS[optimizer](), **more)
    states = [id for id in session.getTensorIds() if session._tensors.get(id, ("", "", ""))[2] == "state"]

    def host():
        return {id: session._weights.values[id].copy() for id in states}

    first = _two_batches(session)
    session.weightsFromHost()
    np.testing.assert_array_equal(_two_batches(session), first)
    session.weightsToHost()
    one_step = host()
    session.weightsFromHost()
    later = _two_batches(session)
    assert (later != first).any()
    session.weightsFromHost()  # the host's copy is the one of before
    np.testing.assert_array_equal(_two_batches(session), later)
    session.modelToHost(str(tmp_path / "model.onnx"))  # brings the newest
    two_steps = host()
    assert any((two_steps[id] != one_step[id]).any() for id in states)
    resumed = training(
        str(tmp_path / "model.onnx"), ("y",), 2 // accumulation, optimizer=OPTIMIZERS[optimizer](), **more
    )
    third = _two_batches(session)
    np.testing.assert_array_equal(_two_batches(resumed), third)
    session.weightsFromHost()
    np.testing.assert_array_equal(_two_batches(session), third)


def test_steps_are_counted_from_what_the_host_sends():
    session = training(linear(W), optimizer=adam())
    for _ in range(2):
        session.weightsFromHost()
        step(session, x=X)
    assert weights(session, Step___w=np.zeros((), np.float32))["Step___w"] == 1
    step(session, x=X)
    assert weights(session, Step___w=np.zeros((), np.float32))["Step___w"] == 2


def test_a_saved_model_has_the_states_of_the_device_after_new_weights(tmp_path):
    session = training(linear(W), optimizer=adam())
    step(session, x=X)
    session.writeWeights(popart.PyWeightsIO({"w": 2 * W}))
    session.modelToHost(str(tmp_path / "model.onnx"))
    saved = initialisers((tmp_path / "model.onnx").read_bytes())
    assert numpy_helper.to_array(saved["Step___w"]) == 1
    np.testing.assert_array_equal(numpy_helper.to_array(saved["w"]), 2 * W)


@pytest.mark.shows(
    "popart.SessionOptions.disableOptimizerStateTensorStreams",
    "popart.SessionOptions.disableGradAccumulationTensorStreams",
)
@pytest.mark.parametrize(
    "optimizer, option, state",
    [
        (popart.Adam({"defaultLearningRate": (0.1, False)}), "disableOptimizerStateTensorStreams", "Accl1___w"),
        (popart.SGD({"defaultMomentum": (0.9, True)}), "disableGradAccumulationTensorStreams", "Accl___w"),
    ],
)
def test_states_without_streams_stay_on_the_device(tmp_path, optimizer, option, state):
    weight = np.ones((3, 4), np.float32)
    results = []
    for disabled in (False, True):
        session = training(linear(weight), optimizer=optimizer, **{option: disabled})
        for _ in range(3):
            step(session, x=np.ones((2, 3), np.float32))
        got = weights(session, w=weight, **{state: np.zeros_like(weight)})
        session.modelToHost(str(tmp_path / "model.onnx"))
        saved = initialisers((tmp_path / "model.onnx").read_bytes())
        assert (state in saved) is not disabled
        assert ("w" in saved) and (session.getInfo(state).shape() == [3, 4])
        results.append(got["w"])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("disabled", [False, True])
def test_states_without_streams_are_not_sent(disabled):
    session = training(linear(W), ("y",), 2, optimizer=adam(), disableOptimizerStateTensorStreams=disabled)
    first = _two_batches(session)
    session.weightsFromHost()
    assert (_two_batches(session) == first).all() == (not disabled)

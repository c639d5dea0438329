"""Random numbers of sessions: seeds, states of generators, stochastic rounding."""

import numpy as np
import onnx
import pytest
from popart_session_models import cpu, identity, inference, ipu_model, model, step, training

import popart


def normal(dtype="FLOAT"):
    node = onnx.helper.make_node(
        "RandomNormal", [], ["r"], shape=[64], dtype=getattr(onnx.TensorProto, dtype), mean=0.0, scale=1.0
    )
    add = onnx.helper.make_node("Add", ["x", "r"], ["y"])
    return model([node, add], [("x", onnx.TensorProto.FLOAT, [64])])


def draws(session, count=1):
    return [step(session, x=np.zeros(64, np.float32))["y"] for _ in range(count)]


@pytest.mark.shows("popart.InferenceSession.setRandomSeed", "popart.InferenceSession.getRandomSeed")
def test_a_seed_decides_about_a_sequence_of_steps():
    session = inference(normal())
    session.setRandomSeed(7)
    assert session.getRandomSeed() == 7
    first = draws(session, 3)
    assert len({values.tobytes() for values in first}) == 3
    seed = session.getRandomSeed()
    fourth = draws(session)
    session.setRandomSeed(7)
    np.testing.assert_array_equal(draws(session, 3), first)
    other = inference(normal())
    other.setRandomSeed(seed)
    np.testing.assert_array_equal(draws(other), fourth)


def test_a_seed_is_an_integer():
    session = inference(normal())
    session.setRandomSeed(np.int64(9))
    assert session.getRandomSeed() == 9
    with pytest.raises(TypeError):
        session.setRandomSeed(1.5)
    assert session.getRandomSeed() == 9


def test_sessions_begin_with_the_same_seed():
    np.testing.assert_array_equal(draws(inference(normal()), 2), draws(inference(normal()), 2))


def test_seeds_before_preparing_and_without_random_numbers(capfd):
    session = inference(normal(), prepare=False)
    for call in (session.getRandomSeed, lambda: session.setRandomSeed(1)):
        with pytest.raises(popart.popart_runtime_error, match="call prepareDevice first"):
            call()
    session.prepareDevice()
    draws(session)
    for prepare in (False, True):
        still = inference(identity([2]), prepare=prepare)
        still.setRandomSeed(5)
        assert still.getRandomSeed() == 0
    assert "no random numbers" in capfd.readouterr().err


def rounding(device=None, **more):
    nodes = [onnx.helper.make_node("Mul", ["x", "x"], ["y"])]
    data = model(nodes, [("x", onnx.TensorProto.FLOAT16, [4096])])
    return inference(data, device=device, enableStochasticRounding=True, enableLoadAndOffloadRNGState=True, **more)


X16 = np.full(4096, 1 + 2**-10, np.float16)  # its square lies between two halfs


def rounded(session):
    return step(session, x=X16)["y"]


@pytest.mark.shows("popart.SessionOptions.enableStochasticRounding")
@pytest.mark.shows("popart.InferenceSession.getRNGState", "popart.InferenceSession.setRNGState")
def test_stochastic_rounding_depends_on_seed_and_state():
    session = rounding()
    session.setRandomSeed(3)
    state = session.getRNGState()
    assert state and all(isinstance(word, int) for word in state)
    first = rounded(session)
    assert len(np.unique(first)) == 2
    assert session.getRNGState() != state
    second = rounded(session)
    assert (first != second).any()
    session.setRandomSeed(3)
    session.setRNGState(state)
    assert session.getRNGState() == state
    np.testing.assert_array_equal(rounded(session), first)
    session.setRandomSeed(3)
    session.setRNGState([word + 1 for word in state])
    assert (rounded(session) != first).any()
    with pytest.raises(popart.popart_runtime_error, match=f"has {len(state)} numbers, and 1 are given"):
        session.setRNGState([1])


def test_the_state_belongs_to_the_device():
    device = cpu()
    session, other = rounding(device), rounding(device)
    session.setRandomSeed(3)
    state = session.getRNGState()
    first = rounded(session)
    session.setRandomSeed(3)
    rounded(other)
    session.loadEngineAndConnectStreams()
    assert session.getRNGState() != state
    session.setRNGState(state)
    np.testing.assert_array_equal(rounded(session), first)


# --- the state decides about rounding alone, the seed about random ops alone
HALFWAY = np.full(64, 1 + 23 * 2**-10, np.float16)  # its square lies halfway between two halfs
STATE = {"enableStochasticRounding": True, "enableLoadAndOffloadRNGState": True}


def product(is_training, has_dropout):
    """y = dropout(x) * w, and r, what dropout leaves of x."""
    nodes = [
        onnx.helper.make_node(
            "Dropout" if has_dropout else "Identity", ["x"], ["r"], **{"ratio": 0.5} if has_dropout else {}
        ),
        onnx.helper.make_node("Mul", ["r", "w"], ["y"]),
        onnx.helper.make_node("ReduceSum", ["y"], ["loss"], axes=[0], keepdims=0),
    ]
    data = model(nodes, [("x", onnx.TensorProto.FLOAT16, [64])], [("w", HALFWAY)])
    if is_training:
        return training(data, anchors=("r", "y", "loss"), **STATE)
    return inference(data, anchors=("r", "y"), constantWeights=False, **STATE)


def result(session):
    got = step(session, x=HALFWAY)
    return got["r"].tobytes(), got["y"].tobytes()


BETWEEN = {
    "nothing": lambda session: None,
    "a run": result,
    "five runs": lambda session: [result(session) for _ in range(5)],
    "another state": lambda session: (session.setRNGState([9] * len(session.getRNGState())), result(session)),
    "a seed": lambda session: (session.setRandomSeed(11), result(session)),
    "weights from the host": lambda session: (session.weightsToHost(), session.weightsFromHost()),
    "a reload": lambda session: session.loadEngineAndConnectStreams(),
}


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("between", BETWEEN)
def test_equal_states_round_alike_whatever_ran_in_between(is_training, between):
    session = product(is_training, has_dropout=False)
    session.weightsFromHost()
    state = session.getRNGState()
    results = []
    for _ in range(2):
        session.weightsFromHost()
        session.setRNGState(state)
        results.append(result(session))
        session.weightsFromHost()
        BETWEEN[between](session)
        session.writeWeights(popart.PyWeightsIO({"w": HALFWAY}))
    assert results[0] == results[1]
    session.weightsFromHost()
    session.setRNGState([word + 1 for word in state])
    assert result(session) != results[0]


def test_dropout_follows_the_seed_and_rounding_the_state():
    session = product(is_training=True, has_dropout=True)
    session.setRandomSeed(5)
    state = session.getRNGState()

    def run(seed, words):
        session.weightsFromHost()
        if seed is not None:
            session.setRandomSeed(seed)
        session.setRNGState(words)
        return result(session)

    dropped, rounded = run(5, state)
    assert run(5, state) == (dropped, rounded)
    other = run(5, [word + 1 for word in state])
    assert other[0] == dropped and other[1] != rounded
    assert run(None, state)[0] != dropped  # the seed went on, the state did not
    assert run(6, state)[0] != dropped


def test_sharded_training_with_dropout_repeats_after_its_state():
    """The seed of rounding is loaded by the first IPU and passed on."""
    nodes = [
        onnx.helper.make_node("Dropout", ["x"], ["r"], ratio=0.5, __ipu_number=0),
        onnx.helper.make_node("Mul", ["r", "w"], ["a"], __ipu_number=0),
        onnx.helper.make_node("Mul", ["a", "a"], ["y"], __ipu_number=1),
        onnx.helper.make_node("ReduceSum", ["y"], ["loss"], axes=[0], keepdims=0, __ipu_number=1),
    ]
    data = model(nodes, [("x", onnx.TensorProto.FLOAT16, [64])], [("w", HALFWAY)])
    manual = popart.VirtualGraphMode.Manual
    session = training(data, ("r", "y"), device=ipu_model(2), virtualGraphMode=manual, **STATE)
    state = session.getRNGState()
    results = []
    for _ in range(2):
        session.weightsFromHost()
        session.setRandomSeed(5)
        session.setRNGState(state)
        results.append(result(session))
    assert results[0] == results[1]


@pytest.mark.shows("popart.SessionOptions.enableLoadAndOffloadRNGState")
def test_states_need_their_option():
    session = inference(normal())
    for call in (session.getRNGState, lambda: session.setRNGState([])):
        with pytest.raises(popart.popart_runtime_error, match="enableLoadAndOffloadRNGState"):
            call()
    early = inference(normal(), prepare=False, enableLoadAndOffloadRNGState=True)
    with pytest.raises(popart.popart_runtime_error, match="call prepareDevice first"):
        early.getRNGState()
    synthetic = rounding(syntheticDataMode=popart.SyntheticDataMode.Zeros)
    synthetic.setRNGState([1, 2])
    assert synthetic.getRNGState() == []

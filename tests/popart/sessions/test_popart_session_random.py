"""Random numbers of sessions: seeds, states of generators, stochastic rounding."""

import numpy as np
import onnx
import pytest
from popart_session_models import cpu, identity, inference, model, step

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

"""Twenty updates of each optimizer against its equations in NumPy: float32 and float16, constant and variable values."""

from __future__ import annotations

import numpy as np
import optimizer_training
import pytest

import popart
from popart import AdamMode, AdaptiveMode, SGDAccumulatorAndMomentum, WeightDecayMode

UPDATES = 20


# Each rule: state, weight, gradient (unscaled), number of the update, hyper-parameters -> new weight; in float64.
def sgd(s, w, g, t, h):
    g = g + h["weightDecay"] * w
    v = h["momentum"] * s.get("v", 0.0) + (1 - h["dampening"]) * h["velocityScaling"] * g
    s["v"] = v
    step = h["velocityScaling"] * g + h["momentum"] * v if h["nesterov"] else v
    return w - h["learningRate"] / h["velocityScaling"] * step


def combined(s, w, g, t, h):
    decay = (1 - h["dampening"]) * h["weightDecay"] * h["velocityScaling"]
    if not h["momentum"]:  # the reference of the variant without state
        return w - h["learningRate"] * (1 - h["dampening"]) * (g + h["weightDecay"] * w)
    v = s["v"] if "v" in s else decay * w
    v = v + (1 - h["dampening"]) * h["velocityScaling"] * g
    step = h["velocityScaling"] * (g + h["weightDecay"] * w) + h["momentum"] * v if h["nesterov"] else v
    w = w - h["learningRate"] / h["velocityScaling"] * step
    s["v"] = h["momentum"] * v + decay * w
    return w


def adam(mode, decay):
    def rule(s, w, g, t, h):
        if decay == "L2Regularization":
            g = g + h["weightDecay"] * w
        m = s["m"] = h["beta1"] * s.get("m", 0.0) + (1 - h["beta1"]) * g
        if mode == "AdaMax":
            v = s["v"] = np.maximum(h["beta2"] * s.get("v", 0.0), np.abs(g))
        else:
            v = s["v"] = h["beta2"] * s.get("v", 0.0) + (1 - h["beta2"]) * g * g
        if not mode.endswith("NoBias"):
            m = m / (1 - h["beta1"] ** t)
            v = v if mode == "AdaMax" else v / (1 - h["beta2"] ** t)
        x = m / ((v if mode == "AdaMax" else np.sqrt(v)) + h["eps"])
        if decay == "Decay":
            x = x + h["weightDecay"] * w
        ratio = 1.0
        if mode.startswith("Lamb"):
            size, change, bound = np.linalg.norm(w), np.linalg.norm(x), h["maxWeightNorm"]
            ratio = min(size, bound) / change if size and change and bound else 1.0
        return w - h["learningRate"] * ratio * x

    return rule


def adaptive(mode, decay, tf=False):
    def rule(s, w, g, t, h):
        a, eps, first = h["alpha"], h["eps"], 1.0 if tf else 0.0
        if decay == "L2Regularization":
            g = g + h["weightDecay"] * w
        v1 = s.get("v1", first)
        v1 = s["v1"] = v1 + g * g if mode == "AdaGrad" else a * v1 + (1 - a) * g * g
        d = v1
        if mode == "CenteredRMSProp":
            s["v2"] = a * s.get("v2", 0.0) + (1 - a) * g
            d = v1 - s["v2"] ** 2
        if mode == "AdaDelta":
            x = g * np.sqrt(s.get("v2", 0.0) + eps) / np.sqrt(v1 + eps)
            s["v2"] = a * s.get("v2", 0.0) + (1 - a) * x * x
        else:
            x = g / (np.sqrt(d + eps) if tf else np.sqrt(d) + eps)
        if h["momentum"]:
            x = s["v3"] = h["momentum"] * s.get("v3", 0.0) + (h["learningRate"] * x if tf else x)
        decayed = h["weightDecay"] * w if decay == "Decay" else 0.0
        return w - (x + decayed if tf and h["momentum"] else h["learningRate"] * (x + decayed))

    return rule


SGD = {
    "learningRate": 0.125,
    "weightDecay": 0.0,
    "momentum": 0.0,
    "dampening": 0.0,
    "velocityScaling": 1.0,
    "nesterov": 0,
}
ADAM = {
    "learningRate": 0.0625,
    "weightDecay": 0.125,
    "beta1": 0.875,
    "beta2": 0.96875,
    "eps": 1e-3,
    "maxWeightNorm": 10.0,
}
ADAPTIVE = {"learningRate": 0.0625, "weightDecay": 0.125, "alpha": 0.9375, "momentum": 0.0, "eps": 1e-3}
DECAYS = ["Decay", "L2Regularization"]
# name -> (hyper-parameters, rule, class, arguments of it)
CASES = {}
for name, values in {
    "plain": {},
    "decay": {"weightDecay": 0.25, "dampening": 0.5},
    "momentum": {"momentum": 0.875},
    "all": {"momentum": 0.875, "weightDecay": 0.25, "dampening": 0.5, "velocityScaling": 4.0},
    "nesterov": {"momentum": 0.75, "weightDecay": 0.25, "velocityScaling": 4.0, "nesterov": 1},
}.items():
    for variant, rule in (("Combined", combined), ("Separate", sgd)):
        how = {"accumulatorAndMomentum": SGDAccumulatorAndMomentum[variant]}
        CASES[f"sgd-{variant}-{name}"] = ({**SGD, **values}, rule, popart.SGD, how)
for mode in AdamMode:
    for decay in DECAYS:
        how = {"mode": mode, "weight_decay_mode": WeightDecayMode[decay]}
        CASES[f"adam-{mode.name}-{decay}"] = (ADAM, adam(mode.name, decay), popart.Adam, how)
CASES["adam-Lamb-bound"] = ({**ADAM, "maxWeightNorm": 0.5}, adam("Lamb", "Decay"), popart.Adam, {"mode": AdamMode.Lamb})
CASES["adam-Lamb-no-bound"] = (
    {**ADAM, "maxWeightNorm": 0.0},
    adam("Lamb", "Decay"),
    popart.Adam,
    {"mode": AdamMode.Lamb},
)
for mode in ("AdaGrad", "RMSProp", "CenteredRMSProp", "AdaDelta"):
    for decay in DECAYS:
        for momentum in (0.0, 0.75):
            for tf in (False, True) if "RMSProp" in mode else (False,):
                how = {"mode": AdaptiveMode[mode], "weight_decay_mode": WeightDecayMode[decay], "rmsprop_tf_variant": tf}
                case = f"adaptive-{mode}-{decay}{'-momentum' if momentum else ''}{'-tf' if tf else ''}"
                CASES[case] = ({**ADAPTIVE, "momentum": momentum}, adaptive(mode, decay, tf), popart.Adaptive, how)


def default_key(key):
    return key if key == "nesterov" else "default" + key[0].upper() + key[1:]


def is_structure(key, value):
    """Decides which state there is: it stays constant where the others are variable."""
    return key == "nesterov" or (key == "momentum" and value == 0.0)


def made(case, constant, scaling=8.0, hypers=None, **arguments):
    own, _, kind, how = CASES[case]
    values = {default_key(key): (value, constant or is_structure(key, value)) for key, value in (hypers or own).items()}
    return kind({**values, "lossScaling": (scaling, constant)}, **how, **arguments)


def expect_rule(
    training, case, updates, hypers_of=None, combine=lambda g: g.sum(0), tolerance=2e-5, first=1, held=None
):
    """Trains and follows the rule in float64 beside."""
    own, rule, _, _ = CASES[case]
    held = held or {name: (optimizer_training.start(name).astype(np.float64), {}) for name in "ab"}
    for t in range(first, first + updates):
        gradients = training.step()
        for name, (weight, state) in held.items():
            values = hypers_of(name) if hypers_of else own
            held[name] = (rule(state, weight, combine(gradients[name]), t, values), state)
    trained = training.read("a", "b")
    for name, (weight, _) in held.items():
        np.testing.assert_allclose(trained[name], weight, rtol=tolerance, atol=tolerance, err_msg=f"{case} {name}")
    return held


@pytest.mark.shows("popart.AdamMode", "popart.AdaptiveMode", "popart.WeightDecayMode")
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "variable"])
@pytest.mark.parametrize("case", CASES)
def test_twenty_updates_follow_the_equations(case, constant):
    held = expect_rule(optimizer_training.Training(made(case, constant)), case, UPDATES)
    assert np.abs(held["a"][0] - optimizer_training.start("a")).max() > 0.05  # it moved


F16 = [case for case in CASES if not case.endswith(("L2Regularization", "-tf"))]


@pytest.mark.parametrize("case", F16)
def test_twenty_updates_of_half_weights(case):
    """Weights, and what has their type, are rounded to float16 after each update and nowhere else."""
    own, rule, kind, _ = CASES[case]
    rounded = {popart.SGD: ("v",), popart.Adam: (), popart.Adaptive: ("v3",)}[kind]
    training = optimizer_training.Training(made(case, True, scaling=1.0), np.float16)
    held = {name: (optimizer_training.start(name, np.float16).astype(np.float64), {}) for name in "ab"}
    for t in range(1, UPDATES + 1):
        gradients = training.step()
        for name, (weight, state) in held.items():
            if kind is popart.SGD and "Combined" in case and own["momentum"] and t == 1:
                decay = (1 - own["dampening"]) * own["weightDecay"] * own["velocityScaling"]
                state["v"] = (decay * weight).astype(np.float16).astype(np.float64)
            weight = rule(state, weight, gradients[name].sum(0), t, own)
            for key in rounded:
                if key in state:
                    state[key] = state[key].astype(np.float16).astype(np.float64)
            held[name] = (weight.astype(np.float16).astype(np.float64), state)
    trained = training.read("a", "b")
    for name, (weight, _) in held.items():
        np.testing.assert_allclose(
            trained[name].astype(np.float64), weight, rtol=2**-9, atol=2**-10, err_msg=f"{case} {name}"
        )


@pytest.mark.parametrize(
    "case", ["sgd-Combined-all", "sgd-Separate-nesterov", "adam-Adam-Decay", "adaptive-RMSProp-Decay-momentum"]
)
def test_variable_values_change_from_the_host(case):
    """The values of an update are those of the last optimizer that was given."""
    own = CASES[case][0]
    training = optimizer_training.Training(made(case, False))
    held = expect_rule(training, case, 3)
    changed = {**own, "learningRate": own["learningRate"] / 2}
    training.session.updateOptimizerFromHost(made(case, False, scaling=32.0, hypers=changed))
    expect_rule(training, case, 3, hypers_of=lambda name: changed, first=4, held=held)


def test_a_wrong_replacement_is_refused_and_the_session_goes_on():
    training = optimizer_training.Training(made("adam-Adam-Decay", False))
    with pytest.raises(popart.popart_runtime_error, match="not a valid replacement"):
        training.session.updateOptimizerFromHost(made("adam-AdaMax-Decay", False))
    expect_rule(training, "adam-Adam-Decay", 2)


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "variable"])
@pytest.mark.parametrize(
    "case", ["sgd-Combined-all", "sgd-Separate-plain", "adam-Adam-Decay", "adaptive-AdaGrad-Decay"]
)
def test_a_weight_with_values_of_its_own(case, constant):
    own = CASES[case][0]
    specific = {"learningRate": own["learningRate"] / 4, "weightDecay": 0.5}
    optimizer = made(case, constant)
    optimizer.insertSpecific("b", {key: (value, constant) for key, value in specific.items()})
    values = {"a": own, "b": {**own, **specific}}
    expect_rule(optimizer_training.Training(optimizer), case, UPDATES, hypers_of=values.get)


REDUCED = [
    "sgd-Combined-decay",
    "sgd-Combined-all",
    "sgd-Combined-nesterov",
    "sgd-Separate-all",
    "sgd-Separate-nesterov",
    "adam-Adam-Decay",
    "adaptive-RMSProp-Decay",
]


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("reduction", ["Sum", "Post", "Running"])
@pytest.mark.parametrize("case", REDUCED)
def test_sums_and_means_over_micro_batches_and_replicas(case, reduction, accumulation, replicas):
    training = optimizer_training.Training(
        made(case, True), accumulation=accumulation, replicas=replicas, reduction=reduction
    )
    combine = (lambda g: g.sum(0)) if reduction == "Sum" else (lambda g: g.mean(0))
    expect_rule(training, case, 5, combine=combine)


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("mode", AdamMode)
def test_scaled_state_gives_the_same_weights_when_the_loss_scaling_changes(mode, decay):
    """The moments are those of scaled gradients; a new loss scaling scales what is there."""
    case = f"adam-{mode.name}-{decay}"
    training = optimizer_training.Training(made(case, False, scaling=8.0, scaled_optimizer_state=True))
    held = expect_rule(training, case, 3)
    m = training.read("Accl1___a", dtypes={"Accl1___a": np.float32})["Accl1___a"]
    np.testing.assert_allclose(m, 8.0 * held["a"][1]["m"], rtol=1e-4)
    training.session.updateOptimizerFromHost(made(case, False, scaling=2.0, scaled_optimizer_state=True))
    held = expect_rule(training, case, 3, first=4, held=held)
    m = training.read("Accl1___a", dtypes={"Accl1___a": np.float32})["Accl1___a"]
    np.testing.assert_allclose(m, 2.0 * held["a"][1]["m"], rtol=1e-4, atol=1e-6)


# --- state
STATES = {
    "sgd-Combined-all": ["Accl___"],
    "sgd-Combined-plain": [],
    "sgd-Separate-all": ["Accl1___"],
    "adam-Adam-Decay": ["Accl1___", "Accl2___", "Step___"],
    "adam-LambNoBias-Decay": ["Accl1___", "Accl2___"],
    "adam-AdaMax-Decay": ["Accl1___", "Accl2___", "Step___"],
    "adaptive-AdaGrad-Decay": ["Accl1___"],
    "adaptive-RMSProp-Decay-momentum": ["Accl1___", "Accl3___"],
    "adaptive-CenteredRMSProp-Decay": ["Accl1___", "Accl2___"],
    "adaptive-AdaDelta-Decay-momentum": ["Accl1___", "Accl2___", "Accl3___"],
}


@pytest.mark.shows("popart.SGDAccumulatorAndMomentum")
@pytest.mark.parametrize("case", STATES)
def test_states_have_their_published_names(case):
    training = optimizer_training.Training(made(case, False))
    made_states = {
        name
        for name in training.session._tensors
        if name.endswith(("___a", "___b")) and name.split("___")[0] != "Gradient"
    }
    assert made_states == {prefix + name for prefix in STATES[case] for name in "ab"}


def test_nesterov_of_the_combined_variant_keeps_one_more_accumulator():
    training = optimizer_training.Training(made("sgd-Combined-nesterov", False))
    training.step()
    assert not training.read("Accl___a_nesterovGrad")["Accl___a_nesterovGrad"].any()  # between updates


def test_the_combined_state_starts_from_the_weight():
    own = CASES["sgd-Combined-all"][0]
    training = optimizer_training.Training(made("sgd-Combined-all", False))
    expected = (1 - own["dampening"]) * own["weightDecay"] * own["velocityScaling"] * optimizer_training.start("a")
    np.testing.assert_allclose(training.read("Accl___a")["Accl___a"], expected, rtol=1e-6)


@pytest.mark.parametrize(
    "case, state, key",
    [
        ("sgd-Combined-all", "Accl___", "v"),
        ("sgd-Separate-all", "Accl1___", "v"),
        ("adam-AdamNoBias-Decay", "Accl1___", "m"),
        ("adaptive-RMSProp-Decay", "Accl1___", "v1"),
    ],
)
def test_initialisers_of_states_are_where_they_start(case, state, key):
    values = {state + name: np.full(optimizer_training.SIZE, 0.5, np.float32) for name in "ab"}
    training = optimizer_training.Training(made(case, False), states=values)
    held = {
        name: (optimizer_training.start(name).astype(np.float64), {key: np.full(optimizer_training.SIZE, 0.5)})
        for name in "ab"
    }
    expect_rule(training, case, 3, held=held)


# --- clipping
def clipped(values, bound):
    norm = np.sqrt(sum((v * v).sum() for v in values))
    return [v * bound / max(norm, bound) for v in values]


@pytest.mark.parametrize("bound", [0.5, 100.0])
@pytest.mark.parametrize("together", [True, False])
def test_sgd_clips_scaled_gradients(together, bound):
    """Without momentum, the norm is of the summed gradients with the loss scaling in them."""
    scaling, rate = 4.0, 0.125
    clip = popart.ClipNormSettings
    groups = (
        [clip.clipAllWeights(bound)]
        if together
        else [clip.clipWeights(["a"], bound), clip.clipWeights(["b"], 2 * bound)]
    )
    optimizer = popart.SGD({"defaultLearningRate": (rate, True), "lossScaling": (scaling, False)}, groups)
    training = optimizer_training.Training(optimizer, accumulation=2, reduction="Post")
    weights = {name: optimizer_training.start(name).astype(np.float64) for name in "ab"}
    for _ in range(UPDATES):
        gradients = [scaling * g.sum(0) for g in training.step().values()]
        gradients = (
            clipped(gradients, bound)
            if together
            else [*clipped(gradients[:1], bound), *clipped(gradients[1:], 2 * bound)]
        )
        for name, gradient in zip("ab", gradients):
            weights[name] -= rate * gradient / (scaling * 2)
    for name, value in training.read("a", "b").items():
        np.testing.assert_allclose(value, weights[name], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("variant", SGDAccumulatorAndMomentum)
def test_sgd_with_momentum_clips_what_the_rate_is_multiplied_with(variant):
    bound, rate, momentum = 0.5, 0.125, 0.75
    values = {"defaultLearningRate": (rate, True), "defaultMomentum": (momentum, True)}
    optimizer = popart.SGD(values, [popart.ClipNormSettings.clipAllWeights(bound)], accumulatorAndMomentum=variant)
    training = optimizer_training.Training(optimizer)
    weights = {name: optimizer_training.start(name).astype(np.float64) for name in "ab"}
    velocities = [np.zeros(optimizer_training.SIZE), np.zeros(optimizer_training.SIZE)]
    for _ in range(UPDATES):
        velocities = [momentum * v + g.sum(0) for v, g in zip(velocities, training.step().values())]
        for name, change in zip("ab", clipped(velocities, bound)):
            weights[name] -= rate * change
    for name, value in training.read("a", "b").items():
        np.testing.assert_allclose(value, weights[name], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("decay", DECAYS)
def test_adam_clips_unscaled_gradients(decay):
    bound, case = 0.5, f"adam-Adam-{decay}"
    rule, own = adam("Adam", "Decay"), CASES[case][0]
    if decay == "L2Regularization":
        own = {**own, "weightDecay": 0.0}  # of the rule: the term is clipped with the gradient
    optimizer = made(case, False, clip_norm_settings=[popart.ClipNormSettings.clipAllWeights(bound)])
    training = optimizer_training.Training(optimizer)
    held = {name: (optimizer_training.start(name).astype(np.float64), {}) for name in "ab"}
    for t in range(1, UPDATES + 1):
        gradients = [g.sum(0) for g in training.step().values()]
        if decay == "L2Regularization":
            gradients = [g + ADAM["weightDecay"] * w for g, (w, _) in zip(gradients, held.values())]
        for name, gradient in zip("ab", clipped(gradients, bound)):
            weight, state = held[name]
            held[name] = (rule(state, weight, gradient, t, own), state)
    for name, value in training.read("a", "b").items():
        np.testing.assert_allclose(value, held[name][0], rtol=2e-5, atol=2e-5)

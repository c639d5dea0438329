"""Optimizer objects: constructors, keys, defaults, checks, getters, weights with values of their own, replacement."""

from __future__ import annotations

import numpy as np
import pytest

import popart
from popart import AdamMode, AdaptiveMode, DataType, SGDAccumulatorAndMomentum, WeightDecayMode
from popart._impl.optimizers.optimizer import check_replacement

CLASSES = {"SGD": popart.SGD, "Adam": popart.Adam, "Adaptive": popart.Adaptive}
DEFAULTS = {
    "SGD": {
        "defaultLearningRate": 0.1,
        "defaultWeightDecay": 0,
        "defaultMomentum": 0,
        "defaultDampening": 0,
        "defaultVelocityScaling": 1,
        "nesterov": 0,
    },
    "Adam": {
        "defaultLearningRate": 0.1,
        "defaultWeightDecay": 0,
        "defaultBeta1": 0.9,
        "defaultBeta2": 0.999,
        "defaultEps": 1e-6,
        "defaultMaxWeightNorm": 10,
    },
    "Adaptive": {
        "defaultLearningRate": 0.01,
        "defaultWeightDecay": 0,
        "defaultAlpha": 0.99,
        "defaultMomentum": 0,
        "defaultEps": 1e-6,
    },
}
GETTERS = {
    "defaultLearningRate": "learningRates",
    "defaultWeightDecay": "weightDecays",
    "defaultMomentum": "momentums",
    "defaultDampening": "dampenings",
    "defaultVelocityScaling": "velocityScalings",
    "nesterov": "nesterov",
    "defaultBeta1": "beta1s",
    "defaultBeta2": "beta2s",
    "defaultEps": "epss",
    "defaultMaxWeightNorm": "maxWeightNorms",
    "defaultAlpha": "alphas",
}
KEYS = [(name, key) for name, keys in DEFAULTS.items() for key in keys]


def specific_key(key: str) -> str:
    return key if key == "nesterov" else key[len("default")].lower() + key[len("default") + 1 :]


@pytest.mark.shows("popart.OptimizerValue")
def test_an_optimizer_value_is_a_number_and_a_mark():
    assert (popart.OptimizerValue().val(), popart.OptimizerValue().isConst()) == (0.0, True)
    assert popart.OptimizerValue(2.5).isConst() and popart.OptimizerValue(2.5).val() == 2.5
    assert not popart.OptimizerValue(2.5, False).isConst()
    pair = popart.OptimizerValue((np.float64(0.1), False))
    assert pair.val() == float(np.float32(0.1)) and not pair.isConst()
    for wrong in (("0.1", True), (0.1, 1), (None, True)):
        with pytest.raises(popart.popart_exception, match="a pair of a number and a flag"):
            popart.OptimizerValue(*wrong)


@pytest.mark.shows("popart.SGD", "popart.Adam", "popart.Adaptive", "popart.OptimizerValueMap")
@pytest.mark.parametrize("name, key", KEYS)
def test_defaults_are_constants_and_getters_give_what_was_set(name, key):
    default = getattr(CLASSES[name]({}), GETTERS[key])().getDefault()
    assert default.val() == float(np.float32(DEFAULTS[name][key])) and default.isConst()
    given = getattr(CLASSES[name]({key: (0.5, False)}), GETTERS[key])().getDefault()
    assert given.val() == 0.5 and not given.isConst()


@pytest.mark.parametrize("name, key", KEYS)
def test_a_weight_takes_its_own_values_and_the_defaults_of_the_others(name, key):
    optimizer = CLASSES[name]({})
    optimizer.insertSpecific("w", {specific_key(key): (0.25, False)})
    values = getattr(optimizer, GETTERS[key])()
    assert values.get("w").val() == 0.25 and not values.get("w").isConst()
    for other in DEFAULTS[name].keys() - {key}:
        assert getattr(optimizer, GETTERS[other])().get("w").val() == float(np.float32(DEFAULTS[name][other]))
    assert values.get("v") == values.getDefault() != values.get("w")
    with pytest.raises(popart.popart_exception, match="'w' has values of its own already"):
        optimizer.insertSpecific("w", {})


@pytest.mark.parametrize("number", [1, 0.5, True, np.float32(0.5), np.float16(0.5), np.int64(1), np.bool_(True)])
def test_numbers_of_python_and_numpy_are_values(number):
    assert popart.SGD({"defaultLearningRate": (number, True)}).learningRates().getDefault().val() == float(number)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize(
    "value", ["0.1", 0.1, (0.1,), (0.1, True, 1), (None, True), ([0.1], True), (0.1, 1), (1j, True)]
)
def test_other_values_are_refused(name, value):
    with pytest.raises(popart.popart_exception, match="pair of a number and a flag"):
        CLASSES[name]({"defaultLearningRate": value})


@pytest.mark.parametrize("name", CLASSES)
def test_unknown_keys_are_refused_with_the_known_ones(name):
    with pytest.raises(
        popart.popart_exception, match="unknown key 'learningRate'. Keys are defaultLearningRate, .*lossScaling"
    ):
        CLASSES[name]({"learningRate": (0.1, True)})
    with pytest.raises(popart.popart_exception, match="unknown key 'defaultLearningRate'. Keys are learningRate, "):
        CLASSES[name]({}).insertSpecific("w", {"defaultLearningRate": (0.1, True)})
    with pytest.raises(popart.popart_exception, match="unknown key 'lossScaling'"):
        CLASSES[name]({}).insertSpecific("w", {"lossScaling": (2, True)})


@pytest.mark.shows("popart.Optimizer")
@pytest.mark.parametrize("name", CLASSES)
def test_loss_scaling(name):
    assert CLASSES[name]({}).getLossScalingVal() == 1.0
    assert CLASSES[name]({"lossScaling": (128, False)}).getLossScalingVal() == 128.0
    with pytest.raises(popart.popart_exception, match="lossScaling is 0"):
        CLASSES[name]({"lossScaling": (0, False)})


NOT_NEGATIVE = [(n, k) for n, k in KEYS if k not in ("nesterov", "defaultEps", "defaultVelocityScaling")]


@pytest.mark.parametrize("name, key", NOT_NEGATIVE)
@pytest.mark.parametrize("constant", [True, False])
def test_negative_values_are_refused(name, key, constant):
    with pytest.raises(popart.popart_exception, match="must not be negative"):
        CLASSES[name]({key: (-0.5, constant)})
    with pytest.raises(popart.popart_exception, match="must not be negative"):
        CLASSES[name]({}).insertSpecific("w", {specific_key(key): (-0.5, constant)})


@pytest.mark.parametrize(
    "name, key", [("SGD", "defaultVelocityScaling"), ("Adam", "defaultEps"), ("Adaptive", "defaultEps")]
)
@pytest.mark.parametrize("value", [0, -1e-6])
def test_values_that_divide_are_positive(name, key, value):
    with pytest.raises(popart.popart_exception, match="must be greater than 0"):
        CLASSES[name]({key: (value, False)})


@pytest.mark.parametrize("name", CLASSES)
def test_a_constant_learning_rate_is_not_zero(name):
    with pytest.raises(popart.popart_exception, match="is the constant 0"):
        CLASSES[name]({"defaultLearningRate": (0, True)})
    CLASSES[name]({"defaultLearningRate": (0, False)})


def test_nesterov_takes_no_dampening():
    with pytest.raises(popart.popart_exception, match="nesterov needs zero dampening"):
        popart.SGD({"nesterov": (True, True), "defaultDampening": (0.1, True)})
    optimizer = popart.SGD({"nesterov": (True, True)})
    with pytest.raises(popart.popart_exception, match="nesterov needs zero dampening"):
        optimizer.insertSpecific("w", {"dampening": (0.1, True)})


def test_betas_have_no_upper_bound():
    assert popart.Adam({"defaultBeta1": (1.5, True)}).beta1s().getDefault().val() == 1.5


def test_the_old_name_of_the_largest_weight_norm():
    assert popart.Adam({"maxWeightNorm": (3, True)}).maxWeightNorms().getDefault().val() == 3
    with pytest.raises(popart.popart_exception, match="given twice"):
        popart.Adam({"maxWeightNorm": (3, True), "defaultMaxWeightNorm": (3, True)})


@pytest.mark.parametrize("mode", AdaptiveMode)
def test_the_variant_of_tensorflow_is_for_rmsprop(mode):
    if "RMSProp" in mode.name:
        assert popart.Adaptive({}, mode=mode, rmsprop_tf_variant=True).native({})["tf_variant"]
    else:
        with pytest.raises(popart.popart_exception, match="it is for RMSProp and CenteredRMSProp"):
            popart.Adaptive({}, mode=mode, rmsprop_tf_variant=True)


def test_types_of_state_are_float_or_float16():
    for make in (
        lambda dtype: popart.SGD({}, accumType=dtype),
        lambda dtype: popart.Adam({}, accl1_type=dtype),
        lambda dtype: popart.Adaptive({}, accl3_type=dtype),
    ):
        make(DataType.FLOAT16)
        with pytest.raises(popart.popart_exception, match="INT32: state is FLOAT or FLOAT16"):
            make(DataType.INT32)
    with pytest.raises(popart.popart_exception, match="accl2_type is DataType.UNDEFINED"):
        popart.Adam({}, accl2_type=DataType.UNDEFINED)


def test_dictionaries_can_be_given_by_keyword():
    values = {"defaultLearningRate": (0.5, True)}
    for made in (popart.SGD(pyd=values), popart.Adam(values=values), popart.Adaptive(values=values)):
        assert made.learningRates().getDefault().val() == 0.5


@pytest.mark.shows("popart.ConstSGD")
def test_const_sgd_is_sgd_of_constants():
    optimizer = popart.ConstSGD(0.25, weight_decay=0.5, loss_scaling=8)
    assert isinstance(optimizer, popart.SGD) and isinstance(optimizer, popart.Optimizer)
    assert optimizer.learningRates().getDefault() == popart.OptimizerValue(0.25, True)
    assert optimizer.weightDecays().getDefault() == popart.OptimizerValue(0.5, True)
    assert optimizer.getLossScalingVal() == 8
    with pytest.raises(popart.popart_exception, match="is the constant 0"):
        popart.ConstSGD(0.0)


@pytest.mark.shows("popart.ClipNormSettings")
def test_clip_settings_of_weights_and_of_all():
    settings = popart.ClipNormSettings.clipWeights(["a", "b"], 2.0)
    assert settings.weightIds == ["a", "b"] and settings.maxNorm == 2.0
    assert popart.ClipNormSettings(["a", "b"], 2.0) == settings != popart.ClipNormSettings.clipAllWeights(2.0)
    everything = popart.SGD({}, [popart.ClipNormSettings.clipAllWeights(3.0)]).native({"a": "FLOAT", "b": "FLOAT"})
    assert everything["clip_groups"] == [{"weights": ["a", "b"], "max_norm": 3.0}]
    for wrong in (lambda: popart.ClipNormSettings("a", 1), lambda: popart.ClipNormSettings(["a"], -1)):
        with pytest.raises(popart.popart_exception, match="ClipNormSettings"):
            wrong()


def test_groups_of_clipping_do_not_overlap():
    clip = popart.ClipNormSettings
    with pytest.raises(popart.popart_exception, match="one of 2 ClipNormSettings is of all weights"):
        popart.Adam({}, clip_norm_settings=[clip.clipAllWeights(1), clip.clipWeights(["a"], 1)])
    with pytest.raises(popart.popart_exception, match="'a' is in 2 ClipNormSettings"):
        popart.SGD({}, [clip.clipWeights(["a"], 1), clip.clipWeights(["a"], 2)]).native({"a": "FLOAT"})


def test_weights_that_are_not_trained_are_refused():
    optimizer = popart.SGD({})
    optimizer.insertSpecific("v", {})
    with pytest.raises(popart.popart_exception, match="'v' has values of its own.*Trained are w"):
        optimizer.native({"w": "FLOAT"})
    with pytest.raises(popart.popart_exception, match="'v' has a place in ClipNormSettings"):
        popart.SGD({}, [popart.ClipNormSettings.clipWeights(["v"], 1)]).native({"w": "FLOAT"})
    with pytest.raises(popart.popart_exception, match="'w' is INT32: FLOAT and FLOAT16 can be trained"):
        popart.SGD({}).native({"w": "INT32"})


def test_weights_are_grouped_by_values_and_types():
    optimizer = popart.Adam({"defaultLearningRate": (0.5, False)}, accl2_type=DataType.FLOAT16)
    optimizer.insertSpecific("own", {"learningRate": (0.25, True)})
    native = optimizer.native({"a": "FLOAT", "own": "FLOAT", "half": DataType.FLOAT16, "b": "FLOAT"})
    assert native["group_of"] == {"a": 0, "own": 1, "half": 2, "b": 0}
    assert [group["hyper"]["lr"] for group in native["groups"]] == [(0.5, False), (0.25, True), (0.5, False)]
    assert [group["types"] for group in native["groups"]] == [
        {"accum": "FLOAT", "first": "FLOAT", "second": "FLOAT16"},
        {"accum": "FLOAT", "first": "FLOAT", "second": "FLOAT16"},
        {"accum": "FLOAT16", "first": "FLOAT", "second": "FLOAT16"},
    ]


# --- replacement
def _changed(optimizer, weight="w", **values):
    optimizer.insertSpecific(weight, values)
    return optimizer


CLIP = popart.ClipNormSettings.clipAllWeights
REFUSED = [
    (lambda: popart.SGD({}), lambda: popart.Adam({}), "the optimizer was SGD"),
    (
        lambda: popart.SGD({}),
        lambda: popart.SGD({}, accumulatorAndMomentum=SGDAccumulatorAndMomentum.Separate),
        "accumulatorAndMomentum",
    ),
    (lambda: popart.SGD({}), lambda: popart.SGD({}, accumType=DataType.FLOAT16), "accumType"),
    (lambda: popart.SGD({"nesterov": (1, False)}), lambda: popart.SGD({"nesterov": (0, False)}), "nesterov"),
    (lambda: popart.SGD({}), lambda: popart.SGD({}, [CLIP(1)]), "clip_norm_settings"),
    (lambda: popart.SGD({}, [CLIP(2)]), lambda: popart.SGD({}, [CLIP(1)]), "clip_norm_settings"),
    (lambda: popart.SGD({}), lambda: _changed(popart.SGD({})), "the set of weights"),
    (lambda: _changed(popart.SGD({}), "v"), lambda: _changed(popart.SGD({})), "the set of weights"),
    (lambda: popart.SGD({}), lambda: popart.SGD({"lossScaling": (1, False)}), "lossScaling"),
    (lambda: popart.SGD({}), lambda: popart.SGD({"lossScaling": (2, True)}), "lossScaling"),
    (lambda: popart.SGD({}), lambda: popart.SGD({"defaultMomentum": (0.5, True)}), "defaultMomentum"),
    (lambda: popart.SGD({}), lambda: popart.SGD({"defaultMomentum": (0, False)}), "defaultMomentum"),
    (
        lambda: _changed(popart.SGD({}), learningRate=(0.1, True)),
        lambda: _changed(popart.SGD({}), learningRate=(0.2, True)),
        "learningRate of 'w'",
    ),
    (lambda: popart.Adam({}), lambda: popart.Adam({}, mode=AdamMode.AdaMax), "mode"),
    (
        lambda: popart.Adam({}),
        lambda: popart.Adam({}, weight_decay_mode=WeightDecayMode.L2Regularization),
        "weight_decay_mode",
    ),
    (lambda: popart.Adam({}), lambda: popart.Adam({}, scaled_optimizer_state=True), "scaled_optimizer_state"),
    (lambda: popart.Adam({}), lambda: popart.Adam({}, accl1_type=DataType.FLOAT16), "accl1_type"),
    (lambda: popart.Adaptive({}), lambda: popart.Adaptive({}, rmsprop_tf_variant=True), "rmsprop_tf_variant"),
    (lambda: popart.Adaptive({}), lambda: popart.Adaptive({}, mode=AdaptiveMode.AdaDelta), "mode"),
]


@pytest.mark.parametrize("old, new, what", REFUSED)
def test_what_is_compiled_in_cannot_be_replaced(old, new, what):
    with pytest.raises(popart.popart_runtime_error, match="not a valid replacement: " + what):
        check_replacement(old(), new())


@pytest.mark.parametrize("name, key", KEYS)
def test_variable_values_can_be_replaced(name, key):
    def made(value):
        optimizer = CLASSES[name]({key: (value, False), "lossScaling": (value, False)})
        optimizer.insertSpecific("w", {specific_key(key): (2 * value, False)})
        return optimizer

    check_replacement(made(0.5), made(0.25))
    with pytest.raises(popart.popart_runtime_error, match=f"{key} was"):
        check_replacement(CLASSES[name]({key: (0.5, True)}), CLASSES[name]({key: (0.25, True)}))


def test_an_sgd_of_constants_replaces_one_of_the_same_constants():
    check_replacement(popart.ConstSGD(0.1), popart.SGD({"defaultLearningRate": (0.1, True)}))

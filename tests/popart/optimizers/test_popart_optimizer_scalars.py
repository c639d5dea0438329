"""The numbers that are computed from variable hyper-parameters: names, values, and which are constant."""

from __future__ import annotations

import numpy as np
import pytest

import popart
from popart import SGDAccumulatorAndMomentum
from popart._impl.optimizers.scalars import runtime_scalars

F = np.float32
KEYS = {
    "defaultLearningRate": 0.3,
    "defaultWeightDecay": 0.07,
    "defaultMomentum": 0.9,
    "defaultDampening": 0.1,
    "defaultVelocityScaling": 3,
    "lossScaling": 7,
}


def sgd(variant, variable=KEYS, **values):
    return popart.SGD(
        {key: (value, key not in variable) for key, value in {**KEYS, **values}.items()},
        accumulatorAndMomentum=SGDAccumulatorAndMomentum[variant],
    )


def test_sgd_without_momentum():
    lr, wd, dm, ls = F(0.3), F(0.07), F(0.1), F(7)
    optimizer = popart.SGD({key: (value, False) for key, value in KEYS.items() if key != "defaultMomentum"})
    found = runtime_scalars(optimizer, {"w": "FLOAT16"}, "FLOAT", accumulation=3, replicas=2, reduction="Post")
    assert found == {
        "lossScaling_FLOAT": ls,
        "scaledLearningRate0___default___FLOAT16": lr * (1 - dm) / (ls * F(3) * F(2)),
        "weightDecayScaleFactor0___default___FLOAT16": 1 - lr * (1 - dm) * wd,
    }
    assert all(value.dtype == np.float32 for value in found.values())


# (accumulation, replicas, reduction) -> R, R', af', and a·r of the separate variant
@pytest.mark.parametrize(
    "accumulation, replicas, reduction, r, shared, micro_batches, divisor",
    [
        (1, 1, "Sum", 1, 1, 1, 1),
        (1, 2, "Sum", 1, 1, 1, 1),
        (3, 2, "Sum", 2, 2, 1, 1),
        (1, 2, "Post", 1, 0.5, 1, 2),
        (3, 2, "Post", 2, 1, 3, 6),
        (1, 2, "Running", 1, 0.5, 1, 1),
        (3, 2, "Running", 2, 1, 3, 1),
    ],
)
def test_sgd_with_momentum(accumulation, replicas, reduction, r, shared, micro_batches, divisor):
    lr, wd, mm, dm, vs, ls = (F(KEYS[key]) for key in KEYS)
    found = {
        name.removesuffix("___default___FLOAT"): value
        for variant in ("Combined", "Separate")
        for name, value in runtime_scalars(
            sgd(variant), {"w": "FLOAT"}, "FLOAT", accumulation, replicas, reduction
        ).items()
    }
    assert found == {
        "lossScaling_FLOAT": ls,
        "dampeningScaleFactor1": (1 - dm) * vs * F(shared) / (ls * F(micro_batches)),
        "scaledLearningRate1": lr / (vs * F(r)),
        "scaledMomentum1": mm / F(r),
        "dampeningScaleFactor2": (1 - dm) * vs / (ls * F(divisor)),
        "scaledLearningRate2": lr / vs,
        "scaledMomentum2": mm,
        "scaledWeightDecay1": (1 - dm) * wd * vs,
    }


@pytest.mark.parametrize(
    "variable, scalars",
    [
        ("defaultLearningRate", {"scaledLearningRate"}),
        ("defaultWeightDecay", {"scaledWeightDecay1", "sgdWeightDecay"}),
        ("defaultMomentum", {"scaledMomentum", "sgdMomentum"}),
        ("lossScaling", {"dampeningScaleFactor", "nesterovDampeningScaleFactor", "lossScaling_FLOAT"}),
        (
            "defaultVelocityScaling",
            {
                "scaledLearningRate",
                "scaledWeightDecay1",
                "dampeningScaleFactor",
                "nesterovGradScaleFactor",
                "nesterovDampeningScaleFactor",
            },
        ),
        ("nothing", set()),
    ],
)
@pytest.mark.parametrize("variant, digit", [("Combined", "1"), ("Separate", "2")])
def test_a_scalar_is_constant_when_all_it_is_made_of_is(variant, digit, variable, scalars):
    optimizer = sgd(variant, {variable}, nesterov=1, defaultDampening=0)
    found = runtime_scalars(optimizer, {"w": "FLOAT"}, "FLOAT")
    assert {name.split("___")[0] for name in found} == {
        name if name[-1] == "1" or name.startswith(("sgd", "lossScaling")) else name + digit for name in scalars
    }


def test_a_weight_with_values_of_its_own_has_its_own_scalars():
    optimizer = popart.Adam({"defaultLearningRate": (0.25, False)})
    optimizer.insertSpecific("v", {"eps": (0.5, False)})
    assert runtime_scalars(optimizer, {"w": "FLOAT", "v": "FLOAT"}, "FLOAT") == {
        "learningRate___default___FLOAT": F(0.25),
        "learningRate___specific___v": F(0.25),
        "adamEps___specific___v": F(0.5),
    }


def test_scaled_state_multiplies_eps_by_the_loss_scaling():
    values = {"defaultEps": (0.125, True), "lossScaling": (8, False)}
    found = runtime_scalars(popart.Adam(values, scaled_optimizer_state=True), {"w": "FLOAT"}, "FLOAT16")
    assert found == {"lossScaling_FLOAT16": F(8), "adamEps___default___FLOAT": F(1)}
    plain = runtime_scalars(popart.Adam(values), {"w": "FLOAT"}, "FLOAT16", 2, 3, "Post")
    assert plain == {"lossScaling_FLOAT16": F(8), "adamGradientScaling___default___FLOAT": F(1) / (F(8) * F(6))}

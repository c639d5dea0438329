"""Names of the module, reserved prefixes, exceptions that programs can provoke, OperatorIdentifier."""

import subprocess
import sys

import pytest

import popart
import popart_core
from popart._impl import reserved_names

PREFIXES = {
    "reservedGradientPrefix": "Gradient___",
    "reservedUpdatedVarPrefix": "UpdatedVar___",
    "reservedAccumPrefix": "Accum___",
    "reservedAcclPrefix": "Accl___",
    "reservedAccl1Prefix": "Accl1___",
    "reservedAccl2Prefix": "Accl2___",
    "reservedAccl3Prefix": "Accl3___",
    "reservedStepPrefix": "Step___",
    "reservedAcclToReducePrefix": "AcclIntoReduce___",
    "reservedAcclToUpdatePrefix": "AcclIntoUpdate___",
    "reservedAcclFinalOutPrefix": "AcclOutOfAcclUpdate___",
    "reservedFinalReducedGradPrefix": "FinalReducedGradient___",
    "reservedAdamUpdaterPrefix": "AdamUpdater___",
    "reservedLambR1SqPrefix": "LambR1Sq___",
    "reservedLambR2SqPrefix": "LambR2Sq___",
    "reservedStashedPrefix": "Stashed___",
    "reservedRestoredPrefix": "Restored___",
    "reservedLossScalingPrefix": "lossScaling_",
    "reservedRandomSeedPrefix": "randomSeed___",
    "reservedSeedModifierPrefix": "randomSeedModifier___",
    "reservedRemoteArgPrefix": "RemoteArg___",
    "reservedAutomaticLossScalePrefix": "AutomaticLossScaleProxy___",
    "reservedDefaultWeightDecayScaleFactor0Prefix": "weightDecayScaleFactor0___default___",
    "reservedSpecificWeightDecayScaleFactor0Prefix": "weightDecayScaleFactor0___specific___",
    "reservedDefaultScaledLearningRate0Prefix": "scaledLearningRate0___default___",
    "reservedSpecificScaledLearningRate0Prefix": "scaledLearningRate0___specific___",
    "reservedDefaultScaledWeightDecay1Prefix": "scaledWeightDecay1___default___",
    "reservedSpecificScaledWeightDecay1Prefix": "scaledWeightDecay1___specific___",
    "reservedDefaultScaledLearningRate1Prefix": "scaledLearningRate1___default___",
    "reservedSpecificScaledLearningRate1Prefix": "scaledLearningRate1___specific___",
    "reservedDefaultDampeningScaleFactor1Prefix": "dampeningScaleFactor1___default___",
    "reservedSpecificDampeningScaleFactor1Prefix": "dampeningScaleFactor1___specific___",
    "reservedDefaultScaledMomentum1Prefix": "scaledMomentum1___default___",
    "reservedSpecificScaledMomentum1Prefix": "scaledMomentum1___specific___",
    "reservedDefaultLearningRatePrefix": "learningRate___default___",
    "reservedSpecificLearningRatePrefix": "learningRate___specific___",
    "reservedDefaultWeightDecayPrefix": "weightDecay___default___",
    "reservedSpecificWeightDecayPrefix": "weightDecay___specific___",
    "reservedDefaultLossScalingPrefix": "lossScaling___default___",
    "reservedSpecificLossScalingPrefix": "lossScaling___specific___",
    "reservedDefaultMaxWeightNormPrefix": "maxWeightNorm___default___",
    "reservedSpecificMaxWeightNormPrefix": "maxWeightNorm___specific___",
    "reservedDefaultAdamBeta1Prefix": "adamBeta1___default___",
    "reservedSpecificAdamBeta1Prefix": "adamBeta1___specific___",
    "reservedDefaultAdamBeta2Prefix": "adamBeta2___default___",
    "reservedSpecificAdamBeta2Prefix": "adamBeta2___specific___",
    "reservedDefaultAdamEpsPrefix": "adamEps___default___",
    "reservedSpecificAdamEpsPrefix": "adamEps___specific___",
    "reservedDefaultStepPrefix": "step___default___",
    "reservedSpecificStepPrefix": "step___specific___",
}


@pytest.mark.shows(*(f"popart.{name}" for name in PREFIXES))
@pytest.mark.parametrize("name", PREFIXES)
def test_reserved_prefixes(name):
    assert getattr(popart, name)() == PREFIXES[name] and getattr(popart_core, name)() == PREFIXES[name]
    assert reserved_names.clash(PREFIXES[name] + "w") and not reserved_names.clash("w" + PREFIXES[name])


HOOKS = {
    "_throw_popart_error": popart.popart_exception,
    "_throw_popart_internal_error": popart.popart_internal_exception,
    "_throw_popart_runtime_error": popart.popart_runtime_error,
    "_throw_poplar_error": popart.poplar_exception,
    "_throw_poplar_runtime_error": popart.poplar_runtime_error,
    "_throw_application_runtime_error": popart.poplar_application_runtime_error,
    "_throw_system_runtime_error": popart.poplar_system_runtime_error,
    "_throw_recoverable_runtime_error": popart.poplar_recoverable_runtime_error,
    "_throw_unrecoverable_runtime_error": popart.poplar_unrecoverable_runtime_error,
    "_throw_unknown_runtime_error": popart.poplar_unknown_runtime_error,
    "_throw_poplibs_error": popart.poplibs_exception,
}


@pytest.mark.shows(*(f"popart.{name}" for name in HOOKS))
@pytest.mark.parametrize("name", HOOKS)
def test_programs_can_provoke_each_class(name):
    for module in (popart, popart_core):
        with pytest.raises(HOOKS[name], match="why") as caught:
            getattr(module, name)("why")
        assert type(caught.value) is HOOKS[name]
    if "_recoverable" in name:
        assert caught.value.recoveryAction is popart.RecoveryAction.IPU_RESET


@pytest.mark.shows(
    "popart.versionString", "popart.versionNumber", "popart.packageHash", "popart.defaultAiOnnxMlOpset",
    "popart.defaultAiGraphcoreOpset",
)  # fmt: skip
def test_the_version_is_that_of_popart():
    assert popart.versionNumber() == tuple(int(part) for part in popart.versionString().split(".")) == (3, 4, 0)
    assert len(popart.packageHash()) == 10 and int(popart.packageHash(), 16) >= 0
    assert (popart.defaultAiOnnxOpset, popart.defaultAiOnnxMlOpset, popart.defaultAiGraphcoreOpset) == (10, 1, 1)


def test_the_native_module_has_the_same_classes():
    for name in (
        "ScatterReduction",
        "Builder",
        "_BuilderCore",
        "AiOnnxOpset9",
        "TensorInfo",
        "GraphTransformer",
        "SessionOptions",
    ):
        assert getattr(popart_core, name) is getattr(popart, name) and name in dir(popart_core)
    with pytest.raises(AttributeError):
        popart_core.nothing


def test_importing_does_not_load_onnx_and_may_follow_it():
    code = "import sys, popart, popart_core; assert 'onnx' not in sys.modules; popart.Builder(); assert 'onnx' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    subprocess.run([sys.executable, "-c", "import onnx, popart; popart.builder.Builder()"], check=True)


def test_importing_loads_nothing_large_but_numpy():
    code = "import sys; before = set(sys.modules); import popart; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = done.stdout.split()
    own = [name for name in loaded if name.split(".")[0] in ("popart", "popart_core")]
    rest = {name.split(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert rest == {"ipu_common", "popart", "numpy"}
    assert len(own) < 60 and len(loaded) < 300  # 184 in all

"""Patterns: names, levels, switches, and what a session makes of patterns that are off."""

import pytest
from session_listings import Model, of_type

import popart

LEVELS = popart.PatternsLevel


@pytest.mark.shows("popart.Patterns", "popart.PatternsLevel")
def test_a_level_enables_the_patterns_that_popart_enables():
    names = popart.Patterns.getAllPreAliasPatternNames()
    assert len(names) == len(set(names)) == 55 and names == sorted(names)
    on = {
        level: [name for name in names if popart.Patterns(level).isPatternEnabled(name)]
        for level in LEVELS.__members__.values()
    }
    assert on[LEVELS.NoPatterns] == [] and on[LEVELS.All] == names
    assert on[LEVELS.Minimal] == [name for name in names if popart.Patterns.isMandatory(name)]
    off = set(names) - set(on[LEVELS.Default])
    assert off == {"LSTMOp", "Slice2SliceSubsample", "SplitGather", "TiedGather", "TiedGatherAccumulate"}
    in_place = [
        popart.Patterns(level).InPlace for level in (LEVELS.NoPatterns, LEVELS.Minimal, LEVELS.Default, LEVELS.All)
    ]
    assert in_place == [False, False, True, True]


def test_a_list_of_names_is_what_is_on():
    patterns = popart.Patterns(["PostNRepl", "InPlace", "UpdateInplacePrioritiesForIpu"])
    assert patterns.PostNRepl and patterns.InPlace and not patterns.PreUniRepl
    assert "PostNRepl On" in repr(patterns) and "PreUniRepl Off" in repr(patterns)


@pytest.mark.parametrize(
    "property, name",
    [
        ("PreUniRepl", "PreUniRepl"),
        ("PostNRepl", "PostNRepl"),
        ("SoftMaxGradDirect", "SoftmaxGradDirect"),
        ("NlllWithSoftMaxGradDirect", "NlllWithSoftmaxGradDirect"),
        ("OpToIdentity", "OpToIdentity"),
        ("SubtractArg1GradOp", "SubtractArg1GradOp"),
        ("MulArgGradOp", "MulArgGradOp"),
        ("MatMulOp", "MatMulOp"),
        ("MatMulLhsGradOp", "MatMulLhsGradOp"),
        ("MatMulRhsGradOp", "MatMulRhsGradOp"),
    ],
)
def test_properties_are_switches(property, name):
    patterns = popart.Patterns(LEVELS.NoPatterns)
    setattr(patterns, property, True)
    assert patterns.isPatternEnabled(name) and getattr(patterns, property)
    assert patterns.enableRuntimeAsserts(False) is patterns
    setattr(patterns, property, False)
    assert not patterns.isPatternEnabled(name)


def test_a_level_can_be_given_by_name():
    assert popart.Patterns(level=popart.PatternsLevel.All).isPatternEnabled("LSTMOp")
    assert not popart.Patterns(level=popart.PatternsLevel.NoPatterns).isPatternEnabled("MatMulOp")


def test_unknown_names_are_refused():
    with pytest.raises(popart.popart_exception, match="did you mean 'InPlace'"):
        popart.Patterns().isPatternEnabled("Inplace")
    with pytest.raises(popart.popart_exception, match="no pattern is called 'InPlace': it is a switch"):
        popart.Patterns().isPatternEnabled("InPlace")
    with pytest.raises(popart.popart_exception, match="'NoSuch'"):
        popart.Patterns(["NoSuch"])
    assert popart.Patterns().enablePattern("InPlace", False).InPlace is False


def test_mandatory_patterns_stay_on_while_asserts_do():
    with pytest.raises(popart.popart_exception, match="'ExpGradOp' is mandatory"):
        popart.Patterns().enablePattern("ExpGradOp", False)
    patterns = popart.Patterns().enableRuntimeAsserts(False).enablePattern("ExpGradOp", False)
    assert not patterns.isPatternEnabled("ExpGradOp")


def _relu(patterns, excluded=()):
    model = Model()
    y = model.onnx.relu([model.input([4])])
    if excluded:
        model.builder.excludePatterns(y, list(excluded))
    return model.session([y], patterns=patterns)


@pytest.mark.parametrize("patterns", [[], LEVELS.NoPatterns])
def test_a_session_needs_mandatory_patterns_or_no_asserts(patterns):
    with pytest.raises(popart.popart_exception, match="mandatory patterns are off"):
        _relu(popart.Patterns(patterns))
    session = _relu(popart.Patterns(patterns).enableRuntimeAsserts(False))
    session.prepareDevice()  # the model has no op that they would have to rewrite


@pytest.mark.parametrize("in_place", [False, True])
def test_the_minimal_level_runs_everything(in_place):
    patterns = popart.Patterns(LEVELS.Minimal)
    patterns.InPlace = in_place
    model = Model()
    loss = model.loss(model.onnx.cosh([model.onnx.matmul([model.input([2, 3]), model.weight([3, 2])])]))
    model.session([loss], loss, patterns=patterns).prepareDevice()


@pytest.mark.shows("popart.Builder.excludePatterns")
def test_excluded_patterns_have_to_exist():
    assert of_type(_relu(popart.Patterns(), ["InPlace"]), "Relu")[0]["type"] == "Relu"
    with pytest.raises(popart.popart_exception, match="excludePatterns of Relu .*'NoSuch'"):
        _relu(popart.Patterns(), ["NoSuch"])


_GRADIENTS = {
    "Atan2Arg0GradOp": "atan2",
    "DivArg0GradOp": "div",
    "DivArg1GradOp": "div",
    "PowArg0GradOp": "pow",
    "PowArg1GradOp": "pow",
    "SubtractArg1GradOp": "sub",
    "MulArgGradOp": "mul",
    "CosGradOp": "cos",
    "SinGradOp": "sin",
    "ExpGradOp": "exp",
    "Expm1GradOp": "expm1",
    "LogGradOp": "log",
    "Log1pGradOp": "log1p",
    "SqrtGradOp": "sqrt",
    "ReciprocalGradOp": "reciprocal",
    "AbsGradOp": "abs",
    "CoshOp": "cosh",
    "MatMulLhsGradOp": "matmul",
    "MatMulRhsGradOp": "matmul",
}


@pytest.mark.parametrize("pattern", sorted(_GRADIENTS))
def test_what_a_pattern_has_to_rewrite_cannot_be_compiled_without_it(pattern):
    method = _GRADIENTS[pattern]
    model = Model()
    count = 2 if method in ("atan2", "div", "pow", "sub", "mul", "matmul") else 1
    operands = [model.weight([2, 2], f"w{i}") for i in range(count)]
    loss = model.loss(getattr(model.onnx if hasattr(model.onnx, method) else model.graphcore, method)(operands))
    patterns = popart.Patterns().enableRuntimeAsserts(False).enablePattern(pattern, False)
    with pytest.raises(popart.popart_exception, match=f"cannot be compiled: the pattern '{pattern}'"):
        model.session([loss], loss, patterns=patterns).prepareDevice()
    model.session([loss], loss, patterns=patterns.enablePattern(pattern, True)).prepareDevice()

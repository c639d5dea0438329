"""What patterns leave of a session's program: substituted gradients, identities, in-place ops, merged views, ties."""

import numpy as np
import pytest
from session_listings import Model, ids, of_type, ops_of, options, types_of

import popart

_NO_IN_PLACE = popart.Patterns(popart.PatternsLevel.Minimal)


def _gradient_types(method, count=1, patterns=None):
    model = Model()
    operands = [model.weight([4], f"w{i}") for i in range(count)]
    loss = model.loss(getattr(model.onnx, method)(operands))
    types = types_of(model.session([loss], loss, patterns=patterns or popart.Patterns(popart.PatternsLevel.Minimal)))
    return types[types.index("L1Grad") + 1 : -count]


@pytest.mark.parametrize(
    "method, count, expected",
    [
        ("sin", 1, ["Cos", "Mul"]),
        ("cos", 1, ["Sin", "Mul", "Neg"]),
        ("exp", 1, ["Mul"]),
        ("log", 1, ["Div"]),
        ("sqrt", 1, ["Scale", "Div"]),
        ("abs", 1, ["Sign", "Mul"]),
        ("mul", 2, ["Mul", "Mul"]),
        ("sub", 2, ["SubArg0Grad", "Neg"]),
        ("relu", 1, ["ReluGrad"]),
        ("tanh", 1, ["TanhGrad"]),
        ("max", 2, ["MaxArgGrad", "MaxArgGrad"]),
    ],
)
@pytest.mark.shows("popart.Patterns")
def test_gradient_ops(method, count, expected):
    assert _gradient_types(method, count) == expected


def test_gradients_of_sums_that_keep_the_shape_are_no_ops_by_default():
    assert _gradient_types("add", 2, popart.Patterns()) == []


def test_a_broadcast_operand_is_summed():
    model = Model()
    y = model.onnx.mul([model.weight([4, 3], "a"), model.weight([3], "b")])
    loss = model.loss(y)
    session = model.session([loss], loss)
    (total,) = of_type(session, "ReduceSum")
    assert ids(total, "outputs") == ["Gradient___b"]


def test_gradients_of_all_readers_are_summed():
    model = Model()
    w = model.weight([4])
    loss = model.loss(model.onnx.sum([model.onnx.sin([w]), model.onnx.tanh([w]), model.onnx.exp([w])]))
    (total,) = [op for op in ops_of(model.session([loss], loss)) if op["name"] == "GradSum_w"]
    assert total["type"] == "Sum" and len(total["inputs"]) == 3 and ids(total, "outputs") == ["Gradient___w"]
    chained = model.session([loss], loss, options=options(decomposeGradSum=True))
    assert [len(op["inputs"]) for op in ops_of(chained) if op["name"] == "GradSum_w"] == [2, 2]


def test_identities_disappear_unless_anchored_or_excluded():
    model = Model()
    a = model.onnx.identity([model.onnx.exp([model.input([4])])])
    b = model.onnx.identity([a])
    c = model.onnx.sin([b])
    assert "Identity" not in "".join(types_of(model.session([c])))
    assert [ids(op, "outputs") for op in of_type(model.session([c, a]), "Identity")] == [[a]]
    model.builder.excludePatterns(b, ["PostNRepl"])
    assert [ids(op, "outputs") for op in of_type(model.session([c]), "Identity")] == [[b]]


@pytest.mark.parametrize("name", ["reducesum", "dropout", "concat", "reshape", "scale", "reverse"])
def test_operators_that_do_nothing_are_identities(name):
    model = Model()
    x = model.onnx.exp([model.input([1, 4])])
    y = {
        "reducesum": lambda: model.onnx.reducesum([x], axes=[0]),
        "dropout": lambda: model.onnx.dropout([x], 1)[0],
        "concat": lambda: model.onnx.concat([x], 0),
        "reshape": lambda: model.onnx.reshape([x, model.onnx.constant(np.int64([1, 4]))]),
        "scale": lambda: model.graphcore.scale([x], 1.0),
        "reverse": lambda: model.graphcore.reverse([x], []),
    }[name]()
    assert types_of(model.session([y])) == ["ExpInplace", "IdentityInplace"]
    z = model.onnx.sin([y])
    assert types_of(model.session([z])) == ["ExpInplace", "SinInplace"]
    minimal = popart.Patterns(popart.PatternsLevel.Minimal)
    assert len(types_of(model.session([z], patterns=minimal))) == 3


@pytest.mark.parametrize("reduction, count", [(popart.ReductionType.NoReduction, 0), (popart.ReductionType.Sum, 1)])
def test_identity_loss_is_left_when_it_reduces(reduction, count):
    model = Model()
    loss = model.graphcore.identityloss([model.onnx.reducesum([model.weight([4])], keepdims=0)], reduction=reduction)
    assert not of_type(model.session([loss], loss), "IdentityLoss")
    loss = model.graphcore.identityloss([model.onnx.sin([model.weight([4], "v")])], reduction=popart.ReductionType.Sum)
    session = model.session([loss], loss)
    assert [op["type"] for op in of_type(session, "IdentityLoss")] == ["IdentityLoss", "IdentityLossGrad"]


def test_in_place_only_where_nobody_reads_the_old_value():
    model = Model()
    x = model.onnx.exp([model.input([4])])
    a, b = model.onnx.relu([x]), model.onnx.sin([x])
    c = model.onnx.add([a, b])
    assert types_of(model.session([c])) == ["ExpInplace", "Relu", "SinInplace", "AddLhsInplace"]
    assert types_of(model.session([c, x])) == ["ExpInplace", "Relu", "Sin", "AddLhsInplace"]
    assert types_of(model.session([c], patterns=_NO_IN_PLACE)) == ["Exp", "Relu", "Sin", "Add"]


def test_preferences_and_exclusions_of_in_place_ops():
    model = Model()
    c = model.onnx.add([model.onnx.exp([model.input([4], "x")]), model.onnx.exp([model.input([4], "y")])])
    model.builder.setInplacePreferences(c, {"AddLhsInplace": 1.0, "AddRhsInplace": 2.0})
    assert types_of(model.session([c]))[-1] == "AddRhsInplace"
    model.builder.setInplacePreferences(c, {"AddLhsInplace": -1.0, "AddRhsInplace": -1.0})
    assert types_of(model.session([c]))[-1] == "Add"
    model.builder.excludePatterns(c, ["InPlace"])
    assert types_of(model.session([c]))[-1] == "Add"


def test_variables_are_never_overwritten():
    model = Model()
    y = model.onnx.relu([model.onnx.reshape([model.weight([4]), model.onnx.constant(np.int64([2, 2]))])])
    assert types_of(model.session([y], options=options(constantWeights=False))) == ["ReshapeInplace", "Relu"]
    assert types_of(model.session([y])) == ["Relu"]  # of constants, and anchored


def test_views_that_follow_each_other_are_one():
    model = Model()
    x = model.onnx.exp([model.input([2, 6])])
    y = model.onnx.unsqueeze(
        [model.onnx.flatten([model.onnx.reshape([x, model.onnx.constant(np.int64([3, 4]))])])], axes=[0]
    )
    assert types_of(model.session([y])) == ["ExpInplace", "ReshapeInplace"]
    turned = model.onnx.transpose([model.onnx.transpose([x], [1, 0])], [1, 0])
    assert types_of(model.session([model.onnx.sin([turned])])) == ["ExpInplace", "SinInplace"]


def test_a_loss_on_a_softmax_has_one_gradient_op():
    def types(patterns, anchors=()):
        model = Model()
        y = model.onnx.softmax([model.weight([3, 4])])
        loss = model.graphcore.nllloss([y, model.input([3], "labels", "INT32")])
        return types_of(model.session([loss, *anchors], loss, patterns=patterns))

    both = types(popart.Patterns())
    assert "NlllWithSoftmaxGradDirect" in both and "Nll" not in both and "NllGrad" not in both
    one = types(popart.Patterns().enablePattern("NlllWithSoftmaxGradDirect", False))
    assert "SoftmaxGradDirect" in one and "Nll" in one and "SoftmaxGrad" not in one
    none = types(popart.Patterns(popart.PatternsLevel.Minimal))
    assert {"Nll", "NllGrad", "SoftmaxGrad"} <= set(none)


@pytest.mark.parametrize(
    "mode, shapes", [("output_channels", ["[1 4 6]", "[1 6 4]"]), ("reducing_dim", ["[1 4 3]", "[1 3 8]"])]
)
@pytest.mark.shows("popart.Builder.setSerializeMatMul")
def test_parts_of_a_product(mode, shapes):
    model = Model()
    y = model.onnx.matmul([model.input([4, 6]), model.weight([6, 8])])
    model.builder.setSerializeMatMul({y}, mode, 2)
    products = of_type(model.session([y], options=options(enableOutlining=False)), "MatMul")
    assert [[each["shape"] for each in op["inputs"]] for op in products] == [shapes, shapes]
    outlined = model.session([y])
    assert len(of_type(outlined, "MatMul")) == 1 and len(of_type(outlined, "Call")) == 2
    model.builder.setSerializeMatMul({y}, mode, 5)
    with pytest.raises(popart.popart_exception, match="into 5 parts"):
        model.session([y])


@pytest.mark.parametrize("pieces", [1, 2])
def test_tied_gathers(pieces):
    model = Model()
    table = model.weight([8, 4], "table")
    rows = model.onnx.gather([table, model.input([3], "indices", "UINT32")])
    y = model.onnx.matmul([rows, model.onnx.transpose([table], [1, 0])])
    if pieces > 1:
        model.builder.setSerializeMatMul({y}, "output_channels", pieces)
    patterns = popart.Patterns().enablePattern("TiedGather", True)
    session = model.session([y], patterns=patterns, options=options(enableOutlining=False))
    types = types_of(session)
    assert types.count("PopartTiedGather") == pieces and "Gather" not in types
    assert {op["attributes"]["fully_connected_pass"] for op in of_type(session, "MatMul")} == {"-1"}
    assert "Gather" in types_of(model.session([y], options=options(enableOutlining=False)))

"""What runs, as programs ask for it, and the check of a model before it is compiled."""

import dataclasses

import onnx
import onnx.helper
import pytest

import popart
from popart._impl.operators import queries
from popart._impl.operators.onnx import OPERATORS
from popart._impl.operators.queries import check_model


def model(kind, opset, domain="", **attributes):
    node = onnx.helper.make_node(kind, ["x"], ["y"], name="the_node", domain=domain, **attributes)
    graph = onnx.helper.make_graph([node], "g", [], [])
    versions = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("ai.graphcore", 1)]
    return onnx.helper.make_model(graph, opset_imports=versions)


@pytest.mark.shows("popart.getSupportedOperations", "popart.getUnsupportedOperations")
def test_supported_and_unsupported_operators_share_no_version():
    supported = set(popart.getSupportedOperations(False))
    names = {name.type for name in supported}
    assert {"Constant", "ConstantOfShape", "Shape", "Add", "If"} <= names
    assert popart.OperatorIdentifier("ai.onnx", "Conv", 11) in supported
    for opset in range(6, 12):
        unsupported = set(popart.getUnsupportedOperations(opset))
        assert not unsupported & supported
        assert popart.OperatorIdentifier("ai.onnx", "Hardmax", 1 if opset < 11 else 11) in unsupported
    assert supported < set(popart.getSupportedOperations(True))


def test_an_opset_that_is_not_there_is_refused():
    with pytest.raises(popart.popart_exception, match="Unsupported opset: 12"):
        popart.getUnsupportedOperations(12)


def test_less_of_opset_6_is_not_there_and_that_of_7_is():
    unsupported = {name.type for name in popart.getUnsupportedOperations(6)}
    assert "Less" in unsupported
    assert "Less" not in {name.type for name in popart.getUnsupportedOperations(7)}


@pytest.mark.shows("popart.getSupportedOperationsDefinition")
def test_a_definition_has_inputs_outputs_and_attributes():
    definitions = popart.getSupportedOperationsDefinition(False)
    clip = definitions[popart.OperatorIdentifier("ai.onnx", "Clip", 11)]
    assert [(i.name, i.constant) for i in clip.inputs] == [("input", False), ("min", True), ("max", True)]
    assert clip.inputs[0].supportedTensors == ["FLOAT", "FLOAT16"]
    assert [o.name for o in clip.outputs] == ["output"]
    lstm = definitions[popart.OperatorIdentifier("ai.onnx", "LSTM", 7)]
    assert lstm.attributes["direction"].supportedValuesRegex == "forward"
    assert lstm.attributes["hidden_size"].supportedValuesRegex == ".*"


@pytest.mark.shows("popart.OperatorIdentifier")
def test_identifiers_are_ordered_values():
    a, b = popart.OperatorIdentifier("ai.onnx", "Abs", 6), popart.OperatorIdentifier("ai.onnx", "Add", 6)
    assert a < b and a == popart.OperatorIdentifier("ai.onnx", "Abs", 6) and len({a, b, a}) == 2
    assert (a.domain, a.type, a.version) == ("ai.onnx", "Abs", 6)


def test_rows_that_no_session_runs_have_no_versions():
    for row in OPERATORS:
        assert bool(row.versions) == (row.how != "none"), row.type
        assert list(row.versions) == sorted(row.versions)
        assert row.gradient in ("yes", "zero", "none", "error")


@pytest.mark.parametrize("kind, opset", [("Hardmax", 10), ("NonZero", 9), ("Less", 6), ("Madeup", 11)])
def test_a_node_that_no_session_runs_is_named(kind, opset):
    with pytest.raises(popart.popart_exception, match=f"no class for ai.onnx.{kind}:{opset}, which node 'the_node'"):
        check_model(model(kind, opset))


def test_an_older_version_is_used_where_that_is_allowed(monkeypatch):
    row = next(row for row in OPERATORS if row.type == "Conv")
    old = dataclasses.replace(row, versions=(1,))
    monkeypatch.setattr(queries, "operators", lambda: {("ai.onnx", "Conv"): old})
    check_model(model("Conv", 10))
    check_model(model("Conv", 11), strict_op_versions=False)
    text = "For an opset 11 model, the ONNX spec stipulates that a Conv op must be version 11. .* equal to 11 is 1"
    with pytest.raises(popart.popart_exception, match=text):
        check_model(model("Conv", 11))


def test_no_row_that_runs_needs_leave_to_be_older():
    for opset in range(6, 12):
        for row in OPERATORS:
            if any(version <= opset for version in row.versions):
                check_model(model(row.type, opset))


@pytest.mark.parametrize("opset", (5, 12))
def test_opsets_outside_of_6_to_11_are_refused(opset):
    with pytest.raises(popart.popart_exception, match=f"Unsupported opset: the model uses version {opset}"):
        check_model(model("Abs", opset))


def test_nodes_inside_of_nodes_are_checked():
    body = onnx.helper.make_graph([onnx.helper.make_node("Hardmax", ["x"], ["t"])], "b", [], [])
    outer = model("If", 11, then_branch=body, else_branch=body)
    with pytest.raises(popart.popart_exception, match="no class for ai.onnx.Hardmax:11"):
        check_model(outer)

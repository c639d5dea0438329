"""Every axis and every index that a model states, from both ends: what it means, and that one beyond the ends is an error when
the model is imported."""

import numpy
import pytest

import ipu_core
from onnx_models import assert_same, ints, make_model, normal, ours, reference

X = normal(2, 3, 4)
SQUARE = normal(3, 3, 3)
ROWS = numpy.int64([[[0]], [[1]]])
# Operators with an axis: operands, the name of the attribute, results, versions it is tested at.
BY_ATTRIBUTE = {
    "Concat": ([X, X], "axis", 1, (11, 18)),
    "Split": ([normal(4, 4, 4)], "axis", 2, (11, 17)),
    "Gather": ([X, ints(0, 1)], "axis", 1, (11, 18)),
    "GatherElements": ([X, (X > 0).astype(numpy.int64)], "axis", 1, (11, 18)),
    "ScatterElements": ([X, ROWS, normal(2, 1, 1)], "axis", 1, (11, 18)),
    "Softmax": ([X], "axis", 1, (13, 18)),
    "LogSoftmax": ([X], "axis", 1, (13, 18)),
    "ArgMax": ([X], "axis", 1, (12, 18)),
    "ArgMin": ([X], "axis", 1, (12, 18)),
    "TopK": ([X, ints(2)], "axis", 2, (11, 18)),
    "Flatten": ([X], "axis", 1, (11, 18)),
    "LayerNormalization": ([SQUARE], "axis", 1, (17,)),
}
# With a list of axes: an attribute before the version and an operand from then on.
BY_LIST = {
    "Squeeze": ([normal(1, 1, 1)], 13),
    "Unsqueeze": ([normal(2, 3)], 13),
    "ReduceSum": ([X], 13),
    "ReduceMean": ([X], 18),
    "ReduceMax": ([X], 18),
    "ReduceMin": ([X], 18),
    "ReduceProd": ([X], 18),
    "ReduceL1": ([X], 18),
    "ReduceL2": ([X], 18),
    "ReduceLogSumExp": ([X], 18),
    "ReduceSumSquare": ([X], 18),
}
# With an operand that is one axis.
BY_OPERAND = {
    "Slice": (lambda axis: [X, ints(1), ints(2), ints(axis)], 13),
    "CumSum": (lambda axis: [X, numpy.int64(axis)], 14),
    "Pad": (lambda axis: [X, ints(1, 2), numpy.float32(0.5), ints(axis)], 18),
}


def check(kind, operands, options, version, results, is_there):
    """`is_there`: the axis is one; else importing is an error."""
    names = [f"x{i}" for i in range(len(operands))]
    outputs = [f"y{i}" for i in range(results)]
    inputs, constants = {"x0": operands[0]}, dict(zip(names[1:], operands[1:]))
    if kind == "LayerNormalization":
        axis = options["axis"] if is_there else 0
        constants["x1"], names = numpy.ones(SQUARE.shape[axis:], numpy.float32), [*names, "x1"]
    model = make_model([(kind, names, outputs, options)], inputs, outputs, version, constants)
    if is_there:
        return assert_same(ours(model, inputs), reference(model, inputs), rtol=1e-5)
    with pytest.raises(ipu_core.Error, match=rf"dimension out of range \[IPU-E201\]: .*{kind}"):
        ipu_core.model_text(ipu_core.read_onnx(model))


@pytest.mark.parametrize("axis", range(-4, 5))
@pytest.mark.parametrize("kind", BY_ATTRIBUTE)
def test_an_attribute_names_a_dimension_from_either_end(kind, axis):
    operands, name, results, versions = BY_ATTRIBUTE[kind]
    for version in versions:
        is_there = -3 <= axis < 3 + (kind == "Flatten")
        check(kind, operands, {name: axis}, version, results, is_there)


@pytest.mark.parametrize("axis", range(-4, 4))
@pytest.mark.parametrize("kind", BY_LIST)
def test_a_list_names_dimensions_from_either_end(kind, axis):
    operands, since = BY_LIST[kind]
    check(kind, [*operands, ints(axis)], {}, since, 1, -3 <= axis < 3)
    if axis >= 0:  # the reference knows no others in old versions
        check(kind, operands, {"axes": [axis]}, since - 1, 1, axis < 3)


@pytest.mark.parametrize("axis", range(-4, 4))
@pytest.mark.parametrize("kind", BY_OPERAND)
def test_an_operand_names_a_dimension_from_either_end(kind, axis):
    operands, version = BY_OPERAND[kind]
    check(kind, operands(axis), {}, version, 1, -3 <= axis < 3)


# Indices into the dimension of size 3 of x, which is an input or a constant.
INDEXED = {
    "Gather": (lambda i: [ints(i, 0)], {"axis": 1}),
    "GatherElements": (lambda i: [numpy.full((2, 1, 4), i)], {"axis": 1}),
    "GatherND": (lambda i: [numpy.int64([[0, i], [1, 0]])], {}),
    "ScatterElements": (lambda i: [numpy.full((2, 1, 4), i), normal(2, 1, 4)], {"axis": 1}),
    "ScatterND": (lambda i: [numpy.int64([[0, i], [1, 0]]), normal(2, 4)], {}),
}


@pytest.mark.parametrize("dialect", ["onnx", "popart"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("index", range(-4, 4))
@pytest.mark.parametrize("kind", INDEXED)
def test_an_index_counts_from_either_end(kind, index, known, dialect):
    operands, options = INDEXED[kind]
    constants = {f"i{i}": value for i, value in enumerate(operands(index))}
    inputs, x = ({"z": X}, {"x": X}) if known else ({"x": X}, {})
    nodes = [(kind, ["x", *constants], ["y"], options)]
    model = make_model(nodes, inputs, ["y"], 11 if dialect == "popart" else 18, {**constants, **x})
    records = ipu_core.read_onnx(model, dialect=dialect)
    if -3 <= index < 3:
        session = ipu_core.compile_model(records)
        got = [session.run(inputs)["y"]]
        session.detach()
        return assert_same(got, reference(model, inputs))
    message = (
        rf"index out of range \[IPU-E201\]: .*{kind}.* has index {index} at position \d+ of 'i0'; there are 3 elements"
    )
    with pytest.raises(ipu_core.Error, match=message):
        ipu_core.compile_model(records)


def test_an_index_that_is_computed_is_checked_when_it_is_read():
    model = make_model([("Gather", ["x", "i"], ["y"], {"axis": 1})], {"x": X, "i": ints(0, -4)}, ["y"], 18)
    with pytest.raises(ipu_core.Error, match="index out of range"):
        ours(model, {"x": X, "i": ints(0, -4)})

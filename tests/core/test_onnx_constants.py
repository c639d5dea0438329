"""Constants of a model are computed in the types of the model, when it is imported: the arithmetic of shapes that exporters
write, against the reference evaluator of onnx."""

import numpy
import onnx
import pytest

import ipu_core
from constant_graphs import ConstantGraph
from onnx_models import assert_same, ints, make_model, normal, ours, reference

X = normal(2, 3, 4)
MOST, LEAST = 2**63 - 1, -(2**63)
DOUBLE, INT64, FLOAT = onnx.TensorProto.DOUBLE, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT


def check(seed):
    graph = ConstantGraph(seed, (9, 10, 11, 12, 13, 15, 18, 21)[seed % 8])
    model, expected = graph.model()
    session = ipu_core.compile_model(ipu_core.read_onnx(model))
    got = session.run({"x": graph.x})
    session.detach()
    for name, value in expected.items():
        numpy.testing.assert_array_equal(
            got[name], value, err_msg=f"seed {seed}, {name}", strict=value.dtype.itemsize < 8
        )
        assert got[name].shape == value.shape, f"seed {seed}, {name}"


@pytest.mark.parametrize("first", range(0, 64, 8))
def test_random_graphs_of_constants_are_what_onnx_says(first):
    for seed in range(first, first + 8):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_many_random_graphs_of_constants_are_what_onnx_says(first):
    for seed in range(first, first + 100):
        check(seed)


def slice_to(steps, **constants):
    """x[:, 1:], whose end follows from constants by `steps`."""
    last = [] if not steps else ["end"]
    return (
        [*steps, ("Slice", ["x", "one", *(last or ["most"]), "one"], ["y"], {})],
        {"one": ints(1), "most": ints(MOST), **constants},
    )


# Each gives the largest 64-bit integer as [1], or what is as good as an end.
ENDS = {
    "Unsqueeze": ([("Unsqueeze", ["scalar", "zero"], ["end"], {})], {"scalar": numpy.int64(MOST), "zero": ints(0)}),
    "Squeeze": ([("Squeeze", ["row", "zero"], ["end"], {})], {"row": ints([MOST]), "zero": ints(0)}),
    "Concat": ([("Concat", ["most"], ["end"], {"axis": 0})], {}),
    "Concat and Slice": (
        [("Concat", ["most", "one"], ["two"], {"axis": -1}), ("Slice", ["two", "zero", "one"], ["end"], {})],
        {"zero": ints(0)},
    ),
    "Reshape": ([("Reshape", ["scalar", "one"], ["end"], {})], {"scalar": numpy.int64(MOST)}),
    "Cast": ([("Cast", ["most"], ["end"], {"to": INT64})], {}),
    "Cast to a real": (
        [("Cast", ["far"], ["real"], {"to": DOUBLE}), ("Cast", ["real"], ["end"], {"to": INT64})],
        {"far": ints(2**52)},
    ),
    "Gather": ([("Gather", ["list", "one"], ["end"], {})], {"list": ints(3, MOST)}),
    "Expand": ([("Expand", ["most", "one"], ["end"], {})], {}),
    "Tile": ([("Tile", ["most", "one"], ["end"], {})], {}),
    "Transpose": (
        [("Transpose", ["row"], ["turned"], {}), ("Reshape", ["turned", "one"], ["end"], {})],
        {"row": ints([MOST])},
    ),
    "Neg": ([("Neg", ["least"], ["end"], {})], {"least": ints(-MOST)}),
    "Add": ([("Add", ["most", "zero"], ["end"], {})], {"zero": ints(0)}),
    "Sub": ([("Sub", ["most", "one"], ["end"], {})], {}),
    "Mul": ([("Mul", ["far", "far"], ["end"], {})], {"far": ints(65536)}),
    "Div": ([("Div", ["most", "two"], ["end"], {})], {"two": ints(2)}),
    "Max": ([("Max", ["one", "most"], ["end"], {})], {}),
    "Where": ([("Where", ["no", "one", "most"], ["end"], {})], {"no": numpy.array([False])}),
    "ConstantOfShape": (
        [("ConstantOfShape", ["one"], ["end"], {"value": onnx.helper.make_tensor("v", INT64, [1], [MOST])})],
        {},
    ),
    "ReduceSum": ([("ReduceSum", ["list"], ["end"], {})], {"list": ints(2**40, 3)}),
    "ReduceMax": ([("ReduceMax", ["list"], ["end"], {})], {"list": ints(3, MOST)}),
    "ReduceProd": ([("ReduceProd", ["list"], ["end"], {})], {"list": ints(2**31, 2**31)}),
    "CumSum": (
        [("CumSum", ["list", "zero"], ["sums"], {}), ("Gather", ["sums", "one"], ["end"], {})],
        {"list": ints(2**40, 2**40), "zero": numpy.int64(0)},
    ),
    "Identity": ([("Identity", ["most"], ["end"], {})], {}),
}


@pytest.mark.parametrize("case", ENDS)
def test_the_end_of_a_slice_follows_from_constants(case):
    steps, constants = ENDS[case]
    nodes, constants = slice_to(steps, **constants)
    model = make_model(nodes, {"x": X}, ["y"], 18, constants)
    (got,) = ours(model, {"x": X})
    numpy.testing.assert_array_equal(got, X[:, 1:])


def test_products_of_sizes_pass_32_bits():
    nodes = [
        ("Mul", ["a", "a"], ["b"], {}),
        ("Div", ["b", "a"], ["c"], {}),
        ("Div", ["c", "d"], ["e"], {}),
        ("Concat", ["e", "rest"], ["shape"], {"axis": 0}),
        ("Reshape", ["x", "shape"], ["y"], {}),
    ]
    model = make_model(nodes, {"x": X}, ["y"], 17, {"a": ints(65536), "d": ints(16384), "rest": ints(-1)})
    assert_same(ours(model, {"x": X}), [X.reshape(4, -1)])


@pytest.mark.parametrize("opset", [10, 13, 18])
@pytest.mark.parametrize("axis", [-1, -2, -3, 0, 1, 2])
def test_sizes_are_gathered_from_either_end(opset, axis):
    nodes = [
        ("Shape", ["x"], ["s"], {}),
        ("Gather", ["s", "i"], ["g"], {}),
        ("Concat", ["g", "rest"], ["n"], {"axis": 0}),
        ("Reshape", ["x", "n"], ["y"], {}),
    ]
    model = make_model(nodes, {"x": X}, ["y"], opset, {"i": ints(axis), "rest": ints(-1)})
    (got,) = ours(model, {"x": X})
    assert got.shape == (X.shape[axis], X.size // X.shape[axis])


def branch(name, nodes):
    made = [onnx.helper.make_node(kind, operands, [name], **options) for kind, operands, options in nodes]
    return onnx.helper.make_graph(
        made, name, [], [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None)]
    )


@pytest.mark.parametrize("rows", [1, 2])
def test_a_condition_of_the_model_takes_one_branch(rows):
    """As torch writes x.squeeze(0): the branches do not have one shape, and what the other does has no meaning."""
    squeezed, kept = branch("a", [("Squeeze", ["x", "zero"], {})]), branch("b", [("Identity", ["x"], {})])
    nodes = [
        ("Shape", ["x"], ["s"], {}),
        ("Gather", ["s", "zero"], ["n"], {}),
        ("Equal", ["n", "one"], ["is_one"], {}),
        ("If", ["is_one"], ["z"], {"then_branch": squeezed, "else_branch": kept}),
        ("Shape", ["z"], ["after"], {}),
        ("ConstantOfShape", ["after"], ["zeros"], {}),
        ("Sub", ["zeros", "z"], ["y"], {}),
    ]
    x = normal(rows, 3)
    model = make_model(nodes, {"x": x}, ["y"], 17, {"zero": ints(0), "one": ints(1)})
    (got,) = ours(model, {"x": x})
    numpy.testing.assert_array_equal(got, -(x[0] if rows == 1 else x))


def test_what_the_device_has_no_integer_for_is_refused_where_it_is_read():
    nodes = [("Add", ["a", "a"], ["b"], {}), ("Cast", ["x"], ["c"], {"to": INT64}), ("Mul", ["c", "b"], ["y"], {})]
    model = make_model(nodes, {"x": X}, ["y"], 17, {"a": ints(2**30)})
    with pytest.raises(ipu_core.Error, match=r"value out of range \[IPU-E201\]: element 0 of 'b' is 2147483648"):
        ours(model, {"x": X})


def test_a_large_table_of_constants_is_computed_when_the_program_runs():
    table = normal(300, 300)
    model = make_model(
        [("Transpose", ["w"], ["t"], {}), ("MatMul", ["x", "t"], ["y"], {})],
        {"x": normal(2, 300)},
        ["y"],
        17,
        {"w": table},
    )
    assert_same(ours(model, {"x": normal(2, 300)}), [normal(2, 300) @ table.T], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("start, limit, delta", [(MOST - 3, MOST, 1), (LEAST + 7, LEAST, -2), (LEAST, MOST, MOST)])
def test_a_range_of_large_numbers_has_every_element(start, limit, delta):
    numbers = list(range(start, limit, delta))
    x = numpy.zeros(len(numbers), numpy.float32)
    model = make_model(
        [("Range", ["a", "b", "c"], ["r"], {}), ("Cast", ["r"], ["f"], {"to": FLOAT}), ("Add", ["x", "f"], ["y"], {})],
        {"x": x},
        ["y"],
        17,
        {"a": numpy.int64(start), "b": numpy.int64(limit), "c": numpy.int64(delta)},
    )
    assert_same(ours(model, {"x": x}), [numpy.array(numbers, numpy.float32)])


def test_a_range_of_many_elements_is_made_on_the_device():
    model = make_model(
        [("Range", ["a", "b", "c"], ["r"], {}), ("Cast", ["r"], ["f"], {"to": FLOAT}), ("Add", ["x", "f"], ["y"], {})],
        {"x": numpy.zeros(1, numpy.float32)},
        ["y"],
        17,
        {"a": numpy.int64(5), "b": numpy.int64(200_005), "c": numpy.int64(2)},
    )
    assert_same(
        ours(model, {"x": numpy.zeros(1, numpy.float32)}), reference(model, {"x": numpy.zeros(1, numpy.float32)})
    )


@pytest.mark.parametrize(
    "nodes, constants, message",
    [
        ([("Range", ["n", "n", "z"], ["y"], {})], {"n": numpy.int64(1), "z": numpy.int64(0)}, "steps by 0"),
        ([("Range", ["n", "n", "n"], ["y"], {})], {"n": ints(1, 2)}, "2, 2 and 2 elements; each operand is one number"),
        ([("NonZero", ["x"], ["y"], {})], {}, "how many elements are not zero is known when the program runs"),
        (
            [("Range", ["m", "n", "n"], ["y"], {})],
            {"m": numpy.int64(-(2**40)), "n": numpy.int64(1)},
            "tensor too large",
        ),
    ],
)
def test_what_follows_from_constants_alone_may_be_wrong(nodes, constants, message):
    model = make_model(nodes, {"x": X}, ["y"], 17, constants)
    with pytest.raises(ipu_core.Error, match=message):
        ours(model, {"x": X})

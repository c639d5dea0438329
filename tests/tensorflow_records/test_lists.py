"""TensorLists as stacks, in loops and their gradients, by hand and in records of TensorFlow's own programs."""

import json
import pathlib

import numpy
import pytest
from unit_records import Records

import ipu_core

f32, i32 = numpy.float32, numpy.int32
HERE = pathlib.Path(__file__).parent


def array(data):
    return numpy.array(data["data"], data["dtype"]).reshape(data["shape"])


def with_arrays(graph):
    """The graph of a fixture as the dictionary of a unit."""
    for node in graph["nodes"]:
        for name, value in node["attributes"].items():
            if isinstance(value, dict):
                node["attributes"][name] = array(value)
        for inside in node.get("subgraphs", {}).values():
            with_arrays(inside)
        if "location" in node:
            node["location"] = tuple(node["location"])
    graph["inputs"] = [tuple(entry) if isinstance(entry, list) else entry for entry in graph["inputs"]]
    graph["initialisers"] = {name: tuple(value) for name, value in graph.get("initialisers", {}).items()}
    return graph


# What TensorFlow gave for the same inputs stands in the files.
@pytest.mark.parametrize(
    ("name", "trips"),
    [
        ("while_gradient", [5, 5]),
        ("map_fn_gradient", [3, 3]),
        ("tensor_array_gradient", [3, 3]),
        ("dynamic_rnn_gradient", [3, 3]),
        ("nested_while_gradient", [2, 3, 3]),
    ],
)
def test_programs_of_tensorflow(name, trips):
    fixture = json.loads((HERE / f"{name}.json").read_text())
    with_arrays(fixture["unit"]["graph"])
    unit = ipu_core.Unit(fixture["unit"])
    text = unit.text()
    assert all(f"trip={trip}" in text for trip in trips)  # counters are known, lists have room for so many
    outputs, _ = unit.run(
        [array(value) for value in fixture["inputs"]],
        {key: array(value) for key, value in fixture["variables"].items()},
    )
    for ours, theirs in zip(outputs, fixture["outputs"], strict=True):
        numpy.testing.assert_allclose(ours, array(theirs), rtol=2e-6, atol=1e-6)


def counted(r, limit, body, *carried, first=0, **attributes):
    """while i < limit: i += 1 and what `body` gives of (graph, i, carried)."""
    names = [f"v{i}" for i in range(len(carried))]
    condition = r.inside("i", *names)
    condition.returns(condition.node("Less", "i", limit if isinstance(limit, str) else condition.const(limit, i32)))
    inside = r.inside("i", *names)
    following = inside.node("AddV2", "i", inside.const(1, i32))
    inside.returns(following, *body(inside, "i", *names))
    return r.node(
        "While",
        r.const(first, i32),
        *carried,
        results=1 + len(carried),
        subgraphs={"cond": condition, "body": inside},
        **attributes,
    )[1:]


def reserved(r, length, shape=-1):
    return r.node("TensorListReserve", r.const(shape, i32), r.const(length, i32), element_dtype="float32")


def write(graph, i, entries, value):
    return graph.node(
        "TensorListSetItem", entries, i, value, element_dtype="float32", resize_if_index_out_of_bounds=False
    )


@pytest.mark.parametrize("shape", [-1, [2], [-1]])
def test_entries_of_a_shape_that_is_found_later(shape):
    r = Records([("x", f32, [2])])
    (entries,) = counted(r, 3, lambda g, i, v: [write(g, i, v, "x")], reserved(r, 4, shape))
    stack = r.node("TensorListStack", entries, r.const(shape, i32), element_dtype="float32", num_elements=4)
    (stack,), _ = ipu_core.Unit(r.returns(stack).unit()).run([f32([5, 6])])
    numpy.testing.assert_array_equal(stack, [[5, 6], [5, 6], [5, 6], [0, 0]])


def pushed_and_popped(r, limit, **attributes):
    """Appends x, 2 x, 4 x, ... and gives their sum by taking them away from the end."""
    empty = r.node("EmptyTensorList", r.const([2], i32), r.const(-1, i32), element_dtype="float32")

    def push(g, i, entries, x):
        return [g.node("TensorListPushBack", entries, x, element_dtype="float32"), g.node("AddV2", x, x)]

    entries, _ = counted(r, limit, push, empty, "x", **attributes)
    length = r.node("TensorListLength", entries)

    def pop(g, i, entries, total):
        entries, x = g.node("TensorListPopBack", entries, g.const(-1, i32), results=2, element_dtype="float32")
        return [entries, g.node("AddV2", total, x)]

    _, total = counted(r, length, pop, entries, r.const([0, 0], f32))
    return length, total


def test_list_grows_by_as_many_entries_as_the_loop_has_rounds():
    r = Records([("x", f32, [2])])
    unit = ipu_core.Unit(r.returns(*pushed_and_popped(r, 4)).unit())
    (length, total), _ = unit.run([f32([1, 3])])
    assert length == 4
    numpy.testing.assert_array_equal(total, [15, 45])


def test_bound_of_a_loop_is_room_for_its_list():
    r = Records([("x", f32, [2]), ("n", i32, [])])
    unit = ipu_core.Unit(r.returns(*pushed_and_popped(r, "n", maximum=5)).unit())
    for n in (0, 3, 5, 9):
        (length, total), _ = unit.run([f32([1, 3]), numpy.array(n, i32)])
        rounds = min(n, 5)
        assert length == rounds
        numpy.testing.assert_array_equal(total, f32([1, 3]) * (2**rounds - 1))


def test_list_without_a_bound_says_how_to_give_one():
    r = Records([("x", f32, [2]), ("n", i32, [])])
    r.returns(*pushed_and_popped(r, "n"))
    with pytest.raises(ipu_core.Error, match="give the loop that fills it a bound, maximum_iterations"):
        ipu_core.Unit(r.unit()).text()


def test_entries_of_no_known_shape():
    r = Records([])
    r.returns(r.node("TensorListStack", reserved(r, 4), r.const(-1, i32), element_dtype="float32", num_elements=4))
    with pytest.raises(ipu_core.Error, match="give TensorArray an element_shape"):
        ipu_core.Unit(r.unit()).text()


def test_entries_of_two_types():
    r = Records([("x", f32, [2]), ("y", f32, [3])])
    zero = r.const(0, i32)
    write(r, zero, write(r, zero, reserved(r, 4), "x"), "y")
    with pytest.raises(ipu_core.Error, match=r"puts f32\[3\] into a list of f32\[2\]"):
        ipu_core.Unit(r.returns().unit()).text()


def test_list_in_branches():
    r = Records([("p", bool, []), ("x", f32, [2])])
    entries = reserved(r, 2)
    then, otherwise = r.inside(), r.inside().returns(entries)
    then.returns(write(then, then.const(1, i32), entries, "x"))
    chosen = r.node("If", "p", subgraphs={"then": then, "else": otherwise})
    item = r.node("TensorListGetItem", chosen, r.const(1, i32), r.const([2], i32), element_dtype="float32")
    unit = ipu_core.Unit(r.returns(item).unit())
    for says in (True, False):
        (item,), _ = unit.run([numpy.array(says), f32([1, 2])])
        assert item.tolist() == ([1, 2] if says else [0, 0])

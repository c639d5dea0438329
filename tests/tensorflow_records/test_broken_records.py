"""Records that do not fit together are refused with an error, and never read past anything."""

import copy
import random

import numpy
import pytest
from test_lists import counted, pushed_and_popped
from unit_records import Records

import ipu_core

f32, i32 = numpy.float32, numpy.int32


def sound():
    """A unit with most of what records can have."""
    r = Records([("x", f32, [2]), ("p", bool, [])], {"w": (f32, [2]), "n": (numpy.int64, [])})
    length, total = pushed_and_popped(r, 3)

    def step(g, i, v):
        g.node("AssignAddVariableOp", "w", v, results=0)
        g.node("OutfeedEnqueue", v, results=0, domain="ipu", queue="broken_out", mode="all")
        fed = g.node("InfeedDequeue", domain="ipu", queue="broken_in", dtypes=["float32"], shapes=[[2]])
        return [g.node("Mul", v, fed)]

    (y,) = counted(r, 2, step, total)
    then, otherwise = r.inside("a"), r.inside("a")
    then.assign("w", "a")
    chosen = r.node(
        "If",
        "p",
        y,
        subgraphs={"then": then.returns("a"), "else": otherwise.returns(otherwise.node("AddV2", "a", "x"))},
    )
    body = r.inside("b")
    last = r.node("Repeat", chosen, domain="ipu", subgraphs={"body": body.returns(body.node("Mul", "b", "x"))}, n=2)
    r.node("Assert", r.node("Less", length, r.const(9, i32)), length, results=0, message="{}", summarize=3)
    return r.returns(last, length).unit()


def graphs_of(graph):
    yield graph
    for node in graph["nodes"]:
        for inside in node.get("subgraphs", {}).values():
            yield from graphs_of(inside)


def break_something(unit, draw):
    graph = draw.choice(list(graphs_of(unit["graph"])))
    names = [name for node in graph["nodes"] for name in node["results"] + node["operands"]] + ["", "x", "w", "lost"]
    other = draw.choice(names)
    if not graph["nodes"] or draw.random() < 0.15:
        draw.choice([graph["outputs"], graph["inputs"]]).append(other)
        return
    node = draw.choice(graph["nodes"])
    what = draw.randrange(9)
    strange = draw.choice([0, -1, 2**31, 2**40, 1.5, "", "x", True, [], [1, -1], ["a"], [[-1]], numpy.array([2**40])])
    if what == 0 and node["operands"]:
        node["operands"][draw.randrange(len(node["operands"]))] = other
    elif what == 1:
        node["operands"] = node["operands"][: draw.randrange(len(node["operands"]) + 1)]
    elif what == 2:
        node["operands"].append(other)
    elif what == 3:
        node["results"] = node["results"][: draw.randrange(len(node["results"]) + 1)] + [other] * draw.randrange(2)
    elif what == 4 and node.get("attributes"):
        node["attributes"][draw.choice(sorted(node["attributes"]))] = strange
    elif what == 5:
        node["attributes"] = {**node["attributes"], draw.choice(["n", "maximum", "loop", "list", "pushes"]): strange}
    elif what == 6:
        graph["nodes"].remove(node)
    elif what == 7:
        graph["nodes"].insert(draw.randrange(len(graph["nodes"]) + 1), copy.deepcopy(draw.choice(graph["nodes"])))
    else:
        kinds = ["While", "If", "Repeat", "TensorListPopBack", "TensorListSetItem", "ReadVariableOp", "AddN", "Const"]
        node["type"] = draw.choice(kinds)
        node["domain"] = draw.choice(["tf", "ipu", node["domain"]])


def try_out(seeds):
    """How many of the broken units were imported all the same."""
    imported = 0
    for seed in seeds:
        draw = random.Random(seed)
        unit = copy.deepcopy(sound())
        for _ in range(draw.randrange(1, 4)):
            break_something(unit, draw)
        try:
            ipu_core.Unit(unit).text()
            imported += 1
        except (ipu_core.Error, OverflowError) as error:
            assert "IPU-E0" not in str(error), f"seed {seed}: {error}"
    return imported


def test_sound_unit():
    assert "@broken_in" in ipu_core.Unit(sound()).text().replace('"', "")


def test_broken_units():
    assert 0 < try_out(range(150)) < 150


@pytest.mark.slow
def test_many_broken_units():
    try_out(range(1_000, 50_000))  # 5 minutes

"""What a session lists is what the machine runs: operators, copies, stashes and what is made again, over random models, modes,
annotations and pipelines."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_listings import Model, graphs_of, ids, of_type, options

import popart

MODES = popart.RecomputationType
TYPES = ("tanh", "sigmoid", "relu", "matmul", "gemm", "group", "skip", "turn", "dropout", "checkpoint")
ORIGIN = re.compile(r'origin\("[^"]*", "[^"]*".*?node="([^"]*)"')


@st.composite
def programs(draw):
    """Operators of a chain with their stages; mode, explicit recomputation, and what is annotated."""
    stages = draw(st.integers(1, 3))
    operators = ["matmul", *draw(st.lists(st.sampled_from(TYPES), min_size=stages, max_size=14))]
    ends = sorted(draw(st.lists(st.integers(1, len(operators)), min_size=stages - 1, max_size=stages - 1)))
    stage_of = [sum(at >= end for end in ends) for at in range(len(operators))]
    stage_of = [sorted(set(stage_of)).index(stage) for stage in stage_of]
    pipeline = stage_of[-1] > 0
    mode = draw(st.sampled_from([m for m in MODES if pipeline or m is not MODES.Pipeline]))
    explicit = draw(st.booleans())
    asked = set()
    if mode is MODES.NoRecompute and (not pipeline or explicit):
        asked = draw(st.sets(st.integers(0, len(operators) - 1), max_size=3))
    return operators, stage_of, mode, explicit, asked, draw(st.booleans())


def build(program):
    operators, stages, mode, explicit, asked, is_seen = program
    model, value = Model(), None
    value = before = model.input([4, 4])
    is_pipelined = stages[-1] > 0
    for i, (type, stage) in enumerate(zip(operators, stages)):
        with model.builder.virtualGraph(stage), model.builder.pipelineStage(stage):
            made = add(model, type, value, before, i)
            if i in asked:
                model.builder.recomputeOutputInBackwardPass(made, popart.RecomputeType.Recompute)
            before, value = value, made
            if i == len(operators) - 1:
                loss = model.loss(value)
    fields = {"autoRecomputation": mode, "enableOutlining": False, "explicitRecomputation": explicit}
    if is_pipelined:
        fields |= {"enableGradientAccumulation": True, "accumulationFactor": 6, "enablePipelining": True}
        fields |= {"virtualGraphMode": popart.VirtualGraphMode.Manual}
        fields |= {"useHostCopyOps": True, "enableExplicitMainLoops": True} if explicit else {}
    anchors = [loss, value] if is_seen and not is_pipelined else [loss]
    return model.session(anchors, loss, options=options(**fields), ipus=4 if stages[-1] == 2 else stages[-1] + 1)


def add(model, type, value, before, i):
    if type in ("tanh", "sigmoid", "relu"):
        return getattr(model.onnx, type)([value])
    if type == "matmul":
        return model.onnx.matmul([value, model.weight([4, 4], f"w{i}")])
    if type == "gemm":
        return model.onnx.gemm([value, model.weight([4, 4], f"w{i}"), model.weight([4], f"b{i}")])
    if type == "group":
        scales = [model.weight([4], f"{name}{i}") for name in "sb"]
        return model.graphcore.groupnormalization([value, *scales], 2)[0]
    if type == "turn":
        return model.onnx.transpose([value], [1, 0])
    if type == "dropout":
        return model.onnx.dropout([value], 1, 0.5)[0]
    if type == "checkpoint":
        return model.builder.checkpointOutput([model.onnx.tanh([value])])[0]
    return model.onnx.add([value, model.onnx.exp([before])])


def machine_of(session):
    """First results of the operators that the machine has in its forward pass, marks, and repeats."""
    session.prepareDevice(loadEngine=False)
    there, marked, repeated = set(), set(), set()
    for line in session.getSerializedGraph().decode().splitlines():
        if (found := ORIGIN.search(line)) is None:
            continue
        is_marked = 'recompute="recompute"' in line
        if 'context="backward"' in line:
            repeated |= {found[1]} if is_marked else set()
        else:
            there.add(found[1])
            marked |= {found[1]} if is_marked else set()
    return there, marked, repeated


def crossings_of(session):
    """(what gives it, whether it is a gradient, IPUs, cycles) of each value that goes to another stage or IPU, by the text."""
    rings, made, pushed, found = {}, {}, {}, []
    for line in session.getSerializedGraph().decode().splitlines():
        if line.startswith("graph"):
            made = {}  # values have their names within a graph
        elif line.startswith("ring"):
            name, capacity = re.search(r"@(\S+):.*capacity=(\d+)", line).groups()
            ends = [int(end[1]) if (end := re.search(rf"\b{key}=(\d+)", line)) else 0 for key in ("from", "to")]
            rings[name] = (*ends, int(capacity) - 1)
        elif op := re.match(r" +(?:%(.+) = )?(\S+)\((?:%([^,)]+))?", line):
            results, kind, operand = op.groups()
            result, *others = (results or "").split(", %")
            ring = re.search(r"ring=@([^ }]+)", line)
            made |= dict.fromkeys([result, *others], ("", False))  # statistics of norms, seeds
            if kind == "ring.push":
                pushed[ring[1]] = made[operand]
            elif kind == "ring.pop":
                made[result] = ring[1]
                found.append((ring[1], *rings[ring[1]]))
            elif kind == "host_load":
                made[result] = (re.search(r"stream=@([^ }]+)", line)[1], False)
            elif node := ORIGIN.search(line):
                is_again = 'recompute="recompute"' in line
                made[result] = (node[1], 'context="backward"' in line and not is_again)

    def maker(ring):
        return pushed[ring] if isinstance(pushed[ring], tuple) else maker(pushed[ring])

    return [(*maker(ring), *rest) for ring, *rest in found]


def plain(id):
    """The tensor of the model that a tensor in a loop is, or is what a view of it looks at."""
    return re.sub(r"^\w+_subgraph\(\d+\)/|Stashed___|(__t\d+)?(_c\d+)?$", "", id)


def check_crossings(session, there):
    """Copies and stashes, with their depths, of results by name; copies of gradients by IPUs."""
    copied, stashed, gradients = set(), Counter(), Counter()
    for node, is_gradient, begin, end, cycles in crossings_of(session):
        if is_gradient:
            gradients[begin, end] += begin != end
        elif node:
            copied |= {(node, begin, end)} if begin != end else set()
            stashed[node, end] += cycles - (begin != end)
    # Products read through these: the machine has what they look at.
    merged = {ids(op, "outputs")[0]: ids(op)[0] for op in of_type(session, "Transpose")}
    merged = {plain(view): plain(seen) for view, seen in merged.items() if plain(view) not in there}

    def read(id):
        return read(merged[id]) if (id := plain(id)) in merged else id

    listed, depths = set(), {}
    for op in of_type(session, "IpuCopy"):
        ends = int(op["attributes"]["__ipu_number"]), int(ids(op, "outputs")[0].rpartition("_c")[2])
        gradients[ends] -= "Gradient___" in ids(op)[0]
        listed |= {(read(ids(op)[0]), *ends)} if "Gradient___" not in ids(op)[0] else set()
    for op in of_type(session, "Stash") + of_type(session, "DynamicUpdate"):
        key = read(ids(op, "outputs")[0]), int(op["attributes"]["__ipu_number"])
        depths[key] = max(depths.get(key, 0), session.getInfo(ids(op, "outputs")[0]).shape()[0])
    assert listed == copied and not any(gradients.values())
    assert {key: depth for key, depth in depths.items() if "Gradient___" not in key[0]} == +stashed


def check(program):
    session = build(program)
    flags = {}
    for graph, ops in graphs_of(session).items():
        for op in ops:
            for result in op["outputs"]:
                name = result["name"].removeprefix(f"{graph}/")
                flags.setdefault(name, set()).add(op["attributes"]["recomputetype"])
    there, marked, repeated = machine_of(session)
    assert repeated <= marked
    for result in there & flags.keys():  # the others were merged with views that read them
        if program[3]:  # explicit: clones in place of flags
            is_cloned = f"{result}__re" in flags
            assert is_cloned or result not in repeated, result
            # An annotated operator is listed twice also where the backward pass does not need it.
            assert not is_cloned or result in (marked if program[2] is MODES.NoRecompute else repeated), result
        else:
            assert ("Recompute" in flags.get(result, ())) == (result in marked), result
    if program[1][-1] > 0:
        check_crossings(session, there)


@settings(max_examples=25)
@given(programs())
def test_listed_recomputation_is_that_of_the_machine(program):
    check(program)


@pytest.mark.slow
@settings(max_examples=600)
@given(programs())
def test_listed_recomputation_is_that_of_the_machine_for_many_programs(program):
    check(program)


def test_manual_recomputation_is_carried_out():
    model = Model()
    first = model.onnx.tanh([model.onnx.matmul([model.input([4, 4]), model.weight([4, 4])])])
    second = model.onnx.tanh([first])
    model.builder.recomputeOutputInBackwardPass(first, popart.RecomputeType.Recompute)
    loss = model.loss(second)
    there, marked, repeated = machine_of(model.session([loss], loss, options=options(enableOutlining=False)))
    assert marked == repeated == {first} < there

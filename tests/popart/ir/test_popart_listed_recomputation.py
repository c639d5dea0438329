"""What a session lists is what the machine runs: operators, gradients, copies, stashes and what is made again, over random models, modes,
annotations and pipelines."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_listings import Model, graphs_of, ids, of_type, options

import popart

MODES = popart.RecomputationType
TYPES = (
    "tanh",
    "sigmoid",
    "relu",
    "matmul",
    "gemm",
    "group",
    "skip",
    "turn",
    "dropout",
    "checkpoint",
    "mul",
    "softmax",
)
VIEWS = ("Identity", "Transpose")
ORIGIN = re.compile(r'origin\("[^"]*", "[^"]*".*?node="([^"]*)"')


@st.composite
def programs(draw):
    """Operators of a chain with their stages; mode, explicit recomputation, and what is annotated."""
    stages = draw(st.integers(1, 3))
    operators = ["matmul", *draw(st.lists(st.sampled_from(TYPES), min_size=stages, max_size=14))]
    # PopART lists neither of two transposes in a row; the machine reads a product through the second and runs the first.
    operators = [type for at, type in enumerate(operators) if (type, operators[at - 1]) != ("turn", "turn")]
    stages = min(stages, len(operators))
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
    if type in ("tanh", "sigmoid", "relu", "softmax"):
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
    return getattr(model.onnx, "mul" if type == "mul" else "add")([value, model.onnx.exp([before])])


class Machine:
    """The machine form by its text: operators by first results, what their gradients read, what crosses stages and IPUs."""

    def __init__(self, session):
        session.prepareDevice(loadEngine=False)
        self.there, self.marked, self.repeated, self.assigned = set(), set(), set(), set()
        self._rings, self._pushed, self._popped, self._reads, made = {}, {}, [], [], {}
        for line in session.getSerializedGraph().decode().splitlines():
            if line.startswith("graph"):
                made = {}  # values have their names within a graph
            elif line.startswith("ring"):
                name, capacity = re.search(r"@(\S+):.*capacity=(\d+)", line).groups()
                ends = [int(end[1]) if (end := re.search(rf"\b{key}=(\d+)", line)) else 0 for key in ("from", "to")]
                self._rings[name] = (*ends, int(capacity) - 1)
            elif op := re.match(r" +(?:%(.+) = )?([^ (]+)\(([^)]*)\)", line):
                self._add(
                    made, op[1] or "", op[2], [made.get(each[1:], ("", False)) for each in op[3].split(", ")], line
                )

    def _add(self, made, results, kind, operands, line):
        symbol = re.search(r"(?:ring|stream|variable)=@([^ |}]+)", line)
        result, *others = results.split(", %")
        made |= dict.fromkeys([result, *others], ("", False))  # statistics of norms, seeds
        if kind == "ring.push":
            self._pushed[symbol[1]] = operands[0]
        elif kind == "ring.pop":
            made[result] = symbol[1]
            self._popped.append(symbol[1])
        elif kind in ("host_load", "variable.read"):
            made[result] = (symbol[1], False)
        elif kind == "variable.assign":
            self.assigned.add(symbol[1])
        elif kind.endswith("_copy"):
            made[result] = operands[0]
        elif node := ORIGIN.search(line):
            is_marked, is_backward = 'recompute="recompute"' in line, 'context="backward"' in line
            made[result] = (node[1], is_backward and not is_marked)
            if not is_backward:
                self.there.add(node[1])
            if not (is_backward and is_marked):
                self._reads += [((node[1], is_backward), read) for read in operands or [("", False)]]
            if is_marked:
                (self.repeated if is_backward else self.marked).add(node[1])

    def _maker(self, read):
        return read if isinstance(read, tuple) else self._maker(self._pushed[read])

    def crossings(self):
        """(what gives it, whether it is a gradient, IPUs, cycles) of each value that goes to another stage or IPU."""
        return [(*self._maker(ring), *self._rings[ring]) for ring in self._popped]

    def reads(self):
        """(operator, whether its gradient) -> names of the forward pass that its ops read."""
        found = {}
        for ops, read in self._reads:
            name, is_gradient = self._maker(read)
            found.setdefault(ops, set()).update({name} if name and not is_gradient else ())
        return found


def plain(id):
    """The tensor of the model that a tensor in a loop is, or is what a view of it looks at."""
    return re.sub(r"^\w+_subgraph\(\d+\)/|Stashed___|Restored___|(__t\d+)*(_c\d+)?(__t\d+)*(__re)?$", "", id)


def looked_at(session, there):
    """Name -> what the machine has of it: identities are nothing, and products read through transposes, of which
    some are `there` for others."""
    views = [(node.output[0], node.input[0]) for node in session._model.graph.node if node.op_type in VIEWS]
    merged = {view: seen for view, seen in views if view not in there}

    def read(id):
        return read(merged[id]) if (id := plain(id)) in merged else id

    return read


def check_crossings(session, machine):
    """Copies and stashes, with their depths, of results by name; copies of gradients by IPUs."""
    copied, stashed, gradients = set(), Counter(), Counter()
    for node, is_gradient, begin, end, cycles in machine.crossings():
        if is_gradient:
            gradients[begin, end] += begin != end
        elif node:
            copied |= {(node, begin, end)} if begin != end else set()
            stashed[node, end] += cycles - (begin != end)
    listed, depths, read = set(), {}, looked_at(session, machine.there)
    for op in of_type(session, "IpuCopy"):
        ends = int(op["attributes"]["__ipu_number"]), int(ids(op, "outputs")[0].rpartition("_c")[2])
        gradients[ends] -= "Gradient___" in ids(op)[0]
        listed |= {(read(ids(op)[0]), *ends)} if "Gradient___" not in ids(op)[0] else set()
    for op in of_type(session, "Stash") + of_type(session, "DynamicUpdate"):
        key = read(ids(op, "outputs")[0]), int(op["attributes"]["__ipu_number"])
        depths[key] = max(depths.get(key, 0), session.getInfo(ids(op, "outputs")[0]).shape()[0])
    assert listed == copied and not any(gradients.values())
    assert {key: depth for key, depth in depths.items() if "Gradient___" not in key[0]} == +stashed


def check_operators(session, machine):
    """Each operator that runs is listed with what it and its gradient read, and the other way round, but for what is merged:
    constants and weights are named in the main graph alone, identities are nothing, and products read through transposes."""
    program, read = session._listing(), looked_at(session, ())
    types, listed, updated = {}, {}, set()
    for op in (op for ops in program.graphs.values() for op in ops):
        node = program.listing.node_of(op)
        if op.type.endswith("VarUpdate"):
            updated.add(plain(op.inputs[0]))
        elif node and (op.is_forward or "Gradient___" in op.outputs[0]):  # else made again, or a view made apart
            types[node] = op.node.op_type
            names = {read(id) for id in op.inputs if "Gradient___" not in id}
            listed.setdefault((node, not op.is_forward), set()).update(names)
    runs, unnamed = (
        machine.reads(),
        machine.assigned | {id for id, kind in program.listing.kinds.items() if kind == "constant"},
    )
    assert updated == machine.assigned
    for node, is_gradient in listed.keys() | runs.keys():
        others = unnamed | (set() if is_gradient else {node})
        names = listed[node, is_gradient] - others
        if types[node] in VIEWS and (node, is_gradient) not in runs:
            assert not (is_gradient and names), node
        else:
            assert names == {read(id) for id in runs[node, is_gradient]} - others, (node, is_gradient)


def check(program):
    session = build(program)
    flags = {}
    for graph, ops in graphs_of(session).items():
        for op in ops:
            for result in op["outputs"]:
                name = result["name"].removeprefix(f"{graph}/")
                flags.setdefault(name, set()).add(op["attributes"]["recomputetype"])
    machine = Machine(session)
    marked, repeated = machine.marked, machine.repeated
    assert repeated <= marked
    for result in machine.there & flags.keys():  # the others were merged with views that read them
        if program[3]:  # explicit: clones in place of flags
            is_cloned = f"{result}__re" in flags
            assert is_cloned or result not in repeated, result
            # An annotated operator is listed twice also where the backward pass does not need it.
            assert not is_cloned or result in (marked if program[2] is MODES.NoRecompute else repeated), result
        else:
            assert ("Recompute" in flags.get(result, ())) == (result in marked), result
    if program[1][-1] > 0:
        check_crossings(session, machine)
    check_operators(session, machine)


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
    machine = Machine(model.session([loss], loss, options=options(enableOutlining=False)))
    assert machine.marked == machine.repeated == {first} < machine.there

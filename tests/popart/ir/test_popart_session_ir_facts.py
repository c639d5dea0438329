"""Single facts that programs read in listings."""

import numpy as np
import pytest
from session_listings import Model, graphs_of, ids, of_type, ops_of, options, types_of

import popart

VIEW, WIDE = 1e8, 1e7


def added(model, view, preferred=None):
    y = model.onnx.add([model.input([2, 6]), view])
    if preferred is not None:
        model.builder.setInplacePreferences(y, preferred)
    return y


def test_an_anchored_op_of_constants_stays():
    model = Model()
    squeezed = model.onnx.squeeze([model.onnx.constant(np.ones((1, 3), np.float32))], [0])
    kept = model.onnx.identity([squeezed])
    y = model.onnx.add([kept, model.input([3])])
    first, second = types_of(model.session([kept, y]))
    assert first.startswith("Identity") and second.startswith("Add")
    assert [type[:3] for type in types_of(model.session([y]))] == ["Add"]


@pytest.mark.parametrize("preferred", [None, {"AddRhsInplace": 10.0}, {"AddRhsInplace": WIDE}])
@pytest.mark.parametrize("kind", ["constant", "variable"])
@pytest.mark.parametrize("views", [0, 1, 2])
def test_an_add_overwrites_its_input_and_no_variable_or_constant(kind, views, preferred):
    model = Model()
    shape = {0: [2, 6], 1: [6, 2], 2: [3, 4]}[views]
    array = np.ones(shape, np.float32)
    value = model.onnx.constant(array) if kind == "constant" else model.weight(shape)
    if views:
        value = model.onnx.transpose([value], [1, 0])
    if views == 2:
        value = model.builder.reshape_const(model.onnx, [value], [2, 6])
    y = added(model, value, preferred)
    loss = model.loss(y) if kind == "variable" else None
    types = types_of(model.session([loss or y], loss))
    assert [type for type in types if type.startswith("Add")] == ["AddLhsInplace"]


def test_a_view_stays_out_of_place_where_a_preferred_op_would_write_through_it():
    model = Model()
    turned = model.onnx.transpose([model.weight([3, 4])], [1, 0])
    shaped = model.builder.reshape_const(model.onnx, [turned], [2, 6])
    y = added(model, shaped, {"AddRhsInplace": WIDE})
    model.builder.setInplacePreferences(turned, {"TransposeInplace": VIEW})
    model.builder.setInplacePreferences(shaped, {"ReshapeInplace": 1e6})
    loss = model.loss(y)
    assert types_of(model.session([loss], loss))[:3] == ["TransposeInplace", "Reshape", "AddRhsInplace"]


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("outlining", [False, True])
def test_transposes_that_cancel_are_gone(anchored, outlining):
    model = Model()
    there = model.onnx.transpose([model.input([2, 3])], [1, 0])
    back = model.onnx.transpose([there], [1, 0])
    y = model.onnx.relu([back])
    types = types_of(model.session([back, y] if anchored else [y], options=options(enableOutlining=outlining)))
    assert not any(type.startswith("Transpose") for type in types)
    assert any(type.startswith("Identity") for type in types) == anchored


@pytest.mark.parametrize("chain", ["i", "ii", "r", "ri", "ir", "iri", "rri", "rir", "iiri"])
def test_a_chain_of_views_that_ends_in_an_anchor_is_one_op(chain):
    model = Model()
    value = model.input([2, 3])
    for i, kind in enumerate(chain):
        shape = [3, 2] if i % 2 else [6]
        value = model.onnx.identity([value]) if kind == "i" else model.builder.reshape_const(model.onnx, [value], shape)
    (op,) = ops_of(model.session([value]))
    assert op["type"].startswith("Reshape" if "r" in chain else "Identity")
    assert ids(op)[0] == "x" and ids(op, "outputs") == [value]


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("accumulates", [False, True])
@pytest.mark.parametrize("replicas", [1, 2])
def test_accumulators_that_are_velocities_have_names_of_their_own(nesterov, accumulates, replicas):
    model = Model()
    loss = model.loss(model.onnx.matmul([model.input([2, 3]), model.weight([3, 2])]))
    fields = {"enableGradientAccumulation": True, "accumulationFactor": 2} if accumulates else {}
    if replicas > 1:
        fields |= {"enableReplicatedGraphs": True, "replicatedGraphCount": replicas}
    optimizer = popart.SGD({"defaultMomentum": (0.9, True), "nesterov": (nesterov, True)})
    session = model.session([loss], loss, options=options(**fields), optimizer=optimizer, ipus=replicas)
    made = {op["type"]: ids(op, "outputs") for op in of_type(session, "") if op["outputs"]}
    reduces = accumulates and replicas > 1
    assert made["Accumulate"] == ["AcclIntoReduce___w" if reduces else "AcclIntoUpdate___w"]
    assert not reduces or made["ReplicatedAllReduceInplace"] == ["AcclIntoUpdate___w"]
    assert made["SGD1AcclUpdate"] == ["AcclOutOfAcclUpdate___w"]


def test_stretches_that_repeat_take_their_dropout_along():
    model = Model()
    value = model.input([2, 4])
    for i in range(6):
        value = model.onnx.dropout([model.onnx.matmul([value, model.weight([4, 4], f"w{i}")])], 1, 0.5)[0]
    loss = model.loss(value)
    assert types_of(model.session([loss], loss)).count("Dropout") <= 2


def test_ops_of_several_outputs_are_cloned():
    model = Model()
    operands = [model.input([3, 1, 4]), model.weight([1, 16, 4], "w"), model.weight([1, 16, 4], "r")]
    results = model.onnx.lstm(operands, 3)
    model.builder.recomputeOutputInBackwardPass(set(results), popart.RecomputeType.Recompute)
    loss = model.loss(results[0])
    session = model.session([loss], loss, options=options(explicitRecomputation=True))
    layers = [op for op in of_type(session, "LSTM") if op["type"] == "LSTM"]
    assert [op["attributes"]["recomputetype"] for op in layers].count("Recomputed") == 1 and len(layers) == 2


PIECES = {  # operands of pieces: forward, then in the order of their graphs
    "input_channels": (["[1 4 6]", "[1 6 4]"], ["[1 6 4]", "[1 4 4]"], ["[1 4 4]", "[1 4 6]"]),
    "reducing_dim": (["[1 8 3]", "[1 3 4]"], ["[1 8 4]", "[1 4 3]"], ["[1 3 8]", "[1 8 4]"]),
    "output_channels": (["[1 8 6]", "[1 6 2]"], ["[1 8 2]", "[1 2 6]"], ["[1 6 8]", "[1 8 2]"]),
}


@pytest.mark.parametrize("mode", PIECES)
def test_pieces_of_a_product_have_graphs_in_order(mode):
    """Of `input_channels` the gradient of the right operand comes before that of the left one."""
    model = Model()
    y = model.onnx.matmul([model.weight([8, 6], "a"), model.weight([6, 4], "b")])
    model.builder.setSerializeMatMul({y}, mode, 2)
    loss = model.loss(y)
    made = graphs_of(model.session([loss], loss, options=options(kahnTieBreaker="FIFO", swapLimitScheduler=-1)))
    for number, shapes in enumerate(PIECES[mode]):
        (product,) = [op for op in made[f"call_subgraph({number})"] if op["type"] == "MatMul"]
        assert [each["shape"] for each in product["inputs"]] == shapes


@pytest.mark.parametrize("partials, casts", [(None, 1), ("FLOAT", 1), ("HALF", 0)])
@pytest.mark.parametrize("mode", PIECES)
def test_sums_of_pieces_keep_their_precision(mode, partials, casts):
    model = Model()
    y = model.onnx.matmul([model.weight([8, 16], "a", np.float16), model.weight([16, 4], "b", np.float16)])
    model.builder.setSerializeMatMul({y}, mode, 4, True)
    if partials is not None:
        model.builder.setPartialsType(y, partials)
    loss = model.loss(y)
    ops = ops_of(model.session([loss], loss))
    found = [op for op in ops if op["type"] == "Cast"]
    assert len(found) == casts
    for op in found:
        (sum_op,) = [other for other in ops if ids(op)[0] in ids(other, "outputs")]
        assert op["inputs"][0]["type"] == "FLOAT" and sum_op["type"].startswith(("Add", "Sum"))
        assert {each["type"] for each in sum_op["inputs"]} == {"FLOAT"}

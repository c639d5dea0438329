"""What a Builder checks of inputs, and which shapes and element types it tells."""

import numpy as np
import onnx
import pytest
from counting import python_events

import popart

R, S = popart.ReductionType, popart.ScatterReduction
ids = lambda b, *shapes, dtype="FLOAT": [b.addInputTensor(dtype, list(shape)) for shape in shapes]
whole = lambda b, *shapes: ids(b, *shapes, dtype="INT32")


def product(b):
    return b.aiGraphcore.multiconv(
        [ids(b, (1, 2, 8), (4, 2, 3)), [*ids(b, (1, 2, 9, 9), (4, 1, 3, 3)), ids(b, (4,))[0]]],
        pads=[[1, 1], [0] * 4], strides=[[1], [2, 2]], dilations=[[1], [1, 1]],
    )  # fmt: skip


# What is made, and the shape and element type of each output.
SHAPES = {
    "gelu": (lambda b: b.aiGraphcore.gelu(ids(b, (2, 3))), ([2, 3], "float32")),
    "atan2": (lambda b: b.aiGraphcore.atan2(ids(b, (2, 1), (3,), dtype="FLOAT16")), ([2, 3], "float16")),
    "batchnormalization": (
        lambda b: b.aiGraphcore.batchnormalization(ids(b, (2, 3, 4), (3,), (3,), (3,), (3,)), 5),
        ([2, 3, 4], "float32"), *[([3], "float32")] * 4,
    ),
    "bucketize": (lambda b: b.aiGraphcore.bucketize(ids(b, (2, 3), (4,))), ([2, 3], "int32")),
    "ctcbeamsearchdecoder": (
        lambda b: b.aiGraphcore.ctcbeamsearchdecoder([*ids(b, (9, 2, 5)), *whole(b, (2,))], top_paths=3),
        ([2, 3], "float32"), ([2, 3], "uint32"), ([2, 3, 9], "uint32"),
    ),
    "ctcloss": (lambda b: b.aiGraphcore.ctcloss([*ids(b, (9, 2, 5)), *whole(b, (2, 4), (2,), (2,))], R.NoReduction), ([2], "float32")),
    "ctcloss of another type": (
        lambda b: b.aiGraphcore.ctcloss([*ids(b, (9, 2, 5), dtype="FLOAT16"), *whole(b, (2, 4), (2,), (2,))], outDataType="FLOAT"),
        ([], "float32"),
    ),
    "depthtospace": (lambda b: b.aiGraphcore.depthtospace(ids(b, (1, 8, 2, 3)), 2, "DCR"), ([1, 2, 4, 6], "float32")),
    "dynamicslice": (lambda b: b.aiGraphcore.dynamicslice([*ids(b, (5, 6)), *whole(b, (1,))], [1], [2]), ([5, 2], "float32")),
    "dynamicslice into": (
        lambda b: b.aiGraphcore.dynamicslice([*ids(b, (4, 6, 2)), *whole(b, (1,)), *ids(b, (6, 2))], [0], [1]), ([6, 2], "float32")
    ),
    "dynamicupdate": (lambda b: b.aiGraphcore.dynamicupdate([*ids(b, (5, 6)), *whole(b, (1,)), *ids(b, (5, 2))], [1], [2]), ([5, 6], "float32")),
    "groupedgather": (lambda b: b.aiGraphcore.groupedgather([*ids(b, (2, 5, 6)), *whole(b, (2, 4))], 1, 2), ([2, 4, 6], "float32")),
    "groupnormalization": (
        lambda b: b.aiGraphcore.groupnormalization(ids(b, (2, 6, 4), (6,), (6,)), 3),
        ([2, 6, 4], "float32"), ([6], "float32"), ([6], "float32"),
    ),
    "identityloss": (lambda b: b.aiGraphcore.identityloss(ids(b, (2, 3))), ([], "float32")),
    "l1loss": (lambda b: b.aiGraphcore.l1loss(ids(b, (2, 3)), 0.1, R.NoReduction), ([2, 3], "float32")),
    "nllloss": (lambda b: b.aiGraphcore.nllloss([*ids(b, (2, 3, 4)), *whole(b, (2, 3))], R.NoReduction), ([2, 3], "float32")),
    "init": (lambda b: b.aiGraphcore.init([3, 2], popart.DataType.INT32, popart.InitType.Zero), ([3, 2], "int32")),
    "lstm": (lambda b: b.aiGraphcore.lstm(ids(b, (7, 2, 3), (4, 8, 5))), ([7, 2, 5], "float32"), ([2, 5], "float32")),
    "lstm's last": (lambda b: b.aiGraphcore.lstm(ids(b, (7, 2, 3), (4, 8, 5)), 0), ([2, 5], "float32"), ([2, 5], "float32")),
    "multiconv": (product, ([1, 4, 8], "float32"), ([1, 4, 4, 4], "float32")),
    "normalize_image": (lambda b: b.aiGraphcore.normalize_image([*ids(b, (2, 4, 4, 3), dtype="UINT8"), *ids(b, (3,), (3,))]), ([2, 4, 4, 4], "float16")),
    "reducemedian": (lambda b: b.aiGraphcore.reducemedian(ids(b, (2, 3, 4)), [0, -1], 0), ([3], "float32"), ([3], "int32")),
    "reducemedian of nothing": (lambda b: b.aiGraphcore.reducemedian(ids(b, (2, 3)), []), ([2, 3], "float32"), ([2, 3], "int32")),
    "replicatedreducescatter": (
        lambda b: b.aiGraphcore.replicatedreducescatter(ids(b, (5, 2)), commGroup=popart.CommGroup(popart.CommGroupType.Consecutive, 4)),
        ([3], "float32"),
    ),
    "reshape": (lambda b: b.aiGraphcore.reshape(ids(b, (2, 3, 4))[0], [0, -1]), ([2, 12], "float32")),
    "scatterreduce": (lambda b: b.aiGraphcore.scatterreduce([*ids(b, (5, 3)), *whole(b, (5, 3))], 7, 0, S.Max), ([7, 3], "float32")),
    "scatterreduce into": (
        lambda b: b.aiGraphcore.scatterreduce([*ids(b, (5, 3)), *whole(b, (5, 3)), *ids(b, (8, 3))], 8, 0), ([8, 3], "float32"),
    ),
    "sequenceslice": (lambda b: b.aiGraphcore.sequenceslice([*ids(b, (9, 3), (7, 3)), *whole(b, (2,), (2,), (2,))]), ([7, 3], "float32")),
    "slice": (lambda b: b.aiGraphcore.slice(ids(b, (5, 6)), [-1, 99], [1, 3], [0, 1]), ([3, 3], "float32")),
    "sort": (lambda b: b.aiGraphcore.sort(ids(b, (5, 6))), ([5, 6], "float32"), ([5, 6], "int32")),
    "splinebasis": (lambda b: b.aiGraphcore.splinebasis([*ids(b, (9, 2)), *whole(b, (2,), (2,))], 2), ([9, 9], "float32"), ([9, 9], "int32")),
    "splineweighting": (lambda b: b.aiGraphcore.splineweighting([*ids(b, (9, 2), (5, 2, 6), (9, 4)), *whole(b, (9, 4))]), ([9, 6], "float32")),
    "subsample": (lambda b: b.aiGraphcore.subsample(ids(b, (5, 6)), [2, 4]), ([3, 2], "float32")),
    "matmul of ai.onnx": (lambda b: b.aiOnnx.matmul(ids(b, (2, 1, 3, 4), (5, 4, 6))), ([2, 5, 3, 6], "float32")),
    "a constant shape": (lambda b: b.aiOnnx.reshape([*ids(b, (2, 6)), b.aiOnnx.constant(np.array([3, -1]))]), ([3, 4], "float32")),
    "a variable as shape": (lambda b: b.aiOnnx.expand([*ids(b, (2, 1)), b.addInitializedInputTensor(np.array([2, 3]))]), ([2, 3], "float32")),
    "upsample": (lambda b: b.aiOnnx.upsample([*ids(b, (1, 1, 2, 3)), b.aiOnnx.constant(np.array([1, 1, 2, 3], np.float32))]), ([1, 1, 4, 9], "float32")),
    "resize with operands left out": (
        lambda b: b.aiOnnxOpset11.resize([*ids(b, (1, 1, 2, 3)), "", b.aiOnnxOpset11.constant(np.array([1, 1, 2, 3], np.float32))]),
        ([1, 1, 4, 9], "float32"),
    ),
    "resize to sizes": (
        lambda b: b.aiOnnxOpset11.resize([*ids(b, (1, 1, 2, 3)), "", "", b.aiOnnxOpset11.constant(np.array([1, 1, 5, 7]))]),
        ([1, 1, 5, 7], "float32"),
    ),
    "a type that ONNX does not list": (lambda b: b.aiOnnx.max(whole(b, (2, 1), (3,))), ([2, 3], "int32")),
    "cast": (lambda b: b.aiOnnx.cast(ids(b, (2,)), "BOOL"), ([2], "bool")),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_outputs(name):
    make, *wanted = SHAPES[name]
    builder = popart.Builder()
    outputs = make(builder)
    outputs = [outputs] if isinstance(outputs, str) else outputs
    assert [(builder.getTensorShape(id), builder.getTensorDtypeString(id)) for id in outputs] == wanted
    assert set(outputs) <= set(builder.getValueTensorIds())


def test_a_builder_does_not_judge_shapes_that_only_a_session_knows():
    builder = popart.Builder()
    y = builder.aiOnnx.matmul(ids(builder, (2, 3), (4, 5)))
    assert (builder.getTensorShape(y), builder.getTensorDtypeString(y)) == ([], "undefined")
    assert builder.aiOnnx.relu([y]) == "Relu:0" and builder.getValueTensorIds() == [y, "Relu:0"]


def test_every_output_has_an_entry_in_the_model():
    builder = popart.Builder()
    known = builder.aiOnnx.relu(ids(builder, (2, 3)))
    unknown = builder.aiOnnx.matmul(ids(builder, (2, 3), (4, 5)))
    behind = builder.aiOnnx.concat([known, unknown], -1)
    loop = builder.createSubgraphBuilder()
    inside = loop.aiOnnx.matmul(ids(loop, (2, 3), (4, 5)))
    loop.addOutputTensor(inside)
    (called,) = builder.aiGraphcore.call(ids(builder, (2, 3), (4, 5)), 1, loop)
    for id in (known, unknown, behind, called):
        builder.addOutputTensor(id)
    graph = onnx.load_from_string(builder.getModelProto()).graph
    entries = {value.name: value for value in graph.value_info}
    assert set(entries) == {known, unknown, behind, called} == set(builder.getValueTensorIds())
    for value in graph.output:
        assert value == entries[value.name]
        is_known = value.name == known
        assert value.type.HasField("tensor_type") and value.type.tensor_type.HasField("shape") == is_known
        assert (value.type.tensor_type.elem_type == onnx.TensorProto.UNDEFINED) == (not is_known)
        assert builder.getTensorShape(value.name) == ([2, 3] if is_known else [])
    assert loop.getTensorShape(inside) == [] and loop.getTensorDtypeString(inside) == "undefined"


@pytest.mark.parametrize("ask", ["getTensorShape", "getTensorDtypeString"])
def test_shapes_of_what_is_no_tensor(ask):
    builder = popart.Builder()
    y = builder.aiOnnx.matmul(ids(builder, (2, 3), (4, 5)))
    with pytest.raises(popart.popart_exception, match=f"'nothing' is no tensor of the model.*values: {y}"):
        getattr(builder, ask)("nothing")


@pytest.mark.parametrize("opset", [6, 7, 8, 9, 10, 11])
def test_shapes_of_statistics_and_of_pieces(opset):
    builder = popart.Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1})
    x = ids(builder, (2, 3, 4, 5), dtype="FLOAT16")
    statistics = ids(builder, (3,), (3,)), ids(builder, (3,), (3,))
    results = builder.aiOnnx.batchnormalization([*x, *statistics[0], *statistics[1]], 5)
    shapes = [(builder.getTensorShape(id), builder.getTensorDtypeString(id)) for id in results]
    assert shapes == [([2, 3, 4, 5], "float16"), *[([3], "float32")] * 4]
    equal, named = builder.aiOnnx.split(x, 2, 2), builder.aiOnnx.split(x, 2, 2, [1, 3])
    assert [builder.getTensorShape(id) for id in (*equal, *named)] == [[2, 3, n, 5] for n in (2, 2, 1, 3)]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda b, x: b.aiOnnx.add([x]), "^Add has 1 inputs, but ai.onnx.Add takes 2"),
        (lambda b, x: b.aiOnnx.add([x] * 3), "^Add has 3 inputs"),
        (lambda b, x: b.aiOnnx.sum([]), "^Sum has 0 inputs, but ai.onnx.Sum takes 1 or more"),
        (lambda b, x: b.aiOnnx.conv([x]), "^Conv has 1 inputs, but ai.onnx.Conv takes 2 to 3"),
        (lambda b, x: b.aiGraphcore.bitwiseand(), "^BitwiseAnd has 0 inputs, but ai.graphcore.BitwiseAnd takes 2"),
        (lambda b, x: b.aiOnnx.relu(["nothing"]), "^Relu: its input 'nothing' is no tensor; there are 'input'"),
        (lambda b, x: b.aiOnnx.dropout([x], 3), "^Dropout is to have 3 outputs, but ai.onnx.Dropout has at most 2"),
        (lambda b, x: b.aiOnnx.split([x], 0), "^Split is to have 0 outputs, but ai.onnx.Split has at least 1"),
        (lambda b, x: b.aiOnnx.lstm([x] * 3, 4), "^LSTM is to have 4 outputs.* at most 3"),
        (lambda b, x: b.aiOnnx.constantofshape([x], np.zeros(2)), "the value is one element, not 2"),
        (lambda b, x: b.aiOnnx.cast([x], "FLOAT32"), "no element type is called 'FLOAT32'"),
        (lambda b, x: b.aiOnnx.conv([x, w(b)], strides=[1]), "^Conv: strides is \\[1\\], but 2 numbers are needed"),
        (lambda b, x: b.aiOnnx.conv([x, w(b)], pads=[1, 1]), "^Conv: pads is \\[1, 1\\], but 4 numbers"),
        (lambda b, x: b.aiOnnx.conv([x, w(b)], dilations=[1] * 3), "^Conv: dilations"),
        (
            lambda b, x: b.aiOnnx.conv([x, w(b)], kernel_shape=[3, 2]),
            "kernel_shape is \\[3, 2\\], but the weights 'w' have shape",
        ),
        (
            lambda b, x: b.aiOnnx.conv([x, w(b)], dilations=[3, 1]),
            "a window of 7 does not fit into dimension 2 of 'input'",
        ),
        (lambda b, x: b.aiOnnx.conv([x, w(b)], strides=[0, 1]), "each number must be at least 1"),
        (lambda b, x: b.aiOnnx.maxpool([x], 1, [6, 1]), "^MaxPool: a window of 6 does not fit"),
        (lambda b, x: b.aiOnnx.averagepool([x], [2]), "^AveragePool: kernel_shape is \\[2\\], but 2 numbers"),
        (
            lambda b, x: b.aiGraphcore.multiconv([[x, w(b)]], strides=[[1, 1], [1, 1]]),
            "strides has 2 entries for 1 convolutions",
        ),
        (
            lambda b, x: b.aiGraphcore.multiconv([[x, w(b)]], pads=[[1, 1]]),
            "pads of convolution 0 has 2 numbers; it needs 4",
        ),
        (lambda b, x: b.aiGraphcore.multiconv([[x]]), "convolution 0 has 1 inputs"),
        (lambda b, x: b.aiGraphcore.multiconv([[x, w(b)]], planType="both"), "planType is 'both'"),
        (lambda b, x: b.aiGraphcore.multiconv([[x, w(b)]], cycleBackOff=2), "cycleBackOff is 2"),
    ],
)
def test_calls_that_are_refused_at_once(call, message):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [1, 2, 5, 5])
    with pytest.raises(popart.popart_exception, match=message):
        call(builder, x)
    assert all(node.op_type == "Constant" for node in onnx.load_from_string(builder.getModelProto()).graph.node)


def w(builder):
    return builder.addInputTensor("FLOAT", [3, 2, 3, 3], "w")


def test_sparse_constants_are_refused():
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    assert builder.aiOnnx.constant(np.ones(2, np.float32), False) == "Constant:0"
    with pytest.raises(popart.popart_exception, match="a sparse value is not supported"):
        builder.aiOnnx.constant(np.ones(2, np.float32), True)


def test_inputs_in_the_middle_may_be_left_out():
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    (x,) = ids(builder, (2, 3))
    y = builder.aiOnnx.clip([x, "", builder.aiOnnx.constant(np.array(1, np.float32))])
    assert builder.getTensorShape(y) == [2, 3]


def test_padding_by_name_is_honoured():
    builder = popart.Builder()
    y = builder.aiOnnx.conv(ids(builder, (1, 2, 5, 5), (3, 2, 3, 3)))
    builder.addNodeAttribute("auto_pad", "SAME_UPPER", {y})
    assert builder.getStringNodeAttribute("auto_pad", {y}) == "SAME_UPPER"


# --- graphs inside
def graph_of(builder, output, name):
    for node in onnx.load_from_string(builder.getModelProto()).graph.node:
        if output in node.output:
            return next(a.g for a in node.attribute if a.name == name)
    raise AssertionError(output)


@pytest.mark.shows("popart.Builder.addInputTensorFromParentGraph")
def test_branches_read_tensors_of_the_graph_around():
    builder = popart.Builder()
    a, c = ids(builder, (2, 3), (3,))
    (condition,) = ids(builder, (), dtype="BOOL")
    then_branch, else_branch = builder.createSubgraphBuilder(), builder.createSubgraphBuilder()
    then_branch.addInputTensorFromParentGraph(a)
    then_branch.addInputTensorFromParentGraph(c)
    sum_ = then_branch.aiOnnx.add([a, c])
    then_branch.addOutputTensor(sum_)
    else_branch.addOutputTensor(else_branch.aiOnnx.sub([a, c]))
    y = builder.aiOnnx.logical_if([condition], 1, else_branch, then_branch, "mine")[0]
    assert builder.getTensorShape(y) == [2, 3] and then_branch.getTensorShape(sum_) == [2, 3]
    assert (
        graph_of(builder, y, "then_branch").node[0].op_type == "Add" and not graph_of(builder, y, "then_branch").input
    )
    assert graph_of(builder, y, "else_branch").node[0].op_type == "Sub"
    with pytest.raises(popart.popart_exception, match="no graph around .* has the tensor 'nothing'"):
        then_branch.addInputTensorFromParentGraph("nothing")
    with pytest.raises(popart.popart_exception, match="this is the main graph"):
        builder.addInputTensorFromParentGraph(a)


def test_callees_have_their_inputs_in_the_order_of_declaration():
    builder = popart.Builder()
    a, c = ids(builder, (2, 3), (2, 3))
    callee = builder.createSubgraphBuilder()
    x = callee.addInputTensor("FLOAT", [2, 3])
    callee.addInputTensorFromParentGraph(c)
    z = callee.addInputTensor("FLOAT", [2, 3])
    callee.addOutputTensor(callee.aiOnnx.sum([x, c, z]))
    callee.setGraphName("callee")
    (y,) = builder.aiGraphcore.call([a, c, a], 1, callee)
    graph = graph_of(builder, y, "callee")
    assert (
        [value.name for value in graph.input] == [x, c, z]
        and graph.name == "callee"
        and builder.getTensorShape(y) == [2, 3]
    )
    empty = builder.createSubgraphBuilder()
    empty.addOutputTensor(empty.aiOnnx.constant(np.ones(4, np.float32)))
    assert builder.getTensorShape(builder.aiGraphcore.call([], 1, empty)[0]) == [4]
    with pytest.raises(popart.popart_exception, match="is of another model"):
        popart.Builder().aiGraphcore.call([], 1, empty)


def test_shapes_of_arguments_rule_in_a_callee():
    builder = popart.Builder()
    callee = builder.createSubgraphBuilder()
    callee.addOutputTensor(callee.aiOnnx.relu([callee.addInputTensor("FLOAT", [2])]))
    (a,) = builder.aiGraphcore.call(ids(builder, (2,)), 1, callee)
    (b,) = builder.aiGraphcore.call(ids(builder, (7, 3)), 1, callee)
    assert builder.getTensorShape(a) == [2] and builder.getTensorShape(b) == [7, 3]


@pytest.mark.shows("popart.Builder.addUntypedInputTensor")
def test_bodies_of_loops_may_have_untyped_inputs():
    builder = popart.Builder()
    x, scanned = ids(builder, (2, 3), (2, 3))
    trips, condition = builder.aiOnnx.constant(np.array(5, np.int64)), builder.aiOnnx.constant(np.array(True))
    body = builder.createSubgraphBuilder()
    body.addInputTensor("INT64", [], "i")
    go, carried = body.addUntypedInputTensor("go"), body.addUntypedInputTensor("v")
    out = body.aiOnnx.add([carried, scanned])
    for id in (go, out, body.aiOnnx.reducesum([out], [0], 0)):
        body.addOutputTensor(id)
    assert body.getTensorShape(out) == []
    last, stacked = builder.aiOnnx.loop([trips, condition, x], 2, body)
    assert builder.getTensorShape(last) == [2, 3] and builder.getTensorShape(stacked) == [5, 3]
    with pytest.raises(popart.popart_exception, match="call addInputTensor"):
        builder.addUntypedInputTensor("x")


def test_scans_concatenate_the_outputs_of_their_bodies():
    builder = popart.Builder()
    state, sequence = ids(builder, (3,), (4, 6, 3))
    body = builder.createSubgraphBuilder()
    out = body.aiOnnx.sum([body.addInputTensor("FLOAT", [3]), body.addInputTensor("FLOAT", [4, 3])])
    body.addOutputTensor(body.aiOnnx.reducesum([out], [0], 0))
    body.addOutputTensor(out)
    last, stacked = builder.aiOnnx.scan([state, sequence], 2, body, 1, scan_input_axes=[1], scan_output_axes=[1])
    assert builder.getTensorShape(last) == [3] and builder.getTensorShape(stacked) == [4, 18]


def test_packed_blocks_have_the_shape_of_their_callback():
    builder = popart.Builder()
    data = ids(builder, (20, 3))
    index = ids(builder, (4,), (4,), (4,), (4,), dtype="UINT32")
    callback = builder.createSubgraphBuilder()
    callback.addOutputTensor(callback.aiOnnx.relu([callback.addInputTensor("FLOAT", [2, 5, 3])]))
    y = builder.aiGraphcore.packedDataBlock([*data, *index], [5], 24, 2, callback)
    assert builder.getTensorShape(y) == [24, 3]
    assert graph_of(builder, y, "callback").node[0].op_type == "Relu"


def test_a_node_costs_as_little_in_a_large_model_as_in_a_small_one():
    builder = popart.Builder()
    (x,) = ids(builder, (8, 8))

    def add_nodes():
        nonlocal x
        for _ in range(1000):
            x = builder.aiOnnx.add([x, x])

    counts = [python_events(add_nodes) for _ in range(3)]
    assert counts[0] < 400 * 1000 and max(counts) < 1.01 * min(counts)  # 216 each


def test_nothing_is_known_of_a_node_that_its_importer_refuses():
    b = popart.Builder()
    sums = b.aiGraphcore.scatterreduce(ids(b, (5, 3), (5, 3)), 7, 0, S.Sum)  # an index that is no integer
    assert (b.getTensorShape(sums), b.getTensorDtypeString(sums)) == ([], "undefined")

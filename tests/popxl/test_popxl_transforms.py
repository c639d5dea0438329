"""popxl.transforms: sums in steps, merged transfers, transfers beside computation; and patterns on gradient graphs."""

import numpy as np
import pytest

import popart
import popart._internal.ir as _ir
import popxl
from popxl import ops, transforms

INPUTS = _ir.NumInputs(2, -1)


def spec(*shape):
    return popxl.TensorSpec(shape, popxl.float32)


def types_of(graph):
    return [op.opType() for op in graph._pb_graph.getOps()]


def run(ir, inputs, **options):
    with popxl.Session(ir, "ipu_model") as session:
        return session.run(inputs)


# --- sums in steps
def summed(graph, *tensors):
    """A Sum by hand in the graph: nothing in popxl.ops makes one."""
    core = graph._pb_graph
    opid = _ir.OperatorIdentifier("ai.onnx", "Sum", 6, INPUTS, 1)
    ids = {i: t.id for i, t in enumerate(tensors)}
    output = graph._create_tensor_id("total")
    made = core.createConnectedOp_SumOp(ids, {0: output}, opid, _ir.Settings(core, "sum"))
    return popxl.Tensor._from_pb_tensor(made.outTensor(0))


@pytest.mark.shows("popxl.transforms.decompose_sum")
def test_a_sum_becomes_a_zero_and_additions():
    ir = popxl.Ir()
    with ir.main_graph:
        a, b, c = (popxl.variable(np.float32([n, 10 * n]), name=f"v{n}") for n in (1, 2, 3))
        total = summed(ir.main_graph, a, b, c)
        out = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(out, total)
    assert transforms.decompose_sum(ir.main_graph) is ir.main_graph
    assert sorted(types_of(ir.main_graph)) == ["Add", "Add", "Add", "HostStore", "Init"]
    assert {f"{total.id}_init", total.id} <= {t.id for t in ir.main_graph.tensors}
    assert total._pb_tensor.getProducer().opType() == "Add"
    assert run(ir, {})[out].tolist() == [6, 60]


def test_sums_of_two_and_of_one_stay():
    ir = popxl.Ir()
    with ir.main_graph:
        a, b = (popxl.variable(np.float32([1]), name=name) for name in "ab")
        summed(ir.main_graph, a, b)
        summed(ir.main_graph, a)
    transforms.decompose_sum(ir.main_graph)
    assert types_of(ir.main_graph) == ["Sum", "Sum"]


def test_sums_of_a_gradient_graph():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.float32([1, 2]), name="x")
        g = ir.create_graph(lambda x: x * x + ops.exp(x), x)
        fwd = ops.call_with_info(g, x)
        info = transforms.autodiff(g)
        transforms.decompose_sum(info.graph)
        dy = popxl.constant(np.float32([1, 1]))
        (dx,) = ops.call(info.graph, dy, inputs_dict=info.inputs_dict(fwd))
        out = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(out, dx)
    assert types_of(info.graph).count("Add") == 3
    np.testing.assert_allclose(run(ir, {})[out], 2 * np.float32([1, 2]) + np.exp(np.float32([1, 2])), rtol=1e-5)


# --- merged transfers
class Streams:
    """Two inputs and two outputs."""

    def __init__(self):
        self.ir = popxl.Ir()
        with self.ir.main_graph:
            self.ins = [popxl.h2d_stream((2,), popxl.float32, name=f"in{i}") for i in range(2)]
            self.outs = [popxl.d2h_stream((2,), popxl.float32, name=f"out{i}") for i in range(2)]

    def run(self):
        data = {stream: np.float32([i, i + 10]) for i, stream in enumerate(self.ins)}
        results = run(self.ir, data)
        return [results[stream].tolist() for stream in self.outs]


@pytest.mark.shows("popxl.transforms.merge_exchange")
def test_transfers_of_the_body_are_merged():
    s = Streams()
    with s.ir.main_graph:
        first = ops.host_load(s.ins[0])
        with transforms.merge_exchange(), popxl.in_sequence(False):
            second = ops.host_load(s.ins[1])
            ops.host_store(s.outs[0], first)
        ops.host_store(s.outs[1], second + 1)
    kinds = types_of(s.ir.main_graph)
    assert kinds.count("Init") == 2 and kinds.count("HostLoad") == 1 and kinds.count("HostStore") == 1
    assert kinds.count("MultiExchange") == 1 and second.id in {t.id for t in s.ir.main_graph.tensors}
    assert s.run() == [[0, 10], [2, 12]]


def test_the_merged_op_is_the_last_and_runs_hooks():
    s = Streams()
    seen = []
    with s.ir.main_graph:
        s.ir.main_graph.register_op_created_hook(lambda op: seen.append(op.opType()))
        x = ops.host_load(s.ins[0])
        with transforms.merge_exchange(), popxl.in_sequence(False):
            loads = [ops.host_load(stream) for stream in s.ins[1:]]
            ops.host_store(s.outs[0], x)
    merged = s.ir.main_graph._pb_graph.getOps()[-1]
    assert isinstance(merged, _ir.op.exchange.MultiExchangeOp) and seen[-1] == "MultiExchange" == merged.opType()
    assert merged.outTensor(0).id == loads[0].id


def test_what_needs_what_was_loaded_is_not_merged_with_it():
    s = Streams()
    with s.ir.main_graph, transforms.merge_exchange():
        ops.host_store(s.outs[0], ops.host_load(s.ins[0]))
        ops.host_store(s.outs[1], ops.host_load(s.ins[1]))
    kinds = types_of(s.ir.main_graph)
    assert "HostLoad" not in kinds or "HostStore" not in kinds
    assert s.run() == [[0, 10], [1, 11]]


def test_remote_transfers_are_merged():
    ir = popxl.Ir()
    with ir.main_graph:
        buffer = popxl.remote_buffer((2,), popxl.float32, 2)
        popxl.remote_variable(np.float32([3, 4]), buffer, 0)
        out = popxl.d2h_stream((2,), popxl.float32)
        with popxl.in_sequence():
            with transforms.merge_exchange(), popxl.in_sequence(False):
                loaded = ops.remote_load(buffer, 0)
                ops.remote_store(buffer, 1, popxl.constant(np.float32([7, 8])))
            other = ops.remote_load(buffer, 1)
            ops.host_store(out, loaded + other)
    assert types_of(ir.main_graph).count("MultiExchange") == 1 and "RemoteStore" not in types_of(ir.main_graph)
    assert run(ir, {})[out].tolist() == [10, 12]


def test_ops_after_a_merge_follow_the_merged_op():
    s = Streams()
    with s.ir.main_graph, popxl.in_sequence():
        with transforms.merge_exchange(), popxl.in_sequence(False):
            loads = [ops.host_load(stream) for stream in s.ins]
        total = ops.add(*loads)
        ops.host_store(s.outs[0], total)
        ops.host_store(s.outs[1], total)
    graph = s.ir.main_graph._pb_graph
    merged = next(op for op in graph.getOps() if op.opType() == "MultiExchange")
    assert total._pb_tensor.getProducer() in graph.topoCons().getAfters(merged)
    assert s.run() == [[1, 21], [1, 21]]


# --- transfers beside computation
@pytest.mark.shows("popxl.transforms.io_tile_exchange")
def test_one_exchange_on_io_tiles():
    s = Streams()
    s.ir._pb_ir.getSessionOptions().numIOTiles = 32
    with s.ir.main_graph:
        first = ops.host_load(s.ins[0])
        with transforms.io_tile_exchange():
            second = ops.host_load(s.ins[1])
            ops.host_store(s.outs[0], first)
        ops.host_store(s.outs[1], ops.io_tile_copy(second))
    merged = next(op for op in s.ir.main_graph._pb_graph.getOps() if op.opType() == "MultiExchange")
    assert merged.getSettings().tileSet is popxl.TileSet.IO


def test_more_than_one_op_does_not_overlap():
    s = Streams()
    with s.ir.main_graph:
        with pytest.raises(RuntimeError, match="2 ops .*HostLoad .*HostStore|2 ops .*HostStore .*HostLoad"):
            with transforms.io_tile_exchange():
                ops.host_store(s.outs[0], ops.host_load(s.ins[0]))
        with transforms.io_tile_exchange(verify_overlap=False):
            ops.host_store(s.outs[1], ops.host_load(s.ins[1]))
    assert popxl.context.get_current_context().io_tile_set == "compute"


# --- patterns
def gradients_of(function, shapes, values=None, patterns=None, in_place=False):
    """The gradient graph of `function` after the patterns, the types of its ops then, and its results."""
    ir = popxl.Ir()
    arrays = values or [np.float32(np.arange(1, 1 + int(np.prod(s))).reshape(s)) / 4 for s in shapes]
    with ir.main_graph:
        tensors = [popxl.variable(array, name=f"v{i}") for i, array in enumerate(arrays)]
        g = ir.create_graph(function, *tensors)
        fwd = ops.call_with_info(g, *tensors)
        info = transforms.autodiff(g)
        if patterns is not None:
            ir._pb_ir.setPatterns(patterns)
            ir._pb_ir.applyPreAliasPatterns(info.graph._pb_graph)
            if in_place:
                ir._pb_ir.applyInplacePattern(info.graph._pb_graph)
        kinds = types_of(info.graph)
        dy = popxl.constant(np.float32(np.arange(int(np.prod(g.outputs[0].shape))).reshape(g.outputs[0].shape)) - 1)
        found = ops.call(info.graph, dy, inputs_dict=info.inputs_dict(fwd))
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in found]
        for stream, t in zip(streams, found):
            ops.host_store(stream, t)
    results = run(ir, {})
    return info.graph, kinds, [results[stream] for stream in streams]


FUNCTIONS = {
    "mul": (lambda a, b: a * b, [(2, 3), (2, 3)], ["Mul", "Mul"]),
    "mul broadcast": (lambda a, b: a * b, [(2, 3), (3,)], ["Mul", "Mul", "ReduceSum"]),
    "mul one": (lambda a, b: a * b, [(2, 3), (2, 1)], ["Mul", "Mul", "ReduceSum"]),
    "mul both": (lambda a, b: a * b, [(4, 2, 3), (1, 3)], ["Mul", "Mul", "ReduceSum", "Reshape"]),
    "div": (lambda a, b: a / b, [(2, 3), (2, 3)], ["Div", "DivArg1Grad"]),
    "sub": (lambda a, b: a - b, [(2, 3), (3,)], ["Neg", "ReduceSum"]),
    "add": (lambda a, b: a + b, [(2, 3), (2, 3)], []),
    "add broadcast": (lambda a, b: a + b, [(2, 3), (3,)], ["AddArg1Grad"]),
    "exp": (lambda a: ops.exp(a), [(2, 3)], ["Mul"]),
    "log": (lambda a: ops.log(a), [(2, 3)], ["Div"]),
    "sin": (lambda a: ops.sin(a), [(2, 3)], ["Cos", "Mul"]),
    "cos": (lambda a: ops.cos(a), [(2, 3)], ["Mul", "Neg", "Sin"]),
    "twice": (lambda a: a * a, [(2, 3)], ["Add", "Mul", "Mul"]),
    "three": (lambda a: a * a + ops.exp(a), [(2, 3)], ["Mul", "Mul", "Mul", "Sum"]),
    "chain": (lambda a, b: ops.tanh(a @ b), [(2, 3), (3, 2)], ["MatMulLhsGrad", "MatMulRhsGrad", "TanhGrad"]),
}


@pytest.mark.edge("29.12")
@pytest.mark.parametrize("name", list(FUNCTIONS))
@pytest.mark.parametrize("in_place", [False, True])
def test_patterns_make_simpler_ops_and_change_no_result(name, in_place):
    function, shapes, kinds = FUNCTIONS[name]
    _, _, wanted = gradients_of(function, shapes)
    _, there, found = gradients_of(function, shapes, None, _ir.patterns.Patterns(), in_place)
    made = [kind.replace("LhsInplace", "").replace("RhsInplace", "") for kind in there]
    assert sorted(made) == kinds
    for a, b in zip(found, wanted):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_products_of_a_gradient_overwrite_what_only_they_read():
    graph, _, _ = gradients_of(lambda x, s: x * s, [(2, 3), (2, 3)], None, _ir.patterns.Patterns(), True)
    kinds = (_ir.op.MulLhsInplaceOp, _ir.op.MulRhsInplaceOp)
    found = graph._pb_graph.getOps()
    assert len(found) == 2 and all(type(op) in kinds for op in found)
    assert [t.name for t in graph.outputs] == ["Gradient___x", "Gradient___s"]


def test_what_is_read_or_kept_elsewhere_is_not_overwritten():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.float32([1, 2]), name="x")

        def f(a: popxl.Tensor, b: popxl.TensorByRef):
            c = ops.exp(a)  # a is read twice
            d = a + c  # c is an output
            e = ops.exp(b)  # b belongs to the caller
            return c, ops.relu(ops.exp(d)), e

        g = ir.create_graph(f, x, x)
        core = g._pb_graph
        ir._pb_ir.setPatterns(_ir.patterns.Patterns())
        ir._pb_ir.applyInplacePattern(core)
    by_type = {op.opType(): op for op in core.getOps()}
    assert sorted(by_type) == ["Add", "Exp", "ExpInplace", "ReluInplace"]
    assert [op.inId(0).rpartition("/")[2] for op in core.getOps() if op.opType() == "Exp"] == ["a", "b"]


def test_rules_can_be_switched_off():
    def kinds(patterns):
        return sorted(gradients_of(lambda a: a * a, [(2,)], None, patterns)[1])

    patterns = _ir.patterns.Patterns(_ir.patterns.PatternsLevel.Minimal)
    assert kinds(patterns) == ["Mul", "Mul", "Sum"]
    assert kinds(patterns.enablePattern("SumToAdd", True)) == ["Add", "Mul", "Mul"]
    none = _ir.patterns.Patterns(_ir.patterns.PatternsLevel.NoPatterns)
    with pytest.raises(popart.popart_exception, match="31 mandatory patterns are off"):
        kinds(none)
    assert kinds(none.enableRuntimeAsserts(False)) == ["MulArg0Grad", "MulArg1Grad", "Sum"]


@pytest.mark.shows("popart.Patterns", "popart.PatternsLevel")
def test_sets_of_patterns():
    level, Patterns = popart.PatternsLevel, popart.Patterns
    assert Patterns().isPatternEnabled("SumToAdd") and not Patterns(level.Minimal).isPatternEnabled("SumToAdd")
    assert not Patterns(level.NoPatterns).isPatternEnabled("MulArgGradOp") and Patterns(level.All).isPatternEnabled("LSTMOp")
    assert Patterns.isMandatory("MulArgGradOp") and not Patterns.isMandatory("SumToAdd")
    assert {"PostNRepl", "ConvTranspose"} <= set(Patterns.getAllPreAliasPatternNames())
    assert Patterns(["SumToAdd"]).isPatternEnabled("SumToAdd") and not Patterns(["SumToAdd"]).InPlace
    for wrong, message in (("SumToAd", "did you mean 'SumToAdd'"), ("Inplace", "did you mean 'InPlace'")):
        with pytest.raises(popart.popart_exception, match=message):
            Patterns().isPatternEnabled(wrong)
    with pytest.raises(popart.popart_exception, match="'MulArgGradOp' is mandatory"):
        Patterns().enablePattern("MulArgGradOp", False)
    chosen = Patterns()
    chosen.MulArgGradOp, chosen.InPlace = True, False
    assert chosen.MulArgGradOp and not chosen.InPlace and "SumToAdd On" in repr(chosen)


CASES = [({}, (2, 3, 5)), ({"stride": (2, 2)}, (2, 3, 5)), ({"stride": (2, 1), "padding": (1, 0, 1, 2)}, (2, 3, 4))]


@pytest.mark.parametrize("arguments, sizes", CASES)
def test_a_transposed_convolution_becomes_a_convolution(arguments, sizes):
    values = []
    for rewrites in (False, True):
        ir = popxl.Ir()
        rng = np.random.default_rng(0)
        with ir.main_graph:
            x = popxl.variable(rng.normal(size=(1, 2, 4, 5)).astype(np.float32))
            w = popxl.variable(rng.normal(size=(2, 3, 3, 3)).astype(np.float32))
            y = ops.conv_transpose(x, w, **arguments)
            out = popxl.d2h_stream(y.shape, y.dtype)
            ops.host_store(out, y)
        if rewrites:
            ir._pb_ir.setPatterns(_ir.patterns.Patterns(_ir.patterns.PatternsLevel.Minimal))
            ir._pb_ir.applyPreAliasPatterns(ir.main_graph._pb_graph)
            kinds = types_of(ir.main_graph)
            assert kinds.index("ConvFlipWeights") + 1 == kinds.index("Conv") and "ConvTranspose" not in kinds
        values.append(run(ir, {})[out])
        # A Session does the same to its graphs.
        assert types_of(ir.main_graph)[-2:] == ["ConvFlipWeights", "Conv"]
    np.testing.assert_allclose(values[1], values[0], rtol=1e-4, atol=1e-5)


def test_transforms_have_names_and_say_that_they_ran():
    ir = popxl.Ir()
    g = ir.create_graph(lambda a: (ops.exp(a), ops.log(a))[0], spec(2))
    core = g._pb_graph
    for name in ("Prune", "DecomposeSum", "MergeExchange"):
        transform = getattr(_ir.transforms, name)()
        assert transform.getName() == name and transform.apply(core) is True
    assert types_of(g) == ["Exp"]  # nothing read the logarithm
    ir._pb_ir.applyTransform("Prune", core)
    with pytest.raises(popart.popart_exception, match="called 'Prunes'; there are Prune"):
        ir._pb_ir.applyTransform("Prunes", core)


def test_chosen_transfers_are_merged():
    s = Streams()
    with s.ir.main_graph:
        loads = [ops.host_load(stream) for stream in s.ins]
        for stream, t in zip(s.outs, loads):
            ops.host_store(stream, t)
    graph = s.ir.main_graph._pb_graph
    chosen = [op.id for op in graph.getOps() if op.opType() == "HostLoad"]
    (made,) = _ir.transforms.MergeExchange().applyToOps(graph, chosen)
    assert made.opType() == "MultiExchange" and graph.getOps()[-1] is made
    assert {k: [t.id for t in v] for k, v in s.ir._pb_ir.getHostLoadTensors().items()} == {
        stream.tensor_id: [t.id] for stream, t in zip(s.ins, loads)
    }
    assert s.run() == [[0, 10], [1, 11]]

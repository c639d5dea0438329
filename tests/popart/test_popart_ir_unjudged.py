"""popart._internal.ir: creating an op derives the types of its outputs and judges nothing else."""

import numpy
import pytest
from popart_ir_programs import Program, identifier, info

import popart
import popart._internal.ir as _ir

TYPES = ["FLOAT", "FLOAT16", "INT32", "UINT32", "BOOL", "INT8"]
OPTIONAL = _ir.OptionalDataType(_ir.DataType.FLOAT)


def made(kind, inputs, *arguments, outputs=1, connected=True):
    """Types of the outputs of an op of inputs of these types."""
    program = Program()
    for i, given in enumerate(inputs):
        program.graph.addInput(f"g/i{i}", given)
    ins = {i: f"g/i{i}" for i in range(len(inputs))}
    rest = (identifier(kind), *arguments, program.settings(kind))
    if connected:
        create = getattr(program.graph, f"createConnectedOp_{kind}Op")
        op = create(ins, {i: f"g/o{i}" for i in range(outputs)}, *rest)
    else:
        op = getattr(program.graph, f"createOp_{kind}Op")(*rest)
        for i, id in ins.items():
            op.connectInTensor(i, id)
        for i in range(outputs):
            op.createAndConnectOutTensor(i, f"g/o{i}")
        op.setup()
    return [op.outTensor(i).info for i in range(outputs)]


@pytest.mark.parametrize("connected", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_logic_of_any_type(dtype, connected):
    wanted = [info(2, 3, dtype="BOOL")]
    for kind in ("And", "Or"):
        inputs = [info(2, 3, dtype=dtype), info(3, dtype=dtype)]
        assert made(kind, inputs, connected=connected) == wanted
    assert made("Not", [info(2, 3, dtype=dtype)], connected=connected) == wanted


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2)])
def test_indices_of_any_type_and_shape(dtype, shape):
    inputs = [info(4, 6), info(*shape, dtype=dtype)]
    assert made("DynamicSlice", inputs, [0], [2], False) == [info(2, 6)]
    assert made("DynamicSlice", inputs, [0, 1], [2, 5], True) == [info(2, 5)]


@pytest.mark.parametrize("dtype", ["FLOAT", "FLOAT16"])
def test_dropout_without_a_seed(dtype):
    assert made("Dropout", [info(4, 6, dtype=dtype)], 0.5) == [info(4, 6, dtype=dtype)]


@pytest.mark.parametrize("kind", ["RandomUniform", "RandomNormal"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (2,), (7,)])
def test_random_numbers_of_an_input_of_any_type(kind, dtype, shape):
    assert made(kind, [info(*shape, dtype=dtype)], [3, 2], OPTIONAL, 1.0, 0.0) == [info(3, 2)]


def loop(result):
    """A loop that carries [2] and whose body gives something else."""
    p = Program()
    for name, given in (("a", info(dtype="INT32")), ("b", info(dtype="BOOL")), ("c", info(2))):
        p.main.addInput(name, given)
    body = p.ir.createGraph("body")
    for name, given in (("i", info(dtype="INT32")), ("k", info(dtype="BOOL")), ("v", info(2)), ("z", result)):
        body.addInput(f"body/{name}", given)
    for name in ("k", "z"):
        body.markAsOutput(f"body/{name}")
    settings = _ir.Settings(p.main, "loop")
    op = p.main.createConnectedOp_LoopOp({0: "a", 1: "b", 2: "c"}, {0: "o"}, identifier("Loop"), settings, body)
    return op, body


@pytest.mark.parametrize("result", [info(3, 3), info(2, dtype="INT32"), info()])
def test_a_loop_whose_body_gives_something_else(result):
    op, body = loop(result)
    assert op.getCalledGraphs()[0] is body
    assert op.outTensor(0).info == result


def test_what_says_nothing_of_its_outputs_is_refused():
    p = Program()
    op = p.graph.createOp_AddOp(identifier("Add"), p.settings())
    with pytest.raises(popart.popart_exception, match="missing input"):
        op.setup()
    with pytest.raises(popart.popart_exception):
        made("Add", [info(2, 3), info(4)])


def test_a_session_refuses_what_creation_does_not():
    p = Program()
    p.main.addConstInit("s", info(2), numpy.ones(2, numpy.float32))
    settings = _ir.Settings(p.main, "n")
    p.main.createConnectedOp_NotOp({0: "s"}, {0: "o"}, identifier("Not"), settings)
    session = popart.InferenceSession.fromIr(p.ir, popart.DeviceManager().createCpuDevice())
    with pytest.raises(popart.popart_exception, match="logical_not is f32"):
        session.prepareDevice()


def test_a_grouping_says_itself_as_text():
    grouping = _ir.ReplicaGrouping(4, 1, 2)
    assert grouping.str() == str(grouping) and "groupSize=2" in grouping.str()
    numpy.testing.assert_array_equal(grouping.getReplicasAt(1), [2, 3])

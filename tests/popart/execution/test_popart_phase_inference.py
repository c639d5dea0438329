"""Operators without an execution phase take one from their neighbours."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper

import popart

X = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)
# Of each operator: what it reads, the phase that is written, and the one it has.
CHAINS = {
    "the loss": ([("x", 0), ("h0", 1), ("h1", None)], [0, 1, 1]),
    "the first": ([("x", None), ("h0", 1), ("h1", 1)], [1, 1, 1]),
    "in between": ([("x", 0), ("h0", None), ("h1", 1)], [0, 0, 1]),
    "several at the end": ([("x", 0), ("h0", 1), ("h1", None), ("h2", None)], [0, 1, 1, 1]),
    "several at the front": ([("x", None), ("h0", None), ("h1", 1), ("h2", None)], [1, 1, 1, 1]),
    "the last of several": ([("x", 0), ("x", 1), ("h0 h1", None), ("h2", None)], [0, 1, 1, 1]),
    "the first of several": ([("x", None), ("h0", 1), ("h0", 0), ("h1 h2", None)], [0, 1, 0, 1]),
}


def model(chain):
    nodes = []
    for i, (reads, phase) in enumerate(chain):
        operands = reads.split()
        node = helper.make_node("Sum" if len(operands) > 1 else "MatMul", operands, [f"h{i}"])
        if len(operands) == 1:
            node.input.append(f"w{i}")
        if phase is not None:
            node.attribute.append(helper.make_attribute("__execution_phase", phase))
        nodes.append(node)
    loss = helper.make_node("ReduceMean", [f"h{len(chain) - 1}"], ["loss"], axes=[0, 1], keepdims=0)
    random = np.random.default_rng(7)
    weights = {f"w{i}": random.normal(size=(4, 4)).astype(np.float32) for i in range(len(chain))}
    read = {id for node in nodes for id in node.input}
    weights = {name: value for name, value in weights.items() if name in read}
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 4])]
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph([*nodes, loss], "g", inputs, [], tensors)
    imports = [helper.make_opsetid("", 10), helper.make_opsetid("ai.graphcore", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=6).SerializeToString(), weights


def train(data, weights, phases, mode=popart.VirtualGraphMode.ExecutionPhases):
    options = popart.SessionOptions()
    options.virtualGraphMode, options.executionPhaseSettings.phases = mode, phases
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2})
    flow = popart.DataFlow(1, ["loss"])
    session = popart.TrainingSession(data, flow, "loss", popart.ConstSGD(0.1), device, userOptions=options)
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": X}, anchors))
    session.weightsToHost()
    after = {name: np.empty_like(value) for name, value in weights.items()}
    session.readWeights(popart.PyWeightsIO(after))
    return session, [anchors["loss"], *after.values()]


@pytest.mark.parametrize("case", CHAINS)
def test_a_phase_follows_the_flow_of_data(case):
    chain, wanted = CHAINS[case]
    data, weights = model(chain)
    session, phased = train(data, weights, phases=2)
    places = session._program.places()
    assert [places[f"h{i}"][2] for i in range(len(chain))] == wanted
    assert places["loss"][2] == wanted[-1]
    for op in next(iter(json.loads(session._serializeIr()).values())):
        if op["type"] in ("MatMul", "Sum", "Add") and op["outputs"][0]["name"] in places:
            assert op["attributes"]["__execution_phase"] == str(places[op["outputs"][0]["name"]][2])
    off = popart.VirtualGraphMode.Off
    for few, mode in (
        (0, off),
        (1, off),
        (0, popart.VirtualGraphMode.ExecutionPhases),
        (1, popart.VirtualGraphMode.ExecutionPhases),
    ):
        session, plain = train(data, weights, few, mode)
        assert not session._program.places()  # annotations are dropped
        for one, other in zip(phased, plain, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_two_layers_with_their_loss_outside():
    builder = popart.Builder()
    value = builder.addInputTensor("FLOAT", [2, 4], "x")
    for phase in (0, 1):
        weight = builder.addInitializedInputTensor(np.eye(4, dtype=np.float32), f"w{phase}")
        with builder.executionPhase(phase):
            value = builder.aiOnnx.relu([builder.aiOnnx.matmul([value, weight])])
    loss = builder.aiGraphcore.l1loss([value], 0.1)
    options = popart.SessionOptions()
    options.virtualGraphMode = popart.VirtualGraphMode.ExecutionPhases
    options.executionPhaseSettings.phases = 2
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 2})
    flow = popart.DataFlow(1, [loss])
    session = popart.TrainingSession(
        builder.getModelProto(), flow, loss, popart.ConstSGD(0.1), device, userOptions=options
    )
    assert session._program.places()[loss][2] == 1


def test_numbers_that_decrease_stay_an_error():
    data, _ = model([("x", 1), ("h0", None), ("h1", 0)])
    with pytest.raises(popart.popart_exception, match="execution phase going back"):
        train(data, {}, phases=2)

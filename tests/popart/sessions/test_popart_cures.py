"""Errors of the core end with what users of PopART can do about them, in PopART's names."""

import numpy as np
import popxl
import pytest
from popxl import ops

import popart
from popart._impl.core_errors import CURES


def ipus(count):
    return popart.DeviceManager().createIpuModelDevice({"numIPUs": count})


def training(make, options=None):
    """A session of the loss that `make` builds of an input and a weight."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2])
    loss = builder.aiGraphcore.identityloss(
        [make(builder, x, builder.addInitializedInputTensor(np.ones(2, np.float32)))]
    )
    flow = popart.DataFlow(1, {loss: popart.AnchorReturnType("All")})
    optimizer = popart.SGD({"defaultLearningRate": (0.1, False), "lossScaling": (1.0, False)})
    return popart.TrainingSession(builder.getModelProto(), flow, loss, optimizer, ipus(1), userOptions=options)


def product(builder, x, w):
    return builder.aiOnnx.mul([x, w])


def remainder(builder, x, w):
    return builder.aiOnnx.mod([product(builder, x, w), w], fmod=1)


def too_many_ipus():
    options = popart.SessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = True, 128
    builder = popart.Builder()
    y = product(
        builder, builder.addInputTensor("FLOAT", [2]), builder.addInitializedInputTensor(np.ones(2, np.float32))
    )
    flow = popart.DataFlow(1, {y: popart.AnchorReturnType("All")})
    popart.InferenceSession(builder.getModelProto(), flow, ipus(128), userOptions=options).prepareDevice()


def no_half_gradient():
    options = popart.SessionOptions()
    options.automaticLossScalingSettings.enabled = True
    training(product, options).prepareDevice()


def program(in_order):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence(in_order):
        x = popxl.variable(np.ones(2, np.float32))
        ops.relu_(x)
        ops.host_store(popxl.d2h_stream((2,), popxl.float32), x + 1.0)
    return popart.InferenceSession.fromIr(ir._pb_ir, ipus(1))


def not_attached():
    session = program(True)
    session.prepareDevice(loadEngine=False)
    session.weightsToHost()


PROVOKED = {
    "ambiguous_order": (
        lambda: program(False).prepareDevice(),
        "say which op is first: topoCons().insert(first, second)",
    ),
    "no_gradient": (
        lambda: training(remainder).prepareDevice(),
        "detach what the operator reads (Builder.aiGraphcore.detach)",
    ),
    "no_half_gradient": (no_half_gradient, "weights and inputs of FLOAT16, or no automaticLossScalingSettings"),
    "not_attached": (not_attached, "call prepareDevice(), which loads the program"),
    "too_many_ipus": (
        too_many_ipus,
        "fewer replicas, or several processes: poprun, with enableDistributedReplicatedGraphs",
    ),
}


@pytest.mark.parametrize("reason", CURES)
def test_an_error_of_the_core_has_a_cure_of_popart(reason):
    provoke, cure = PROVOKED[reason]
    with pytest.raises(popart.popart_exception) as raised:
        provoke()
    assert raised.value.__cause__.reason == reason
    text, _, advice = str(raised.value).partition("\n  try:      ")
    assert text == str(raised.value.__cause__) and advice.startswith(cure)

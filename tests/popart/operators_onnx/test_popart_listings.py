"""Programs that run list too, whatever patterns are on."""

import json

import numpy as np
import pytest
from popart_onnx_cases import Batch
from popart_onnx_samples import CASES

import popart

LEVEL = popart.PatternsLevel
PATTERNS = {
    "default": lambda: None,
    "none": lambda: popart.Patterns([]).enableRuntimeAsserts(False),
    "few, in place": lambda: popart.Patterns(["PreUniRepl", "InPlace"]).enableRuntimeAsserts(False),
    "all": lambda: popart.Patterns(LEVEL.All),
    "no patterns": lambda: popart.Patterns(LEVEL.NoPatterns).enableRuntimeAsserts(False),
}


def list_all(patterns, outlining, opsets):
    device = popart.DeviceManager().createCpuDevice()
    options = popart.SessionOptions()
    options.enableOutlining = outlining
    listed = 0
    for case in CASES:
        for training in (False, True) if case.trained else (False,):
            for opset in case.opsets[opsets]:
                batch = Batch([case], opset, training=training)
                common = {"deviceInfo": device, "patterns": PATTERNS[patterns](), "userOptions": options}
                data, flow = batch.model().SerializeToString(), popart.DataFlow(1, batch.outputs)
                try:
                    if training:
                        session = popart.TrainingSession(data, flow, "loss", popart.ConstSGD(0.1), **common)
                    else:
                        session = popart.InferenceSession(data, flow, **common)
                except popart.popart_exception:
                    continue  # a mandatory pattern is off, or PopART has no gradient
                assert json.loads(session._serializeIr())
                listed += 1
    assert listed > 150


def test_every_operator_is_listed():
    list_all("few, in place", True, slice(-1, None))


@pytest.mark.slow
@pytest.mark.parametrize("outlining", [False, True])
@pytest.mark.parametrize("patterns", PATTERNS)
def test_every_version_of_every_operator_is_listed(patterns, outlining):
    list_all(patterns, outlining, slice(None))


def graphs_of(session):
    return {name: [op["type"] for op in ops] for name, ops in json.loads(session._serializeIr()).items()}


def training(builder, anchors, loss, patterns=None, **fields):
    options = popart.SessionOptions()
    for name, value in fields.items():
        setattr(options, name, value)
    device = popart.DeviceManager().createIpuModelDevice({})
    flow = popart.DataFlow(1, list(anchors))
    data = builder.getModelProto()
    return popart.TrainingSession(
        data, flow, loss, popart.ConstSGD(0.1), device, patterns=patterns, userOptions=options
    )


def built(opset=11):
    builder = popart.Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1})
    random = np.random.default_rng(5)
    return builder, lambda name, *shape: builder.addInitializedInputTensor(
        random.normal(size=shape).astype(np.float32), name
    )


@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize("patterns", PATTERNS)
def test_gemm_without_a_sum(patterns, alpha):
    builder, weight = built()
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    y = builder.aiOnnx.gemm([x, weight("w", 3, 4)], alpha=alpha)
    device = popart.DeviceManager().createCpuDevice()
    data = builder.getModelProto()
    session = popart.InferenceSession(data, popart.DataFlow(1, [y]), device, patterns=PATTERNS[patterns]())
    types = graphs_of(session)["maingraph"]
    assert "MatMul" in types and "Add" not in types and any("Scale" in type for type in types) == (alpha != 1)
    session.prepareDevice()
    assert session.getInfo(y).shape() == [2, 4]


POINTS = np.float32([1.2, 1.5, 2.0])
SLOPES = {"cosh": np.sinh(POINTS), "asinh": 1 / np.sqrt(POINTS**2 + 1), "acosh": 1 / np.sqrt(POINTS**2 - 1)}


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("method", SLOPES)
def test_hyperbolic_functions_train_with_a_handful_of_patterns(method, in_place):
    builder, _ = built(10)
    x = builder.addInputTensor("FLOAT", [3], "x")
    loss = builder.aiOnnx.reducemean([getattr(builder.aiOnnx, method)([x])], [0], 0)
    names = ["PreUniRepl", "CoshOp", "ExpGradOp", "LogGradOp", "SqrtGradOp", "SubtractArg1GradOp", "MulArgGradOp"]
    patterns = popart.Patterns([*names, *["InPlace"] * in_place]).enableRuntimeAsserts(False)
    gradient = popart.reservedGradientPrefix() + x
    session = training(builder, [gradient], loss, patterns)
    assert any(type.endswith("Inplace") for type in graphs_of(session)["maingraph"]) == in_place
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": POINTS}, anchors))
    np.testing.assert_allclose(anchors[gradient], SLOPES[method] / 3, rtol=1e-5)


@pytest.mark.parametrize("kind, gates", [("lstm", 4), ("rnn", 1)])
@pytest.mark.parametrize("count", [2, 4])
def test_equal_recurrent_layers_in_a_row_are_one_graph(kind, gates, count):
    builder, weight = built(10)
    value = builder.addInputTensor("FLOAT", [3, 1, 4], "x")
    for i in range(count):
        operands = [value, weight(f"w{i}", 1, 4 * gates, 4), weight(f"r{i}", 1, 4 * gates, 4)]
        results = getattr(builder.aiOnnx, kind)(operands, 3 if kind == "lstm" else 2)
        value = builder.reshape_const(builder.aiOnnx, [results[0]], [3, 1, 4])
    loss = builder.aiGraphcore.l1loss([value], 0.1)
    graphs = graphs_of(training(builder, [loss], loss))
    assert kind.upper() not in graphs["maingraph"]
    assert sum(types.count(kind.upper()) for types in graphs.values()) == 1


@pytest.mark.parametrize("is_training", [False, True])
def test_a_tied_gather_of_a_product_in_one_piece(is_training):
    builder, weight = built(10)
    table, index = weight("w", 10, 4), builder.addInputTensor("UINT32", [3], "i")
    rows = builder.aiOnnx.gather([table, index])
    y = builder.aiOnnx.matmul([rows, builder.aiOnnx.transpose([table], [1, 0])])
    patterns = popart.Patterns().enablePattern("TiedGather", True).enablePattern("TiedGatherAccumulate", True)
    if is_training:
        loss = builder.aiGraphcore.l1loss([y], 0.1)
        session = training(builder, [loss], loss, patterns, enableGradientAccumulation=True, accumulationFactor=2)
    else:
        device = popart.DeviceManager().createIpuModelDevice({})
        session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, [y]), device, patterns=patterns)
    types = [type for graph in graphs_of(session).values() for type in graph]
    assert types.count("PopartTiedGather") == 1 and "Gather" not in types
    assert types.count("PopartSparseAccumulate") == int(is_training)


@pytest.mark.parametrize("mode", ["none", "input_channels", "reducing_dim", "output_channels"])
def test_products_with_a_transposed_variable_have_operands_of_three_dimensions(mode):
    builder, weight = built(10)
    x = builder.addInputTensor("FLOAT", [8, 6], "x")
    turned = builder.aiOnnx.transpose([weight("w", 4, 6)], [1, 0])
    y = builder.aiOnnx.matmul([x, turned])
    if mode != "none":
        builder.setSerializeMatMul({y}, mode, 2)
    loss = builder.aiGraphcore.l1loss([y], 0.1)
    session = training(builder, [loss], loss)
    products = [op for ops in json.loads(session._serializeIr()).values() for op in ops if op["type"] == "MatMul"]
    assert len(products) >= 2
    for op in products:
        assert all(each["shape"].count(" ") == 2 for each in op["inputs"])
    assert session.getInfo(turned).shape() == [6, 4]

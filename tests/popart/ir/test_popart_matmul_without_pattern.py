"""A product of any ranks has device code, whether or not the pattern MatMulOp rewrites it."""

import numpy as np
import pytest
from session_listings import Model, of_type, types_of

import popart

RNG = np.random.default_rng(5)
SHAPES = [
    ((2, 3), (3, 4)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((3,), (3,)),
    ((2, 2, 3), (3, 4)),
    ((2, 2, 3), (2, 3, 4)),
    ((2, 1, 2, 3), (5, 3, 4)),
    ((2, 3), (5, 3, 4)),
    ((1, 2, 3), (1, 3, 4)),
]


def few(*names, matmul=False):
    """These patterns alone, and MatMulOp or not."""
    patterns = popart.Patterns([*names, *["MatMulOp"] * matmul])
    return patterns.enableRuntimeAsserts(False)


def product(model, where, x, w):
    if where == "main graph":
        return model.onnx.matmul([x, w])
    if where == "gemm":
        return model.onnx.gemm([x, w, model.weight([1], "c")])
    body = model.builder.createSubgraphBuilder()
    if where == "callee":
        a, b = body.addUntypedInputTensor("a"), body.addUntypedInputTensor("b")
        body.addOutputTensor(body.aiOnnx.matmul([a, b]))
        return model.graphcore.call([x, w], 1, body)[0]
    trips, go = model.onnx.constant(np.array(2, np.int32)), model.onnx.constant(np.array(True))
    body.addInputTensor("INT32", [], "i")
    again, carried = body.addUntypedInputTensor("go"), body.addUntypedInputTensor("v")
    for id in (again, body.aiOnnx.identity([carried]), body.aiOnnx.matmul([x, w])):
        body.addOutputTensor(id)
    return model.onnx.loop([trips, go, x], 2, body)[1]


def run(session, arrays):
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(arrays, anchors))
    return anchors


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("where", ["main graph", "gemm", "callee", "loop"])
def test_values_are_those_of_the_product(shapes, where):
    if where == "gemm" and {len(shape) for shape in shapes} != {2}:
        shapes = SHAPES[0]
    x = RNG.normal(size=shapes[0]).astype(np.float32)
    results = []
    for matmul in (True, False):
        model = Model()
        w = model.weight(list(shapes[1]))
        y = product(model, where, model.input(list(shapes[0])), w)
        session = model.session([y], patterns=few(matmul=matmul))
        assert any("MatMul" in op["type"] for op in of_type(session, "MatMul"))
        results.append(run(session, {"x": x})[y])
    np.testing.assert_array_equal(*results)
    if where == "main graph":
        weight = Model().weight(list(shapes[1]))  # the same generator
        assert weight == "w"
        np.testing.assert_allclose(
            results[0], x @ np.random.default_rng(7).normal(size=shapes[1]).astype(np.float32), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("missing", [(), ("MatMulLhsGradOp",), ("MatMulRhsGradOp",)])
def test_gradients_need_their_own_patterns(shapes, missing):
    patterns = popart.Patterns().enableRuntimeAsserts(False)
    for name in ("MatMulOp", *missing):
        patterns.enablePattern(name, False)
    results = []
    for each in (patterns, popart.Patterns()):
        model = Model()
        x, w = model.input(list(shapes[0])), model.weight(list(shapes[1]))
        loss = model.loss(model.builder.reshape_const(model.onnx, [model.onnx.matmul([x, w])], [-1]))
        anchors = [popart.reservedGradientPrefix() + id for id in (x, w)]
        session = model.session(anchors, loss, patterns=each)
        if missing and each is patterns:
            with pytest.raises(popart.popart_exception, match=f"cannot be compiled: the pattern '{missing[0]}'"):
                session.prepareDevice()
            return
        results.append(run(session, {"x": np.ones(shapes[0], np.float32)}))
    for id in anchors:
        np.testing.assert_array_equal(results[0][id], results[1][id])


def test_the_pattern_stays_mandatory_while_asserts_are_on():
    model = Model()
    y = model.onnx.matmul([model.input([2, 3]), model.weight([3, 4])])
    with pytest.raises(popart.popart_exception, match="MatMulOp"):
        model.session([y], patterns=popart.Patterns().enablePattern("MatMulOp", False))
    assert types_of(model.session([y], patterns=few())) == ["MatMul"]

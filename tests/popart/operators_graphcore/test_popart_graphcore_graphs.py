"""Call and PackedDataBlock of ai.graphcore, whose nodes hold graphs."""

import numpy as np
import onnx
import onnx.helper
import pytest

import ipu_core
from graphcore_models import Values, make_model, normal, refusal, run, train


def body(nodes, inputs, outputs):
    """A graph for an attribute; inputs are called by their names and have the types of the arguments."""
    infos = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in [*inputs, *outputs]]
    made = make_model(nodes, {}, outputs).graph.node
    return onnx.helper.make_graph(made, "callee", infos[: len(inputs)], infos[len(inputs) :])


def test_a_graph_is_called_as_often_as_nodes_call_it_and_gradients_pass_it():
    callee = body([("onnx.Mul", ["a", "b"], ["m"], {}), ("Scale", ["m"], ["r"], {"scale": 3.0})], ["a", "b"], ["r"])
    x, w = normal(2, 3), normal(2, 3, seed=1)
    nodes = [("Call", ["w", "x"], ["u"], {"callee": callee}), ("Call", ["u", "w"], ["y"], {"callee": callee})]
    np.testing.assert_allclose(run(nodes, {"x": x, "w": w}, ["y"])["y"], 9 * x * w * w, rtol=1e-5)
    nodes.append(("IdentityLoss", ["y"], ["loss"], {"reduction": "Sum"}))
    np.testing.assert_allclose(train(nodes, {"x": x}, {"w": w}, ["loss"])["w"], 18 * x * w, rtol=1e-4, atol=1e-5)


def packed_block(inputs, out_offsets, out_lengths, size, longest, function):
    """One sequence after the other; inputs are (data, offsets, lengths)."""
    result = None
    for n, (at, length) in enumerate(zip(out_offsets, out_lengths)):
        parts = []
        for (data, offsets, lengths), most in zip(inputs, longest):
            part = np.zeros((most, *data.shape[1:]), data.dtype)
            part[: lengths[n]] = data[offsets[n] : offsets[n] + lengths[n]]
            parts.append(part)
        y = function(*parts)
        result = np.zeros((size, *y.shape[1:]), y.dtype) if result is None else result
        result[at : at + length] = y[:length]
    return result


OFFSETS, LENGTHS, TO = np.uint32([0, 3, 4]), np.uint32([3, 1, 2]), np.uint32([4, 0, 1])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_a_callback_sees_padded_sequences_and_its_results_are_packed(dtype, batch):
    a, b = (normal(6, 2) * 4).astype(dtype), (normal(7, 2, seed=1) * 4).astype(dtype)
    more = np.uint32([1, 5, 0])
    both = body([("onnx.Mul", ["p", "q"], ["m"], {}), ("onnx.Add", ["m", "p"], ["r"], {})], ["p", "q"], ["r"])
    summed = body([("onnx.ReduceSum", ["p"], ["r"], {"axes": [1], "keepdims": 1})], ["p"], ["r"])
    values, attributes = Values(), {"resultSize": 8, "callbackBatchSize": batch}
    expected = packed_block([(a, OFFSETS, LENGTHS), (b, more, LENGTHS)], TO, LENGTHS, 8, [4, 4], lambda p, q: p * q + p)
    operands = [a, OFFSETS, LENGTHS, b, more, LENGTHS, TO, LENGTHS]
    values.add(
        "PackedDataBlock",
        operands,
        expected,
        1e-2 if dtype == np.float16 else 1e-5,
        callback=both,
        maxSequenceLengths=[4, 4],
        **attributes,
    )
    ones = np.uint32([1, 1, 1])
    expected = packed_block([(a, OFFSETS, LENGTHS)], TO, ones, 8, [3], lambda p: p.sum(0, keepdims=True, dtype=dtype))
    operands = [a, OFFSETS, LENGTHS, TO, ones]
    values.add(
        "PackedDataBlock",
        operands,
        expected,
        1e-2 if dtype == np.float16 else 1e-5,
        callback=summed,
        maxSequenceLengths=[3],
        **attributes,
    )
    values.check()


def test_what_cannot_be_is_refused_with_its_numbers():
    same = body([("Nop", ["p"], ["r"], {})], ["p"], ["r"])
    flat = body([("onnx.ReduceSum", ["p"], ["r"], {"axes": [0, 1], "keepdims": 0})], ["p"], ["r"])
    good = {"callback": same, "maxSequenceLengths": [3], "resultSize": 8, "callbackBatchSize": 2}
    operands = [normal(6, 2), OFFSETS, LENGTHS, TO, LENGTHS]
    assert "has 4 operands" in refusal("PackedDataBlock", operands[:4], good)
    assert "maxSequenceLengths [0]" in refusal("PackedDataBlock", operands, good | {"maxSequenceLengths": [0]})
    assert "callbackBatchSize 0" in refusal("PackedDataBlock", operands, good | {"callbackBatchSize": 0})
    assert "resultSize 0" in refusal("PackedDataBlock", operands, good | {"resultSize": 0})
    assert "[2] as operand 1, and 3" in refusal("PackedDataBlock", [operands[0], OFFSETS[:2], *operands[2:]], good)
    assert "gives [2]" in refusal("PackedDataBlock", operands, good | {"callback": flat})
    two = body([("onnx.Add", ["p", "q"], ["r"], {})], ["p", "q"], ["r"])
    with pytest.raises(ipu_core.Error, match="Call"):
        run([("Call", ["x"], ["y"], {"callee": two})], {"x": normal(2)}, ["y"])

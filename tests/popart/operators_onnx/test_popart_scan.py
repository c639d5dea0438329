"""Scans as PopART runs them: results of the iterations are concatenated along a dimension of the body's result."""

import numpy as np
import pytest

import popart

A, B = np.float32([1, 2, 3]), np.float32([10, 20, 30])
WIDE = np.arange(30, dtype=np.float32).reshape(2, 5, 3)


def scan(arrays, body, states=0, results=1, opset=9, **attributes):
    """Results of one scan of `arrays` (states first); body(builder, inputs) gives the outputs. None: an untyped input."""
    builder = popart.Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1})
    inputs = [builder.addInputTensor("FLOAT", list(array.shape), f"x{i}") for i, array in enumerate(arrays)]
    inside = builder.createSubgraphBuilder()
    for id in body(inside, [inside.addUntypedInputTensor(f"i{i}") for i in range(len(arrays))]):
        inside.addOutputTensor(id)
    arrays = [np.ascontiguousarray(array) for array in arrays]
    ids = builder.aiOnnx.scan(inputs, results, inside, len(arrays) - states, **attributes)
    device = popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, ids), device)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({f"x{i}": array for i, array in enumerate(arrays)}, anchors))
    for id in ids:  # the builder says what the session gives
        assert builder.getTensorShape(id) == session.getInfo(id).shape() == list(anchors[id].shape)
    return [anchors[id] for id in ids]


def joined(b, ids):
    return [b.aiOnnx.concat(ids, 0)]


def same(b, ids):
    return [b.aiOnnx.identity([id]) for id in ids]


def pairs(b, ids):
    """[2,3] as [2,4,1]: sums, twice their negatives."""
    total = b.reshape_const(b.aiOnnx, [b.aiOnnx.reducesum([ids[0]], [1], 1)], [2, 1, 1])
    return [b.aiOnnx.concat([total, b.aiOnnx.neg([total]), total, b.aiOnnx.neg([total])], 1)]


def of_pairs(axis):
    pieces = [(WIDE[:, i].sum(1).reshape(2, 1, 1) * np.float32([1, -1, 1, -1]).reshape(1, 4, 1)) for i in range(5)]
    return np.concatenate(pieces, axis)


CASES = {
    "slices of vectors are vectors": ([A, B], joined, {}, np.float32([1, 10, 2, 20, 3, 30])),
    "pieces from the end": ([A, B], joined, {"scan_output_directions": [1]}, np.float32([3, 30, 2, 20, 1, 10])),
    "slices from the end": ([A, B], joined, {"scan_input_directions": [1, 1]}, np.float32([3, 30, 2, 20, 1, 10])),
    "one input from the end": ([A, B], joined, {"scan_input_directions": [1, 0]}, np.float32([3, 10, 2, 20, 1, 30])),
    "both from the end": (
        [A, B], joined, {"scan_input_directions": [1, 1], "scan_output_directions": [1]}, np.float32([1, 10, 2, 20, 3, 30]),
    ),
    "rows are joined": ([WIDE[0, :3, :2]], same, {}, WIDE[0, :3, :2].reshape(-1)),
    "columns are joined": ([WIDE[0, :3, :2]], same, {"scan_input_axes": [1]}, WIDE[0, :3, :2].T.reshape(-1)),
    "an axis from the end": ([WIDE[0, :3, :2]], same, {"scan_input_axes": [-1]}, WIDE[0, :3, :2].T.reshape(-1)),
    "along the second dimension": ([WIDE], pairs, {"scan_input_axes": [1], "scan_output_axes": [1]}, of_pairs(1)),
    "along the last dimension": ([WIDE], pairs, {"scan_input_axes": [1], "scan_output_axes": [-1]}, of_pairs(2)),
    "along the first dimension": ([WIDE], pairs, {"scan_input_axes": [1]}, of_pairs(0)),
}  # fmt: skip


@pytest.mark.parametrize("opset", [9, 11])
@pytest.mark.parametrize("case", CASES)
def test_results_are_concatenated(case, opset):
    arrays, body, attributes, wanted = CASES[case]
    (got,) = scan(arrays, body, opset=opset, **attributes)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_states_go_from_iteration_to_iteration():
    def body(b, ids):
        total = b.aiOnnx.add(ids)
        return [total, b.aiOnnx.neg([total])]

    last, all_of_them = scan([np.float32([0, 0, 0]), WIDE[0]], body, states=1, results=2)
    np.testing.assert_array_equal(last, WIDE[0].sum(0))
    np.testing.assert_array_equal(all_of_them, -WIDE[0].cumsum(0).reshape(-1))


@pytest.mark.parametrize(
    "arrays, body, attributes, message",
    [
        ([A, B[:2]], joined, {}, "scans 3 and 2 entries"),
        ([A], lambda b, ids: [b.aiOnnx.reducesum(ids, [0], 0)], {}, "put together of scalars"),
        ([A], same, {"scan_output_axes": [1]}, "names dimension 1 of 1"),
        ([A], same, {"scan_input_axes": [1]}, "names dimension 1 of 1"),
        ([A], same, {"scan_input_axes": [0, 0]}, "scan_input_axes"),
    ],
)
def test_what_does_not_fit_is_refused(arrays, body, attributes, message):
    with pytest.raises(popart.popart_exception, match=message):
        scan(arrays, body, **attributes)

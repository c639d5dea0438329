"""Nodes that cannot be meant: each is an error that names the node, whatever its numbers say."""

import numpy
import pytest

import ipu_core
from onnx_models import ints, make_model, ours

X = numpy.zeros((2, 3, 4), numpy.float32)
IMAGE, FILTER = numpy.zeros((1, 2, 5, 5), numpy.float32), numpy.zeros((3, 2, 2, 2), numpy.float32)
SCALAR = numpy.float32(1)
OUT = "dimension out of range"
SHAPE = "shape mismatch"


@pytest.mark.parametrize(
    "kind, operands, attributes, message",
    [
        ("LSTM", [X, FILTER, FILTER], {"hidden_size": 2}, SHAPE),
        ("RNN", [X, X, X], {"direction": "both"}, "direction 'both'"),
        ("Reshape", [X, ints(5, -1)], {}, "cannot|reshape|shape"),
        ("Reshape", [X, ints(-1, -1)], {}, "with two sizes left open"),
        ("Reshape", [X, numpy.float32([1])], {}, "'shape', of .* is f32, not integers"),
        ("ConstantOfShape", [ints(-5)], {}, r"'shape' of .* is \[-5\]; none may be negative"),
        ("ConstantOfShape", [ints(2**40)], {}, "is 1099511627776; the IPU has 32-bit integers"),
        ("ConstantOfShape", [ints(2**31 - 1, 2**31 - 1, 2**31 - 1)], {}, "tensor too large"),
        ("Tile", [X, ints(-1, 1, 1)], {}, "none may be negative"),
        ("Tile", [X, ints(1, 1)], {}, SHAPE),
        ("Split", [X, ints(-1, 4)], {"axis": 1}, "none may be negative"),
        ("Split", [X], {"num_outputs": 2**31 - 1}, "into 2147483647 equal pieces"),
        ("Split", [X], {"num_outputs": 0}, "into 0 equal pieces"),
        ("Pad", [X, ints(0)], {}, "3 dimensions are padded, so there must be 6"),
        (
            "Pad",
            [X, ints(0, 0, 9, 0, 0, 0)],
            {"mode": "reflect"},
            "padding .9, 0. of a dimension of size 4 in this mode",
        ),
        ("Pad", [numpy.int32([1, 2]), ints(1, 1), numpy.int64(2**40)], {}, "'constant_value' of .* is 1099511627776"),
        ("Slice", [X, ints(0, 0), ints(1)], {}, "2 starts, 1 ends"),
        ("Slice", [X, ints(0, 0), ints(1, 1), ints(2)], {}, "2 starts, 2 ends, 1 axes"),
        ("Slice", [X, ints(0, 0), ints(1, 1), ints(0, 1), ints(1)], {}, "2 ends, 2 axes and 1 steps"),
        ("Slice", [X, ints(0), ints(1), ints(7)], {}, OUT),
        ("Slice", [X, ints(0), ints(1), ints(0), ints(0)], {}, "a slice with step 0"),
        ("Slice", [SCALAR, ints(0), ints(1)], {}, OUT),
        ("Gather", [SCALAR, ints(0)], {}, OUT),
        ("Gather", [X, ints(0)], {"axis": 9}, OUT),
        ("Concat", [X], {"axis": 8}, OUT),
        ("Concat", [], {"axis": 0}, "missing operand"),
        ("Transpose", [X], {"perm": [0]}, SHAPE),
        ("Squeeze", [X, ints(0)], {}, "which is not 1"),
        ("Unsqueeze", [X, ints(0, 0)], {}, "axes named twice"),
        ("Flatten", [X], {"axis": 7}, OUT),
        ("Flatten", [X], {"axis": -4}, OUT),
        ("ReduceSum", [X, ints(5)], {}, OUT),
        ("Softmax", [SCALAR], {}, OUT),
        ("Cast", [X], {"to": 99}, "element type 99 of ONNX"),
        ("Clip", [X, numpy.zeros(3, numpy.float32)], {}, "has 3 elements; it is one number"),
        ("Dropout", [X, numpy.float32(1.5)], {}, "a ratio of 1.5"),
        ("Conv", [IMAGE, FILTER], {"strides": [0, 1]}, r"strides \[0,1\]"),
        ("Conv", [IMAGE, FILTER], {"pads": [0]}, "it has 4 entries"),
        ("Conv", [IMAGE, FILTER], {"group": 0}, "group"),
        ("Conv", [X, FILTER], {}, SHAPE),
        ("MaxPool", [IMAGE], {"kernel_shape": [0, 1]}, "IPU-E201"),
        ("MaxPool", [IMAGE], {"kernel_shape": [9, 9]}, "IPU-E201"),
        ("MaxPool", [IMAGE], {}, "missing attribute .* needs 'kernel_shape'"),
        (
            "AveragePool",
            [IMAGE],
            {"kernel_shape": [2, 2], "pads": [0, 3, 0, 0]},
            "spatial dimension 1 lies in the padding alone",
        ),
        ("AveragePool", [IMAGE], {"kernel_shape": [2, 2], "dilations": [2, 1]}, r"dilations \[2,1\]"),
        ("GlobalAveragePool", [X[0]], {}, "which has no spatial dimensions"),
        ("Gemm", [X, X], {}, "both are matrices"),
        ("MatMul", [X, X], {}, "the inner sizes differ"),
        ("BatchNormalization", [X] + [numpy.zeros(2, numpy.float32)] * 4, {}, r"it must be \[3\], as x is \[2,3,4\]"),
        ("LayerNormalization", [X, numpy.zeros(3, numpy.float32)], {}, SHAPE),
        ("InstanceNormalization", [X[0, 0], X[0, 0], X[0, 0]], {}, "which has no spatial dimensions"),
        ("Resize", [IMAGE, FILTER], {"mode": "linear"}, "operand"),
        ("Resize", [IMAGE], {"mode": "nearest"}, "coordinates 'half_pixel' rounded by 'round_prefer_floor'"),
        ("ArgMax", [X], {"select_last_index": 1}, "select_last_index=1"),
        ("Constant", [], {}, "missing attribute .* needs 'value'"),
        ("Gelu", [X], {"approximate": "none of them"}, "approximate 'none of them' is not none or tanh"),
        ("Elu", [X], {"scale": 2.0}, "attribute 'scale'"),
        ("Softplus", [X], {"beta": 2.0}, "attribute 'beta'"),
    ],
)
def test_a_node_that_cannot_be_meant_is_refused(kind, operands, attributes, message):
    names = [f"x{i}" for i in range(len(operands))]
    inputs = {"unused": numpy.zeros(1, numpy.float32)}
    version = {"Gelu": 20}.get(kind, 19 if "dilations" in attributes else 18)
    model = make_model([(kind, names, ["y"], attributes)], inputs, ["y"], version, dict(zip(names, operands)))
    with pytest.raises(ipu_core.Error, match=message) as raised:
        ours(model, inputs)
    assert "IPU-E101" in str(raised.value) or "IPU-E201" in str(raised.value)
    assert f"{kind}_0" in str(raised.value)

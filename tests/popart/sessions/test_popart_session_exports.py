"""Sessions of models as exporters write them: exports of torch, and shapes that are computed from constants."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from exported_models import KINDS, exported, made
from popart_session_models import inference, step, training

import popart

# What PopART has no operator for: a bidirectional LSTM, NonZero and Range of arange, GatherElements.
WITHOUT = {"LongMemory", "Decoder", "Ranks"}
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("opset", [10, 11])
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - WITHOUT))
def test_an_exported_model_gives_the_numbers_of_torch(kind, opset):
    module, x, expected = made(kind)
    model = exported(module, x, opset, folds=opset == 11, is_dynamic=True)
    names = [value.name for value in model.graph.output]
    got = step(inference(model.SerializeToString(), names), x=x.numpy())
    for name, value in zip(names, expected, strict=True):
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)


def computed(nodes, rank=3, **constants):
    """A model of x whose nodes, (type, operands, results, attributes), end in "y", and its mean "loss"."""
    nodes = [*nodes, ("Mul", ["y", "w"], ["z"], {}), ("ReduceMean", ["z"], ["loss"], {"keepdims": 0})]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(kind, operands, results, **options) for kind, operands, results, options in nodes],
        "computed",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, X.shape)],
        [
            onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None] * rank),
            onnx.helper.make_tensor_value_info("loss", onnx.TensorProto.FLOAT, []),
        ],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in {**constants, "w": np.float32(1)}.items()],
    )
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=5
    ).SerializeToString()


def ints(*values):
    return np.array(values, np.int64)


COMPUTED = {
    "the end of a slice": (
        computed(
            [("Unsqueeze", ["most"], ["end"], {"axes": [0]}), ("Slice", ["x", "one", "end", "one"], ["y"], {})],
            most=np.int64(2**63 - 1),
            one=ints(1),
        ),
        X[:, 1:],
    ),
    "the end of a slice, as it is": (
        computed([("Slice", ["x", "one", "most", "one"], ["y"], {})], most=ints(2**63 - 1), one=ints(1)),
        X[:, 1:],
    ),
    "a size from the end": (
        computed(
            [
                ("Shape", ["x"], ["s"], {}),
                ("Gather", ["s", "last"], ["n"], {}),
                ("Concat", ["n", "rest"], ["shape"], {"axis": 0}),
                ("Reshape", ["x", "shape"], ["y"], {}),
            ],
            rank=2,
            last=ints(-1),
            rest=ints(-1),
        ),
        X.reshape(4, 6),
    ),
    "products beyond 32 bits": (
        computed(
            [
                ("Mul", ["a", "a"], ["b"], {}),
                ("Div", ["b", "a"], ["c"], {}),
                ("Div", ["c", "d"], ["e"], {}),
                ("Concat", ["e", "rest"], ["shape"], {"axis": 0}),
                ("Reshape", ["x", "shape"], ["y"], {}),
            ],
            rank=2,
            a=ints(65536),
            d=ints(16384),
            rest=ints(-1),
        ),
        X.reshape(4, 6),
    ),
    "sizes by doubles": (
        computed(
            [
                ("Shape", ["x"], ["s"], {}),
                ("Cast", ["s"], ["real"], {"to": onnx.TensorProto.DOUBLE}),
                ("Mul", ["real", "factors"], ["made"], {}),
                ("Floor", ["made"], ["whole"], {}),
                ("Cast", ["whole"], ["shape"], {"to": onnx.TensorProto.INT64}),
                ("Reshape", ["x", "shape"], ["y"], {}),
            ],
            factors=np.float64([2, 0.4, 1.6]),
        ),
        X.reshape(4, 1, 6),
    ),
    "elements from the end": (computed([("Gather", ["x", "i"], ["y"], {"axis": 2})], i=ints(-1, 0)), X[:, :, [-1, 0]]),
}


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("case", COMPUTED)
def test_shapes_follow_from_initialisers(case, constant):
    data, expected = COMPUTED[case]
    session = inference(data, ["y"], constantWeights=constant)
    if not constant:
        session.weightsFromHost()
    np.testing.assert_array_equal(step(session, x=X)["y"], expected)


@pytest.mark.parametrize("case", COMPUTED)
def test_shapes_follow_from_initialisers_of_a_model_that_is_trained(case):
    data, expected = COMPUTED[case]
    np.testing.assert_array_equal(step(training(data, ["y"]), x=X)["y"], expected)


@pytest.mark.parametrize("make", [inference, training])
def test_an_index_of_the_model_that_is_not_there_is_refused(make):
    data = computed([("Gather", ["x", "i"], ["y"], {"axis": 1})], i=ints(0, -4))
    message = "index out of range.*Gather.* has index -4 at position 1 of 'i'; there are 3 elements"
    with pytest.raises(popart.popart_exception, match=message):
        make(data)


def test_integers_that_do_not_fit_are_refused():
    data = computed(
        [
            ("Shape", ["x"], ["s"], {}),
            (
                "ConstantOfShape",
                ["s"],
                ["y"],
                {"value": onnx.helper.make_tensor("v", onnx.TensorProto.UINT64, [1], [2**40])},
            ),
        ],
    )
    with pytest.raises(
        popart.popart_exception, match="a tensor of UINT64 has 1099511627776; the IPU has 32-bit integers"
    ):
        inference(data)

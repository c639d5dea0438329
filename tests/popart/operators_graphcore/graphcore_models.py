"""Models of ai.graphcore's operators for tests: many nodes are one compiled program. Values are compared with NumPy,
gradients, which one step of SGD with a rate of 1 takes away, with differences in float64."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

import ipu_core


def make_model(nodes, inputs, outputs, constants=None):
    """A model of nodes (type, operands, results, attributes); a type "onnx.Mul" is of ai.onnx."""
    made = []
    for i, (kind, operands, results, attributes) in enumerate(nodes):
        domain, _, name = kind.rpartition(".")
        domain = "" if domain == "onnx" else "ai.graphcore"
        made.append(onnx.helper.make_node(name, operands, results, name=f"{name}_{i}", domain=domain))
        for key, value in attributes.items():
            kind = onnx.AttributeProto.INTS if value == [] else None  # which onnx cannot guess
            made[-1].attribute.append(onnx.helper.make_attribute(key, value, attr_type=kind))
    infos = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    graph = onnx.helper.make_graph(
        made,
        "graph",
        infos,
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )
    opsets = [onnx.helper.make_opsetid("", 10), onnx.helper.make_opsetid("ai.graphcore", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=6)


def run(nodes, inputs, outputs, constants=None, **options):
    """What one pass of inference gives, by name."""
    session = ipu_core.compile_model(
        ipu_core.read_onnx(make_model(nodes, inputs, outputs, constants)), ipu_core.Program(**options)
    )
    results = session.run(inputs)
    session.detach()
    return results


def refusal(kind, operands, attributes, results=1):
    """The message that refuses a node of these operands: arrays, or None where one is absent."""
    names = ["" if array is None else f"x{i}" for i, array in enumerate(operands)]
    inputs = {name: array for name, array in zip(names, operands) if name}
    outputs = [f"y{i}" for i in range(results)]
    try:
        ipu_core.compile_model(ipu_core.read_onnx(make_model([(kind, names, outputs, attributes)], inputs, outputs)))
    except ipu_core.Error as error:
        assert kind in str(error), error
        return str(error)
    raise AssertionError(f"{kind} with {attributes} is not refused")


class Values:
    """Nodes with what they are to give, run as one model."""

    def __init__(self):
        self.nodes, self.inputs, self.expected = [], {}, {}

    def add(self, kind, operands, expected, tolerance=None, **attributes):
        """`expected`: an array, or a list of them for the first outputs (None: an output nobody reads)."""
        number = len(self.nodes)
        names = ["" if array is None else f"x{number}_{i}" for i, array in enumerate(operands)]
        self.inputs |= {name: array for name, array in zip(names, operands) if name}
        expected = expected if isinstance(expected, list) else [expected]
        outputs = [f"y{number}_{i}" for i in range(len(expected))]
        self.nodes.append((kind, names, outputs, attributes))
        self.expected |= {
            name: (np.asarray(array), tolerance, kind) for name, array in zip(outputs, expected) if array is not None
        }

    def check(self):
        results = run(self.nodes, self.inputs, list(self.expected))
        for name, (expected, tolerance, kind) in self.expected.items():
            got = results[name]
            assert got.shape == expected.shape, (kind, name, got.shape, expected.shape)
            assert got.dtype == expected.dtype, (kind, name, got.dtype, expected.dtype)
            if tolerance is None:
                tolerance = 2e-3 if expected.dtype == np.float16 else 2e-6
            np.testing.assert_allclose(
                got.astype(np.float64),
                expected.astype(np.float64),
                rtol=tolerance,
                atol=tolerance,
                err_msg=f"{kind} {name}",
            )


def differences(function, arrays, weights, step=1e-5):
    """Returns the gradient of sum(function(*arrays) * weights) for each array, by differences in float64."""
    arrays = [np.asarray(array, np.float64) for array in arrays]
    gradients = []
    for n, array in enumerate(arrays):
        gradient = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            sides = []
            for by in (step, -step):
                moved = [a.copy() for a in arrays]
                moved[n][place] += by
                sides.append(np.sum(np.asarray(function(*moved), np.float64) * weights))
            gradient[place] = (sides[0] - sides[1]) / (2 * step)
        gradients.append(gradient)
    return gradients


class Gradients:
    """Nodes with their functions in NumPy, trained as one model: the gradient of the weighted sum of all outputs."""

    def __init__(self):
        self.nodes, self.inputs, self.trained, self.terms, self.expected = [], {}, {}, [], []

    def add(
        self, kind, trained, function, fixed=None, *, outputs=1, output=0, gradients=None, tolerance=2e-4, **attributes
    ):
        """`trained`, `fixed`: arrays by the place of their operand; `function`: of the trained ones; `gradients`: of a
        weight of 1 for each element of the output, instead of differences."""
        number, fixed = len(self.nodes), fixed or {}
        count = 1 + max([*trained, *fixed])
        names = [f"w{number}_{i}" if i in trained else f"x{number}_{i}" if i in fixed else "" for i in range(count)]
        self.inputs |= {names[i]: array for i, array in fixed.items()}
        self.trained |= {names[i]: array for i, array in trained.items()}
        results = [f"y{number}_{i}" for i in range(outputs)]
        self.nodes.append((kind, names, results, attributes))
        weights = np.ones_like(function(*trained.values()), np.float64)
        if gradients is None:
            weights = np.asarray(np.random.default_rng(number).uniform(0.5, 1.5, weights.shape)).round(3)
            gradients = differences(function, list(trained.values()), weights)
        dtype = next(iter(trained.values())).dtype
        self.inputs[f"c{number}"] = weights.astype(dtype)
        self.terms.append((results[output], f"c{number}", dtype))
        for i, gradient in zip(trained, gradients):
            self.expected.append((names[i], kind, gradient, tolerance))

    def check(self):
        nodes, sums = list(self.nodes), []
        for i, (value, weight, dtype) in enumerate(self.terms):
            nodes.append(("onnx.Mul", [value, weight], [f"t{i}"], {}))
            nodes.append(("IdentityLoss", [f"t{i}"], [f"s{i}"], {"reduction": "Sum"}))
            if dtype == np.float16:
                nodes.append(("onnx.Cast", [f"s{i}"], [f"f{i}"], {"to": onnx.TensorProto.FLOAT}))
            sums.append(f"f{i}" if dtype == np.float16 else f"s{i}")
        nodes.append(("onnx.Sum", sums, ["total"], {}))
        nodes.append(("IdentityLoss", ["total"], ["loss"], {"reduction": "Sum"}))
        got = train(nodes, self.inputs, self.trained, ["loss"])
        for name, kind, gradient, tolerance in self.expected:
            np.testing.assert_allclose(got[name], gradient, rtol=tolerance, atol=tolerance, err_msg=f"{kind} {name}")


def train(nodes, inputs, trained, outputs, **options):
    """The gradients of "loss" for the trained arrays, by name."""
    model = make_model(nodes, inputs, outputs, trained)
    session = ipu_core.compile_model(
        ipu_core.read_onnx(model, trained=trained),
        ipu_core.Program(loss="loss", optimizer={"kind": "sgd", "lr": 1.0}, **options),
    )
    session.run(inputs)
    gradients = {
        name: np.asarray(array, np.float64) - session.read(name).astype(np.float64) for name, array in trained.items()
    }
    session.detach()
    return gradients


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)

"""Cases of operators as PopART means them, batched: all of one opset in one model, run once and trained once."""

import numpy
import onnx
import onnx.helper
import onnx.numpy_helper

import ipu_core
from popart._impl.operators.onnx import OPERATORS

ROWS = {row.type: row for row in OPERATORS}
OPSETS = range(6, 12)


def usable(row, opset):
    return max((version for version in row.versions if version <= opset), default=0)


class Stated:
    """An operand that the model states."""

    def __init__(self, array):
        self.array = numpy.asarray(array)


def ints(*values):
    return Stated(numpy.array(values, numpy.int64))


def normal(*shape, seed=0):
    return numpy.random.default_rng([seed, *shape]).standard_normal(shape).astype(numpy.float32)


def uniform(low, high, *shape, seed=0):
    return numpy.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(numpy.float32)


class Case:
    """One node and what it gives: `expect` takes the arrays in float64 and gives one result or a list.

    Args:
        operands: arrays, Stated ones, None for one that is left out.
        opsets: the first and the last opset for which this holds.
        trained: operands whose gradients are compared with differences of `expect`.
        results: names of results that are taken; "" for one that is not.
        f16: also run with float16 operands, if it has operands of float32.
    """

    def __init__(
        self,
        kind,
        operands,
        expect,
        opsets=(6, 11),
        trained=(),
        results=1,
        f16=True,
        rtol=1e-5,
        graphs=None,
        **attributes,
    ):
        self.kind, self.operands, self.expect, self.trained = kind, operands, expect, trained
        self.results = ["y"] + [f"y{i}" for i in range(1, results)] if isinstance(results, int) else results
        reals = [
            a for a in operands if a is not None and (a.array if isinstance(a, Stated) else a).dtype == numpy.float32
        ]
        self.f16, self.rtol, self.graphs, self.attributes = f16 and bool(reals), rtol, graphs, attributes
        row = ROWS[kind]
        self.opsets = []
        for opset in range(opsets[0], opsets[1] + 1):
            if usable(row, opset) and usable(row, opset) not in [usable(row, o) for o in self.opsets]:
                self.opsets.append(opset)

    @property
    def versions(self):
        return {usable(ROWS[self.kind], opset) for opset in self.opsets}

    def arrays(self, half=False):
        arrays = [operand.array if isinstance(operand, Stated) else operand for operand in self.operands]
        return [a.astype(numpy.float16) if half and a is not None and a.dtype == numpy.float32 else a for a in arrays]

    def expected(self, half=False, changed=None):
        arrays = [
            a.astype(numpy.float64) if a is not None and a.dtype in (numpy.float32, numpy.float16) else a
            for a in self.arrays(half)
        ]
        for i, array in (changed or {}).items():
            arrays[i] = array
        results = self.expect(*(a for a in arrays if a is not None))
        return results if isinstance(results, list) else [results]


class Batch:
    """Several cases as one model."""

    def __init__(self, cases, opset, half=False, training=False):
        self.cases, self.opset, self.half, self.training = cases, opset, half, training
        self.inputs, self.constants, self.nodes, self.outputs, self.trained = {}, {}, [], [], []
        for number, case in enumerate(cases):
            self._add(number, case)
        if training:
            self.nodes.append(
                onnx.helper.make_node(
                    "Sum", [f"c{n}_{'f32' if c.kind == 'Cast' else 'loss'}" for n, c in enumerate(cases)], ["loss"]
                )
            )
            self.outputs = ["loss"]

    def _add(self, number, case):
        names = []
        for i, (operand, array) in enumerate(zip(case.operands, case.arrays(self.half))):
            name = f"c{number}_x{i}"
            names.append("" if array is None else name)
            if self.training and i in case.trained:
                self.trained.append(name)
                self.constants[name] = array
            elif isinstance(operand, Stated):
                self.constants[name] = array
            elif array is not None:
                self.inputs[name] = array
        results = [result and f"c{number}_{result}" for result in case.results]
        attributes = dict(case.attributes)
        for name, make in (case.graphs or {}).items():
            attributes[name] = make(f"c{number}_")
        names = names[: getattr(case, "taken", len(names))]  # the others are read inside of its graphs
        node = onnx.helper.make_node(case.kind, names, results, name=f"{case.kind}_{number}")
        for name, value in attributes.items():
            kind = onnx.AttributeProto.INTS if value == [] else None
            node.attribute.append(onnx.helper.make_attribute(name, value, attr_type=kind))
        self.nodes.append(node)
        if not self.training:
            self.outputs += [result for result in results if result]
            return
        weight = f"c{number}_w"
        dtype = numpy.float16 if case.kind == "Cast" else numpy.float32
        self.constants[weight] = self.weight(number).astype(dtype)
        self.nodes += [
            onnx.helper.make_node("Mul", [results[0], weight], [f"c{number}_m"]),
            onnx.helper.make_node("ReduceSum", [f"c{number}_m"], [f"c{number}_loss"], keepdims=0),
        ]
        if case.kind == "Cast":
            self.nodes.append(onnx.helper.make_node("Cast", [f"c{number}_loss"], [f"c{number}_f32"], to=1))
        if self.opset < 7:
            next(n for n in self.nodes[-3:] if n.op_type == "Mul" and n.output[0] == f"c{number}_m").attribute.append(
                onnx.helper.make_attribute("broadcast", 1)
            )

    def weight(self, number):
        """What each element of the first result counts in the loss."""
        return uniform(0.5, 1.5, *numpy.shape(self.cases[number].expected()[0]), seed=3)

    def model(self):
        graph = onnx.helper.make_graph(
            self.nodes,
            "graph",
            [
                onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for n, a in self.inputs.items()
            ],
            [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in self.outputs],
            [onnx.numpy_helper.from_array(a, n) for n, a in self.constants.items()],
        )
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", self.opset)], ir_version=4)

    def run(self):
        """The results of the device by case."""
        found = run(self.model(), self.inputs)
        return [[found[f"c{n}_{result}"] for result in case.results if result] for n, case in enumerate(self.cases)]

    def gradients(self):
        """What one step of SGD with rate 1 takes from each trained operand, by case and operand."""
        _, after = train(self.model(), self.inputs, self.trained)
        return [
            {i: self.constants[f"c{n}_x{i}"] - after[f"c{n}_x{i}"] for i in case.trained}
            for n, case in enumerate(self.cases)
        ]

    def differences(self, number):
        """The gradients of case `number` by central differences of float64."""
        case, weight, step = self.cases[number], self.weight(number).astype(numpy.float64), 1e-6
        found = {}
        for i in case.trained:
            at = case.arrays()[i].astype(numpy.float64)
            slopes = numpy.zeros_like(at)
            for place in numpy.ndindex(at.shape):
                high, low = at.copy(), at.copy()
                high[place] += step
                low[place] -= step
                rise = (case.expected(changed={i: high})[0] - case.expected(changed={i: low})[0]) * weight
                slopes[place] = rise.sum() / (2 * step)
            found[i] = slopes
        return found


def run_session(session, inputs):
    seed = {"rng.seed": numpy.uint32([7, 9])} if "rng.seed" in str(session.streams()) else {}
    return session.run({**inputs, **seed})


def run(model, inputs, dialect="popart"):
    session = ipu_core.compile_model(ipu_core.read_onnx(model, dialect=dialect))
    found = run_session(session, inputs)
    session.detach()
    return found


def train(model, inputs, trained, loss="loss"):
    """Outputs, and the initialisers after one step of SGD with rate 1."""
    records = ipu_core.read_onnx(model, trained=trained, dialect="popart")
    session = ipu_core.compile_model(records, ipu_core.Program(loss=loss, optimizer={"kind": "sgd", "lr": 1.0}))
    found = run_session(session, inputs)
    after = {name: session.read(name) for name in trained}
    session.detach()
    return found, after


def one_node(kind, operands, opset, results=1, **attributes):
    """A model of one node; operands as in Case."""
    case = Case.__new__(Case)
    case.kind, case.operands, case.attributes, case.graphs = kind, operands, attributes, None
    case.results = ["y"] + [f"y{i}" for i in range(1, results)]
    return Batch([case], opset)

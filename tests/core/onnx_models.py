"""ONNX models for tests: one node or a few, made with onnx.helper, run by ipu_core and by the reference of onnx."""

import numpy
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.reference

import ipu_core


def make_model(nodes, inputs, outputs, version, constants=None):
    """A model whose inputs and constants are arrays by name; nodes are (type, operands, results, attributes)."""
    made = [
        onnx.helper.make_node(kind, operands, results, name=f"{kind}_{i}", **attributes)
        for i, (kind, operands, results, attributes) in enumerate(nodes)
    ]
    graph = onnx.helper.make_graph(
        made,
        "graph",
        [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in inputs.items()
        ],
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None) for name in outputs],
        [onnx.numpy_helper.from_array(numpy.asarray(array), name) for name, array in (constants or {}).items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)], ir_version=8)


def reference(model, inputs):
    return onnx.reference.ReferenceEvaluator(model).run(None, inputs)


def ours(model, inputs, **options):
    session = ipu_core.compile_model(ipu_core.read_onnx(model), ipu_core.Program(**options))
    names = [value.name for value in model.graph.output]
    outputs = session.run(inputs)
    session.detach()
    return [outputs[name] for name in names]


def assert_same(got, expected, rtol=2e-6, atol=2e-6):
    assert len(got) == len(expected)
    for ours_, theirs in zip(got, expected):
        theirs = numpy.asarray(theirs)
        narrowed = {numpy.dtype("int64"): numpy.int32, numpy.dtype("float64"): numpy.float32}
        assert ours_.dtype == narrowed.get(theirs.dtype, theirs.dtype)
        assert ours_.shape == theirs.shape
        numpy.testing.assert_allclose(ours_, theirs, rtol=rtol, atol=atol)


NEWEST = max(last for _, _, last in ipu_core.importers())
CHANGES = {}  # versions at which the standard changed an operator
for _schema in onnx.defs.get_all_schemas_with_history():
    if _schema.domain == "":
        CHANGES.setdefault(_schema.name, set()).add(_schema.since_version)
CLAIMED = {}
for _type, _first, _last in ipu_core.importers():
    first, last = CLAIMED.get(_type, (_first, _last))
    CLAIMED[_type] = (min(first, _first), max(last, _last))


def normal(*shape, seed=0, scale=1.0, offset=0.0):
    values = numpy.random.default_rng([seed, *shape]).standard_normal(shape)
    return (values * scale + offset).astype(numpy.float32)


def uniform(low, high, *shape):
    return numpy.random.default_rng(shape).uniform(low, high, shape).astype(numpy.float32)


def ints(*values):
    return numpy.array(values, numpy.int64)


class Case:
    """One node; operands are arrays, Stated marks those the model states. `expect` replaces the reference; `around` are inputs
    that graphs inside the node read."""

    def __init__(
        self,
        kind,
        *operands,
        since=1,
        until=NEWEST,
        results=1,
        expect=None,
        rtol=2e-6,
        name="",
        around=(),
        **attributes,
    ):
        self.kind, self.operands, self.attributes, self.results = kind, operands, attributes, results
        self.around = around
        self.expect, self.rtol, self.name = expect, rtol, name
        first, last = CLAIMED.get(kind, (NEWEST, NEWEST))
        since, until = max(since, first), min(until, last)
        self.versions = sorted(
            {version for version in CHANGES.get(kind, ()) if since < version <= until} | {since, until}
        )

    def run(self, version):
        inputs, constants, names = {}, {}, []
        for i, operand in enumerate(self.operands):
            names.append("" if operand is None else f"x{i}")
            if operand is None:
                continue
            if isinstance(operand, Stated):
                constants[f"x{i}"] = operand.array
            else:
                inputs[f"x{i}"] = operand
        for operand in self.around:
            inputs[f"x{len(names)}"] = operand
        outputs = [f"y{i}" for i in range(self.results)]
        model = make_model([(self.kind, names, outputs, self.attributes)], inputs, outputs, version, constants)
        expected = reference(model, inputs) if self.expect is None else self.expect(*inputs.values())
        assert_same(ours(model, inputs), expected if isinstance(expected, list) else [expected], rtol=self.rtol)


class Stated:
    def __init__(self, array):
        self.array = array


def s(*values):
    return Stated(ints(*values))


def f(value):
    return Stated(numpy.float32(value))

"""Random graphs of constants, as exporters write the arithmetic of shapes: seeded, made op by op with the reference evaluator
of onnx, which says what every value is."""

import numpy
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.reference

TYPES = {"int64": 7, "int32": 6, "float32": 1, "float64": 11, "bool": 9}
EDGES = [0, 1, -1, 2, 3, 7, 2**31 - 1, -(2**31), 2**31, 2**40 + 3, 2**63 - 1, -(2**63), 65536]


class ConstantGraph:
    """One graph: `model` computes all values of `values`, by name, from constants and from the shape of its input x."""

    def __init__(self, seed, version, nodes=14):
        self.rng, self.version = numpy.random.default_rng(seed), version
        self.nodes, self.initialisers, self.values = [], [], {}
        self.x = self.rng.standard_normal(self.rng.integers(1, 5, self.rng.integers(1, 5))).astype(numpy.float32)
        self.add("Shape", ["x"], known=numpy.array(self.x.shape, numpy.int64))
        for _ in range(4):
            self.constant(self.integers(self.rng.integers(1, 5), self.rng.random() < 0.4))
        self.constant(numpy.array(self.rng.choice([0.5, 2.0, 1.5, -3.25], 3), self.rng.choice(["float32", "float64"])))
        while len(self.nodes) < nodes:
            self.step()

    # --- values
    def integers(self, count, wide=False):
        return numpy.array(self.rng.choice(EDGES if wide else EDGES[:6], count), numpy.int64)

    def constant(self, array):
        """An initialiser or, as often, a Constant node."""
        name = f"c{len(self.nodes)}_{len(self.initialisers)}"
        tensor = onnx.numpy_helper.from_array(numpy.asarray(array), name)
        if self.rng.random() < 0.5:
            self.nodes.append(onnx.helper.make_node("Constant", [], [name], name=name, value=tensor))
        else:
            self.initialisers.append(tensor)
        self.values[name] = numpy.asarray(array)
        return name

    def pick(self, accept):
        names = [name for name, value in self.values.items() if accept(value)]
        return None if not names else names[self.rng.integers(len(names))]

    def add(self, kind, operands, known=None, outputs=1, **attributes):
        """A node, unless its result has no elements or many, is no number, or the reference refuses it."""
        names = [f"v{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(outputs)]
        node = onnx.helper.make_node(kind, operands, names, name=f"{kind}_{len(self.nodes)}", **attributes)
        results = [known] if known is not None else self.evaluate(node)
        if results is None or any(r.size > 600 or r.ndim > 5 or not numpy.isfinite(r).all() for r in results):
            return
        self.nodes.append(node)
        self.values |= {name: numpy.asarray(result) for name, result in zip(names, results)}

    def evaluate(self, node):
        info = [onnx.helper.make_tensor_value_info(name, 0, None) for name in node.output]
        given = [onnx.numpy_helper.from_array(self.values[name], name) for name in dict.fromkeys(node.input) if name]
        graph = onnx.helper.make_graph([node], "one", [], info, given)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", self.version)], ir_version=8)
        try:
            with numpy.errstate(all="ignore"):
                return onnx.reference.ReferenceEvaluator(model).run(None, {})
        except Exception:  # shapes that do not fit: whatever it raises, the node is left out
            return None

    # --- nodes
    def step(self):
        kind = self.rng.choice([name for name in dir(self) if name.startswith("make_")])
        source = self.pick(lambda value: value.size > 0)
        getattr(self, kind)(source, self.values[source])

    def axis(self, rank):
        return int(self.rng.integers(-rank, rank)) if rank else None

    def axes_node(self, kind, source, axes, since):
        if self.version < since:
            self.add(kind, [source], axes=axes)
        else:
            self.add(kind, [source, self.constant(numpy.array(axes, numpy.int64))])

    def make_arithmetic(self, source, value):
        other = self.pick(lambda v: v.dtype == value.dtype and v.size and value.dtype != bool)
        if other is None:
            return
        kinds = ["Add", "Sub", "Mul", "Max", "Min"]
        divisible = (self.values[other] != 0).all() and not (value == -(2**63)).any()
        if divisible and value.dtype.kind == "i":
            kinds += ["Div", *(["Mod"] if self.version >= 10 else [])]
        if self.version < 12 and value.dtype.kind == "i":  # integers of Max and Min are from version 12 on
            kinds = [kind for kind in kinds if kind not in ("Max", "Min")]
        self.add(self.rng.choice(kinds), [source, other])

    def make_comparison(self, source, value):
        other = self.pick(lambda v: v.dtype == value.dtype and v.size and value.dtype != bool)
        if other is not None:
            self.add(self.rng.choice(["Equal", "Less", "Greater"]), [source, other])

    def make_unary(self, source, value):
        if value.dtype != bool:
            kinds = ["Neg", "Abs", "Sign"] + (["Floor", "Ceil"] if value.dtype.kind == "f" else [])
            self.add(self.rng.choice(kinds), [source])
        else:
            self.add("Not", [source])

    def make_cast(self, source, value):
        to = self.rng.choice(list(TYPES))
        if value.dtype.kind == "f" and to.startswith("int") and (numpy.abs(value) >= 2.0**31).any():
            return  # the result is nowhere said
        self.add("Cast", [source], to=TYPES[to])

    def make_gather(self, source, value):
        axis = self.axis(value.ndim)
        if axis is None:
            return
        size = value.shape[axis]
        places = self.rng.integers(-size, size, [(), (1,), (2,), (2, 2)][self.rng.integers(4)])
        self.add("Gather", [source, self.constant(places)], axis=axis)

    def make_concat(self, source, value):
        axis = self.axis(value.ndim)
        other = self.pick(lambda v: v.dtype == value.dtype and v.ndim == value.ndim)
        if axis is not None and other is not None:
            self.add("Concat", [source, other, source], axis=axis)

    def make_slice(self, source, value):
        axis = self.axis(value.ndim)
        if axis is None or self.version < 10:
            return
        step = int(self.rng.choice([1, 1, 2, -1]))
        start, end = (0, int(self.rng.choice([2**63 - 1, -1, 2]))) if step > 0 else (-1, -(2**63))
        limits = [self.constant(numpy.array([number], numpy.int64)) for number in (start, end, axis, step)]
        self.add("Slice", [source, *limits])

    def make_shape(self, source, value):
        axis = self.axis(value.ndim + 1)
        choice = self.rng.integers(5)
        if choice == 0:
            self.axes_node("Unsqueeze", source, [axis], 13)
        elif choice == 1 and 1 in value.shape:
            self.axes_node("Squeeze", source, [value.shape.index(1) - (value.ndim if axis < 0 else 0)], 13)
        elif choice == 2:
            self.add("Reshape", [source, self.constant(numpy.array([-1], numpy.int64))])
        elif choice == 3 and value.ndim:
            self.add("Transpose", [source], perm=[int(d) for d in self.rng.permutation(value.ndim)])
        elif choice == 4:
            shape = [int(self.rng.integers(1, 4)), *value.shape]
            self.add("Expand", [source, self.constant(numpy.array(shape, numpy.int64))])

    def make_where(self, source, value):
        condition = self.pick(lambda v: v.dtype == bool)
        other = self.pick(lambda v: v.dtype == value.dtype)
        if condition is not None and other is not None:
            self.add("Where", [condition, source, other])

    def make_reduction(self, source, value):
        axis = self.axis(value.ndim)
        if axis is None or value.dtype == bool:
            return
        kind = self.rng.choice(["ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"])
        keepdims = int(self.rng.integers(2))
        if self.version < (13 if kind == "ReduceSum" else 18):
            self.add(kind, [source], axes=[axis], keepdims=keepdims)
        else:
            self.add(kind, [source, self.constant(numpy.array([axis], numpy.int64))], keepdims=keepdims)

    def make_filled(self, source, value):
        shape = self.pick(lambda v: v.dtype == numpy.int64 and v.ndim == 1 and ((v >= 0) & (v < 5)).all())
        if shape is not None:
            one = self.integers(1, True) if self.rng.random() < 0.7 else numpy.float64([1e300])
            self.add("ConstantOfShape", [shape], value=onnx.numpy_helper.from_array(one, "one"))

    def make_range(self, source, value):
        first = int(self.rng.integers(-5, 5)) + int(self.rng.choice([0, 2**40]))
        step = int(self.rng.choice([1, 2, -1]))
        if self.version >= 11:
            limits = [self.constant(numpy.int64(n)) for n in (first, first + step * self.rng.integers(1, 6), step)]
            self.add("Range", limits)

    def make_places(self, source, value):
        self.add("NonZero", [source])

    def make_logic(self, source, value):
        condition, other = self.pick(lambda v: v.dtype == bool), self.pick(lambda v: v.dtype == bool)
        if condition is not None:
            self.add(self.rng.choice(["And", "Or", "Xor"]), [condition, other])

    def make_repeated(self, source, value):
        if value.ndim:
            self.add("Tile", [source, self.constant(self.rng.integers(1, 3, value.ndim))])

    def make_parts(self, source, value):
        axis = self.axis(value.ndim)
        if axis is not None and value.shape[axis] > 1:
            sizes = [1, value.shape[axis] - 1]
            if self.version < 13:
                self.add("Split", [source], outputs=2, axis=axis, split=sizes)
            else:
                self.add("Split", [source, self.constant(numpy.array(sizes, numpy.int64))], outputs=2, axis=axis)

    def make_power(self, source, value):
        if value.dtype == numpy.int64 and self.version >= 12:
            self.add("Pow", [source, self.constant(self.rng.integers(0, 4, ()))])

    def make_sums(self, source, value):
        axis = self.axis(value.ndim)
        if axis is not None and value.dtype == numpy.int64 and self.version >= 11:
            options = {"reverse": int(self.rng.integers(2)), "exclusive": int(self.rng.integers(2))}
            self.add("CumSum", [source, self.constant(numpy.int64(axis))], **options)

    def make_place(self, source, value):
        axis = self.axis(value.ndim)
        if axis is not None and value.dtype != bool:
            self.add(self.rng.choice(["ArgMax", "ArgMin"]), [source], axis=axis, keepdims=int(self.rng.integers(2)))

    def make_bounded(self, source, value):
        if value.dtype == numpy.int64 and self.version >= 12:
            self.add("Clip", [source, self.constant(numpy.int64(-3)), self.constant(numpy.int64(2**40))])

    def make_scattered(self, source, value):
        axis = self.axis(value.ndim)
        if axis is not None and value.ndim < 3 and self.version >= 11:
            size = value.shape[axis]
            line = [1] * value.ndim
            places, updates = self.rng.integers(-size, size, line), value[tuple([slice(0, 1)] * value.ndim)]
            self.add("ScatterElements", [source, self.constant(places), self.constant(updates)], axis=axis)

    # --- the model
    def model(self):
        """(model, expected outputs): every value that fits 32 bits, and of every other whether it is what it should be."""
        nodes, constants, expected = list(self.nodes), list(self.initialisers), {}
        for name, value in self.values.items():
            if value.dtype.kind == "i" and value.size and (value != value.astype(numpy.int32)).any():
                constants.append(onnx.numpy_helper.from_array(value, name + "_wanted"))
                nodes.append(onnx.helper.make_node("Equal", [name, name + "_wanted"], [name + "_is"]))
                nodes.append(onnx.helper.make_node("Identity", [name + "_is"], [name + "_out"]))
                expected[name + "_out"] = numpy.ones(value.shape, bool)
            elif value.dtype != numpy.float64:
                nodes.append(onnx.helper.make_node("Identity", [name], [name + "_out"]))
                expected[name + "_out"] = value
        nodes.append(onnx.helper.make_node("Neg", ["x"], ["minus_x"]))
        expected["minus_x"] = -self.x
        graph = onnx.helper.make_graph(
            nodes,
            "constants",
            [onnx.helper.make_tensor_value_info("x", 1, self.x.shape)],
            [onnx.helper.make_tensor_value_info(name, 0, None) for name in expected],
            constants,
        )
        version = onnx.helper.make_opsetid("", self.version)
        return onnx.helper.make_model(graph, opset_imports=[version], ir_version=8), expected

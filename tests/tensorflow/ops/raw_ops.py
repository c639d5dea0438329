"""Op types of TensorFlow in a table, each against the raw op.

A case is an op type with its operands; those of the element type under test are drawn. All cases of a table stand in one graph, which
one session runs. In float32 the same op in float64 says what is right, in float16 the op in float32: ours may be three times as far
away as TensorFlow."""

import inspect
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from ipu_tensorflow import records

import ipu_core

v1 = tf.compat.v1
WIDER = {"float32": np.float64, "float16": np.float32}
ROUNDING = {"float32": 1e-6, "float16": 1e-3}


@dataclass
class X:
    """Numbers of the type under test."""

    shape: tuple
    low: float = -2.0
    high: float = 2.0
    whole: bool = False  # whole numbers, for exact sums and ties

    def array(self, draw, dtype):
        drawn = draw.uniform(self.low, self.high, self.shape)
        return (np.round(drawn) if self.whole else drawn).astype(dtype)


@dataclass
class Given:
    """A tensor of another type, known when the op runs."""

    value: Any
    dtype: Any = np.int32

    def array(self, draw, dtype):
        return np.asarray(self.value, self.dtype)


@dataclass
class Const(Given):
    """A tensor that the graph states."""


@dataclass
class Same(Const):
    """A number of the type under test that the graph states."""

    def array(self, draw, dtype):
        return np.asarray(self.value, dtype)


@dataclass
class V(X):
    """A variable of the type under test."""

    low: float = 0.1


@dataclass
class Of(X):
    """What a function of the first operand gives, and of the attributes: the result of the op whose gradient this is."""

    shape: tuple = ()
    function: Any = None


@dataclass
class Case:
    type: str
    operands: list
    attributes: dict = field(default_factory=dict)
    dtypes: tuple = ("float32", "float16")
    wider: bool = True  # the op exists in the type that says what is right
    slack: float = 1.0  # of the rounding that is allowed in any case
    results: tuple = ()  # those that are compared; none named: all

    def name(self, number):
        return f"{number}-{self.type}"


def case(type, *operands, dtypes=("float32", "float16"), wider=True, slack=1.0, results=(), **attributes):
    return Case(type, list(operands), attributes, dtypes, wider, slack, results)


INTEGERS = ("int32",)
ALL = ("float32", "float16", "int32")


class Built:
    """One op in a graph: what is fed, what it gives, what it writes."""

    def __init__(self, case, arrays, prefix):
        self.case, self.feeds, self.variables = case, [], []
        function = getattr(tf.raw_ops, case.type)
        names = inspect.signature(function).parameters  # operands, then attributes
        flat = iter(arrays)
        given = {}
        for name, operand in zip(names, case.operands):
            if isinstance(operand, list):
                given[name] = [self.tensor(one, next(flat), prefix) for one in operand]
            else:
                given[name] = self.tensor(operand, next(flat), prefix)
        for name, operand in zip(names, case.operands):
            if isinstance(operand, Of):
                given[name] = operand.function(next(iter(given.values())), **case.attributes)
        made = function(**given, **case.attributes)
        self.operation = made if isinstance(made, tf.Operation) else None
        listed = [] if made is None or self.operation else list(made) if isinstance(made, (list, tuple)) else [made]
        self.outputs = [listed[i] for i in case.results] if case.results else listed
        with tf.control_dependencies([self.operation] if self.operation is not None else []):
            self.after = [variable.read_value() for variable, _ in self.variables]

    def tensor(self, operand, array, prefix):
        if isinstance(operand, V):
            name = f"{prefix}variable{len(self.variables)}"
            variable = v1.get_variable(name, initializer=tf.constant(array), use_resource=True)
            self.variables.append((variable, array))
            return variable.handle
        if isinstance(operand, Const):
            return tf.constant(array)
        if isinstance(operand, Of):
            return None
        placeholder = v1.placeholder(array.dtype, array.shape)
        self.feeds.append((placeholder, array))
        return placeholder

    def fetches(self):
        return self.outputs + self.after


def arrays_of(case, dtype, wide=None):
    """The same numbers in a wider type."""
    draw = np.random.default_rng(zlib.crc32(f"{case.type} {case.attributes}".encode()))
    flat = [one for operand in case.operands for one in (operand if isinstance(operand, list) else [operand])]
    arrays = [operand.array(draw, dtype) for operand in flat]
    if wide is None:
        return arrays
    return [
        array.astype(wide) if isinstance(operand, (X, Same)) and array.dtype == np.dtype(dtype) else array
        for operand, array in zip(flat, arrays)
    ]


class Table:
    """All cases of a table, computed by TensorFlow at first use."""

    def __init__(self, cases):
        self.entries = {f"{c.name(n)}-{dtype}": (c, dtype) for n, c in enumerate(cases) for dtype in c.dtypes}
        self.theirs = None

    def names(self):
        return list(self.entries)

    def compute(self):
        self.graph, self.theirs = tf.Graph(), {}
        built = {}
        with self.graph.as_default(), v1.Session() as session:
            for number, (name, (one, dtype)) in enumerate(self.entries.items()):
                wide = WIDER.get(dtype) if one.wider else None
                attributes = one.attributes
                narrow = Built(one, arrays_of(one, dtype), f"n{number}_")
                if wide is not None and any(value == dtype for value in attributes.values()):
                    wide = None
                right = Built(one, arrays_of(one, dtype, wide), f"w{number}_") if wide is not None else narrow
                built[name] = (narrow, right)
            session.run(v1.global_variables_initializer())
            fed = {p: a for pair in built.values() for side in pair for p, a in side.feeds}
            values = session.run([[side.fetches() for side in pair] for pair in built.values()], fed)
            for (name, pair), computed in zip(built.items(), values):
                self.theirs[name] = (pair[0], *computed)

    def check(self, name):
        if self.theirs is None:
            self.compute()
        one, dtype = self.entries[name]
        built, theirs, right = self.theirs[name]
        ours = run(self.graph, built)
        assert len(ours) == len(theirs)
        for i, (mine, other, exact) in enumerate(zip(ours, theirs, right)):
            assert mine.dtype == other.dtype and mine.shape == other.shape, f"result {i}: {mine.dtype} {mine.shape}"
            if mine.dtype.kind != "f":
                np.testing.assert_array_equal(mine, other, err_msg=f"result {i}")
                continue
            exact = np.asarray(exact, np.float64)
            with np.errstate(invalid="ignore"):
                same = (mine.astype(np.float64) == exact) | (np.isnan(mine) & np.isnan(exact))
            rounding = ROUNDING[mine.dtype.name]
            mine, other = np.where(same, 0, mine), np.where(same, 0, other)
            exact = np.where(same, 0, exact)
            distance = np.linalg.norm(mine - exact)
            scale = max(1.0, np.linalg.norm(exact))
            allowed = 3 * np.linalg.norm(other - exact) + one.slack * rounding * scale
            assert np.isfinite(allowed) and distance <= allowed, f"result {i}: {distance:g} away, {allowed:g} allowed"


def run(graph, built):
    """The op as a unit of ours."""
    inputs = [placeholder for placeholder, _ in built.feeds]
    operations = [] if built.operation is None else [built.operation]
    found = records.of_graph(graph, inputs, built.outputs, operations)
    found.data["graph"]["output_types"] = [output.dtype.as_numpy_dtype for output in built.outputs]
    values = {variable.op.name: array for variable, array in built.variables}
    unit = ipu_core.Unit(found.data)
    given = {name: values[name] for name in unit.variables}
    outputs, written = unit.run([array for _, array in built.feeds], given)
    state = {**values, **written}
    return list(outputs) + [state[variable.op.name] for variable, _ in built.variables]

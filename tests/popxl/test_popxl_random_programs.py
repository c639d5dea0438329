"""Random programs through popxl: views, writes, calls by reference and loops against a NumPy model of memory; gradients
of random graphs against differences in float64."""

import random

import numpy as np
import pytest

import popxl
from popxl import ops
from popxl.ops import var_updates


class Shown:
    """A tensor, the memory of the model that it lies in, and the places it shows."""

    def __init__(self, tensor, memory, places):
        self.tensor, self.memory, self.places = tensor, memory, places

    def read(self):
        return self.memory[self.places]

    def write(self, contents):
        self.memory[self.places] = contents


def fresh(tensor, contents):
    contents = np.array(contents, np.float32)
    return Shown(tensor, contents.reshape(-1).copy(), np.arange(contents.size).reshape(contents.shape))


class Author:
    """Writes ops into the current graph, and does the same to the memories of the model."""

    def __init__(self, rng, values):
        self.rng, self.values = rng, values

    def pick(self):
        return self.rng.choice(self.values)

    def number(self, shape):
        return np.array([self.rng.randint(-3, 3) for _ in range(int(np.prod(shape)))], np.float32).reshape(shape)

    def other(self, shape):
        fitting = [v for v in self.values if v.places.shape == shape]
        if fitting and self.rng.random() < 0.6:
            return self.rng.choice(fitting)
        contents = self.number(shape)
        return fresh(popxl.constant(contents), contents)

    def view(self):
        base, rng = self.pick(), self.rng
        kind = rng.choice(["slice", "reshape", "transpose"])
        places = base.places
        if kind == "slice" and places.ndim:
            axis = rng.randrange(places.ndim)
            start = rng.randrange(places.shape[axis])
            stop = rng.randint(start + 1, places.shape[axis])
            tensor = ops.slice_(base.tensor, start, stop, axis=axis)
            places = places.take(range(start, stop), axis)
        elif kind == "reshape":
            tensor, places = base.tensor.reshape_((-1,)), places.reshape(-1)
        else:
            order = rng.sample(range(places.ndim), places.ndim)
            tensor, places = base.tensor.transpose_(order), places.transpose(order)
        self.values.append(Shown(tensor, base.memory, places))

    def in_place(self):
        target, kind = self.pick(), self.rng.choice(["add", "relu", "scaled", "accumulate", "copy", "zero"])
        other = self.other(target.places.shape)
        before, source = target.read(), other.read()
        if kind == "add":
            tensor, contents = ops.add_(target.tensor, other.tensor), before + source
        elif kind == "relu":
            tensor, contents = ops.relu_(target.tensor), np.maximum(before, 0)
        elif kind == "scaled":
            tensor, contents = ops.scaled_add_(target.tensor, other.tensor, a=2.0, b=-1.0), 2 * before - source
        elif kind == "accumulate":
            tensor, contents = var_updates.accumulate_(target.tensor, other.tensor, 0.5), before + 0.5 * source
        elif kind == "copy":
            tensor, contents = var_updates.copy_var_update_(target.tensor, other.tensor), source
        else:
            tensor, contents = var_updates.accumulator_zero_(target.tensor), np.zeros_like(before)
        target.write(contents)
        self.values.append(Shown(tensor, target.memory, target.places))

    def compute(self):
        a = self.pick()
        b = self.other(a.places.shape)
        function, model = self.rng.choice(
            [(ops.add, np.add), (ops.sub, np.subtract), (ops.maximum, np.maximum), (ops.where, None)]
        )
        if model is None:
            tensor = ops.where(ops.greater(a.tensor, b.tensor), a.tensor, b.tensor)
            model = np.maximum
        else:
            tensor = function(a.tensor, b.tensor)
        self.values.append(fresh(tensor, model(a.read(), b.read())))

    def call(self, depth):
        """A graph of two inputs, of which it may write to the first; called, or the body of a loop."""
        a = self.pick()
        b = self.other(a.places.shape)
        if np.shares_memory(a.memory, b.memory):
            return
        by_reference, repeated, seed = self.rng.random() < 0.5, self.rng.random() < 0.5, self.rng.random()

        def body(x, y):
            values = [Shown(x, *model_of["x"]), Shown(y, *model_of["y"])]
            author = Author(random.Random(seed), values)
            for _ in range(4):
                author.step(depth - 1)
            model_result.append(values[0].read() + values[1].read())
            return ops.add(values[0].tensor, values[1].tensor)

        model_result = []

        def by_ref(x: popxl.TensorByRef, y: popxl.Tensor):
            return body(x, y)

        shape = a.places.shape
        places = np.arange(a.places.size).reshape(shape)
        held = {"x": a.read().reshape(-1).copy(), "y": b.read().reshape(-1).copy()}
        model_of = {name: (memory, places) for name, memory in held.items()}
        graph = popxl.gir().create_graph(by_ref if by_reference else body, a.tensor, b.tensor)  # the model runs once
        given = model_result[0]
        if repeated:  # once: the output is carried into x, which a reference hands back
            (tensor,) = ops.repeat(graph, 1, a.tensor, b.tensor)
            left = given
        else:
            (tensor,) = ops.call(graph, a.tensor, b.tensor)
            left = held["x"][places]
        if by_reference:
            a.write(left)
        self.values.append(fresh(tensor, given))

    def step(self, depth):
        actions = [self.view, self.in_place, self.in_place, self.compute]
        if depth > 0:
            actions.append(lambda: self.call(depth))
        self.rng.choice(actions)()


@pytest.mark.parametrize("seed", range(40))
def test_programs_in_sequence_do_what_numpy_does_to_the_same_memory(seed):
    rng = random.Random(seed)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        values, variables = [], []
        author = Author(rng, values)
        for shape in ((2, 3), (3, 2), (4,), (2, 3)):
            contents = author.number(shape)
            variables.append(fresh(popxl.variable(contents), contents))
            values.append(Shown(variables[-1].tensor, variables[-1].memory, variables[-1].places))
        for _ in range(14):
            author.step(2)
        shown, streams = [v for v in values if v.places.size], []
        for value in shown:
            streams.append(popxl.d2h_stream(value.places.shape, popxl.float32))
            ops.host_store(streams[-1], value.tensor)
    expected = [value.read() for value in shown]
    with popxl.Session(ir, "ipu_model") as session:
        found = session.run()
        for stream, value in zip(streams, expected):
            np.testing.assert_array_equal(found[stream], value)
        for variable in variables:
            np.testing.assert_array_equal(session.get_tensor_data(variable.tensor), variable.read())


MASK = np.tri(3, dtype=bool)  # no comparison of values decides: differences say nothing where one changes
UNARY = [
    (ops.tanh, np.tanh),
    (ops.exp, np.exp),
    (lambda t: ops.log(t * t + 1.0), lambda t: np.log(t * t + 1)),
    (lambda t: ops.sqrt(t * t + 1.0), lambda t: np.sqrt(t * t + 1)),
    (ops.sin, np.sin),
    (ops.cos, np.cos),
    (ops.negate, np.negative),
    (ops.swish, lambda t: t / (1 + np.exp(-t))),
    (lambda t: ops.softmax(t, 1), lambda t: np.exp(t) / np.exp(t).sum(1, keepdims=True)),
    (lambda t: ops.sum(t, 1, keepdims=True) + t, lambda t: t.sum(1, keepdims=True) + t),
    (lambda t: ops.mean(t, 0) * t, lambda t: t.mean(0) * t),
    (lambda t: t.transpose().transpose(), lambda t: t),
    (lambda t: ops.concat([ops.slice(t, 1, 3), ops.slice(t, 0, 1)]), lambda t: np.concatenate([t[1:3], t[:1]])),
    (lambda t: ops.cumsum(t, 1), lambda t: np.cumsum(t, 1)),
]
BINARY = [
    (ops.add, np.add),
    (ops.sub, np.subtract),
    (ops.mul, np.multiply),
    (lambda a, b: ops.div(a, b * b + 1.0), lambda a, b: a / (b * b + 1)),
    (lambda a, b: a @ b, lambda a, b: a @ b),
    (lambda a, b: ops.where(popxl.constant(MASK), a, b), lambda a, b: np.where(MASK, a, b)),
]


def random_function(rng, steps):
    """A function of a list of 3x3 values, popxl's or NumPy's; the same steps for both."""
    plan = []
    for number in range(steps):
        if rng.random() < 0.5:
            plan.append((rng.choice(UNARY), [rng.randrange(3 + number)]))
        else:
            plan.append((rng.choice(BINARY), [rng.randrange(3 + number), rng.randrange(3 + number)]))

    def apply(values, which):
        values = list(values)
        for pair, arguments in plan:
            values.append(pair[which](*(values[i] for i in arguments)) * 0.5)
        return values[-1] + values[0] + values[1] + values[2]

    return apply


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_gradients_of_random_graphs_are_differences_in_float64(seed, nested):
    rng, generator = random.Random(seed), np.random.default_rng(seed)
    function = random_function(rng, 6)
    data = [generator.standard_normal((3, 3)) for _ in range(3)]
    upstream = generator.standard_normal((3, 3))
    ir = popxl.Ir()
    with ir.main_graph:
        tensors = [popxl.variable(value.astype(np.float32)) for value in data]
        graph = ir.create_graph(lambda a, b, c: function((a, b, c), 0), *tensors)
        if nested:
            inner = graph
            graph = ir.create_graph(lambda a, b, c: ops.call(inner, a, b * 1.0, c), *tensors)
        there = ops.call_with_info(graph, *tensors)
        gradient = popxl.transforms.autodiff(graph)
        d = popxl.constant(upstream, popxl.float32)
        back = ops.call_with_info(gradient.graph, d, inputs_dict=gradient.inputs_dict(there))
        streams = [popxl.d2h_stream((3, 3), popxl.float32) for _ in range(4)]
        for stream, tensor in zip(streams, (there.outputs[0], *back.outputs)):
            ops.host_store(stream, tensor)
    with popxl.Session(ir, "ipu_model") as session:
        value, *found = (session.run()[stream] for stream in streams)
    np.testing.assert_allclose(value, function(data, 1), rtol=2e-4, atol=2e-4)
    step = 1e-5
    for number, got in enumerate(found):
        wanted = np.zeros((3, 3))
        for place in np.ndindex(3, 3):
            ends = []
            for sign in (1, -1):
                moved = [value.copy() for value in data]
                moved[number][place] += sign * step
                ends.append((function(moved, 1) * upstream).sum())
            wanted[place] = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=2e-3 * max(1.0, np.abs(wanted).max()))

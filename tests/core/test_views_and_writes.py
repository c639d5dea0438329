"""Random programs of the authored form: views of views, ops in place, updates, calls by reference, loops, branches.

The model is NumPy: a memory is a flat array, a value is a list of places in it. The interpreter runs the authored form
as it stands and after `functionalize`, the emulator runs what the compiler makes of it; all four agree to the bit.
"""

import random

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ipu_core

FUNCTIONAL = ["expand", "functionalize"]


def numbers(values):
    return "[" + ",".join(str(int(v)) for v in values) + "]"


class Value:
    """A value: its name in the text, its memory and the places it shows, in its shape."""

    def __init__(self, name, memory, places, writable=True):
        self.name, self.memory, self.places, self.writable = name, memory, places, writable

    @property
    def shape(self):
        return self.places.shape

    @property
    def type(self):
        return f"f32{numbers(self.shape)}"

    def read(self):
        return self.memory[self.places]

    def write(self, contents):
        self.memory[self.places] = contents


class Graph:
    """One graph: its text, and what the ops do to the memories of the model while they are written."""

    def __init__(self, program, name, rng):
        self.program, self.name, self.rng = program, name, rng
        self.lines, self.values, self.inputs, self.outputs = [], [], [], []

    def memory(self, name, contents):
        contents = numpy.array(contents, dtype=numpy.float32)
        value = Value(name, contents.reshape(-1).copy(), numpy.arange(contents.size).reshape(contents.shape))
        self.values.append(value)
        return value

    def fresh(self, kind):
        return f"%{kind}{self.program.count()}"

    def emit(self, line):
        """All ops in sequence: each one is ordered after the one before."""
        number = len(self.lines)
        self.lines.append(f"#{number}: {line}" + (f" after(#{number - 1})" if number else ""))

    def constant(self, shape):
        contents = self.numbers(shape)
        name = self.fresh("c")
        self.emit(f"{name} = constant() {{value=dense<f32{numbers(shape)}: {listed(contents)}>}} : f32{numbers(shape)}")
        return self.memory(name, contents)

    def numbers(self, shape):
        return numpy.array(
            [self.rng.randint(-4, 4) for _ in range(int(numpy.prod(shape)))], dtype=numpy.float32
        ).reshape(shape)

    def other(self, value):
        """An operand of the same shape: another value, a view of the same memory perhaps, or a constant."""
        fitting = [v for v in self.values if v.shape == value.shape]
        return self.rng.choice(fitting) if self.rng.random() < 0.5 else self.constant(value.shape)

    def pick(self, writable=False):
        return self.rng.choice([v for v in self.values if v.writable or not writable])

    # --- steps

    def view(self):
        base, rng = self.pick(), self.rng
        rank, places = len(base.shape), base.places
        kind = rng.choice(["slice", "slice", "reshape", "transpose", "flip", "nop", "detach", "expand"])
        writable = base.writable
        if kind == "slice":
            starts, sizes, steps = [], [], []
            for extent in base.shape:
                start = rng.randint(0, extent - 1)
                step = rng.randint(1, 3)
                size = rng.randint(1, (extent - 1 - start) // step + 1)
                starts.append(start), sizes.append(size), steps.append(step)
            cut = tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, sizes, steps, strict=True))
            places = places[cut]
            attributes = f"sizes={numbers(sizes)}, starts={numbers(starts)}, steps={numbers(steps)}"
        elif kind == "reshape":
            shape = rng.choice([(places.size,), (1, places.size), (places.size, 1), *self.factors(places.size)])
            places = places.reshape(shape)
            attributes = f"shape={numbers(shape)}"
        elif kind == "transpose":
            perm = rng.sample(range(rank), rank)
            places = places.transpose(perm)
            attributes = f"perm={numbers(perm)}"
        elif kind == "flip":
            dims = sorted(rng.sample(range(rank), rng.randint(0, rank)))
            places = numpy.flip(places, dims)
            attributes = f"dims={numbers(dims)}"
        elif kind == "expand":
            shape = (rng.randint(1, 2), *base.shape)
            places = numpy.broadcast_to(places, shape)
            writable = writable and shape[0] == 1
            attributes = f"shape={numbers(shape)}"
        else:
            attributes = ""
        value = Value(self.fresh(kind), base.memory, places, writable)
        self.emit(
            f"{value.name} = {kind}({base.name}) {{{attributes}{', ' * bool(attributes)}in_place=0}} : {value.type}"
        )
        self.values.append(value)

    @staticmethod
    def factors(size):
        return [(k, size // k) for k in range(2, size) if size % k == 0]

    def joined(self):
        """concat in place: one view of two memories. Written as it stands, for the model shows one memory."""
        first = self.pick(writable=True)
        others = [
            v for v in self.values if v.writable and v.memory is not first.memory and v.shape[1:] == first.shape[1:]
        ]
        if len(first.shape) == 0 or not others:
            return
        second = self.rng.choice([v for v in others if len(v.shape)] or [None])
        if second is None:
            return
        shape = (first.shape[0] + second.shape[0], *first.shape[1:])
        name = self.fresh("concat")
        self.emit(f"{name} = concat({first.name}, {second.name}) {{dim=0, in_place=0}} : f32{numbers(shape)}")
        source = self.constant(shape)
        contents = source.read()
        self.emit(f"write({name}, {source.name})")
        first.write(contents[: first.shape[0]])
        second.write(contents[first.shape[0] :])

    def in_place(self):
        target = self.pick(writable=True)
        kind = self.rng.choice(["add", "sub", "maximum", "neg", "relu"])
        name = self.fresh(kind)
        if kind in ("neg", "relu"):
            operands, where = target.name, 0
            contents = -target.read() if kind == "neg" else numpy.maximum(target.read(), 0)
        else:
            other, where = self.other(target), self.rng.randint(0, 1)
            pair = (target, other) if where == 0 else (other, target)
            operands = f"{pair[0].name}, {pair[1].name}"
            apply = {"add": numpy.add, "sub": numpy.subtract, "maximum": numpy.maximum}[kind]
            contents = apply(pair[0].read(), pair[1].read())
        self.emit(f"{name} = {kind}({operands}) {{in_place={where}}} : {target.type}")
        target.write(contents)
        self.values.append(Value(name, target.memory, target.places))

    def update(self):
        target = self.pick(writable=True)
        kind = self.rng.choice(["accumulate", "accumulator_scale", "accumulator_zero", "copy_var_update", "scaled_add"])
        name, t = self.fresh(kind), target.read()
        if kind in ("accumulator_scale", "accumulator_zero"):
            factor = 0.0 if kind == "accumulator_zero" else self.rng.choice([0.0, 2.0, -1.0])
            operands, attributes = target.name, f"factor={factor:.1f}" * (kind == "accumulator_scale")
            contents = t * numpy.float32(factor)
        else:
            other = self.other(target)
            x, operands = other.read(), f"{target.name}, {other.name}"
            if kind == "accumulate":
                attributes, contents = "factor=0.5", t + x * numpy.float32(0.5)
            elif kind == "scaled_add":
                attributes, contents = "a=2.0, b=-0.5", t * numpy.float32(2) + x * numpy.float32(-0.5)
            else:
                attributes, contents = "", x
        self.emit(f"{name} = {kind}({operands})" + f" {{{attributes}}}" * bool(attributes) + f" : {target.type}")
        target.write(contents)
        self.values.append(Value(name, target.memory, target.places))

    def write(self):
        target = self.pick(writable=True)
        if target.shape and self.rng.random() < 0.3:
            sizes = (self.rng.randint(1, target.shape[0]), *target.shape[1:])
            start = self.rng.randint(0, target.shape[0] - sizes[0])
            source = self.constant(sizes)
            starts = [start] + [0] * (len(sizes) - 1)
            self.emit(
                f"write({target.name}, {source.name}) "
                f"{{sizes={numbers(sizes)}, starts={numbers(starts)}, steps={numbers([1] * len(sizes))}}}"
            )
            contents = target.read()
            contents[start : start + sizes[0]] = source.read()
        else:
            source = self.other(target)
            contents = source.read()
            self.emit(f"write({target.name}, {source.name})")
        target.write(contents)

    def snapshot(self):
        """Not in place: a copy, whose contents no later write changes."""
        value = self.pick()
        kind = self.rng.choice(["abs", "reshape"])
        attributes = f" {{shape={numbers(value.shape)}}}" if kind == "reshape" else ""
        name = self.fresh("copy")
        self.emit(f"{name} = {kind}({value.name}){attributes} : {value.type}")
        self.memory(name, abs(value.read()) if kind == "abs" else value.read())
        self.outputs.append(self.values[-1])

    def called(self):
        """A call, a loop or a branch whose graph writes to what it gets by reference."""
        if self.program.depth >= 2:
            return
        rng = self.rng
        target = self.pick(writable=True)
        plain = rng.choice([v for v in self.values if v.memory is not target.memory] or [None])
        if plain is None:
            plain = self.constant(target.shape)
        kind, marked = rng.choice(["call", "call", "loop", "if"]), rng.random() < 0.8
        condition = rng.random() < 0.5
        body_name, seed = f"body{self.program.count()}", rng.random()
        trip = 3 if kind == "loop" else 1
        local = target.read()
        result = None
        for turn in range(trip):
            if not marked and turn:
                local = target.read()
            number, graphs = self.program.number, len(self.program.graphs)
            body = Graph(self.program, body_name, random.Random(seed))
            body.inputs = [body.memory("%v", local), body.memory("%u", plain.read())]
            self.program.depth += 1
            body.steps(3)
            self.program.depth -= 1
            if turn + 1 < trip:
                self.program.number = number  # every turn is the same text
                del self.program.graphs[graphs:]
            local = body.inputs[0].read()
            result = body.pick()
        result_name, result_value = self.fresh("result"), result.read()
        result_type = f"f32{numbers(result_value.shape)}"
        if kind == "call":
            body.close("", [result])
            marks = ", modified=[0]" if marked else ""
            self.emit(
                f"{result_name} = call({target.name}, {plain.name}) {{callee=@{body_name}{marks}}} : {result_type}"
            )
            self.memory(result_name, result_value)
        elif kind == "loop":
            body.close("%i: i32[], ", [])
            marks = ", modified=[0]" if marked else ""
            self.emit(f"loop({target.name}, {plain.name}) {{body=@{body_name}, carried=0, trip={trip}{marks}}}")
        else:
            body.close("", [])
            idle = f"idle{self.program.count()}"
            self.program.graphs.append(
                f"graph @{idle}(%v: {target.type} {{by_reference}}, %u: {plain.type}) -> () {{\n  return\n}}"
            )
            name = self.fresh("condition")
            self.emit(f"{name} = constant() {{value=dense<bool[]: {str(condition).lower()}>}} : bool[]")
            marks = ", modified=[1]" if marked else ""
            self.emit(f"if({name}, {target.name}, {plain.name}) {{else=@{idle}{marks}, then=@{body_name}}}")
        if marked and (kind != "if" or condition):
            target.write(local)

    def steps(self, count):
        kinds = [self.view] * 5 + [self.in_place] * 3 + [self.update] * 2 + [self.write] * 3
        kinds += [self.snapshot] * 2 + [self.called] * 2 + [self.joined]
        for _ in range(count):
            self.rng.choice(kinds)()

    def close(self, more_inputs, results):
        inputs = ", ".join(f"{v.name}: {v.type}" + " {by_reference}" * (i == 0) for i, v in enumerate(self.inputs))
        types = ", ".join(v.type for v in results)
        body = "\n  ".join([*self.lines, "return " + ", ".join(v.name for v in results)])
        self.program.graphs.append(f"graph @{self.name}({more_inputs}{inputs}) -> ({types}) {{\n  {body}\n}}")


def listed(contents):
    return (
        "[" + ", ".join(f"{v:.1f}" for v in contents.reshape(-1)) + "]"
        if contents.size > 1
        else f"{contents.reshape(-1)[0]:.1f}"
    )


class Program:
    """A whole program: two variables, `main` in sequence, an output for whatever main made."""

    def __init__(self, rng):
        self.graphs, self.number, self.depth = [], 0, 0
        main = Graph(self, "main", rng)
        tables = []
        for name, shape in (("w", (2, 3)), ("m", (6,))):
            contents = main.numbers(shape)
            tables.append(
                f"variable @{name}: f32{numbers(shape)} {{initial=dense<f32{numbers(shape)}: {listed(contents)}>}}"
            )
            main.emit(f"%{name} = variable.read() {{variable=@{name}}} : f32{numbers(shape)}")
            main.memory(f"%{name}", contents)
        main.steps(rng.randint(4, 14))
        self.variables = {v.name[1:]: v.read() for v in main.values[:2]}
        self.outputs = {}
        for value in main.values[:2]:
            main.emit(f"variable.assign({value.name}) {{variable=@{value.name[1:]}}}")
        for value in main.values[2:]:
            stream = f"out_{value.name[1:]}"
            tables.append(f'stream @{stream}: {value.type} {{direction="device_to_host"}}')
            main.emit(f"host_store({value.name}) {{stream=@{stream}}}")
            self.outputs[stream] = value.read()
        main.close("", [])
        self.text = "\n".join([*tables, "entry main = @main", *self.graphs])

    def count(self):
        self.number += 1
        return self.number


def check(program, outputs, variables):
    for name, wanted in program.outputs.items():
        numpy.testing.assert_array_equal(outputs[name], wanted, err_msg=name + "\n" + program.text)
    for name, wanted in program.variables.items():
        numpy.testing.assert_array_equal(variables(name), wanted, err_msg=name + "\n" + program.text)


@settings(max_examples=300)
@given(st.randoms(use_true_random=False))
def test_all_four_agree(rng):
    program = Program(rng)
    for passes in ([], FUNCTIONAL, [*FUNCTIONAL, "inline-calls", "fold-constants", "simplify", "cse", "dce"]):
        outputs, variables = ipu_core.interpret(program.text, passes=passes)
        check(program, {name: elements[0] for name, elements in outputs.items()}, variables.__getitem__)
    session = ipu_core.compile(program.text)
    try:
        check(program, session.run({}), session.read)
    finally:
        session.detach()


@settings(max_examples=100)
@given(st.randoms(use_true_random=False), st.sampled_from(["read", "write", "in_place"]))
def test_without_an_order_a_program_is_refused_by_name(rng, second):
    """Two chains of views of one memory, a write through the first, an access through the second, in no order."""
    program = Program.__new__(Program)
    program.graphs, program.number, program.depth = [], 0, 0
    main = Graph(program, "main", rng)
    main.lines.append("%w = variable.read() {variable=@w} : f32[2,3]")
    main.memory("%w", numpy.zeros((2, 3)))
    main.emit = main.lines.append  # without edges
    ends = []
    for _ in range(2):
        main.values = main.values[:1]
        while len(main.values) < 4:
            main.view()
            if not main.values[-1].writable:
                main.values.pop()
        ends.append(main.values[-1])
    first, other = ends
    source = main.constant(first.shape)
    main.emit(f"write({first.name}, {source.name})")
    if second == "read":
        main.emit(f"%y = neg({other.name}) : {other.type}")
    elif second == "in_place":
        main.emit(f"%y = neg({other.name}) {{in_place=0}} : {other.type}")
    else:
        source = main.constant(other.shape)
        main.emit(f"write({other.name}, {source.name})")
    main.close("", [])
    text = "\n".join(["variable @w: f32[2,3] {initial=dense<f32[2,3]: 0.0>}", "entry main = @main", *program.graphs])
    with pytest.raises(
        ipu_core.Error, match=r"ambiguous order \[IPU-E202\]: %w of @main is accessed by 'write' and by"
    ):
        ipu_core.run_passes(text, FUNCTIONAL)
    with pytest.raises(ipu_core.Error, match="ambiguous order"):
        ipu_core.compile(text)


@pytest.mark.timeout(60)  # two seconds; minutes, if each op looked at those before it
def test_long_chains_and_many_views_take_linear_time():
    """40,000 ops in place through views of one memory, in sequence; and half as many memories that are read first and written
    last."""
    lines = ["%w = variable.read() {variable=@w} : f32[8]"]
    for i in range(40_000):
        lines.append(f"%v{i} = slice(%w) {{in_place=0, sizes=[2], starts=[{i % 7}], steps=[1]}} : f32[2]")
        lines.append(f"#{i}: %n{i} = neg(%v{i}) {{in_place=0}} : f32[2]" + (f" after(#{i - 1})" if i else ""))
    lines.append("variable.assign(%w) {variable=@w} after(#39999)")
    one = chained("\n".join(lines))
    lines, total = [], None
    for i in range(20_000):
        lines.append(f"%c{i} = constant() {{value=dense<f32[8]: 1.0>}} : f32[8]")
        lines.append(f"%s{i} = add({total or f'%c{i}'}, %c{i}) : f32[8]")
        total = f"%s{i}"
    lines.extend(f"write(%c{i}, {total})" for i in range(20_000))
    many = chained("\n".join(lines))
    for text in (one, many):
        ipu_core.run_passes(text, FUNCTIONAL)


def chained(lines):
    return f"variable @w: f32[8] {{initial=dense<f32[8]: 1.0>}}\nentry main = @main\ngraph @main() -> () {{\n{lines}\nreturn\n}}"

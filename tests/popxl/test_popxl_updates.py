"""Updates of variables and what optimizers subtract: values on the device, names and ops, what is not checked early."""

import numpy as np
import popart
import popxl
import pytest
from one_program import op_types
from popxl import ops
from popxl.ops import var_updates as vu

rng = np.random.default_rng(17)


def array(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


class Variables:
    """Variables that ops overwrite, in order; `after()` gives what they hold after one run."""

    def __init__(self):
        self.ir = popxl.Ir()
        self.kept = {}

    def __enter__(self):
        self.contexts = [self.ir.main_graph, popxl.in_sequence()]
        for context in self.contexts:
            context.__enter__()
        return self

    def __exit__(self, *error):
        for context in reversed(self.contexts):
            context.__exit__(*error)

    def of(self, name, data, dtype=None):
        t = popxl.variable(np.asarray(data), dtype, name=name)
        self.kept[name] = t
        return t

    def after(self):
        with popxl.Session(self.ir, "ipu_model") as session:
            session.run()
        return {name: np.asarray(session.get_tensor_data(t)) for name, t in self.kept.items()}


T, X = array(2, 3), array(2, 3)
UPDATES = {
    "accumulate": (lambda t, x, f: vu.accumulate_(t, x), lambda t, x, f: t + x),
    "accumulate_f": (vu.accumulate_, lambda t, x, f: t + f * x),
    "accumulate_square": (vu.accumulate_square_, lambda t, x, f: t + f * x * x),
    "accumulate_mean": (vu.accumulate_mean_, lambda t, x, f: (f * t + x) / (f + 1)),
    "accumulate_moving_avg": (vu.accumulate_moving_average_, lambda t, x, f: f * t + (1 - f) * x),
    "accumulate_moving_avg_square": (
        vu.accumulate_moving_average_square_,
        lambda t, x, f: f * t + (1 - f) * x * x,
    ),
    "accumulator_scale": (lambda t, x, f: vu.accumulator_scale_(t, f), lambda t, x, f: f * t),
    "accumulator_zero": (lambda t, x, f: vu.accumulator_zero_(t), lambda t, x, f: 0 * t),
    "updated": (lambda t, x, f: vu.copy_var_update_(t, x), lambda t, x, f: x),
}


@pytest.mark.shows("popxl.ops.var_updates.accumulate_")
@pytest.mark.shows("popxl.ops.var_updates.accumulate_square_")
@pytest.mark.shows("popxl.ops.var_updates.accumulate_mean_")
@pytest.mark.shows("popxl.ops.var_updates.accumulate_moving_average_")
@pytest.mark.shows("popxl.ops.var_updates.accumulate_moving_average_square_")
@pytest.mark.shows("popxl.ops.var_updates.accumulator_scale_")
@pytest.mark.shows("popxl.ops.var_updates.accumulator_zero_")
@pytest.mark.shows("popxl.ops.var_updates.copy_var_update_")
def test_updates_with_a_number_and_with_a_tensor():
    want = {}
    with Variables() as v:
        x, half = popxl.variable(X), popxl.variable(X.astype(np.float16))
        factor = popxl.variable(np.float32(0.75))
        for name, (update, equation) in UPDATES.items():
            for form, f in (("number", 0.75), ("tensor", factor)):
                t = v.of(f"{name}_{form}", T)
                seen = update(t, x, f)
                assert seen.spec == t.spec and seen is not t
                want[f"{name}_{form}"] = equation(T, X, 0.75)
            # The target's type counts, also where update and factor have another one.
            update(v.of(f"{name}_half", T, popxl.float16), x, factor)
            want[f"{name}_half"] = equation(T, X, 0.75)
            update(v.of(f"{name}_of_half", T), half, 0.75)
            want[f"{name}_of_half"] = equation(T, X.astype(np.float16).astype(np.float32), 0.75)
    after = v.after()
    for name, value in want.items():
        assert after[name].dtype == (np.float16 if name.endswith("_half") and "_of_" not in name else np.float32)
        bound = 1e-6 if after[name].dtype == np.float32 else 3e-3
        np.testing.assert_allclose(after[name], value, rtol=bound, atol=bound, err_msg=name)


def halves(*numbers):
    return np.array(numbers, np.float16)


LARGE = halves(6e4)
# Name, variable, update of it with a factor, the factor, the result. Factors that float16 rounds to 0, or off by some percent,
# and squares that it cannot hold.
HALVES = [
    ("small step", 1.0, lambda t, f: ops.scaled_add_(t, popxl.variable(LARGE), b=f), -2e-7, 0.988),
    ("step that vanishes", 1.0, lambda t, f: ops.scaled_add_(t, popxl.variable(LARGE), b=f), 1e-8, 1.001),
    ("first factor", 2.0, lambda t, f: ops.scaled_add_(t, popxl.variable(LARGE), a=0.5, b=f), 1e-8, 1.001),
    ("accumulate", 1.0, lambda t, f: vu.accumulate_(t, popxl.variable(LARGE), f), 1e-8, 1.001),
    ("cancelled", 1.0, lambda t, f: vu.accumulate_(t, popxl.variable(halves(-3.0)), f), 0.3, 0.1),
    ("wide update", 0.0, lambda t, f: vu.accumulate_(t, popxl.variable(np.float32([2e6])), f), 1e-3, 2000.0),
    ("mean", 1.0, lambda t, f: vu.accumulate_mean_(t, popxl.variable(halves(4.0)), f), 2999.0, 1.001),
    ("mean of large", 6e4, lambda t, f: vu.accumulate_mean_(t, popxl.variable(LARGE), f), 1.0, 6e4),
    (
        "Adam's first moment",
        0.0,
        lambda t, f: vu.accumulate_moving_average_(t, popxl.variable(np.float32([2])), f),
        0.999,
        0.002,
    ),
    ("its tenth", 0.0, lambda t, f: vu.accumulate_moving_average_(t, popxl.variable(np.float32([1])), f), 0.9, 0.1),
    ("square", 1.0, lambda t, f: vu.accumulate_square_(t, popxl.variable(halves(300.0)), f), 0.001, 91.0),
    (
        "Adam's second moment",
        1.0,
        lambda t, f: vu.accumulate_moving_average_square_(t, popxl.variable(halves(300.0)), f),
        0.999,
        91.0,
    ),
    (
        "rows by number",
        1.0,
        lambda t, f: vu.sparse_accumulate_(t, popxl.variable(LARGE), popxl.constant([0], popxl.int32), f=f),
        1e-8,
        1.001,
    ),
]


@pytest.mark.shows("popxl.ops.scaled_add_")
@pytest.mark.shows("popxl.ops.var_updates.accumulate_")
@pytest.mark.shows("popxl.ops.var_updates.accumulate_mean_")
@pytest.mark.shows("popxl.ops.var_updates.accumulate_square_")
@pytest.mark.shows("popxl.ops.var_updates.accumulate_moving_average_")
@pytest.mark.shows("popxl.ops.var_updates.accumulate_moving_average_square_")
def test_factors_of_halves_are_not_rounded_to_halves():
    want = {}
    with Variables() as v:
        for name, before, update, factor, after in HALVES:
            for form, f in (("number", factor), ("tensor", popxl.constant(factor, popxl.float32))):
                update(v.of(f"{name} {form}", halves(before)), f)
                want[f"{name} {form}"] = np.float16(after)
        kept = v.of("kept", halves(1.0))
        kept_sum = ops.scaled_add(kept, popxl.variable(LARGE), b=1e-8)
        vu.copy_var_update_(v.of("sum", halves(0.0)), kept_sum)
        want["sum"] = np.float16(1.001)
    after = v.after()
    for name, value in want.items():
        assert after[name].dtype == np.float16 and abs(float(after[name][0]) - float(value)) <= np.spacing(value), (
            name,
            after[name],
            value,
        )


@pytest.mark.shows("popxl.ops.var_updates.accumulate_")
def test_integers_are_updated_as_well():
    with Variables() as v:
        ints, step = popxl.constant([1, 2, 3], popxl.int32), popxl.variable(1, popxl.int32)
        vu.accumulate_(v.of("sum", np.array([10, 20, 30], np.int32)), ints)
        vu.accumulate_(v.of("scaled", np.array([10, 20, 30], np.int32)), ints, 2)
        vu.accumulate_(v.of("large", np.array([2**24, 0, 0], np.int32)), ints)  # not by way of float32
        vu.accumulate_mean_(v.of("mean", np.array([10, 20, 30], np.int32)), ints, step)
        vu.accumulate_(v.of("floats", np.array([0.5, 0.5, 0.5], np.float32)), ints)
        vu.accumulator_scale_(v.of("halved", np.array([10, 20, 31], np.int32)), 0.5)
    after = v.after()
    want = {
        "sum": [11, 22, 33],
        "scaled": [12, 24, 36],
        "large": [2**24 + 1, 2, 3],
        "mean": [5, 11, 16],
        "floats": [1.5, 2.5, 3.5],
        "halved": [5, 10, 15],
    }
    for name, value in want.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)


@pytest.mark.shows("popxl.ops.var_updates.accumulator_zero_")
def test_clearing_removes_nan_and_the_update_reads_what_is_there_then():
    with Variables() as v:
        vu.accumulator_zero_(v.of("cleared", np.array([np.nan, 1.0], np.float32)))
        t = v.of("twice", np.array([1.0], np.float32))
        vu.accumulate_(t, t)  # its own update
        vu.accumulate_(t, t, 0.5)
        vu.copy_var_update_(v.of("copy", np.zeros(1, np.float32)), t)
    after = v.after()
    np.testing.assert_array_equal(after["cleared"], [0, 0])
    np.testing.assert_array_equal(after["twice"], [3])
    np.testing.assert_array_equal(after["copy"], [3])


@pytest.mark.shows("popxl.ops.var_updates.sparse_accumulate_")
def test_sparse_accumulation_adds_slices_by_number():
    t, rows, columns = array(4, 3), array(3, 3), array(4, 2)
    index = np.array([2, 0, 2], np.uint32)
    with Variables() as v:
        numbers = popxl.variable(index, popxl.uint32)
        vu.sparse_accumulate_(v.of("rows", t), popxl.variable(rows), numbers)
        factor = popxl.variable(np.float32(-2))
        other = v.of("columns", t)
        vu.sparse_accumulate_(
            other, popxl.variable(columns), popxl.constant([1, 1], popxl.int32), axis=1, f=factor, W=v.kept["rows"]
        )
        vu.sparse_accumulate_(v.of("half", t, popxl.float16), popxl.variable(rows), numbers, f=0.5)
    after = v.after()
    want, wide, half = t.copy(), t.copy(), t.copy()
    np.add.at(want, index, rows)
    np.add.at(wide.T, [1, 1], -2 * columns.T)
    np.add.at(half, index, 0.5 * rows)
    np.testing.assert_allclose(after["rows"], want, rtol=1e-6)
    np.testing.assert_allclose(after["columns"], wide, rtol=1e-6)
    np.testing.assert_allclose(after["half"], half, rtol=4e-3, atol=2e-3)


def adam(m, v, k=None, b1=0.9, b2=0.99, eps=1e-7, w=None, wd=0.0, is_max=False):
    if k is not None:
        m = m / (1 - b1**k)
        v = v if is_max else v / (1 - b2**k)
    x = m / ((v if is_max else np.sqrt(v)) + eps)
    return x + wd * w if wd else x


@pytest.mark.shows("popxl.ops.var_updates.adam_updater")
@pytest.mark.shows("popxl.ops.var_updates.lamb_updater")
@pytest.mark.shows("popxl.ops.var_updates.adamax_updater")
def test_updaters_follow_the_formulas_and_count_the_step_up():
    m, s, w = array(5), np.abs(array(5)) + 0.1, array(5)
    forms, steps = {}, {}
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        first, second, weight = popxl.variable(m), popxl.variable(s), popxl.variable(w)
        tensors = {n: popxl.variable(np.float32(x)) for n, x in (("b1", 0.9), ("b2", 0.99), ("wd", 0.1), ("eps", 1e-3))}

        def step():
            return popxl.variable(np.float32(2), name="step")

        def keep(name, x, want, counter=None):
            stream = popxl.d2h_stream(x.shape, x.dtype)
            ops.host_store(stream, x)
            forms[name] = (stream, want)
            if counter is not None:
                steps[name] = counter

        for updater in (vu.adam_updater, vu.lamb_updater):
            name = updater.__name__
            keep(f"{name} plain", updater(first, second), adam(m, s))
            keep(f"{name} betas alone", updater(first, second, beta1=0.9, beta2=0.99), adam(m, s))
            keep(f"{name} no decay", updater(first, second, weight_decay=0.0), adam(m, s))
            k = step()
            keep(f"{name} corrected", updater(first, second, None, k, beta1=0.9, beta2=0.99), adam(m, s, 3), k)
            k = step()
            x = updater(first, second, weight, k, 0.1, 0.9, 0.99, 1e-3)
            keep(f"{name} all numbers", x, adam(m, s, 3, eps=1e-3, w=w, wd=0.1), k)
            k = step()
            x = updater(first, second, weight, k, tensors["wd"], tensors["b1"], tensors["b2"], tensors["eps"])
            keep(f"{name} all tensors", x, adam(m, s, 3, eps=1e-3, w=w, wd=0.1), k)
        k = step()
        keep("adamax", vu.adamax_updater(first, second, time_step=k), adam(m, s, 3, is_max=True), k)
        k = step()
        x = vu.adamax_updater(first, second, weight, k, tensors["wd"], tensors["b1"], 1e-3)
        keep("adamax decayed", x, adam(m, s, 3, eps=1e-3, w=w, wd=0.1, is_max=True), k)
        half = vu.adam_updater(first, second, ops.cast(weight, popxl.float16), weight_decay=0.1)
        assert half.dtype is popxl.float16  # that of the weight
    with popxl.Session(ir, "ipu_model") as session:
        results = session.run()
    for name, (stream, want) in forms.items():
        np.testing.assert_allclose(np.asarray(results[stream]), want, rtol=1e-5, err_msg=name)
    for name, counter in steps.items():
        assert np.asarray(session.get_tensor_data(counter)) == 3, name


@pytest.mark.shows("popxl.ops.var_updates.adam_var_update")
def test_the_step_of_lamb_has_its_trust_ratio():
    w, x = array(4), array(4)
    norm_w, norm_x = np.sum(w**2), np.sum(x**2)
    ratio = np.sqrt(norm_w) / np.sqrt(norm_x)
    with Variables() as v:
        update = popxl.variable(x)
        r1, r2, zero = (popxl.variable(np.float32(r)) for r in (norm_w, norm_x, 0.0))
        rate, small = popxl.variable(np.float32(0.1)), popxl.variable(np.float32(0.25))
        for name, arguments in {
            "number": (r1, r2, 0.1),
            "tensor": (r1, r2, rate),
            "limited": (r1, r2, 0.1, 0.25),
            "limited by a tensor": (r1, r2, rate, small),
            "no weight": (zero, r2, 0.1),
            "no update": (r1, zero, 0.1),
            "limit of 0": (r1, r2, 0.1, zero),
            "neither given": (r1, r2),
        }.items():
            vu.adam_var_update(v.of(name, w), update, *arguments)
    after = v.after()
    ratios = {"limited": 0.25 / np.sqrt(norm_x), "limited by a tensor": 0.25 / np.sqrt(norm_x)}
    ratios.update(dict.fromkeys(("no weight", "no update", "limit of 0"), 1.0))
    for name, value in after.items():
        rate = 1.0 if name == "neither given" else 0.1
        np.testing.assert_allclose(value, w - rate * ratios.get(name, ratio) * x, rtol=1e-5, err_msg=name)


@pytest.mark.shows("popxl.ops.var_updates.accumulate_")
def test_updates_are_one_optimizer_op_that_modifies_its_first_input():
    ir = popxl.Ir()
    with ir.main_graph as main:
        w = popxl.variable(T, name="w")
        x, f = popxl.constant(X, name="x"), popxl.constant(0.5, name="f")
        index = popxl.constant([0, 1], popxl.int32)
        made = [
            (vu.accumulate_(w, x), "Accumulate", "accumulate__w", [0, 1]),
            (vu.accumulate_(w, x, f), "Accumulate", "accumulate__w", [0, 1, 2]),
            (vu.accumulate_square_(w, x, 0.5), "Accumulate", "accumulate_square__w", [0, 1]),
            (vu.accumulate_moving_average_(w, x, f), "Accumulate", "accumulate_moving_avg__w", [0, 1, 2]),
            (vu.accumulator_scale_(w, f), "AccumulatorScale", "accumulator_scale__w", [0, 2]),
            (vu.accumulator_zero_(w), "AccumulatorScale", "accumulator_scale__w", [0]),
            (vu.sparse_accumulate_(w, x, index, W=w), "PopartSparseAccumulate", "sparse_accumulate__w", [0, 1, 3, 4]),
            (vu.copy_var_update_(w, x), "CopyVarUpdate", "updated__w", [0, 1]),
            (vu.adam_var_update(w, x, f, f, 0.1, f), "AdamVarUpdate", "adam_var_update_out", [0, 1, 2, 3, 5]),
        ]
        count = len(main.tensors)
        vu.accumulate_mean_(w, x, 3)
        assert len(main.tensors) == count + 2  # the result and the constant `step`
        made.append((vu.adam_updater(x, x, w, f, 0.0, 0.9, f), "AdamUpdater", "Updater", [1, 2, 3, 6]))
    listed = [op for op in main._pb_graph.getOps() if op.opType() != "Accumulate" or "mean" not in str(op)]
    listed = [op for op in listed if not op.outId(0).startswith("accumulate_mean__")]
    assert len(listed) == len(made)
    for op, (t, kind, stem, inputs) in zip(listed, made):
        assert op.opType() == kind and t.id.split("__t")[0] == stem and op.outId(0) == t.id
        assert sorted(op.getInputIndexMap() if hasattr(op, "getInputIndexMap") else inputs) == inputs
        assert op.isOptimizerOp()
        changed = 3 if kind == "AdamUpdater" else 0
        assert [i for i in inputs if op.modifiesIndex(i)] == [changed]


@pytest.mark.shows("popxl.ops.var_updates.accumulate_")
def test_shapes_are_checked_when_the_session_is_built_and_graphs_at_once():
    programs = {
        r"\[3\] must have the shape": lambda w: vu.accumulate_(w, popxl.constant(array(3))),
        r"\[2\] must have the shape": lambda w: vu.copy_var_update_(w, popxl.constant(array(2))),
        "factor 0": lambda w: vu.accumulate_(w, popxl.constant(X), 0.0),
        "axis 2": lambda w: vu.sparse_accumulate_(w, w, popxl.constant([0, 1], popxl.int32), axis=2),
    }
    for message, build in programs.items():
        ir = popxl.Ir()
        with ir.main_graph:
            build(popxl.variable(T))
        with pytest.raises(popart.popart_exception, match=message):
            popxl.Session(ir, "ipu_model")
    ir = popxl.Ir()
    with ir.main_graph as main:
        w, x = popxl.variable(T), popxl.constant(X)
        for call in (
            lambda: vu.adam_updater(x, x, weight_decay=0.1),
            lambda: vu.adam_updater(x, x, weight_decay=w),
            lambda: vu.lamb_updater(x, x, time_step=w, beta1=0.9),
            lambda: vu.adamax_updater(x, x),
        ):
            with pytest.raises(ValueError, match="weight|beta|time_step"):
                call()
        with pytest.raises(TypeError, match="X"):
            vu.accumulate_(w, 1.0)
        graph = ir.create_empty_graph("other")
        with graph, pytest.raises(ValueError, match="not in the current graph"):
            vu.accumulator_zero_(w)
        assert len(main.tensors) == 2 and op_types(main) == []


@pytest.mark.shows("popxl.ops.var_updates.accumulate_")
def test_graphs_with_updates_are_not_differentiated():
    ir = popxl.Ir()
    with ir.main_graph:
        w = popxl.variable(T)
        graph = ir.create_graph(lambda t, x: vu.accumulate_(t, x), w, w)
        name = graph.name.split("(")[0].replace("<", ".").replace(">", ".")
        with pytest.raises(popart.popart_exception, match=f"graph with a write .*{name}.* has Accumulate"):
            popxl.transforms.autodiff(graph)


@pytest.mark.shows("popxl.ops.var_updates.utils.handle_optimizer_value")
def test_factors_of_custom_updates():
    from popxl.ops.var_updates.utils import handle_optimizer_value

    ir = popxl.Ir()
    with ir.main_graph:
        f, ins = popxl.constant(0.5, name="f"), {0: "w"}
        assert handle_optimizer_value(0.25, ins, 2).val() == 0.25 and handle_optimizer_value(0.25, ins, 2).isConst()
        assert handle_optimizer_value(None, ins, 2).isConst() and ins == {0: "w"}
        assert not handle_optimizer_value(f, ins, 2).isConst() and ins == {0: "w", 2: "f"}

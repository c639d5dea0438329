"""Every operator with an importer on the device against torch: values, element types, float16, in-place and out= forms,
gradients. The rows are those of tests/ops/aten_cases.py and aten_cases.json; an operator without a row fails by name.
"""

import json
import math
import pathlib
import sys
import warnings

import pytest
import torch

import poptorch

OPS = pathlib.Path(__file__).resolve().parents[2] / "ops"
sys.path.insert(0, str(OPS))
from aten_cases import DEVICE, KEPT, RANDOM, REFUSED, TABLES, T, UNDEFINED  # noqa: E402

sys.path.remove(str(OPS))

# Operators that need something that is bound, a function or a library, or that the CPU does not have: a test of
# it, in these files.
TESTED_IN = {
    "poptorch::host_call": ("test_host_calls.py", "test_a_function_runs_in_the_middle_of_the_program"),
    "poptorch::custom_op": ("test_custom_ops.py", "test_an_operation_of_a_loaded_library_computes"),
    "poptorch::overlap_mark": ("../placement/test_overlap.py", "test_inference_gives_the_same_bits_in_every_mode"),
    "poptorch::dynamic_slice": ("test_slices_and_points.py", "test_gradients_of_slices_and_updates"),
    "poptorch::dynamic_update": ("test_slices_and_points.py", "test_gradients_of_slices_and_updates"),
    "poptorch::nearest": ("test_slices_and_points.py", "test_nearest_finds_what_a_search_by_hand_finds"),
    "poptorch::fps": ("test_slices_and_points.py", "test_fps_picks_what_a_search_by_hand_picks"),
    "poptorch::ctc_beam_search": ("test_slices_and_points.py", "test_narrow_beams_keep_the_best_of_each_time"),
}


def operator_of(overload):
    domain, _, name = overload.rpartition("::")
    name, _, variant = name.partition(".")
    packet = getattr(getattr(torch.ops, domain or "aten"), name)
    return getattr(packet, variant or "default")


class Row:
    """One call: the operator, and its arguments by name, tensors made once."""

    def __init__(self, overload, arguments):
        self.overload, self.operator = overload, operator_of(overload)
        self.arguments = arguments
        self.has_gradient = True

    def tensors(self):
        for name, value in self.arguments.items():
            for member in value if isinstance(value, list) else [value]:
                if isinstance(member, Input):
                    yield name, member

    def call(self, values, operator=None, device="cpu", half=False, **more):
        """The operator on `values` (Input → tensor)."""

        def real(value):
            if isinstance(value, Input):
                if not value.constant:
                    return values[value]
                return value.tensor.half() if half and value.tensor.is_floating_point() else value.tensor
            if isinstance(value, list):
                return [real(member) for member in value]
            return torch.device(device) if isinstance(value, torch.device) else value

        operator = operator or self.operator
        given = {name: real(value) for name, value in self.arguments.items()}
        schema = {argument.name for argument in operator._schema.arguments}
        if "device" in schema and "device" not in given and device != "cpu" and not list(self.tensors()):
            given["device"] = torch.device(device)
        return operator(**given, **more)


class Input:
    def __init__(self, tensor, constant=False):
        self.tensor, self.constant = tensor, constant


def table_row(overload, positional, keywords):
    generator = torch.Generator().manual_seed(5)

    def real(value):
        if isinstance(value, T):
            return Input(value.tensor(generator), value.constant)
        return [real(v) for v in value] if isinstance(value, list) else value

    names = [argument.name for argument in operator_of(overload)._schema.arguments]
    return Row(overload, {name: real(v) for name, v in [*zip(names, positional), *keywords.items()]})


JSON_DTYPES = {"f32": torch.float32, "i32": torch.int64, "bool": torch.bool}


def json_row(case):
    """A case of aten_cases.json, whose integers are indices (int64)."""
    inputs = [
        Input(torch.tensor([float(v) for v in t["values"]]).to(JSON_DTYPES[t["dtype"]]).reshape(t["shape"]))
        for t in case["tensors"]
    ]
    kinds = {argument.name: str(argument.type) for argument in operator_of(case["op"])._schema.arguments}

    def real(name, value):
        if isinstance(value, dict):
            if "tensor" in value:
                return inputs[value["tensor"]]
            if "tensors" in value:
                return [None if t is None else inputs[t] for t in value["tensors"]]
            if "dtype" in value:
                return JSON_DTYPES[value["dtype"]] if value["dtype"] != "i32" else torch.int64
            return float(value["real"])
        return value

    arguments = {name: real(name, value) for name, value in case["arguments"].items()}
    row = Row(case["op"], {name: value for name, value in arguments.items() if name in kinds})
    row.has_gradient = case["gradients"] is not None
    return row


def all_rows():
    rows: dict[str, list[Row]] = {}
    for table in (TABLES, UNDEFINED, DEVICE):
        for overload, calls in table.items():
            rows.setdefault(overload, []).extend(table_row(overload, *call) for call in calls)
    for case in json.loads((OPS / "aten_cases.json").read_text()):
        rows.setdefault(case["op"], []).append(json_row(case))
    return rows


ROWS = all_rows()


def tensors_in(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for member in result for t in tensors_in(member)] if isinstance(result, (list, tuple)) else []


class Calls(torch.nn.Module):
    """`call(row, values)` for every row; inputs are the tensors of all rows in order."""

    def __init__(self, rows, call):
        super().__init__()
        self.rows, self.call = rows, call

    def forward(self, *inputs):
        inputs = iter(inputs)
        results = []
        for row in self.rows:
            values = {tensor: next(inputs) for _, tensor in row.tensors() if not tensor.constant}
            kept = KEPT.get(row.overload, ())
            results += [r for i, r in enumerate(tensors_in(self.call(row, values))) if i not in kept]
        return tuple(results)


def inputs_of(rows, half=False):
    tensors = [t.tensor for row in rows for _, t in row.tensors() if not t.constant]
    return [t.half() if half and t.is_floating_point() else t.clone() for t in tensors]


def works(call, row, half=False):
    """Whether torch can do this call."""
    tensors = [t for _, t in row.tensors() if not t.constant]
    values = {t: t.tensor.half() if half and t.tensor.is_floating_point() else t.tensor.clone() for t in tensors}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(row, values)
    except (RuntimeError, NotImplementedError, TypeError, IndexError):
        return False
    return True


def on_device(module, inputs):
    torch.manual_seed(0)
    if not inputs:  # a model takes something
        wrapped = poptorch.inferenceModel(lambda x: module())
        inputs = [torch.zeros(1)]
    else:
        wrapped = poptorch.inferenceModel(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = wrapped(*inputs)
    return [results] if isinstance(results, torch.Tensor) else list(results)


def device_dtype(dtype):
    return {torch.int64: torch.int32, torch.float64: torch.float32}.get(dtype, dtype)


def compare(overload, actual, expected, tolerance):
    assert len(actual) == len(expected), overload
    for i, (mine, wanted) in enumerate(zip(actual, expected)):
        what = f"{overload}, result {i} of all rows"
        assert mine.shape == wanted.shape, what
        assert device_dtype(mine.dtype) == device_dtype(wanted.dtype), what
        if overload in UNDEFINED:
            continue
        if not wanted.is_floating_point():
            assert torch.equal(mine.to(wanted.dtype), wanted), f"{what}: {mine} and not {wanted}"
            continue
        finite = wanted[wanted.isfinite()].abs().double()
        scale = max(1.0, finite.max().item()) if finite.numel() else 1.0
        torch.testing.assert_close(
            mine.double(), wanted.double(), rtol=tolerance, atol=tolerance * scale, equal_nan=True, msg=lambda m: f"{what}\n{m}"
        )


def run_rows(overload, rows, call, half=False):
    rows = [row for row in rows if works(lambda r, v: call(r, v, "cpu"), row, half)]
    if not rows:
        return False
    expected = Calls(rows, lambda row, values: call(row, values, "cpu"))(*inputs_of(rows, half))
    actual = on_device(Calls(rows, lambda row, values: call(row, values, "ipu")), inputs_of(rows, half))
    compare(overload, actual, expected, 4e-3 if half else 2e-5)
    return True


def test_every_importer_has_a_row_or_a_reason():
    imported = set(poptorch.poptorch_core.imported_operators())
    known = set(ROWS) | set(RANDOM) | set(REFUSED) | set(TESTED_IN)
    assert not imported - known, f"no row in tests/ops/aten_cases.py for {sorted(imported - known)}"
    assert not known - imported, f"rows of operators without an importer: {sorted(known - imported)}"


def test_importers_without_a_row_are_tested_in_the_file_that_is_named():
    for overload, (file, test) in TESTED_IN.items():
        assert overload not in ROWS
        assert f"def {test}(" in (pathlib.Path(__file__).parent / file).read_text(), overload


@pytest.mark.parametrize("overload", sorted(REFUSED))
def test_refusals_say_why(overload):
    for positional, keywords, words in REFUSED[overload]:
        row = table_row(overload, positional, keywords)
        with pytest.raises(poptorch.Error, match=words):
            on_device(Calls([row], lambda r, values: r.call(values, device="ipu")), inputs_of([row]))


@pytest.mark.parametrize("overload", sorted(ROWS))
def test_values_and_types_are_those_of_torch(overload):
    assert run_rows(overload, ROWS[overload], lambda row, values, device: row.call(values, device=device))


def has_floats(row):
    return any(t.tensor.is_floating_point() for _, t in row.tensors())


@pytest.mark.parametrize("overload", [name for name, rows in sorted(ROWS.items()) if any(map(has_floats, rows))])
def test_float16_has_the_values_of_torch(overload):
    def call(row, values, device):
        return row.call(values, device=device, half=True)

    if not run_rows(overload, ROWS[overload], call, half=True):
        pytest.skip("torch has no float16 form on the CPU")


def inplace_form(overload):
    name, dot, variant = overload.partition(".")
    packet = getattr(torch.ops.aten, f"{name}_", None) if "::" not in overload else None
    found = getattr(packet, variant or "default", None) if packet is not None else None
    if found is None:
        return None
    names, functional = ([a.name for a in form._schema.arguments] for form in (found, operator_of(overload)))
    return found if names == functional and "self" in names else None  # polygamma_ has another order


def keeps_shape(row):
    """torch gives the target of some in-place forms another shape."""
    values = {t: t.tensor for _, t in row.tensors()}
    try:
        return [r.shape for r in tensors_in(row.call(values))][:1] == [row.arguments["self"].tensor.shape]
    except RuntimeError:
        return False


def write_in_place(operator, row, values, device):
    own = dict(values)
    target = row.arguments["self"]
    own[target] = values[target].clone()
    row.call(own, operator=operator, device=device)
    return [own[target]]


@pytest.mark.parametrize("overload", [name for name in sorted(ROWS) if inplace_form(name) is not None])
def test_in_place_forms_write_what_torch_writes(overload):
    operator = inplace_form(overload)
    rows = [row for row in ROWS[overload] if isinstance(row.arguments.get("self"), Input) and keeps_shape(row)]
    if not run_rows(overload, rows, lambda row, values, device: write_in_place(operator, row, values, device)):
        pytest.skip("no row that torch can do in place")


def out_form(overload):
    """(the overload with out arguments, their names)."""
    if "::" in overload:
        return None
    functional = operator_of(overload)
    packet = getattr(torch.ops.aten, overload.partition(".")[0])
    for variant in packet.overloads():
        candidate = getattr(packet, variant)
        arguments = candidate._schema.arguments
        outs = [a.name for a in arguments if a.is_out]
        if outs and [a.name for a in arguments if not a.is_out] == [a.name for a in functional._schema.arguments]:
            return candidate, outs
    return None


def write_out(form, shape_of, row, values, device):
    operator, names = form
    results = tensors_in(row.call(values, device=device))
    if len(results) != len(names):
        raise RuntimeError("a list of results")
    outs = {
        name: torch.empty(shape_of(r), dtype=r.dtype, device=device) for name, r in zip(names, results)
    }
    row.call(values, operator=operator, **outs)
    return list(outs.values())


# torch's own out= form gives another value than the functional one: test_torch_itself_writes_another_value_to_out_where_this_is_listed.
WRONG_IN_TORCH = {"binary_cross_entropy"}


def test_torch_itself_writes_another_value_to_out_where_this_is_listed():
    for overload in WRONG_IN_TORCH:
        row = ROWS[overload][1]
        values = {t: t.tensor for _, t in row.tensors()}
        written = write_out(out_form(overload), lambda r: list(r.shape), row, values, "cpu")
        assert not torch.allclose(written[0], row.call(values))


@pytest.mark.parametrize("resized", [False, True])
@pytest.mark.parametrize("overload", [n for n in sorted(ROWS) if out_form(n) is not None and n not in WRONG_IN_TORCH])
def test_out_forms_write_what_torch_writes(overload, resized):
    form = out_form(overload)
    rows = [row for row in ROWS[overload] if list(row.tensors())]
    shape_of = (lambda r: [0]) if resized else (lambda r: list(r.shape))
    if not run_rows(overload, rows, lambda row, values, device: write_out(form, shape_of, row, values, device)):
        pytest.skip("no row that torch can write to out=")


# --- gradients


class Differentiated(torch.nn.Module):
    """The floating-point tensors of all rows as parameters; the loss weighs every element of the results."""

    def __init__(self, rows, dtype):
        super().__init__()
        self.rows = rows
        floats = [t.tensor.to(dtype) for row in rows for _, t in row.tensors() if self.is_parameter(t)]
        self.values = torch.nn.ParameterList([torch.nn.Parameter(t.clone()) for t in floats])

    @staticmethod
    def is_parameter(tensor):
        return not tensor.constant and tensor.tensor.is_floating_point()

    def forward(self, x):
        device = x.device.type
        parameters = iter(self.values)
        total = x.sum() * 0
        for row in self.rows:
            values = {}
            for _, t in row.tensors():
                if self.is_parameter(t):
                    values[t] = next(parameters) * 1
                elif not t.constant:
                    values[t] = t.tensor.to(device)
            for i, result in enumerate(tensors_in(row.call(values, device=device))):
                if result.is_floating_point() and i not in KEPT.get(row.overload, ()):
                    weights = torch.linspace(0.5, 1.5, max(1, result.numel()), dtype=result.dtype)
                    total = total + (result * weights[: result.numel()].reshape(result.shape).to(device)).sum()
        return poptorch.identity_loss(total, "none")


def differentiable(row):
    if not row.has_gradient or not any(Differentiated.is_parameter(t) for _, t in row.tensors()):
        return False
    try:
        model = Differentiated([row], torch.float64)
        model(torch.zeros(1, dtype=torch.float64)).backward()
    except (RuntimeError, NotImplementedError):
        return False
    grads = [p.grad for p in model.values if p.grad is not None]
    return any(g.abs().max() > 0 for g in grads) and all(g.isfinite().all() for g in grads)


NO_GRADIENT = {*UNDEFINED, "poptorch::print_tensor", "randn"}
DIFFERENTIABLE = [name for name, rows in sorted(ROWS.items()) if name not in NO_GRADIENT and any(map(has_floats, rows))]


@pytest.mark.parametrize("overload", DIFFERENTIABLE)
def test_gradients_are_those_of_torch(overload):
    rows = [row for row in ROWS[overload] if differentiable(row)]
    if not rows:
        pytest.skip("nothing to differentiate")
    wide, model = Differentiated(rows, torch.float64), Differentiated(rows, torch.float32)
    wide(torch.zeros(1, dtype=torch.float64)).backward()
    before = [p.detach().clone() for p in model.values]
    trainer = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer(torch.zeros(1))
    trainer.destroy()
    for i, (first, parameter, reference) in enumerate(zip(before, model.values, wide.values)):
        expected = torch.zeros_like(reference) if reference.grad is None else reference.grad
        known = first.isfinite()
        actual, expected = (first.double() - parameter.detach().double())[known], expected[known]
        scale = max([1.0, *expected.abs().reshape(-1).tolist(), *first[known].abs().tolist()])
        torch.testing.assert_close(
            actual, expected, rtol=1e-4, atol=1e-5 * scale, msg=lambda m: f"{overload}, gradient of tensor {i}\n{m}"
        )


# --- random operators


@pytest.mark.parametrize("overload", sorted(RANDOM))
def test_samples_have_the_type_of_torch_and_lie_in_their_bounds(overload):
    for positional, keywords, low, high in RANDOM[overload]:
        row = table_row(overload, positional, keywords)
        expected = tensors_in(row.call({t: t.tensor for _, t in row.tensors()}))[0]
        twice = Calls([row, row], lambda r, values: r.call(values, device="ipu"))
        first, second = on_device(twice, inputs_of([row, row]))
        assert first.shape == expected.shape and device_dtype(first.dtype) == device_dtype(expected.dtype)
        assert not torch.equal(first, second)
        for sample in (first.double(), second.double()):
            assert low <= sample.min() and sample.max() <= high and not math.isnan(sample.sum())

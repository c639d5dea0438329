"""A trial: one of torch's calls of an operator, captured, compiled and run on the device, against torch on the CPU.

Forms of a call: its value, writing in place, to `out=`, through a view that it returns, and its gradient. What the CPU cannot do is
no trial. The outcome is PASSED, or (kind, reason): REFUSED by a `poptorch.Error` that says so, WRONG numbers, or BROKEN (anything
else, internal errors among it).
"""

import re
import warnings
from unittest import mock

import torch
from torch import nn

import poptorch
from torch_samples import DTYPES, calls, seed, tensors_in

PASSED = None
REFUSED, WRONG, BROKEN = "refused", "wrong", "broken"
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 4e-3}

# What memory holds that nobody wrote.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_"}


# Results as PopTorch defines them, where these are not torch's.
BY_CONTRACT = {
    # As many counts as minlength says: the largest number is not known when the model is compiled.
    "bincount": lambda call, results: [r[: call.arguments[1].get("minlength", 0)] for r in results],
}


def argument(call, place, name, default):
    positional, keywords = call.arguments
    return positional[place] if len(positional) > place else keywords.get(name, default)


def elements_at(call, indices, dim):
    x = call.arguments[0][0].detach()
    if not x.dim() or not isinstance(dim, int):
        return x
    return x.take_along_dim((indices if indices.dim() == x.dim() else indices.unsqueeze(dim)).long(), dim)


# Where the order of equal elements is not said: the elements at the indices are compared, not the indices.
ORDER_NOT_SAID = {
    "argsort": lambda call, r: [elements_at(call, r[0], argument(call, 1, "dim", -1))],
    "sort": lambda call, r: [r[0], elements_at(call, r[1], argument(call, 1, "dim", -1))],
    "kthvalue": lambda call, r: [r[0], elements_at(call, r[1], argument(call, 2, "dim", -1))],
    "topk": lambda call, r: [r[0], elements_at(call, r[1], argument(call, 2, "dim", -1))],
}

def attention_in_steps(call, tensors):
    """softmax(q k) v with scores and weights of the type of q: what lies in the memory of the device between two products."""
    query, key, value, *mask = tensors
    keywords = call.arguments[1]
    scale = keywords.get("scale") or query.shape[-1] ** -0.5
    scores = (query * torch.tensor(scale, dtype=query.dtype)) @ key.transpose(-1, -2)
    if keywords.get("is_causal"):
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:]).tril().bool(), -torch.inf)
    if mask:
        scores = scores.masked_fill(~mask[0], -torch.inf) if mask[0].dtype == torch.bool else scores + mask[0]
    return [scores.softmax(-1) @ value]


# Between two products of halves torch keeps the value in float32, the device in float16.
HALF_STEPS = {"nn.functional.scaled_dot_product_attention": attention_in_steps}

# Results that torch keeps for its own backward pass, in types and values of its own.
KEPT = {"native_layer_norm": (1, 2)}


# --- forms: (call, tensors, device, operator) -> the tensors to compare


def value(call, tensors, device, operator):
    return tensors_in(call.run(tensors, device))


def in_place(call, tensors, device, operator):
    if operator.get_inplace() is None or call.arguments[0][0] is None or not isinstance(call.arguments[0][0], torch.Tensor):
        raise NotImplementedError("no in-place form")
    target = tensors[0].clone()
    call.run([target, *tensors[1:]], device, operator.get_inplace())
    return [target]


def out(call, tensors, device, operator):
    if not operator.supports_out:
        raise NotImplementedError("no out= form")
    results = call.run(tensors, device)
    targets = [torch.empty_like(r) for r in tensors_in(results)]
    call.run(tensors, device, out=targets[0] if isinstance(results, torch.Tensor) else tuple(targets))
    return targets


def write_through_view(call, tensors, device, operator):
    if not tensors:
        raise NotImplementedError("nothing to view")
    base = tensors[0].clone()
    views = tensors_in(call.run([base, *tensors[1:]], device))
    if device == "cpu" and not any(v._base is base for v in views):
        raise NotImplementedError("no view")
    for i, view in enumerate(views):
        number = i + 2
        view.copy_(torch.full(view.shape, number, dtype=view.dtype, device=device))
    return [base, *views]


def gradient(call, tensors, device, operator):
    leaves = [t.detach().clone().requires_grad_(wanted) for t, wanted in zip(tensors, call.wants_gradient)]
    results = call.run(leaves, device)
    results = tensors_in(call.finish(results) if call.finish is not None else results)
    if device == "cpu":
        call.has_gradient = [r.requires_grad for r in results]
        if not any(call.has_gradient):
            raise NotImplementedError("no gradient")
    results = [r for r, has_gradient in zip(results, call.has_gradient) if has_gradient]
    weights = [torch.linspace(0.5, 1.5, max(1, r.numel()), dtype=r.dtype)[: r.numel()].reshape(r.shape).to(device) for r in results]
    leaves = [t for t in leaves if t.requires_grad]
    found = torch.autograd.grad(results, leaves, weights, allow_unused=True)
    return [torch.zeros_like(t) if g is None else g for t, g in zip(leaves, found)]


FORMS = {"value": value, "in place": in_place, "out=": out, "view": write_through_view, "gradient": gradient}


def forms_of(operator):
    """(form, element type) in the order in which they are tried: the further forms with the first type the operator takes."""
    taken = [d for d in DTYPES if d in operator.supported_dtypes("cpu")]
    for dtype in taken:
        yield "value", dtype
    for form in ("in place", "out=", "view"):
        for dtype in taken[:1]:
            yield form, dtype
    if operator.supports_autograd and torch.float32 in operator.supported_backward_dtypes("cpu"):
        yield "gradient", torch.float32


# --- one trial


class Model(nn.Module):
    def __init__(self, form, call, operator):
        super().__init__()
        self.form, self.call, self.operator = form, call, operator

    def forward(self, *inputs):
        # What has no elements cannot be an input: the model makes it.
        tensors = [
            t if is_constant else x.expand(t.shape) if t.numel() == 0 else x
            for x, t, is_constant in zip(inputs, copies(self.call.tensors()), self.call.is_constant())
        ]
        return tuple(self.form(self.call, tensors, "ipu", self.operator))


def input_for(tensor):
    return tensor if tensor.numel() else torch.ones([1] * tensor.dim(), dtype=tensor.dtype)


def copies(tensors):
    return [t.detach().clone() for t in tensors]


def on_cpu(form, call, operator, tensors, start=0):
    torch.default_generator.manual_seed(start)
    return [r.detach() for r in form(call, tensors, "cpu", operator)]


def on_device(form, call, operator):
    inputs = [input_for(t) for t in copies(call.tensors())]
    options = poptorch.Options()
    options.showCompilationProgressBar(False)
    model = poptorch.inferenceModel(Model(form, call, operator), options)
    try:
        results = model(*(inputs or [torch.zeros(1)]))  # a model takes something
    finally:
        model.destroy()
    return [results] if isinstance(results, torch.Tensor) else list(results)


def widened(tensors):
    wide = {torch.float32: torch.float64, torch.float16: torch.float32}
    return [t.to(wide.get(t.dtype, t.dtype)) for t in copies(tensors)]


def device_dtype(dtype):
    return {torch.int64: torch.int32, torch.float64: torch.float32, torch.bfloat16: torch.float32}.get(dtype, dtype)


def is_close(actual, expected, tolerance):
    if not expected.is_floating_point():  # integers of 64 bits wrap, constants among them are clamped
        narrow = torch.iinfo(torch.int32)
        clamped = expected.clamp(narrow.min, narrow.max) if expected.dtype == torch.int64 else expected
        return bool(((actual == expected.to(actual.dtype)) | (actual == clamped)).all())
    finite = expected[expected.isfinite()].abs().double()
    scale = max(1.0, finite.max().item()) if finite.numel() else 1.0
    return torch.allclose(actual.double(), expected.double(), rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def difference(actual, expected, exact, is_random):
    """What is wrong with the results, or PASSED. `exact`: what torch gives with wider numbers, or None."""
    if len(actual) != len(expected):
        return f"{len(actual)} results instead of {len(expected)}"
    for i, (mine, wanted) in enumerate(zip(actual, expected)):
        if mine.shape != wanted.shape:
            return f"result {i} has shape {list(mine.shape)} instead of {list(wanted.shape)}"
        if device_dtype(mine.dtype) != device_dtype(wanted.dtype):
            return f"result {i} has type {mine.dtype} instead of {wanted.dtype}"
        if is_random or is_close(mine, wanted, TOLERANCE.get(wanted.dtype, 2e-5)):
            continue
        # torch rounds, too: what is as near to the exact result counts.
        wide = exact[i] if exact is not None and i < len(exact) else None
        if wide is None or wide.shape != wanted.shape or not is_close(mine, wide, TOLERANCE.get(wanted.dtype, 2e-5)):
            return f"result {i} has other values"
    return PASSED


def reason_of(error):
    """The first line of an error; of unsupported operations their names and why."""
    text = error.message if isinstance(error, poptorch.Error) else f"{type(error).__name__}: {error}"
    operations = re.findall(r"^  (\S+)  x\d+(?:: (.*))?$", text, re.MULTILINE)
    if text.startswith("unsupported operations") and operations:
        return "; ".join(f"no {name}" + (f": {why}" if why else "") for name, why in operations)
    line = text.split("\n")[0].rstrip(".")
    return re.sub(r"\d+", "N", line)[:140]


def trial(form_name, call, operator, is_undefined=False):
    """The outcome, or NotImplemented where there is nothing to compare with."""
    form = FORMS[form_name]
    # Some samples set the seed themselves, so that what is random would not look so.
    with warnings.catch_warnings(), mock.patch("torch.manual_seed", lambda seed: None):
        warnings.simplefilter("ignore")
        try:
            expected = on_cpu(form, call, operator, copies(call.tensors()))
            if not expected:
                return NotImplemented
            again = on_cpu(form, call, operator, copies(call.tensors()), start=1)
        except Exception:  # noqa: BLE001 - whatever it is, torch cannot do it
            return NotImplemented
        is_random = is_undefined or any(
            a.shape != b.shape or not torch.allclose(a.double(), b.double(), equal_nan=True)
            for a, b in zip(expected, again)
            if not a.is_complex()
        )
        try:
            if operator.name in HALF_STEPS and expected[0].dtype == torch.float16:
                exact = HALF_STEPS[operator.name](call, copies(call.tensors()))
            else:
                exact = on_cpu(form, call, operator, widened(call.tensors()))
        except Exception:  # noqa: BLE001 - a comparison more, where torch has it
            exact = None
        try:
            actual = on_device(form, call, operator)
        except poptorch.Error as error:
            return (BROKEN if error.message.startswith("internal") else REFUSED), reason_of(error)
        except Exception as error:  # noqa: BLE001 - an outcome like others
            return BROKEN, reason_of(error)
    kept = KEPT.get(operator.name, ())
    actual, expected = ([r for i, r in enumerate(rs) if i not in kept] for rs in (actual, expected))
    if operator.name in BY_CONTRACT:
        expected, exact = BY_CONTRACT[operator.name](call, expected), None
    if operator.name in ORDER_NOT_SAID and form_name != "gradient":
        actual, expected, exact = *(ORDER_NOT_SAID[operator.name](call, r) for r in (actual, expected)), None
    found = difference(actual, expected, exact, is_random)
    return PASSED if found is PASSED else (WRONG, found)


def calls_for(operator, form, dtype):
    found = calls(operator, dtype, requires_grad=form == "gradient")
    for call in found:
        call.wants_gradient = [t.requires_grad for t in call.tensors()]
    return found


def trials(operator, only=None):
    """(form, element type, number of the sample, outcome) of every trial of the operator."""
    for form, dtype in forms_of(operator):
        for number, call in enumerate(calls_for(operator, form, dtype)):
            if only is not None and number not in only:
                continue
            seed()
            outcome = trial(form, call, operator, operator.name in UNDEFINED)
            if outcome is not NotImplemented:
                yield form, str(dtype).removeprefix("torch."), number, outcome

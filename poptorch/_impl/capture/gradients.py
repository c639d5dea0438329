"""Gradients inside `forward`: `torch.autograd.grad`, `backward()`, and functions with a backward pass of their own.

Autograd itself does not run while a model is captured. What it is asked for is captured as operations instead: the
core differentiates the graph, and `backward` of a `torch.autograd.Function` runs once on stand-ins for the gradients.
"""

import torch
from torch.autograd.function import _SingleLevelFunction
from torch.nn.modules._functions import BackwardHookFunction  # an identity that torch looks for by its node

from poptorch._impl.capture import state as capture_state
from poptorch._impl.capture.replacements import in_class


def _is_symbolic(capture, value):
    return isinstance(value, torch.Tensor) and capture.core.holds(value)


def engine(capture, original, retained):
    """What stands for torch's `_engine_run_backward`: the one door from torch.autograd.grad and backward to the engine."""

    def run_backward(
        outputs, gradients, keep_graph, create_graph, inputs, allow_unused=False, accumulate_grad=False, **names
    ):
        allow_unused = names.get("allow_unreachable", allow_unused)
        if capture_state.active() is not capture or not any(_is_symbolic(capture, tensor) for tensor in outputs):
            return original(
                outputs, gradients, keep_graph, create_graph, inputs, allow_unused, accumulate_grad=accumulate_grad
            )
        for number, tensor in enumerate(outputs):
            if not tensor.requires_grad:
                raise RuntimeError(f"element {number} of tensors does not require grad and does not have a grad_fn")
        targets = list(inputs) if inputs else [*capture.core.leaves(), *retained]
        for tensor in targets:
            if not tensor.requires_grad:
                raise RuntimeError("One of the differentiated Tensors does not require grad")
        given = [pair for pair in zip(outputs, gradients) if pair[1] is not None]
        found = capture.core.gradients(
            [tensor for tensor, _ in given], [gradient for _, gradient in given], targets, bool(create_graph)
        )
        if accumulate_grad:
            with torch.set_grad_enabled(bool(create_graph)):
                for tensor, gradient in zip(targets, found):
                    if gradient is not None:
                        tensor.grad = gradient if tensor.grad is None else tensor.grad + gradient
            return ()
        if not allow_unused and any(gradient is None for gradient in found):
            raise RuntimeError(
                "One of the differentiated Tensors appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
        return tuple(found)

    return run_backward


class _Context:
    """The `ctx` of a function during capture."""

    def __init__(self, needs_input_grad):
        self.needs_input_grad = needs_input_grad
        self.saved_tensors = ()
        self.dirty = self.not_differentiable = ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors):
        pass

    def mark_dirty(self, *tensors):
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors):
        self.not_differentiable = tensors

    def set_materialize_grads(self, value):
        self.materialize_grads = value

    @property
    def saved_variables(self):
        return self.saved_tensors


def _is_in(tensor, tensors):
    return any(tensor is other for other in tensors)


def _gradients_of_arguments(function, context, args, upstream):
    """What `backward` gives for each argument, as torch takes it."""
    with torch.enable_grad():
        given = function.backward(context, *upstream)
    given = list(given) if isinstance(given, tuple) else [given]
    if len(given) > len(args) and all(gradient is None for gradient in given[len(args) :]):
        given = given[: len(args)]
    if len(given) != len(args):
        raise RuntimeError(
            f"function {function.__name__}Backward returned an incorrect number of gradients "
            f"(expected {len(args)}, got {len(given)})"
        )
    return given


def _apply(capture, function, args):
    needs = tuple(isinstance(value, torch.Tensor) and value.requires_grad for value in args)
    context = _Context(needs)
    differentiable = torch.is_grad_enabled() and any(needs)
    with torch.no_grad():
        if function.setup_context is not _SingleLevelFunction.setup_context:
            result = function.forward(*args)
            function.setup_context(context, args, result)
        else:
            result = function.forward(context, *args)
    if not differentiable:
        return result
    results = list(result) if isinstance(result, tuple) else [result]
    places = [
        place
        for place, tensor in enumerate(results)
        if _is_symbolic(capture, tensor)
        and tensor.is_floating_point()
        and not _is_in(tensor, context.not_differentiable)
    ]
    if not places:
        return result
    chosen = [results[place] for place in places]
    stand_ins = capture.core.begin_custom_gradient(chosen)
    upstream = [
        torch.zeros_like(tensor, device=tensor.device)
        if isinstance(tensor, torch.Tensor) and context.materialize_grads
        else None
        for tensor in results
    ]
    for place, stand_in in zip(places, stand_ins):
        upstream[place] = stand_in
    given = _gradients_of_arguments(function, context, args, upstream)
    pairs = [(value, gradient) for value, gradient, need in zip(args, given, needs) if need and gradient is not None]
    made = capture.core.end_custom_gradient(chosen, [value for value, _ in pairs], [gradient for _, gradient in pairs])
    for place, tensor in zip(places, made):
        if _is_in(results[place], context.dirty):  # changed in place: the argument goes on as the result
            capture.core.write(results[place], tensor)
        results[place] = tensor
    return tuple(results) if isinstance(result, tuple) else results[0]


def install(capture, changes):
    """Replaces the ways into autograd for as long as `changes` lasts."""
    plain = torch._C._FunctionBase.__dict__["apply"]

    def apply(cls, *args, **kwargs):
        outside = capture_state.active() is not capture
        if outside or cls is BackwardHookFunction or not any(_is_symbolic(capture, value) for value in args):
            return plain.__get__(None, cls)(*args, **kwargs)
        return _apply(capture, cls, args)

    retained = []  # values whose gradient is kept like that of a leaf
    plain_retain = torch.Tensor.retain_grad

    def retain_grad(self):
        plain_retain(self)
        if capture_state.active() is capture and _is_symbolic(capture, self) and not self.is_leaf:
            retained.append(self)

    in_class(changes, torch.Tensor, "retain_grad", retain_grad)
    run_backward = engine(capture, torch.autograd._engine_run_backward, retained)
    changes.replace(torch.autograd, "_engine_run_backward", run_backward)
    # Function.apply asks its base class: `apply` bound before the capture comes here too.
    changes.replace(_SingleLevelFunction, "apply", classmethod(apply))

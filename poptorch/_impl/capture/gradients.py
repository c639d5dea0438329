"""Gradients inside `forward`: `torch.autograd.grad`, `backward()`, and functions with a backward pass of their own.

Autograd itself does not run while a model is captured. What it is asked for is captured as operations instead: the
core differentiates the graph, and asks for the `backward` of a `torch.autograd.Function` where it comes to one.
"""

import torch
from torch.autograd.function import _SingleLevelFunction
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.nn.modules._functions import BackwardHookFunction  # an identity that torch looks for by its node

from poptorch._impl import errors
from poptorch._impl.capture import custom_functions, functional, state as capture_state
from poptorch._impl.capture.replacements import in_class


def _is_symbolic(capture, value):
    return isinstance(value, torch.Tensor) and capture.core.holds(value)


def _takes_part(capture, value):
    """Whether gradients of `value` are those of the graph: of what is known at capture, too, if it asks for its own."""
    return _is_symbolic(capture, value) or (
        isinstance(value, torch.Tensor) and value.requires_grad and value.device.type == "ipu"
    )


def gradients_of(capture, outputs, upstream, targets, create_graph, keep_graph):
    """The gradients of `targets` (None: nothing depends on it) from those of `outputs` (None: none came)."""
    given = [pair for pair in zip(outputs, upstream) if pair[1] is not None]

    def backward(number, of_results):
        return capture.custom_calls[number].backward(of_results, create_graph)

    return capture.core.gradients(
        [tensor for tensor, _ in given],
        [gradient for _, gradient in given],
        targets,
        create_graph,
        keep_graph,
        backward,
    )


def _accumulate(tensor, gradient, create_graph):
    if tensor.grad is None:
        tensor.grad = gradient
    elif create_graph:
        tensor.grad = tensor.grad + gradient
    else:
        tensor.grad.add_(gradient)  # in place as in torch: others may look at it


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
        found = gradients_of(capture, outputs, gradients, targets, bool(create_graph), bool(keep_graph))
        if accumulate_grad:
            with torch.set_grad_enabled(bool(create_graph)):
                for tensor, gradient in zip(targets, found):
                    if gradient is not None:
                        _accumulate(tensor, gradient, create_graph)
            return ()
        if not allow_unused and any(gradient is None for gradient in found):
            raise RuntimeError(
                "One of the differentiated Tensors appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
        return tuple(found)

    return run_backward


def _refuse_state_of(capture):
    """A step of an optimizer in forward is captured like everything else; what it keeps for its next step is lost."""

    def after_step(optimizer, args, kwargs):
        if capture_state.active() is not capture:
            return
        kept = sorted(
            {name for state in optimizer.state.values() for name, value in state.items() if value is not None}
        )
        if kept:
            raise errors.create_error(
                f"torch.optim.{type(optimizer).__name__}.step() in forward: what the optimizer keeps between steps "
                f"({', '.join(kept)}) would start anew in every call. Use torch.optim.SGD without momentum there, or give the "
                "parameters to the optimizer of poptorch.trainingModel and leave their gradients in .grad."
            )

    return after_step


def install(capture, changes):
    """Replaces the ways into autograd for as long as `changes` lasts."""
    plain = torch._C._FunctionBase.__dict__["apply"]

    def apply(cls, *args, **kwargs):
        outside = capture_state.active() is not capture
        if outside or cls is BackwardHookFunction or not any(_takes_part(capture, value) for value in args):
            return plain.__get__(None, cls)(*args, **kwargs)
        return custom_functions.apply(capture, cls, args)

    functional.install(changes)
    changes.at_end(register_optimizer_step_post_hook(_refuse_state_of(capture)).remove)
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

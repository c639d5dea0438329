"""Functions with a backward pass of their own (`torch.autograd.Function`) while a model is captured.

`forward` is captured as it is called. `backward` runs when a gradient is needed and not before: at once where forward
asks for gradients itself, and at the end of forward for those that the final loss needs.
"""

import contextlib
import typing

import torch
from torch.autograd.function import Function, _SingleLevelFunction


class _Context:
    """The `ctx` of a function during capture."""

    def __init__(self, core, needs_input_grad):
        self._core = core
        self._saved: tuple[typing.Any, ...] = ()
        self._saved_for_forward: tuple[typing.Any, ...] = ()
        self._versions: list[int] = []
        self._is_forward = False
        self.needs_input_grad = needs_input_grad
        self.dirty = self.not_differentiable = ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors):
        self._saved = tensors

    def save_for_forward(self, *tensors):
        self._saved_for_forward = tensors

    @property
    def saved_tensors(self):
        if self._is_forward and self._saved_for_forward:
            return self._saved_for_forward
        for number, (version, now) in enumerate(zip(self._versions, self._versions_now())):
            if version != now:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"number {number} of save_for_backward, of shape {list(self._saved[number].shape)}, is at version "
                    f"{now}; expected version {version} instead."
                )
        return self._saved

    @contextlib.contextmanager
    def in_jvp(self):
        """What `jvp` of the function sees."""
        self._is_forward = True
        try:
            yield self
        finally:
            self._is_forward = False

    def settle(self):
        """The call is over: from here on what it saved must stay."""
        self._versions = self._versions_now()

    def _versions_now(self):
        return [self._core.version(value) if isinstance(value, torch.Tensor) else 0 for value in self._saved]

    def mark_dirty(self, *tensors):
        self.dirty = tensors

    def mark_non_differentiable(self, *tensors):
        self.not_differentiable = tensors

    def mark_shared_storage(self, *pairs):
        pass  # as in torch, where it has done nothing for long

    def set_materialize_grads(self, value):
        self.materialize_grads = value

    @property
    def saved_variables(self):
        return self.saved_tensors


class _Call:
    """One call: what its backward pass gets, and for which arguments it gives gradients."""

    def __init__(self, function, context, arguments, results, places):
        self.function = function
        self.context = context
        self._arguments = arguments
        self._results = results
        self._places = places  # of the results that have gradients
        self.needing = [number for number, needs in enumerate(context.needs_input_grad) if needs]
        self.has_jvp = function.jvp is not Function.jvp
        self.is_forward = False  # called inside of torch.func.jvp
        self.has_pass = False  # captured for training

    def backward(self, upstream, create_graph):
        """The gradients of the arguments that need one, from those of the results that have one (None: none came)."""
        given = [
            torch.zeros_like(result, device=result.device)
            if isinstance(result, torch.Tensor) and self.context.materialize_grads and number not in self._places
            else None
            for number, result in enumerate(self._results)
        ]
        for place, gradient in zip(self._places, upstream):
            if gradient is None and self.context.materialize_grads:
                gradient = torch.zeros_like(self._results[place], device=self._results[place].device)
            given[place] = gradient
        with torch.set_grad_enabled(create_graph):
            found = self._run(given)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        count = len(self._arguments)
        if len(found) > count and all(gradient is None for gradient in found[count:]):
            found = found[:count]
        if len(found) != count:
            raise RuntimeError(
                f"function {self.function.__name__}Backward returned an incorrect number of gradients "
                f"(expected {count}, got {len(found)})"
            )
        return [found[number] for number in self.needing]

    def _run(self, given):
        if self.is_forward and self.has_jvp:
            return self._transposed_jvp(given)
        backward, vjp = self.function.backward, self.function.vjp
        if backward is not Function.backward and vjp is not Function.vjp:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                "implement one of them."
            )
        run = backward if vjp is Function.vjp else vjp
        if getattr(self.function, "boxed_grads_call", False):
            return run(self.context, given)
        return run(self.context, *given)

    def _transposed_jvp(self, given):
        """The gradients that make `jvp` the derivative in the forward direction: it is linear in the tangents."""
        tangents = [
            torch.ops.poptorch.nop(torch.zeros_like(value, device="ipu")) if isinstance(value, torch.Tensor) else None
            for value in self._arguments
        ]
        needing = [
            tangent.requires_grad_() for n, tangent in enumerate(tangents) if n in self.needing and tangent is not None
        ]
        with torch.enable_grad():
            with self.context.in_jvp() as context:
                results = self.function.jvp(context, *tangents)
            results = results if isinstance(results, tuple) else (results,)
            pairs = [pair for pair in zip(results, given) if pair[1] is not None and isinstance(pair[0], torch.Tensor)]
            pairs = [pair for pair in pairs if pair[0].requires_grad]
            found = torch.autograd.grad(
                [result for result, _ in pairs],
                needing,
                [gradient for _, gradient in pairs],
                create_graph=True,
                allow_unused=True,
            )
        of = dict(zip(self.needing, found))
        return tuple(of.get(number) for number in range(len(self._arguments)))


def _is_in(tensor, tensors):
    return any(tensor is other for other in tensors)


def apply(capture, function, args):
    """`function.apply(*args)`, with tensors of the graph among `args`."""
    needs = tuple(isinstance(value, torch.Tensor) and value.requires_grad for value in args)
    context = _Context(capture.core, needs)
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
        if isinstance(tensor, torch.Tensor)
        and (tensor.device.type == "ipu" or capture.core.holds(tensor))
        and tensor.is_floating_point()
        and not _is_in(tensor, context.not_differentiable)
    ]
    if not places:
        return result
    call = _Call(function, context, args, list(results), places)
    call.is_forward = capture.forward_derivatives > 0
    made = capture.core.add_custom_call(
        function.__name__, [results[place] for place in places], [args[number] for number in call.needing]
    )
    capture.custom_calls.append(call)
    for place, tensor in zip(places, made):
        if _is_in(results[place], context.dirty):  # changed in place: the argument goes on as the result
            capture.core.write(results[place], tensor)
        results[place] = tensor
    context.settle()
    return tuple(results) if isinstance(result, tuple) else results[0]


def capture_passes(capture, numbers):
    """Captures the backward passes of these calls for training. What they add to `.grad` of parameters is kept, too."""
    for number in numbers:
        call = capture.custom_calls[number]
        call.has_pass = True
        upstream = capture.core.begin_pass(number)
        kept = [(leaf, leaf.grad) for leaf in capture.leaves()]
        for leaf, _ in kept:
            leaf.grad = None
        try:
            found = call.backward(upstream, create_graph=False)
            given = [parameter for parameter in capture.parameters() if parameter.grad is not None]
            capture.core.end_pass(found, given, [parameter.grad for parameter in given])
        except BaseException:
            capture.core.abandon_pass()
            raise
        finally:
            for leaf, gradient in kept:
                leaf.grad = gradient

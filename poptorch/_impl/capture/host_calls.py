"""`poptorch.CPU`: functions of the host in the middle of a program."""

from __future__ import annotations

import collections.abc
import threading
import traceback
import typing

import torch

from poptorch import poptorch_core
from poptorch._impl import errors
from poptorch._impl.capture import state as capture_state

_here = threading.local()
_TENSOR = object()  # stands for the next tensor among arguments
_Tensors = list[torch.Tensor]


def running() -> bool:
    """Does the program that this thread runs call the host just now? Then its device cannot be asked for anything."""
    return getattr(_here, "running", False)


class CPU:
    """Runs a module or function on the host in the middle of the program.

    While `forward` is captured the callable runs once, on zeros, to learn the shapes and dtypes of its results. When the
    program runs, its arguments are copied to the host, it is called with ordinary CPU tensors of the dtypes that
    `forward` passed, and its results are copied back. It runs once for each replica and micro-batch, in the thread
    that calls the model, with gradients switched off. In training its results have the gradients that torch gives them:
    the backward pass calls it once more, with gradients on; so it has to be a function of its arguments. Parameters of a
    wrapped module stay on the host, as they are.

    Args:
        layer_to_call: a module or function of tensors (any shapes; other arguments are handed on as they were at
            capture). It returns a tensor, or a list or tuple of tensors.
        ID: a name (str) of its own in the model; files of `save` name the callable by it.

    Raises:
        poptorch.Error: `layer_to_call` cannot be called, or `ID` is not a str or is that of another callable of the model;
            when the program runs, what the callable raises, or a result of another shape or dtype than at capture.

    Example:
        >>> class Model(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.sort = poptorch.CPU(lambda x: torch.sort(x)[0], "sort")
        ...     def forward(self, x):
        ...         return self.sort(x * 2) + 1
    """

    def __init__(self, layer_to_call: collections.abc.Callable[..., typing.Any], ID: str) -> None:
        if not callable(layer_to_call):
            raise errors.create_error(f"poptorch.CPU needs a module or function, got {type(layer_to_call).__name__}")
        if not isinstance(ID, str):
            raise errors.create_error(f"poptorch.CPU needs a str as ID, got {type(ID).__name__}")
        if isinstance(layer_to_call, torch.nn.Module):
            for parameter in layer_to_call.parameters():
                parameter.requires_grad_(False)
        self._layer_to_call = layer_to_call
        self._ID = ID

    def __call__(self, *inputs: typing.Any, **kwargs: typing.Any) -> typing.Any:
        """The callable's result for `inputs`: a tensor if it returned one, else a list. Keywords are not handed on."""
        capture = capture_state.active()
        if capture is None:
            return self._layer_to_call(*inputs)
        return capture.host_calls.record(self._layer_to_call, self._ID, inputs)


class _Call:
    """One call of a callable in `forward`, as the program makes it."""

    def __init__(self, function, identity, arguments):
        self._function = function
        self._identity = identity
        self._template = [_TENSOR if isinstance(a, torch.Tensor) else a for a in arguments]
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        self._dtypes = [t.dtype for t in tensors]
        self._shapes = [t.shape for t in tensors]
        self._need_gradients = [t.requires_grad for t in tensors]
        self.is_single = False
        self.has_backward = False
        self.results: _Tensors = []

    def _apply(self, tensors):
        tensors = iter(tensors)
        return self._function(*(next(tensors) if a is _TENSOR else a for a in self._template))

    def learn(self):
        """Runs the callable on zeros; fills in what is known of its results. What is wrong with them, or nothing."""
        wanted = [torch.is_grad_enabled() and need for need in self._need_gradients]
        zeros = [torch.zeros(s, dtype=d) for s, d in zip(self._shapes, self._dtypes)]
        # Not leaves, so that the callable may write them.
        given = self._apply([z.requires_grad_().clone() if want else z for z, want in zip(zeros, wanted)])
        self.is_single = isinstance(given, torch.Tensor)
        results = [given] if self.is_single else given
        if (
            not isinstance(results, (list, tuple))
            or not all(isinstance(r, torch.Tensor) for r in results)
            or not results
        ):
            return (
                f"poptorch.CPU '{self._identity}' must return a tensor or a list of tensors, got {type(given).__name__}"
            )
        for i, result in enumerate(results):
            if objection := poptorch_core.objection_to(result):
                return f"poptorch.CPU '{self._identity}': result {i} {objection}"
        self.has_backward = any(r.requires_grad for r in results) and any(wanted)
        self.results = [torch.empty(r.shape, dtype=r.dtype) for r in results]
        return ""

    def _at_capture(self, tensors):
        return [t.to(dtype) for t, dtype in zip(tensors, self._dtypes)]

    def _checked(self, given):
        results = [given] if isinstance(given, torch.Tensor) else list(given)
        if len(results) != len(self.results):
            raise ValueError(f"it gives {len(results)} tensors and gave {len(self.results)} at capture")
        for i, (result, example) in enumerate(zip(results, self.results)):
            if result.shape != example.shape or result.dtype != example.dtype:
                raise ValueError(
                    f"result {i} is {list(result.shape)} of {result.dtype} and was {list(example.shape)} of "
                    f"{example.dtype} at capture"
                )
        return results

    def forward(self, replica, tensors):
        with torch.no_grad():
            return [_for_device(r) for r in self._checked(self._apply(self._at_capture(tensors)))]

    def backward(self, replica, tensors):
        """Gradients of the floating-point arguments, from the arguments and the gradients of such results."""
        count = len(self._dtypes)
        upstream = iter(tensors[count:])
        with torch.enable_grad():
            inputs = [
                x.detach().requires_grad_() if x.is_floating_point() and need else x
                for x, need in zip(self._at_capture(tensors[:count]), self._need_gradients)
            ]
            results = self._checked(self._apply([x.clone() if x.requires_grad else x for x in inputs]))
            pairs = [(r, next(upstream)) for r in results if r.is_floating_point()]
            pairs = [(r, u.to(r.dtype)) for r, u in pairs if r.requires_grad]
            wanted = [x for x in inputs if x.requires_grad]
            found = iter(torch.autograd.grad([r for r, _ in pairs], wanted, [u for _, u in pairs], allow_unused=True))
        gradients = []
        for x in inputs:
            if x.is_floating_point():
                gradient = next(found) if x.requires_grad else None
                gradients.append(_for_device(torch.zeros_like(x) if gradient is None else gradient))
        return gradients


def _for_device(tensor):
    """The tensor with the dtype it has on the device."""
    if objection := poptorch_core.objection_to(tensor):
        raise ValueError(f"a result {objection}")
    if tensor.dtype == torch.int64:
        narrow = tensor.to(torch.int32)
        if not torch.equal(narrow.to(torch.int64), tensor):
            raise ValueError("a result has an int64 value that does not fit the 32 bits of the device")
        return narrow
    return tensor.float() if tensor.dtype in (torch.float64, torch.bfloat16) else tensor


def _guarded(function, identity):
    """For the program: what `function` raises, as one sentence that names the line."""

    def call(replica, tensors):
        before, _here.running = running(), True
        try:
            return function(replica, tensors)
        except Exception as error:  # not KeyboardInterrupt
            frames = traceback.extract_tb(error.__traceback__)
            own = [f for f in frames if f.filename != __file__ and "/torch/" not in f.filename]
            place = f"\n  in:       {own[-1].filename}:{own[-1].lineno}  {own[-1].line}" if own else ""
            raise RuntimeError(f"poptorch.CPU '{identity}' raised {type(error).__name__}: {error}{place}") from error
        finally:
            _here.running = before

    return call


class HostCalls:
    """The calls of `poptorch.CPU` in one capture."""

    def __init__(self, capture):
        self._capture = capture
        self._owners = {}  # ID -> callable
        self.functions: dict[str, collections.abc.Callable[[int, _Tensors], _Tensors]] = {}

    def record(self, function, identity, arguments):
        if self._owners.setdefault(identity, function) is not function:
            raise errors.create_error(
                f"poptorch.CPU: two callables of the model have the ID '{identity}'; give each its own."
            )
        call = _Call(function, identity, arguments)
        wrong = self._capture.outside(call.learn)
        if wrong:
            raise errors.create_error(wrong)
        taken = {"identity", *self.functions}  # the first is the engine's own
        name, number = identity, 0
        while name in taken or f"{name}#backward" in taken:
            number += 1
            name = f"{identity}#{number}"
        self.functions[name] = _guarded(call.forward, identity)
        backward = f"{name}#backward" if call.has_backward else ""
        if backward:
            self.functions[backward] = _guarded(call.backward, identity)
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        results = torch.ops.poptorch.host_call(tensors, call.results, name, backward)
        if not call.has_backward:  # as torch: what has no history gets no gradient
            results = [r.detach() if r.requires_grad else r for r in results]
        return results[0] if call.is_single else list(results)

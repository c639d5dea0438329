"""`poptorch.for_loop` and `poptorch.cond`: repetition and branches in the program (docs/control_flow.md)."""

from __future__ import annotations

import collections.abc
import typing

import torch

from poptorch._impl import errors
from poptorch._impl.capture import state as capture_state

_Tensors = list[torch.Tensor]
_Body = collections.abc.Callable[..., typing.Any]

_LARGEST_COUNT = 2**31 - 1  # of the device's counter
_AS_ON_DEVICE = {torch.int64: torch.int32, torch.float64: torch.float32, torch.bfloat16: torch.float32}


def _check_inputs(function, name, inputs):
    if not isinstance(inputs, list) or not all(isinstance(t, torch.Tensor) for t in inputs):
        kinds = ", ".join(type(t).__name__ for t in inputs) if isinstance(inputs, list) else type(inputs).__name__
        raise ValueError(f"poptorch.{function}: {name} must be a list of tensors, got {kinds}")


def _check_body(function, name, body):
    if not callable(body):
        raise errors.create_error(f"poptorch.{function}: {name} must be callable, got {type(body).__name__}")


def _results(function, name, given):
    results = [given] if isinstance(given, torch.Tensor) else given
    if isinstance(results, (list, tuple)) and all(isinstance(t, torch.Tensor) for t in results):
        return list(results)
    kind = type(given).__name__
    if isinstance(given, (list, tuple)):
        kind += " of " + ", ".join(sorted({type(t).__name__ for t in given}))
    raise errors.create_error(
        f"poptorch.{function}: {name} must return a tensor, or a list or tuple of tensors, got {kind}. "
        "Give numbers as tensors (torch.tensor(...)), and return at least the arguments."
    )


def _capture_body(capture, function, name, body, inputs):
    arguments = capture.core.open_body(function, inputs)
    try:
        with capture.gradients_of_body(function):
            results = _results(function, name, body(*arguments))
        capture.core.close_body(results)
    except BaseException:
        capture.core.abandon_body()
        raise


def _kind(tensor):
    return list(tensor.shape), _AS_ON_DEVICE.get(tensor.dtype, tensor.dtype)


def _check_round(arguments, results):
    if len(results) != len(arguments):
        raise errors.create_error(
            f"loop body of another length: the body of poptorch.for_loop takes {len(arguments)} tensors and returns "
            f"{len(results)}. Return one tensor for each argument; what does not change is returned as it came."
        )
    for i, (argument, result) in enumerate(zip(arguments, results)):
        if _kind(argument) != _kind(result):
            raise errors.create_error(
                f"loop body changes a type: result {i} of the body of poptorch.for_loop is {list(result.shape)} of "
                f"{result.dtype}, and argument {i} is {list(argument.shape)} of {argument.dtype}. Give the argument the "
                "shape and dtype of the result before the loop (expand, to), or reshape the result in the body."
            )


def for_loop(count: int, body: _Body, inputs: _Tensors) -> _Tensors:
    """Runs `inputs = body(*inputs)` `count` times, as a loop of the program.

    `forward` calls the body once, with symbolic tensors; the program runs it `count` times. The body may read tensors of
    the enclosing `forward`, parameters among them, draw random numbers (others in each round), call `for_loop` and `cond`,
    and modify its arguments in place: it gets copies. Anything else it may not modify. Loops have gradients. Outside of
    `forward` an ordinary Python loop runs.

    Args:
        count: number of rounds (int >= 0).
        body: a function of as many tensors as `inputs` has. It returns a tensor, or a list or tuple of tensors: one for
            each argument, of the same shape and dtype.
        inputs: list of tensors of any shapes and dtypes.

    Returns:
        List of the tensors that the last round returned.

    Raises:
        ValueError: `inputs` is not a list of tensors.
        poptorch.Error: `count` is not an int of at least 0; the body returns another number of tensors, or another shape
            or dtype than the argument has; it writes a tensor from outside; a block starts in it.

    Example:
        >>> def body(total, x):
        ...     return total + x, x * 2
        >>> total, last = poptorch.for_loop(4, body, [torch.zeros(3), x])
    """
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _LARGEST_COUNT:
        raise errors.create_error(
            f"poptorch.for_loop: count must be an int in 0..{_LARGEST_COUNT}, got {count!r}. It is fixed when the model is "
            "compiled."
        )
    _check_body("for_loop", "body", body)
    _check_inputs("for_loop", "inputs", inputs)
    capture = capture_state.active()
    if capture is None or count == 0:
        values = [t.clone() for t in inputs]
        for _ in range(count):
            results = _results("for_loop", "body", body(*values))
            _check_round(values, results)
            values = results
        return values
    _capture_body(capture, "for_loop", "body", body, inputs)
    return capture.core.loop(count)


def cond(
    condition: torch.Tensor, then_body: _Body, then_inps: _Tensors, else_body: _Body, else_inps: _Tensors
) -> _Tensors:
    """`then_body(*then_inps)` if `condition` is true, else `else_body(*else_inps)`, decided while the program runs.

    `forward` calls both bodies once, with symbolic tensors; the program runs one of them. What bodies may do, see
    `for_loop`. The two lists may have different lengths, or be empty. Branches have gradients. Outside of `forward` the
    chosen body is called.

    Args:
        condition: bool tensor with one element.
        then_body, else_body: functions of as many tensors as their list has. Both return the same number of tensors: a
            tensor, or a list or tuple of tensors.
        then_inps, else_inps: lists of tensors of any shapes and dtypes.

    Returns:
        List of tensors, of the shapes and dtypes of `then_body`'s results. A result of `else_body` with another shape and
        as many elements is reshaped.

    Raises:
        ValueError: an inputs argument is not a list of tensors.
        poptorch.Error: `condition` is not a bool tensor of one element; the bodies return different numbers of tensors,
            or tensors of different dtypes or numbers of elements; a body writes a tensor from outside; a block starts in it.

    Example:
        >>> out, = poptorch.cond(x.sum() > 0, lambda t: t + 1, [x], lambda t: t - 1, [x])
    """
    _check_body("cond", "then_body", then_body)
    _check_body("cond", "else_body", else_body)
    _check_inputs("cond", "then_inps", then_inps)
    _check_inputs("cond", "else_inps", else_inps)
    if not isinstance(condition, torch.Tensor) or condition.dtype != torch.bool or condition.numel() != 1:
        given = type(condition).__name__
        if isinstance(condition, torch.Tensor):
            given = f"a tensor of shape {list(condition.shape)} and type {condition.dtype}"
        raise errors.create_error(
            f"poptorch.cond: the condition must be a bool tensor of one element, got {given}. Compare (x != 0), and reduce "
            "with .all() or .any(); for a decision of each element there is torch.where."
        )
    capture = capture_state.active()
    if capture is None:
        body, inputs = (then_body, then_inps) if condition.item() else (else_body, else_inps)
        name = "then_body" if body is then_body else "else_body"
        return _results("cond", name, body(*[t.clone() for t in inputs]))
    _capture_body(capture, "cond", "then_body", then_body, then_inps)
    try:
        _capture_body(capture, "cond", "else_body", else_body, else_inps)
    except BaseException:
        capture.core.abandon_body()
        raise
    return capture.core.branch(condition)

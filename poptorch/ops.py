"""Annotations and operations of the poptorch namespace. On CPU tensors they are the documented identity or reference."""

from __future__ import annotations

import collections.abc
import functools
import types
import typing

import torch

from poptorch._impl import errors
from poptorch._impl.capture import state as capture_state

if typing.TYPE_CHECKING:
    from typing_extensions import Self

_Callable = typing.TypeVar("_Callable", bound=collections.abc.Callable[..., typing.Any])
_Module = typing.TypeVar("_Module", bound=torch.nn.Module)
_Container = typing.TypeVar("_Container", list[torch.Tensor], tuple[torch.Tensor, ...])

_REDUCTIONS = ("sum", "mean", "none")


def isRunningOnIpu() -> bool:
    """True while `forward` is being captured, else False. Use it to branch between CPU and IPU code."""
    return capture_state.active() is not None


def identity_loss(x: torch.Tensor, reduction: str) -> torch.Tensor:
    """Marks a tensor as a loss.

    Args:
        x: tensor of any shape, floating point.
        reduction: "sum" or "mean" (result is a scalar) or "none" (result is `x`).

    Raises:
        AssertionError: another reduction.

    Example:
        >>> loss = poptorch.identity_loss(a + b, reduction="mean")
    """
    assert reduction in _REDUCTIONS, f"Unsupported reduction type {reduction!r}: expected one of {_REDUCTIONS}"
    return torch.ops.poptorch.identity_loss(x, reduction)


def nop(tensor: torch.Tensor) -> torch.Tensor:
    """The same values; keeps the compiler from fusing or simplifying across it. Gradient: identity.

    Raises:
        poptorch.Error: `tensor` is not a tensor.
    """
    if not isinstance(tensor, torch.Tensor):
        raise errors.create_error(f"poptorch.nop needs a tensor, got {type(tensor).__name__}")
    return torch.ops.poptorch.nop(tensor)


@typing.overload
def recomputationCheckpoint(tensor: torch.Tensor, /) -> torch.Tensor: ...


@typing.overload
def recomputationCheckpoint(tensors: _Container, /) -> _Container: ...


@typing.overload
def recomputationCheckpoint(
    first: torch.Tensor, second: torch.Tensor, /, *more: torch.Tensor
) -> tuple[torch.Tensor, ...]: ...


def recomputationCheckpoint(*tensors: typing.Any) -> typing.Any:
    """Keeps these tensors for the backward pass; what lies between checkpoints may be recomputed.

    Args:
        tensors: one or more tensors, or a single list or tuple of tensors.

    Returns:
        One tensor for one tensor, a tuple for several, the same container type for a list or tuple.

    Raises:
        ValueError: a member is not a tensor.
    """
    single = len(tensors) == 1
    if single and isinstance(tensors[0], (list, tuple)):
        return type(tensors[0])(
            recomputationCheckpoint(*tensors[0])
            if len(tensors[0]) > 1
            else [recomputationCheckpoint(t) for t in tensors[0]]
        )
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"poptorch.recomputationCheckpoint needs tensors, got {type(tensor).__name__}")
    results = tuple(torch.ops.poptorch.recomputation_checkpoint(t) for t in tensors)
    return results[0] if single else results


class _AutoId:
    """The counter behind automatic block ids: decimal strings from "0"."""

    next_id = 0

    @classmethod
    def take(cls) -> str:
        cls.next_id += 1
        return str(cls.next_id - 1)


class Block(torch.nn.Module):
    """A named region of the captured program; strategies map it to a stage and an IPU.

    Context manager: entering starts the block, leaving ends it, and then *no* block is active (blocks are not a stack).
    Outside a capture it does nothing.

    Args:
        user_id: id (str); None takes the next automatic id each time the block is entered.
        ipu_id: IPU (int) of the block unless its stage fixes one. An id may be entered on several IPUs: it stays one stage
            or phase. None goes where the id was entered last.

    Example:
        >>> with poptorch.Block("head", ipu_id=1):
        ...     y = self.head(x)
    """

    def __init__(self, user_id: str | None = None, ipu_id: int | None = None) -> None:
        super().__init__()
        self._user_id = user_id
        self._ipu_id = ipu_id

    def __enter__(self) -> Self:
        Block.start(self._user_id, self._ipu_id)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        capture = capture_state.active()
        if capture is not None:
            capture.clear_block()

    @staticmethod
    def useAutoId() -> None:
        """Restarts automatic ids at 0. Call it first in `forward` when automatic ids are used."""
        _AutoId.next_id = 0

    @staticmethod
    def start(user_id: str | None = None, ipu_id: int | None = None) -> None:
        """Starts a block that lasts until the next one starts."""
        capture = capture_state.active()
        if capture is not None:
            capture.set_block(_AutoId.take() if user_id is None else user_id, ipu_id)


class _BeginBlockHook:
    """Forward-pre-hook that starts a block when its module is called."""

    def __init__(self, user_id: str | None, ipu_id: int | None) -> None:
        self.user_id = user_id
        self.ipu_id = ipu_id

    def __call__(self, module: torch.nn.Module, inputs: typing.Any) -> None:
        if self.user_id is None and capture_state.active() is not None:
            self.user_id = _AutoId.take()  # fixed at first use
        Block.start(self.user_id, self.ipu_id)

    def __repr__(self) -> str:
        return f"BeginBlock(user_id={self.user_id}, ipu_id={self.ipu_id})"


def _block_hooks(module: torch.nn.Module) -> dict[int, _BeginBlockHook]:
    return {key: hook for key, hook in module._forward_pre_hooks.items() if isinstance(hook, _BeginBlockHook)}


class LegacyBeginBlockFn(torch.nn.Module):
    """A callable whose call starts a block. Arguments as `BeginBlock`."""

    def __init__(
        self,
        layer_to_call: collections.abc.Callable[..., typing.Any],
        user_id: str | None = None,
        ipu_id: int | None = None,
    ) -> None:
        super().__init__()
        self._user_id = user_id
        self._ipu_id = ipu_id
        self._layer_to_call = layer_to_call
        self._hook = _BeginBlockHook(user_id, ipu_id)

    def forward(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        self._hook(self, args)
        return self._layer_to_call(*args, **kwargs)


# A module is callable, too: the first one counts for it.
@typing.overload
def BeginBlock(  # type: ignore[overload-overlap]
    layer_to_call: _Module, user_id: str | None = None, ipu_id: int | None = None) -> _Module: ...


@typing.overload
def BeginBlock(
    layer_to_call: collections.abc.Callable[..., typing.Any], user_id: str | None = None, ipu_id: int | None = None
) -> LegacyBeginBlockFn: ...


def BeginBlock(layer_to_call: typing.Any, user_id: str | None = None, ipu_id: int | None = None) -> typing.Any:
    """Makes a block start whenever `layer_to_call` is called; it lasts until another block starts.

    Args:
        layer_to_call: a module (annotated in place and returned) or another callable (wrapped).
        user_id, ipu_id: as `Block`.

    Raises:
        poptorch.Error: the module already starts a block, or the argument is neither module nor callable.

    Example:
        >>> poptorch.BeginBlock(model.layer2, "layer2", ipu_id=1)
    """
    if not callable(layer_to_call):
        raise errors.create_error(
            f"poptorch.BeginBlock needs a torch.nn.Module or a callable, got {type(layer_to_call).__name__}"
        )
    if not isinstance(layer_to_call, torch.nn.Module):
        return LegacyBeginBlockFn(layer_to_call, user_id, ipu_id)
    if _block_hooks(layer_to_call):
        raise errors.create_error(
            "module has already been assigned to a block. Remove the first annotation with "
            "poptorch.removeBlocks(module)."
        )
    layer_to_call.register_forward_pre_hook(_BeginBlockHook(user_id, ipu_id))
    return layer_to_call


def BlockFunction(
    user_id: str | None = None, ipu_id: int | None = None
) -> collections.abc.Callable[[_Callable], _Callable]:
    """Decorator: the body of the function or method runs inside `Block(user_id, ipu_id)`."""

    def decorate(function: _Callable) -> _Callable:

        @functools.wraps(function)
        def run(*args: typing.Any, **kwargs: typing.Any) -> typing.Any:
            with Block(user_id, ipu_id):
                return function(*args, **kwargs)

        return typing.cast(_Callable, run)

    return decorate


def removeBlocks(module: torch.nn.Module) -> None:
    """Deletes every `BeginBlock` annotation in the module tree. AssertionError if `module` is not a module."""
    assert isinstance(module, torch.nn.Module), f"removeBlocks needs a torch.nn.Module, got {type(module).__name__}"
    for part in module.modules():
        for key in _block_hooks(part):
            del part._forward_pre_hooks[key]


class NameScope:
    """Prefixes debug names of the operations created inside with `name/`. Nests. AssertionError unless `name` is a str."""

    def __init__(self, name: str) -> None:
        assert isinstance(name, str), f"NameScope needs a str, got {type(name).__name__}"
        self._name = name

    def __enter__(self) -> Self:
        capture = capture_state.active()
        if capture is not None:
            capture.push_scope(self._name)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        capture = capture_state.active()
        if capture is not None:
            capture.pop_scope()


def module_repr(m: torch.nn.Module) -> str:
    """Like `repr(m)`, with the block annotation shown in front of the sub-modules that have one (str)."""
    names = {}
    for _name, part in m.named_modules():
        hooks = _block_hooks(part)
        if hooks:
            names[id(part)] = next(iter(hooks.values()))

    def show(part: torch.nn.Module, indent: int) -> str:
        mark = f"{names[id(part)]!r} " if id(part) in names else ""
        children = [f"({name}): {show(child, indent + 2)}" for name, child in part.named_children()]
        extra = part.extra_repr()
        if not children:
            return f"{mark}{part._get_name()}({extra})"
        pad = "\n" + " " * (indent + 2)
        lines = ([extra] if extra else []) + children
        return f"{mark}{part._get_name()}({pad}{pad.join(lines)}\n{' ' * indent})"

    return show(m, 0)

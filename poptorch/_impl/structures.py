"""Nested arguments and results: taking tensors out in a fixed order and putting others in their place."""

from __future__ import annotations

import abc
import collections
import collections.abc
import typing

import torch

from poptorch._impl import errors
from poptorch._impl.log import logger

_parsers: dict[type, ICustomArgParser] = {}


class ICustomArgParser(abc.ABC):
    """Says how the tensors of a custom type are found and how an object is rebuilt around other tensors."""

    @abc.abstractmethod
    def yieldTensors(self, struct: typing.Any) -> collections.abc.Iterator[torch.Tensor]:
        """Yields the tensors of `struct` in a fixed order."""

    @abc.abstractmethod
    def reconstruct(
        self, original_structure: typing.Any, tensor_iterator: collections.abc.Iterator[torch.Tensor]
    ) -> typing.Any:
        """A new object of the same kind, with tensors taken from the iterator in the same order."""


def registerCustomArgParser(arg_data_type: type, arg_parser: ICustomArgParser | None) -> None:
    """Registers a parser for a type of inputs and outputs; None removes it.

    Raises:
        poptorch.Error: `arg_parser` is not an `ICustomArgParser`.
    """
    if arg_parser is None:
        _parsers.pop(arg_data_type, None)
        return
    if not isinstance(arg_parser, ICustomArgParser):
        raise errors.create_error(f"registerCustomArgParser needs an ICustomArgParser, got {type(arg_parser).__name__}")
    _parsers[arg_data_type] = arg_parser


def parser_of(value: object) -> ICustomArgParser | None:
    """The registered parser of a value's type (exact, then first registered base), or None."""
    exact = _parsers.get(type(value))
    if exact is not None:
        return exact
    return next((parser for kind, parser in _parsers.items() if isinstance(value, kind)), None)


def tensors_of(value: typing.Any) -> collections.abc.Iterator[torch.Tensor]:
    """All tensors in a structure, in canonical order (generator)."""
    if isinstance(value, torch.Tensor):
        yield value
    elif type(value) in _parsers:
        yield from _parsers[type(value)].yieldTensors(value)
    elif isinstance(value, (tuple, list)):
        for member in value:
            yield from tensors_of(member)
    elif isinstance(value, dict):
        for member in value.values():
            yield from tensors_of(member)
    else:
        parser = parser_of(value)
        if parser is not None:
            yield from parser.yieldTensors(value)


def rebuild(value: typing.Any, tensors: collections.abc.Iterator[torch.Tensor]) -> typing.Any:
    """The same structure with its tensors replaced by those of the iterator `tensors`."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if type(value) in _parsers:
        return _parsers[type(value)].reconstruct(value, tensors)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(rebuild(member, tensors) for member in value))
    if isinstance(value, (tuple, list)):
        return type(value)(rebuild(member, tensors) for member in value)
    if isinstance(value, dict):
        members = {key: rebuild(member, tensors) for key, member in value.items()}
        if isinstance(value, collections.defaultdict):
            return type(value)(value.default_factory, members)
        return type(value)(members)
    parser = parser_of(value)
    if parser is not None:
        return parser.reconstruct(value, tensors)
    return value


def differ(a, b):
    """`a != b` for constants of any type: what cannot be compared (arrays, objects with tensors) differs unless identical."""
    if a is b:
        return False
    try:
        unequal = a != b
        return bool(unequal.any() if hasattr(unequal, "any") else unequal)
    except Exception:  # whatever the type's own comparison raises
        return True


_ADVICE = "The first call fixed what the compiled program takes: build a new wrapper, or call destroy() to recompile."


def mismatch(kind, name, detail):
    """The error of a call that does not look like the first one; `kind` is what differs, `name` the argument."""
    return errors.create_error(f"{kind} mismatch for {name}: {detail} {_ADVICE}")


def _holds_dict(value):
    if isinstance(value, (tuple, list)) and type(value) not in _parsers:
        return any(map(_holds_dict, value))
    return isinstance(value, dict) and type(value) not in _parsers


class Signature:
    """What the first call looked like; later calls are checked against it and flattened in the same order."""

    def __init__(self, names, values):
        """`names`: of the parameters, e.g. ["x", "pair"]; `values`: the bound values of the first call."""
        self._names = names
        self._values = [self._describe(value) for value in values]
        if any(map(_holds_dict, values)):
            logger.warning("dict inputs are supported in part: keys are fixed by the first call.")

    @classmethod
    def _describe(cls, value):
        """A description without tensor data, so that nothing of the first call is kept alive."""
        if isinstance(value, torch.Tensor):
            return ("tensor", value.dtype, tuple(value.shape))
        if type(value) in _parsers:
            return ("custom", type(value), [cls._describe(tensor) for tensor in tensors_of(value)])
        if isinstance(value, (tuple, list)):
            return ("sequence", type(value), [cls._describe(member) for member in value])
        if isinstance(value, dict):
            return ("dict", type(value), {key: cls._describe(member) for key, member in value.items()})
        parser = parser_of(value)
        if parser is not None:
            return ("custom", type(value), [cls._describe(tensor) for tensor in parser.yieldTensors(value)])
        return ("constant", type(value), value)

    def common_size(self):
        """The size of the first dimension of all tensors (int); 0 where they differ, or there is none."""
        sizes = set()
        open_ = list(self._values)
        while open_:
            kind, _, content = open_.pop()
            if kind == "tensor":
                sizes |= {content[0]} if content else set()
            elif kind != "constant":
                open_ += content.values() if isinstance(content, dict) else content
        return sizes.pop() if len(sizes) == 1 else 0

    def flatten(self, values):
        """Checks the values of a later call and returns their tensors in canonical order (list)."""
        if len(values) != len(self._values):
            raise errors.create_error(
                f"Number of positional arguments mismatch: expected {len(self._values)} ({', '.join(self._names)}), "
                f"got {len(values)}. {_ADVICE}"
            )
        tensors: list[torch.Tensor] = []
        for name, value, expected in zip(self._names, values, self._values):
            self._check(name, value, expected, tensors)
        return tensors

    def _check(self, name, value, expected, tensors):
        kind = expected[0]
        if kind == "tensor":
            if not isinstance(value, torch.Tensor):
                raise mismatch("Type", name, f"expected torch.Tensor, got {type(value).__name__}.")
            if value.dtype != expected[1]:
                raise mismatch("Data type", name, f"expected {expected[1]}, got {value.dtype}.")
            if tuple(value.shape) != expected[2]:
                raise mismatch("Shape", name, f"expected {list(expected[2])}, got {list(value.shape)}.")
            tensors.append(value)
        elif type(value) is not expected[1]:
            raise mismatch("Type", name, f"expected {expected[1].__name__}, got {type(value).__name__}.")
        elif kind == "sequence":
            self._check_sequence(name, value, expected, tensors)
        elif kind == "dict":
            self._check_dict(name, value, expected, tensors)
        elif kind == "custom":
            found = list(tensors_of(value))
            if len(found) != len(expected[2]):
                raise mismatch("Length", name, f"expected {len(expected[2])} tensors, got {len(found)}.")
            for i, (member, wanted) in enumerate(zip(found, expected[2])):
                self._check(f"{name}[{i}]", member, wanted, tensors)
        elif differ(value, expected[2]):
            raise mismatch(
                "Value",
                name,
                f"expected {expected[2]!r}, got {value!r}; values that are not tensors are "
                "constants of the compiled program.",
            )

    def _check_sequence(self, name, value, expected, tensors):
        wanted = expected[2]
        if expected[1] is list and any(member[0] != "constant" for member in wanted):
            # Only the tensors of a list that holds tensors count.
            wanted = [member for member in wanted if member[0] != "constant"]
            value = [member for member in value if self._describe(member)[0] != "constant"]
        if len(value) != len(wanted):
            raise mismatch("Length", name, f"expected {len(wanted)}, got {len(value)}.")
        for i, (member, description) in enumerate(zip(value, wanted)):
            self._check(f"{name}[{i}]", member, description, tensors)

    def _check_dict(self, name, value, expected, tensors):
        unexpected = sorted(str(key) for key in set(value) - set(expected[2]))
        missing = sorted(str(key) for key in set(expected[2]) - set(value))
        if unexpected or missing:
            raise mismatch("Keys", name, f"unexpected {unexpected}, missing {missing}.")
        for key, description in expected[2].items():
            self._check(f"{name}[{key!r}]", value[key], description, tensors)

"""`poptorch.custom_op`: operations from shared libraries of a user's own (docs/custom_ops.md)."""

from __future__ import annotations

import collections.abc
import json
import typing

import torch

from poptorch import poptorch_core
from poptorch._impl import errors
from poptorch._impl.capture import state as capture_state

_Attributes = dict[str, typing.Any]

# Attribute dictionaries of custom operations, as long as the process lives; equal ones are one.
attributes_lists: list[_Attributes] = []
_kept: set[tuple[typing.Any, ...]] = set()  # text and types of those

_HANDLE = "attributes:"
_KINDS = {float: "float", int: "int", bool: "int", str: "str"}
_LARGEST_FLOAT = torch.finfo(torch.float32).max


def _scalar(name, value):
    """(kind, value) of one number or text. ValueError for another type, poptorch.Error beyond what the device holds."""
    kind = next((text for of, text in _KINDS.items() if isinstance(value, of)), None)
    if kind is None:
        raise ValueError(
            f"poptorch.custom_op: attribute '{name}' is a {type(value).__name__}; attributes are float, int, str, or a "
            "list or tuple of one of these"
        )
    if kind == "str":
        if not value.isascii():
            raise ValueError(f"poptorch.custom_op: attribute '{name}' is not ASCII: {value!r}")
        return kind, value
    if kind == "int":
        value = int(value)
        if not -(2**63) <= value < 2**63:
            raise errors.create_error(f"poptorch.custom_op: attribute '{name}' is {value}, beyond 64 bits")
        return kind, value
    if not abs(value) <= _LARGEST_FLOAT:  # NaN neither
        raise errors.create_error(f"poptorch.custom_op: attribute '{name}' is {value}, beyond the range of float32")
    return kind, torch.tensor(value, dtype=torch.float32).item()


def _described(name, value):
    """["ints", [1, 2]]: what native code reads."""
    if not isinstance(value, (list, tuple)):
        return list(_scalar(name, value))
    found = [_scalar(f"{name}[{i}]", member) for i, member in enumerate(value)]
    if any(type(member) is not type(value[0]) for member in value):
        kinds = ", ".join(sorted({type(member).__name__ for member in value}))
        raise ValueError(
            f"poptorch.custom_op: the members of attribute '{name}' must all be {type(value[0]).__name__}, got {kinds}"
        )
    return ["nothing" if not found else found[0][0] + "s", [member for _, member in found]]


def _keep(attributes, text):
    """Adds the dictionary to `attributes_lists` unless an equal one was added, types included."""
    key = (text, *map(_type_of, attributes.values()))
    if key not in _kept:
        _kept.add(key)
        attributes_lists.append(dict(attributes))


def accessAttributes(attributes_id_str: str) -> _Attributes:
    """The attribute dictionary of a custom operation that a handle names: "attributes:" and its place in `attributes_lists`.

    Raises:
        ValueError: no str, without that beginning, or of no dictionary that is kept.

    Example:
        >>> poptorch.accessAttributes("attributes:0")
    """
    if not isinstance(attributes_id_str, str):
        raise ValueError(f"a handle of attributes is a str, got {type(attributes_id_str).__name__}")
    place = attributes_id_str.removeprefix(_HANDLE)
    if place == attributes_id_str or not (place.isascii() and place.isdigit()):
        raise ValueError(f"a handle of attributes is '{_HANDLE}' and a number, not {attributes_id_str!r}")
    if int(place) >= len(attributes_lists):
        raise ValueError(f"{attributes_id_str!r} names no attributes: {len(attributes_lists)} dictionaries are kept")
    return attributes_lists[int(place)]


def _type_of(value):
    return type(value), tuple(map(type, value)) if isinstance(value, (list, tuple)) else None


def _text_of(attributes):
    for name in attributes:
        if not isinstance(name, str):
            raise ValueError(f"poptorch.custom_op: names of attributes are str, got {type(name).__name__} {name!r}")
    return json.dumps({name: _described(name, value) for name, value in attributes.items()})


def _tensors(what, values):
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, torch.Tensor) for value in values):
        raise ValueError(f"poptorch.custom_op: {what} must be a list or tuple of tensors, got {type(values).__name__}")
    return list(values)


def custom_op(
    inputs: collections.abc.Sequence[torch.Tensor],
    name: str,
    domain: str,
    domain_version: int,
    example_outputs: collections.abc.Sequence[torch.Tensor],
    attributes: _Attributes | None = None,
) -> list[torch.Tensor]:
    """Applies an operation of a shared library (docs/custom_ops.md), which must have been loaded into the process.

    Args:
        inputs: tensors of the shapes and dtypes that the operation takes.
        name, domain, domain_version: the identity of the operation (str, str, int).
        example_outputs: one tensor for each result, of its shape and dtype; the contents mean nothing.
        attributes: values by name: float (kept as float32), int (64 bits; bool counts as int), str (ASCII), or a list or
            tuple of one of these.

    Returns:
        The results. On the CPU zeros of the shapes of `example_outputs`.

    Raises:
        ValueError: an attribute of another type, or inputs or examples that are no tensors.
        poptorch.Error: no loaded library has the operation, its operands, attributes or results are others, a number is out
            of range; when a training program is compiled, an operation without a gradient.

    Example:
        >>> ctypes.cdll.LoadLibrary("./libcube.so")
        >>> y = poptorch.custom_op([x], "Cube", "acme", 1, example_outputs=[x], attributes={"scale": 2.0})[0]
    """
    given = {} if attributes is None else attributes
    if not isinstance(given, dict):
        raise ValueError(f"poptorch.custom_op: attributes must be a dict, got {type(given).__name__}")
    operands, examples = _tensors("inputs", inputs), _tensors("example_outputs", example_outputs)
    text = _text_of(given)
    _keep(given, text)
    if capture_state.active() is None:
        return [torch.zeros(example.shape, dtype=example.dtype) for example in examples]
    operator = poptorch_core.find_custom_op(domain, name, domain_version)
    return list(torch.ops.poptorch.custom_op(operands, examples, operator, text))

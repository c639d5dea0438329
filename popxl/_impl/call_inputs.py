"""Which value of a call site feeds which input of the called graph; shared by call, repeat and conditional."""

from collections.abc import Iterable, Mapping
from typing import Any, Optional

import numpy as np

from popxl._impl.errors import popart_error
from popxl.tensor import Tensor, constant
from popxl.utils import table_to_string, to_numpy


def wire(
    parent: Any, callee: Any, inputs: Iterable[Any], inputs_dict: Optional[Mapping[Any, Any]], check_inputs: bool
) -> dict[int, Tensor]:
    """Tensors of `parent` by input of `callee`; what is no tensor becomes a constant of the parent."""
    takes = callee.inputs
    given: dict[int, Any] = {}
    position = 0
    for value in inputs:
        for one in _flat(value, takes[position] if position < len(takes) else None):
            if position == len(takes):
                raise ValueError(
                    f"{callee!r} has {len(takes)} inputs, and more values are given: leave the others out."
                )
            given[position] = one
            position += 1
    numbers = {t._number: i for i, t in enumerate(takes)}
    for tensor, value in (inputs_dict or {}).items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"A key of inputs_dict is {tensor!r}: keys are inputs of {callee!r}.")
        index = numbers.get(tensor._number) if tensor._ir is callee._ir else None
        if index is None:
            raise ValueError(f"A key of inputs_dict is {tensor!r}, which is no input of {callee!r}: {list(takes)}.")
        if index in given:
            raise ValueError(f"Input {index} of {callee!r}, {tensor!r}, is given twice: drop one of the values.")
        given[index] = value
    wired = {i: _as_tensor(parent, callee, i, takes[i], given[i]) for i in sorted(given)}
    if check_inputs and len(wired) < len(takes):
        raise ValueError(_missing(callee, takes, wired))
    return wired


def _flat(value: Any, takes: Optional[Tensor]) -> Iterable[Any]:
    """One level of what can be iterated; an array of the shape of the input it meets is one value."""
    if isinstance(value, (Tensor, str, bytes)):
        return (value,)
    if isinstance(value, np.ndarray) or hasattr(value, "detach"):
        shape = tuple(value.shape)
        return (value,) if not shape or (takes is not None and takes.shape == shape) else list(value)
    return value if isinstance(value, Iterable) else (value,)


def _as_tensor(parent: Any, callee: Any, index: int, takes: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        if value._graph_number != parent._number or value._ir is not parent._ir:
            raise ValueError(
                f"Input {index} of {callee!r} is given {value!r}, which is not in the current graph {parent!r}."
            )
        return value
    try:
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        if array.dtype.kind not in "biufcV":
            raise TypeError(f"it holds {array.dtype}")
        return constant(to_numpy(array, takes.dtype), takes.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"Input {index} of {callee!r}, {takes!r}, is given {value!r}, which is neither a tensor nor can become one: {error}."
        ) from error


def _missing(callee: Any, takes: Any, wired: dict[int, Tensor]) -> str:
    header = ("input", "tensor", "dtype", "shape")
    rows = [(i, t.id, t.dtype, t.shape) for i, t in enumerate(takes)]
    missing = table_to_string([header] + [row for row in rows if row[0] not in wired])
    connected = table_to_string([(*header, "value")] + [(*row, wired[row[0]].id) for row in rows if row[0] in wired])
    return f"Inputs of {callee!r} are missing.\nMissing:\n{missing}Connected:\n{connected}"


def writes_input(program: Any, graph: int, tensor: int) -> bool:
    """Whether ops of a graph write the memory of one of its tensors, also through views of it."""
    views = _views()
    seen: set[int] = set()
    pending = [tensor]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        for op in program.consumers(current):
            kind = views.get(program.op_type(op), ())
            for index, number in program.op_inputs(op).items():
                if number != current:
                    continue
                if program.modifies(op, index):
                    return True
                if index in kind or -1 in kind:
                    pending.extend(program.op_outputs(op).values())
    return False


_view_table: dict[str, Any] = {}


def _views() -> dict[str, Any]:
    """By op type: inputs in whose memory its output lies."""
    if not _view_table:
        from ipu_core._native import kinds

        _view_table.update({row[0]: row[5] for row in kinds() if row[5]})
        _view_table.setdefault("", ())
    return _view_table


def not_an_input(tensor: Any, op_inputs: Any) -> Exception:
    return popart_error(f"{tensor!r} is no input of the call; its inputs are {list(op_inputs)}.")

"""Checks of arguments of ops; custom ops import them."""

from collections.abc import Iterable
from typing import Any, Optional

from popxl.dtypes import dtype as dtype_class
from popxl.tensor import Tensor


def check_in_graph(graph: Any, *args: Any, **tensors: Any) -> None:
    """Checks that all are tensors of `graph`; messages name them by keyword.

    Raises:
        TypeError: one is no tensor.
        ValueError: one belongs to another graph.
        Exception: a tensor is given without keyword.
    """
    if args:
        raise Exception("check_in_graph takes tensors by keyword: messages name them so.")
    number, ir = graph._number, graph._ir
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} must be a popxl.Tensor, not {tensor!r} of type {type(tensor).__name__}.")
        if tensor._graph_number != number or tensor._ir is not ir:
            raise ValueError(
                f"{name}, {tensor!r}, is not in the current graph {graph!r}: pass it in as an input of that graph."
            )


def check_tensor_ipu_and_tile_set(*args: Any, **tensors: Tensor) -> None:
    """Checks that all tensors whose IPU, or tile set, is known have the same one.

    Raises:
        ValueError: they are on different IPUs or tile sets.
        Exception: a tensor is given without keyword.
    """
    if args:
        raise Exception("check_tensor_ipu_and_tile_set takes tensors by keyword: messages name them so.")
    ipu: Optional[int] = None
    tile_set: Optional[int] = None
    for tensor in tensors.values():
        its_ipu, its_set = tensor._ir._program.place(tensor._number)
        if its_ipu is not None:
            if ipu is not None and its_ipu != ipu:
                raise ValueError(_places("different IPUs", 0, tensors))
            ipu = its_ipu
        if its_set is not None:
            if tile_set is not None and its_set != tile_set:
                raise ValueError(_places("different tile sets", 1, tensors))
            tile_set = its_set


def _places(what: str, index: int, tensors: Any) -> str:
    places = ", ".join(f"{name} on {t._ir._program.place(t._number)[index]}" for name, t in tensors.items())
    cure = "ops.ipu_copy" if index == 0 else "ops.io_tile_copy (0: compute, 1: IO)"
    return f"The inputs are on {what}: {places}. Bring them together with {cure}."


def cast_if_needed(t: Tensor, data_type: dtype_class) -> Tensor:
    """`t` if it has that dtype, else `ops.cast(t, data_type)`."""
    if t.dtype is data_type:
        return t
    from popxl import ops

    return ops.cast(t, data_type)


def handle_negative_axis(t: Tensor, axis: int) -> int:
    """An axis counted from the front: a negative one plus the rank."""
    return axis if axis >= 0 else t.rank + axis


def convert_optional_float(v: Optional[float]) -> Any:
    """The core's optional float."""
    return _optional("OptionalFloat", v)


def convert_optional_int(v: Optional[int]) -> Any:
    """The core's optional integer."""
    return _optional("OptionalInt", v)


def convert_optional_int64_list(lst: Optional[Iterable[int]]) -> Any:
    """The core's optional list of integers."""
    return _optional("OptionalInt64Vector", None if lst is None else list(lst))


def convert_optional_dtype(dt: Optional[dtype_class]) -> Any:
    """The core's optional element type."""
    return _optional("OptionalDataType", None if dt is None else dt._pb_dtype)


def _optional(name: str, value: Any) -> Any:
    from popxl._impl import facade

    kind = getattr(facade.core(), name)
    return kind() if value is None else kind(value)

"""Shape and layout. Names that end in `_` make views of the same memory, the others copies. All functions raise
TypeError for what is no tensor, ValueError for tensors of another graph, and popart.popart_exception for axes and
shapes that do not fit."""

import operator
from numbers import Integral
from typing import Any, Optional, Union
from collections.abc import Iterable, Sequence

import numpy as np

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Constant, Tensor, Variable

__all__ = [
    "concat", "concat_", "flatten", "flatten_", "onehot", "reshape", "reshape_", "slice", "slice_", "split", "squeeze",
    "subsample", "transpose", "transpose_",
]  # fmt: skip

_Places = Optional[Union[int, Sequence[Optional[int]]]]


# --- reshape
def reshape(t: Tensor, shape: Iterable[int]) -> Tensor:
    """The elements in row-major order, with another shape; one -1 in it stands for what is left.

    Raises:
        ValueError: a size is 0 or below -1, or two are -1.
        popart.popart_exception: the numbers of elements differ.

    Example:
        >>> y = ops.reshape(x, (-1, 4))  # (2, 6) gives (3, 4); called <x>_reshaped
    """
    return _reshape("Reshape", t, shape)


def reshape_(t: Tensor, shape: Iterable[int]) -> Tensor:
    """As `reshape`, in the memory of `t`."""
    return _reshape("ReshapeInplace", t, shape)


def _reshape(op_type: str, t: Tensor, shape: Iterable[int]) -> Tensor:
    check_in_graph(_contexts.here.graph, t=t)
    sizes = [operator.index(size) for size in shape]
    if any(size == 0 or size < -1 for size in sizes) or sizes.count(-1) > 1:
        raise ValueError(f"{tuple(sizes)} is no shape for {t!r}: sizes are at least 1, one may be -1.")
    return _reshaped(op_type, t, sizes)


def _reshaped(op_type: str, t: Tensor, sizes: list[int]) -> Tensor:
    return create(op_type, {0: t}, (f"{t.name}_reshaped",), {"shape": sizes})[0]


def flatten(t: Tensor) -> Tensor:
    """The elements in row-major order, with one axis.

    Example:
        >>> y = ops.flatten(x)  # (2, 3) gives (6,)
    """
    return reshape(t, (-1,))


def flatten_(t: Tensor) -> Tensor:
    """As `flatten`, in the memory of `t`."""
    return reshape_(t, (-1,))


def squeeze(t: Tensor, axes: Optional[Iterable[int]] = None) -> Tensor:
    """Without the axes of size 1, or without those listed; negative ones count from the end.

    Raises:
        ValueError: an axis is listed twice, does not exist, or is not of size 1.

    Example:
        >>> y = ops.squeeze(x, [0])  # (1, 3, 1) gives (3, 1)
    """
    check_in_graph(_contexts.here.graph, t=t)
    shape = t.shape
    rank = len(shape)
    if axes is None:
        return _reshaped("Reshape", t, [size for size in shape if size != 1])
    given = [operator.index(axis) for axis in axes]
    dropped = {axis + rank if axis < 0 else axis for axis in given}
    if len(dropped) != len(given):
        raise ValueError(f"squeeze names an axis of {t!r} twice: {given}.")
    for axis in dropped:
        if not 0 <= axis < rank:
            raise ValueError(f"squeeze names the axes {given}; {t!r} has {rank}.")
        if shape[axis] != 1:
            raise ValueError(f"Axis {axis} of {t!r} has size {shape[axis]}; squeeze drops those of size 1.")
    return _reshaped("Reshape", t, [size for axis, size in enumerate(shape) if axis not in dropped])


# --- transpose
def transpose(t: Tensor, permutation: Optional[Iterable[int]] = None) -> Tensor:
    """Axis i of the result is axis permutation[i] of t; without one the axes are reversed.

    Raises:
        ValueError: an entry is no axis of t.
        popart.popart_exception: the permutation has another length, or an axis twice.

    Example:
        >>> y = ops.transpose(x, (0, 2, 1))  # called <x>_T
    """
    return _transpose("Transpose", t, permutation)


def transpose_(t: Tensor, permutation: Optional[Iterable[int]] = None) -> Tensor:
    """As `transpose`, in the memory of `t`."""
    return _transpose("TransposeInplace", t, permutation)


def _transpose(op_type: str, t: Tensor, permutation: Optional[Iterable[int]]) -> Tensor:
    check_in_graph(_contexts.here.graph, t=t)
    rank = t.rank
    if permutation is None:
        axes = list(range(rank - 1, -1, -1))
    else:
        axes = [operator.index(axis) for axis in permutation]
        if any(not -rank <= axis < rank for axis in axes):
            raise ValueError(f"The permutation {axes} has an axis that {t!r} does not have.")
        axes = [axis + rank if axis < 0 else axis for axis in axes]
    return create(op_type, {0: t}, (f"{t.name}_T",), {"perm": axes})[0]


# --- concat and split
def concat(ts: Iterable[Tensor], axis: int = 0) -> Tensor:
    """One or more tensors of one dtype, one after the other along `axis`.

    Raises:
        ValueError: no tensor is given.
        TypeError: dtypes differ.
        popart.popart_exception: shapes differ outside of the axis.

    Example:
        >>> y = ops.concat((a, b), axis=1)  # (2, 3) and (2, 1) give (2, 4)
    """
    return _concat("Concat", ts, axis)


def concat_(ts: Iterable[Tensor], axis: int = 0) -> Tensor:
    """As `concat`, a view of all tensors. It can be read, not written."""
    return _concat("ConcatInplace", ts, axis)


def _concat(op_type: str, ts: Iterable[Tensor], axis: int) -> Tensor:
    parts = list(ts)
    if not parts:
        raise ValueError("concat takes at least one tensor; none is given.")
    named = {f"t{i}": t for i, t in enumerate(parts)}
    check_in_graph(_contexts.here.graph, **named)
    check_tensor_ipu_and_tile_set(**named)
    if any(t.dtype is not parts[0].dtype for t in parts):
        raise TypeError(f"concat takes tensors of one dtype, not {', '.join(map(repr, parts))}.")
    return create(op_type, dict(enumerate(parts)), ("concat_out",), {"axis": operator.index(axis)})[0]


def split(t: Tensor, splits: Union[int, Sequence[int]], axis: int = 0) -> list[Tensor]:
    """Parts along an axis: so many equal ones, or of these lengths.

    Raises:
        ValueError: the axis does not divide into equal parts, or does not exist.
        popart.popart_exception: the lengths do not add up to the axis.

    Example:
        >>> low, high = ops.split(x, 2)  # called <x>_split_0, <x>_split_1
    """
    check_in_graph(_contexts.here.graph, t=t)
    axis = operator.index(axis)
    if isinstance(splits, Integral):
        parts, shape = int(splits), t.shape
        if not -len(shape) <= axis < len(shape):
            raise ValueError(f"{t!r} has no axis {axis}.")
        if parts < 1 or shape[axis] % parts:
            raise ValueError(f"Axis {axis} of {t!r} has size {shape[axis]}, not a multiple of {parts}.")
        lengths = [shape[axis] // parts] * parts
    else:
        lengths = [operator.index(length) for length in splits]  # type: ignore[union-attr]
    name = t.name
    stems = [f"{name}_split_{i}" for i in range(len(lengths))]
    return list(create("Split", {0: t}, stems, {"axis": axis, "split": lengths}))


# --- slice and subsample
def slice(
    t: Tensor, start: _Places = None, stop: _Places = None, step: _Places = None, axis: Optional[Any] = None
) -> Tensor:
    """Elements from `start` on, before `stop`, along axes. Each is a number or a list with one entry for each axis;
    entries None: the whole axis, from its end with step -1. Places are clamped to the axis, negative ones count from
    its end.

    Args:
        step: 1 or -1.
        axis: of the entries; the first ones if None.

    Returns:
        `t` itself if start, stop and step are None.

    Raises:
        ValueError: the lists differ in length.
        popart.popart_exception: a step is neither 1 nor -1, or t has no such axis.

    Example:
        >>> y = ops.slice(x, 1, 3)  # x[1:3]
        >>> y = ops.slice(x, [None, 1], [None, 3], axis=[0, 2])  # x[:, :, 1:3]
    """
    return _slice("Slice", t, start, stop, step, axis)


def slice_(
    t: Tensor, start: _Places = None, stop: _Places = None, step: _Places = None, axis: Optional[Any] = None
) -> Tensor:
    """As `slice`, in the memory of `t`."""
    return _slice("SliceInplace", t, start, stop, step, axis)


def _slice(op_type: str, t: Tensor, start: Any, stop: Any, step: Any, axis: Any) -> Tensor:
    check_in_graph(_contexts.here.graph, t=t)
    if start is None and stop is None and step is None:
        return t
    given: list[Any] = [start, stop, step, axis]
    count: Optional[int] = None
    for i, value in enumerate(given):
        if value is None:
            continue
        given[i] = entries = [value] if type(value) is int or isinstance(value, Integral) else list(value)
        if count is not None and len(entries) != count:
            raise ValueError(f"slice of {t!r}: the lists for start, stop, step and axis differ in length: {given}.")
        count = len(entries)
    nothing = [None] * (count or 0)
    shape = t.shape
    axes = list(range(count or 0)) if given[3] is None else [operator.index(a) for a in given[3]]
    starts, stops, steps = [], [], []
    for first, last, by, at in zip(*(entries or nothing for entries in given[:3]), axes):
        size = shape[at] if -len(shape) <= at < len(shape) else 0
        forward = by is None or by > 0
        starts.append((0 if forward else size - 1) if first is None else operator.index(first))
        stops.append((size if forward else -size - 1) if last is None else operator.index(last))
        steps.append(1 if by is None else operator.index(by))
    attributes: dict[str, Any] = {"starts": starts, "ends": stops, "axes": axes, "steps": steps}
    return create(op_type, {0: t}, ("slice_out",), attributes)[0]


def subsample(t: Tensor, strides: Union[int, Iterable[int]]) -> Tensor:
    """Every n-th element from the first on, along the first axes; an axis of size d gets ceil(d / n).

    Args:
        strides: of the first axis, or a sequence for the first axes; the others are whole.

    Raises:
        ValueError: there are more strides than axes.
        popart.popart_exception: a stride is below 1.

    Example:
        >>> y = ops.subsample(x, [1, 2])  # x[:, ::2]
    """
    check_in_graph(_contexts.here.graph, t=t)
    steps = [operator.index(s) for s in ((strides,) if isinstance(strides, Integral) else strides)]  # type: ignore[union-attr]
    rank = t.rank
    if len(steps) > rank:
        raise ValueError(f"subsample of {t!r}: {len(steps)} strides for {rank} axes.")
    steps += [1] * (rank - len(steps))
    return create("Subsample", {0: t}, ("subsample_out",), {"strides": steps})[0]


def _known_integer(t: Tensor) -> Optional[int]:
    """Value of a constant or variable with one element."""
    if isinstance(t, Constant):
        data = t._ir._program.constant(t._number)
    elif isinstance(t, Variable):
        from ipu_common.host_variables import host_variables

        data = host_variables(t._ir._program).by_number[t._number].data
    else:
        return None
    return int(np.asarray(data).reshape(-1)[0]) if np.size(data) == 1 else None


def onehot(t: Tensor, num_classes: Tensor, values: Tensor, axis: int) -> Tensor:
    """values[1] where the class along a new axis is the index in t, values[0] elsewhere. Gradients go to `values`.

    Args:
        t: integers; those outside of [0, num_classes) are nowhere.
        num_classes: a constant or variable with one element: the size of the new axis.
        values: [off, on], of the dtype of the result.
        axis: place of the new axis; -1: the last.

    Raises:
        ValueError: `num_classes` has more elements, or none that is known now.

    Example:
        >>> y = ops.onehot(labels, popxl.constant(10), popxl.constant([0.0, 1.0]), -1)  # (8,) gives (8, 10)
    """
    check_in_graph(_contexts.here.graph, t=t, num_classes=num_classes, values=values)
    check_tensor_ipu_and_tile_set(t=t, num_classes=num_classes, values=values)
    classes = _known_integer(num_classes)
    if classes is None:
        raise ValueError(f"num_classes is a constant or variable with one element, not {num_classes!r}.")
    attributes = {"axis": operator.index(axis), "num_classes": classes}
    return create("OneHot", {0: t, 1: num_classes, 2: values}, ("onehot_out",), attributes)[0]

"""Tensors with a first value that the device makes."""

from collections.abc import Iterable
from typing import Any, Optional

from popxl._impl.build import create
from popxl.dtypes import dtype as dtype_class
from popxl.tensor import Tensor


def init(
    shape: Iterable[int],
    dtype: dtype_class,
    name: Optional[str] = None,
    init_type: str = "zero",
    meta_shape: Optional[Iterable[int]] = None,
) -> Tensor:
    """A new tensor of the current graph, without a value of the host.

    Args:
        shape, dtype, meta_shape: of the tensor.
        name: of the tensor; "t" if None.
        init_type: "zero", or "undef" where every element is written before it is read.

    Raises:
        ValueError: for another `init_type`.

    Example:
        >>> sum = ops.init((4,), popxl.float32, "sum")
    """
    if init_type not in ("zero", "undef"):
        raise ValueError(f'init_type is {init_type!r}: it must be "zero" or "undef".')
    attributes: Any = {"dtype": dtype._number, "shape": list(shape), "init_type": init_type}
    if meta_shape:
        attributes["meta_shape"] = list(meta_shape)
    return create("Init", {}, [name or "t"], attributes)[0]

"""Factors of updates: a number when the program is built, or a tensor when it runs."""

from typing import Any, Optional, Union

from popxl._impl import facade
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor

Factor = Optional[Union[float, Tensor]]


def handle_optimizer_value(f: Factor, ins: dict[int, str], index: int) -> Any:
    """The `OptimizerValue` of a factor, for custom updates: a tensor is recorded as input `index` in `ins`.

    Args:
        f: tensor, number, or None for the default.
        ins: ids of the inputs of the op, which grows.
        index: input of the factor.
    """
    value = facade.core().OptimizerValue
    if isinstance(f, Tensor):
        ins[index] = f.id
        return value(0.0, False)
    return value() if f is None else value(float(f), True)


def place_factor(f: Factor, index: int, name: str, inputs: dict[int, Tensor], attributes: dict[str, Any]) -> None:
    """A tensor becomes input `index`, a number attribute `name`; None is neither."""
    if isinstance(f, Tensor):
        inputs[index] = f
    elif f is not None:
        attributes[name] = float(f)


def check_operands(graph: Any, tensors: dict[str, Any], **factors: Any) -> None:
    """Graph and place of `tensors`, and of those factors that are tensors.

    Raises:
        TypeError: one of `tensors` is no tensor.
        ValueError: one is of another graph, or they are on different IPUs or tile sets.
    """
    for name, factor in factors.items():
        if isinstance(factor, Tensor):
            tensors[name] = factor
    check_in_graph(graph, **tensors)
    check_tensor_ipu_and_tile_set(**tensors)

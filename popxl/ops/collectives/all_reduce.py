"""Reductions over the IPUs of a replica."""

from typing import Optional
from collections.abc import Iterable

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.errors import UndefinedValue
from popxl.ops.collectives.collectives import CollectiveOps, check_reduction
from popxl.ops.utils import check_in_graph
from popxl.tensor import Tensor


def _all_reduce(ts: list[Tensor], ipus: Optional[list[int]], op: str, form: str) -> list[Tensor]:
    ts = list(ts)
    check_in_graph(_contexts.here.graph, **{f"ts[{i}]": t for i, t in enumerate(ts)})
    check_reduction(op)
    if not ts:
        raise ValueError("ts is empty: there must be one tensor for each IPU.")
    numbers = _ipus_of(ts) if ipus is None else [int(i) for i in ipus]
    if len(numbers) != len(ts):
        raise ValueError(f"There are {len(ts)} tensors and {len(numbers)} ipus: there must be one for each.")
    attributes = {
        "op": op,
        "ipus": numbers,
        "identicalInputs": form == "inputs",
        "identicalGradInputs": form == "gradients",
    }
    stems = [f"all_reduce_out_{i}" for i in range(len(ts))]
    return list(create("AllReduce", dict(enumerate(ts)), stems, attributes))


def _ipus_of(ts: Iterable[Tensor]) -> list[int]:
    try:
        return [t.ipu for t in ts]
    except UndefinedValue as error:
        raise ValueError(f"The ipus are not given and one is not known. {error}") from error


def all_reduce(ts: list[Tensor], ipus: Optional[list[int]] = None, op: CollectiveOps = "add") -> list[Tensor]:
    """One tensor on each of several IPUs of a replica: every IPU gets the reduction of all.

    Args:
        ts: of one shape and dtype.
        ipus: of each tensor; None: where they are known to be.
        op: "add", which alone has a gradient, "mean", "mul", "min", "max", "and", "or" or "square_add".

    Returns:
        One tensor for each of `ts`, on the same IPU.

    Raises:
        ValueError: another `op`, not one IPU for each tensor, or an IPU that is not known.
        popart.popart_exception: shapes or dtypes differ.

    Example:
        >>> a, b = ops.collectives.all_reduce([a, b])
    """
    return _all_reduce(ts, ipus, op, "")


def all_reduce_identical_inputs(
    ts: list[Tensor], ipus: Optional[list[int]] = None, op: CollectiveOps = "add"
) -> list[Tensor]:
    """The identity on tensors that are promised to be equal; its gradient is `all_reduce`.

    Args:
        ts, ipus, op: as of `all_reduce`.

    Returns:
        One tensor for each of `ts`.

    Raises:
        ValueError, popart.popart_exception: as of `all_reduce`.

    Example:
        >>> a, b = ops.collectives.all_reduce_identical_inputs([x_on_0, x_on_1])
    """
    return _all_reduce(ts, ipus, op, "inputs")


def all_reduce_identical_grad_inputs(
    ts: list[Tensor], ipus: Optional[list[int]] = None, op: CollectiveOps = "add"
) -> list[Tensor]:
    """`all_reduce` where the gradients of the results are promised to be equal: its gradient is the identity.

    Args:
        ts, ipus, op: as of `all_reduce`.

    Returns:
        One tensor for each of `ts`.

    Raises:
        ValueError, popart.popart_exception: as of `all_reduce`.

    Example:
        >>> y_on_0, y_on_1 = ops.collectives.all_reduce_identical_grad_inputs([part_on_0, part_on_1])
    """
    return _all_reduce(ts, ipus, op, "gradients")

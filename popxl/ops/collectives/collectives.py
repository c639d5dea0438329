"""What collectives share: names of reductions, and groups."""

from typing import Any, Literal, Optional

from popxl._impl import facade
from popxl.replica_grouping import ReplicaGrouping

CollectiveOps = Literal["add", "mean", "mul", "min", "max", "and", "or", "square_add"]
_OPERATORS = {  # names of popart's CollectiveOperator
    "add": "Add",
    "mean": "Mean",
    "mul": "Mul",
    "min": "Min",
    "max": "Max",
    "and": "LogicalAnd",
    "or": "LogicalOr",
    "square_add": "SquareAdd",
    "local": "Local",
}


def to_collective_op(op: str) -> Any:
    """The `CollectiveOperator` of a reduction. Raises ValueError for another word."""
    return getattr(facade.core().CollectiveOperator, _OPERATORS[check_reduction(op)])


def check_reduction(op: str) -> str:
    """`op`. Raises ValueError when it is no reduction."""
    if op not in _OPERATORS or op == "local":
        words = ", ".join(repr(word) for word in _OPERATORS if word != "local")
        raise ValueError(f"The collective op is {op!r}: it is one of {words}.")
    return op


def group_attributes(ir: Any, group: Optional[ReplicaGrouping]) -> dict[str, Any]:
    """Attributes of an op over `group`; None: all replicas.

    Raises:
        TypeError: it is no replica grouping.
        ValueError: it is one of another Ir or number of replicas.
        NotImplementedError: it is not constant.
    """
    replicas = ir.replication_factor
    if group is None:
        return {"group_size": replicas, "group_stride": 1}
    if not isinstance(group, ReplicaGrouping):
        raise TypeError(f"group is {group!r}: it is a popxl.ReplicaGrouping or None.")
    if group._ir != ir or group._replicas != replicas:
        raise ValueError(f"{group!r} is not of {ir!r} with its {replicas} replicas.")
    if not group.is_const:
        raise NotImplementedError(f"Collectives take groups with one stride: use the const_rg of {group!r}.")
    return {"group_size": group.group_size, "group_stride": group.stride}

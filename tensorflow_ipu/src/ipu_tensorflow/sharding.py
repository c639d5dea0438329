"""`ipu.sharding`: on which IPU operations are that no scope has put anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ipu_tensorflow import attributes, host

_COLOCATION = "_class"


def dependencies(roots: Iterable[Any]) -> set[host.Operation]:
    """The operations of `roots`, operations or tensors, and all that they depend on, by data or by control."""
    found: set[host.Operation] = set()
    left = [root if isinstance(root, host.Operation) else root.op for root in roots]
    while left:
        op = left.pop()
        if op not in found:
            found.add(op)
            left += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return found


def has_attr(o: host.Operation, attr_name: str) -> bool:
    """Whether an operation carries the attribute."""
    return attr_name in o.node_def.attr


def get_shard_from_colocation(op: host.Operation) -> int | None:
    """The shard of an operation that `op` is co-located with; else that of the first of its inputs that has one; else None."""
    others = [_named(op.graph, group.decode().removeprefix("loc:@")) for group in op.colocation_groups()]
    for other in [*others, *(tensor.op for tensor in op.inputs)]:
        if other is not None and has_attr(other, attributes.SHARD):
            return other.get_attr(attributes.SHARD)
    return None


def propagate_sharding(g: host.Graph) -> None:
    """Gives operations that are co-located with others and have no shard the shard that `get_shard_from_colocation` finds, until there
    are none left for which it finds one."""
    left = [op for op in g.get_operations() if has_attr(op, _COLOCATION) and not has_attr(op, attributes.SHARD)]
    while left:
        known = len(left)
        left = [op for op in left if not _take_shard(op)]
        if len(left) == known:
            return


def _take_shard(op: host.Operation) -> bool:
    shard = get_shard_from_colocation(op)
    if shard is None:
        return False
    host.set_attribute(op, attributes.SHARD, host.AttrValue(i=shard))
    return True


def _named(graph: host.Graph, name: str) -> host.Operation | None:
    """None: it is in a graph around this one, as variables are."""
    try:
        return graph.get_operation_by_name(name)
    except KeyError:
        return None

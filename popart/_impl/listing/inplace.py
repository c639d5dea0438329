"""Which ops may write their result over an operand."""

from __future__ import annotations

import math

from popart._impl.listing import op_types
from popart._impl.listing.records import Listing, Op, attributes_of

_PROTECTED = ("variable", "constant", "state")


class _Storage:
    """Tensors that share memory."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}
        self.last_read: dict[str, int] = {}
        self.is_protected: dict[str, bool] = {}
        self.overwritten: dict[str, int] = {}  # when an op first writes over it

    def root(self, id: str) -> str:
        while (above := self.parent.get(id, id)) != id:
            self.parent[id] = self.parent.get(above, above)
            id = self.parent[id]
        return id

    def join(self, a: str, b: str) -> None:
        a, b = self.root(a), self.root(b)
        if a != b:
            self.parent[b] = a
            self.last_read[a] = max(self.last_read.get(a, -1), self.last_read.get(b, -1))
            self.is_protected[a] = self.is_protected.get(a, False) or self.is_protected.get(b, False)
            if b in self.overwritten:
                self.overwritten[a] = min(self.overwritten[b], self.overwritten.get(a, self.overwritten[b]))

    def would_be_overwritten(self, source: str, view: str) -> bool:
        """Whether an op that writes over the view would change what has to stay or is read later."""
        when, root = self.overwritten.get(self.root(view)), self.root(source)
        return when is not None and (self.is_protected.get(root, False) or self.last_read.get(root, -1) > when)


def overwrite(listing: Listing, ops: list[Op], protected: set[str]) -> None:
    """Renames the ops of a graph that may work in place. `protected`: tensors that keep their values."""
    storage = _Storage()
    for i, op in enumerate(ops):
        for id in op.inputs:
            storage.last_read[id] = i
        for id in [*op.inputs, *op.outputs]:
            is_kept = id in protected or listing.kinds.get(id) in _PROTECTED or op.recompute == "Recompute"
            storage.is_protected[id] = storage.is_protected.get(id, False) or is_kept
    candidates = [
        (-priority, i, type, operand)
        for i, op in enumerate(ops)
        if listing.enabled("InPlace", op.excluded) and op.inputs and op.outputs
        for type, operand, priority in _variants(op)
        if (operand or 0) < len(op.inputs)
    ]
    done: set[int] = set()
    for _, i, type, operand in sorted(candidates, key=lambda each: each[:2]):  # of one op in their order
        op = ops[i]
        if i in done:
            continue
        is_view = op.type in op_types.VIEWS
        viewed = op.inputs if operand is None else [op.inputs[operand]]
        if is_view and any(storage.would_be_overwritten(id, op.outputs[0]) for id in viewed):
            continue
        if is_view or _may_overwrite(listing, storage, op, operand, i):
            op.type = type
            done.add(i)
            for id in viewed:
                storage.join(id, op.outputs[0])
            if not is_view:
                storage.overwritten[storage.root(op.outputs[0])] = i


def _may_overwrite(listing: Listing, storage: _Storage, op: Op, operand: int | None, at: int) -> bool:
    id = op.inputs[operand or 0]
    root = storage.root(id)
    others = [storage.root(other) for i, other in enumerate(op.inputs) if i != (operand or 0)]
    same = listing.type_of(id) == listing.type_of(op.outputs[0])
    return same and root not in others and storage.last_read[root] <= at and not storage.is_protected.get(root, False)


def _variants(op: Op) -> list[tuple[str, int | None, float]]:
    """Types in place, the operand that each overwrites (None: a view of all), and how much it is preferred."""
    if op.type in op_types.VIEWS_IN_PLACE:
        variants: list[tuple[str, int | None]] = [(op.type + "Inplace", None if op.type == "Concat" else 0)]
    elif op.type in op_types.IN_PLACE:
        variants = [(op.type + "Inplace", 0)]
    elif op.type in op_types.BOTH_SIDES:
        variants = [(op.type + "LhsInplace", 0), (op.type + "RhsInplace", 1)]
    elif op.type in op_types.LEFT_SIDE:
        variants = [(op.type + "LhsInplace", 0)]
    else:
        return []
    given = attributes_of(op.node) if op.node is not None else {}
    names = [name.decode() for name in given.get("__inplace_op_names", [])]
    preferred = dict(zip(names, given.get("__inplace_op_priorities", [])))
    usual = math.inf if op.type in op_types.VIEWS else 1.0  # views cost nothing: they come first unless it is said
    found = [(*variant, float(preferred.get(variant[0], usual))) for variant in variants]
    return [variant for variant in found if variant[2] >= 0]

"""Ops that only look at their operand in another way: consecutive ones become one, those that cancel go."""

from __future__ import annotations

from collections import defaultdict

from popart._impl.listing.records import Listing, Op

_RESHAPES = {"Reshape", "ReshapeGrad"}


def merge_views(listing: Listing) -> None:
    makers = {id: op for op in listing.ops for id in op.outputs}
    for op in listing.ops:
        if op.type in _RESHAPES:
            before = makers.get(op.inputs[0])
            while before is not None and before.type in _RESHAPES and _together(before, op):
                op.inputs[0] = before.inputs[0]
                before = makers.get(op.inputs[0])
            if listing.type_of(op.inputs[0]) == listing.type_of(op.outputs[0]):
                _nothing(listing, op)
        elif op.type == "Identity" and listing.options.enableOutlining and listing.anchored & set(op.outputs):
            _merge_into_anchor(makers, op)
        elif op.type == "Transpose":
            before = makers.get(op.inputs[0])
            if before is not None and before.type == "Transpose" and _together(before, op) and _cancel(before, op):
                op.inputs[0] = before.inputs[0]
                _nothing(listing, op)
    _drop(listing)


def _merge_into_anchor(makers: dict[str, Op], op: Op) -> None:
    """A chain of reshapes and identities that ends in an anchor is one op."""
    before = makers.get(op.inputs[0])
    while before is not None and before.type in (*_RESHAPES, "Identity") and _together(before, op):
        if op.type == "Identity" and before.type in _RESHAPES:
            op.type, op.own, op.identity_of = "Reshape", dict(before.own), ""
        op.inputs[0] = before.inputs[0]
        before = makers.get(op.inputs[0])


def _together(first: Op, second: Op) -> bool:
    return first.place == second.place and first.context == second.context and "ViewSimplify" not in second.excluded


def _cancel(first: Op, second: Op) -> bool:
    a, b = (op.own.get("perm", "").strip("[]").split() for op in (first, second))
    return bool(a) and len(a) == len(b) and [a[int(i)] for i in b] == [str(i) for i in range(len(a))]


def _nothing(listing: Listing, op: Op) -> None:
    """The op is an Identity, which goes unless somebody asked for its result."""
    if not listing.enabled("OpToIdentity", op.excluded):
        return
    op.identity_of, op.type, op.own = op.type, "Identity", {}
    if listing.enabled("PostNRepl", op.excluded) and not listing.anchored & set(op.outputs):
        listing.alias[op.outputs[0]] = op.inputs[0]


def _drop(listing: Listing) -> None:
    """Removes what became an alias, and views that nobody reads any more."""
    listing.ops = [op for op in listing.ops if not (op.outputs and op.outputs[0] in listing.alias)]
    for op in listing.ops:
        op.inputs = [listing.read(id) if id else "" for id in op.inputs]
    readers: dict[str, int] = defaultdict(int)
    for op in listing.ops:
        for id in op.inputs:
            readers[id] += 1
    kept = []
    wanted = listing.anchored | {listing.source.loss}
    for op in reversed(listing.ops):
        if op.type in (*_RESHAPES, "Transpose", "Identity") and not any(
            readers[id] or id in wanted for id in op.outputs
        ):
            for id in op.inputs:
                readers[id] -= 1
            continue
        kept.append(op)
    listing.ops = kept[::-1]

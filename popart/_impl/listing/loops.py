"""Explicit main loops: the batches of a step and the micro-batches of a weight update as Loop ops, each with a graph of its own."""

from __future__ import annotations

from popart._impl.listing.records import Listing, Op
from popart._impl.listing.update_types import OUTER
from popart._impl.option_values import accumulation_of


def enclose(listing: Listing, graphs: dict[str, list[Op]], name: str) -> None:
    """Moves the ops of the main graph into the loops that the numbers of batches and micro-batches make."""
    batches = listing.source.data_flow.batchesPerStep()
    accumulation = accumulation_of(listing.options) if listing.is_training else 1
    if accumulation > 1:
        late = {id for op in listing.ops if op.context == OUTER for id in op.outputs}
        outer = [op for op in listing.ops if op.context == OUTER or op.type == "HostStore" and set(op.inputs) & late]
        kept = {id(op) for op in outer}
        inner = [op for op in listing.ops if id(op) not in kept]
        listing.ops = [_loop(listing, graphs, "accumulation", inner, outer, accumulation), *outer]
    if batches > 1:
        listing.ops = [_loop(listing, graphs, "step", listing.ops, [], batches)]
    graphs[name] = listing.ops


def _loop(listing: Listing, graphs: dict[str, list[Op]], base: str, ops: list[Op], behind: list[Op], trips: int) -> Op:
    """A graph of the ops, and the op that runs it: it takes what they read of others, and gives what `behind` reads."""
    graph = f"{base}_subgraph({listing.calls})"
    listing.calls += 1
    made = {id for op in ops for id in op.outputs}
    read = dict.fromkeys(id for op in ops for id in op.inputs if id and id not in made)
    wanted = {id for op in behind for id in op.inputs}
    written = {f"UpdatedVar___{id}" for id in read if listing.kinds.get(id) in ("variable", "state")}
    results = [id for id in dict.fromkeys(id for op in ops for id in op.outputs) if id in wanted or id in written]
    for op in ops:
        op.inputs = [_inside(listing, graph, id) for id in op.inputs]
        op.outputs = [_inside(listing, graph, id) for id in op.outputs]
        op.context, op.scope = "Subgraph", op.scope or graph
    count, condition = f"{graph}___trips", f"{graph}___condition"
    listing.types |= {count: ("INT32", ()), condition: ("BOOL", ())}
    listing.kinds |= {count: "constant", condition: "constant"}
    graphs[graph] = ops
    listing.loops.append(graph)
    place = (None, None, None)
    return Op("Loop", [count, condition, *read], results, {"callee": graph, "tripCountValue": str(trips)}, place=place)


def _inside(listing: Listing, graph: str, id: str) -> str:
    if not id:
        return id
    inner = f"{graph}/{id}"
    if inner not in listing.types:
        listing.types[inner] = listing.type_of(id)
        if id in listing.kinds:
            listing.kinds[inner] = listing.kinds[id]
        if id in listing.anchored:
            listing.anchored.add(inner)
        if id in listing.losses:
            listing.losses.add(inner)
    return inner

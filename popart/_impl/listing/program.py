"""Puts a listing together, in the order in which a program is prepared."""

from __future__ import annotations

from popart._impl.enums import VirtualGraphMode
from popart._impl.listing import (
    batch_parts,
    dot_files,
    forward,
    inplace,
    loops,
    merging,
    op_types,
    outlining,
    places,
    remote,
    schedules,
    tied,
    updates,
    views,
)
from popart._impl.listing.backward import Backward
from popart._impl.listing.records import Listing, Op
from popart._impl.listing.source import Source


class Program:
    """The graphs of a session: name -> ops in the order in which they run."""

    def __init__(self, source: Source) -> None:
        self.listing = Listing(source)
        self.name = main_name(source.model.graph.name)
        self.graphs: dict[str, list[Op]] = {}
        self._forward()
        if self.listing.is_training:
            self._backward()
        self._placed()
        self._finish()

    def _check(self, name: str) -> None:
        self.graphs[self.name] = self.listing.ops
        dot_files.checkpoint(self.graphs, self.listing.options, name)

    def _forward(self) -> None:
        listing = self.listing
        nodes = forward.needed(listing)
        if listing.is_training:
            forward.add_graded(listing, nodes)
        tables = tied.find(listing, nodes)
        lowering = forward.Forward(listing)
        self._check("Fwd0")
        for node in batch_parts.unroll(listing, nodes):
            if node.output and node.output[0] in tables:
                tied.lower(listing, node, tables[node.output[0]])
            else:
                lowering.lower(node)
        forward.add_bodies(listing, nodes, self.graphs)
        self._check("Fwd1")

    def _backward(self) -> None:
        Backward(self.listing).make()
        self._check("Bwd0")

    def _placed(self) -> None:
        listing = self.listing
        if listing.is_training:
            places.place_backward(listing)
            tied.accumulate(listing)
            updates.add_updates(listing)
            merging.merge_updates(listing)
        views.merge_views(listing)
        places.mark_recomputation(listing)
        self._check("PreAlias")
        if listing.options.virtualGraphMode is not VirtualGraphMode["Off"]:
            places.add_copies(listing)
        if listing.options.explicitRecomputation:
            places.clone_recomputed(listing)
        if listing.options.enablePipelining and (
            listing.is_training or listing.options.stashAllTensorsInferencePipeline
        ):
            places.stash(listing)
        remote.move(listing)
        merging.merge_collectives(listing)
        places.add_streams(listing)
        if listing.options.enableExplicitMainLoops:
            loops.enclose(listing, self.graphs, self.name)
            self._check("MainLoops")

    def _finish(self) -> None:
        listing, options = self.listing, self.listing.options
        self.graphs = {self.name: listing.ops} | {name: ops for name, ops in self.graphs.items() if name != self.name}
        explicit = options.enablePipelining and options.enableExplicitMainLoops
        if explicit:
            dot_files.checkpoint(self.graphs, self.listing.options, "ExplicitPipelineBeforeOutline")
        if options.enableOutlining:
            for name in [self.name, *listing.loops]:
                outlining.outline(listing, self.graphs, name)
        if explicit:
            dot_files.checkpoint(self.graphs, self.listing.options, "ExplicitPipelineAfterOutline")
            dot_files.checkpoint(self.graphs, self.listing.options, "ExplicitPipelineAfterDecompose")
        for name, ops in self.graphs.items():
            made = {id for op in ops for id in op.outputs}
            outside = {id for op in ops for id in op.inputs if id not in made} if name != self.name else set()
            inplace.overwrite(listing, ops, listing.anchored | outside)
        dot_files.checkpoint(self.graphs, self.listing.options, "Final")
        if options.serializedPoprithmsShiftGraphsDir:
            schedules.write(listing, self.graphs)

    def tensors(self) -> set[str]:
        """Ids that ops of any graph read or make."""
        return {id for ops in self.graphs.values() for op in ops for id in [*op.inputs, *op.outputs] if id}

    def unlowered(self) -> list[Op]:
        """Ops that a mandatory pattern would have written as others."""
        return [op for ops in self.graphs.values() for op in ops if self.pattern_missed(op)]

    def pattern_missed(self, op: Op) -> str:
        """The pattern that is off and that the op needs; "" for none."""
        pattern = op_types.SUBSTITUTED.get(op.type, ("",))[0] or op_types.NEEDED.get(op.type, "")
        is_mandatory = bool(pattern) and self.listing.patterns.isMandatory(pattern)
        return pattern if is_mandatory and not self.listing.enabled(pattern) else ""


def main_name(name: str) -> str:
    return "maingraph" if not name or "BuilderGraph_" in name else name

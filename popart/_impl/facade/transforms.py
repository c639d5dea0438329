"""Transforms that programs ask for by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from popart._impl.enums import AutodiffStitchStrategy
from popart._impl.exceptions import popart_exception
from popart._impl.facade.ids import GraphId
from popart._impl.facade.values import BwdGraphInfo, value_of


@dataclasses.dataclass(frozen=True)
class Transfer:
    """One move of data to or from the host or streaming memory."""

    kind: str
    stream: str  # id of the stream tensor; "" where it is a remote buffer


def transfers(op: Any, side: str) -> list[tuple[Transfer, Any]]:
    """(transfer, tensor that is moved) of an exchange op, those of a MultiExchange one by one. `side`: "in" or "out"."""
    if op.kind == "MultiExchange":
        rows = op.core.transfers(op.id)
    elif op.kind in ("HostLoad", "HostStore", "RemoteLoad", "RemoteLoadInplace", "RemoteStore"):
        rows = [(op.kind, op.attributes(), {0: 0}, {0: 0})]
    else:
        return []
    found = []
    for kind, attributes, inputs, outputs in rows:
        index = (inputs if side == "in" else outputs).get(0)
        holds = op.hasInput(index) if side == "in" else op.hasOutput(index)
        if index is not None and holds:
            tensor = op.inTensor(index) if side == "in" else op.outTensor(index)
            found.append((Transfer(kind, attributes.get("stream", "")), tensor))
    return found


class _Transform:
    def getName(self) -> str:
        return type(self).__name__

    def getId(self) -> str:
        return type(self).__name__

    def apply(self, graph: Any) -> bool:
        raise NotImplementedError


class Prune(_Transform):
    """Ops go whose outputs nothing reads, and that do nothing else."""

    def apply(self, graph: Any) -> bool:
        graph.core.prune(graph.number)
        return True


class DecomposeSum(_Transform):
    """Sums of more than two become a zero and a chain of additions."""

    def apply(self, graph: Any) -> bool:
        graph.core.decompose_sums(graph.number)
        return True


class MergeExchange(_Transform):
    """Exchanges that nothing forces apart become one MultiExchange each group."""

    def apply(self, graph: Any) -> bool:
        self.applyToOps(graph, graph.getOpIds())
        return True

    def applyToOps(self, graph: Any, include_ops: Sequence[int]) -> list[Any]:
        """Merges the exchanges among these ops. Returns the new ops."""
        made = graph.core.merge_exchange(graph.number, list(include_ops))
        return [graph.getIr().wrap_op(op) for op in made]


class Autodiff:
    """Makes gradient graphs."""

    def getName(self) -> str:
        return "Autodiff"

    def apply(
        self,
        ir: Any,
        fwdGraphId: Any,
        gradsProvidedForFwdId: Any = (),
        gradsRequiredForFwdId: Any = None,
        calledGraphsGradInfo: Mapping[Any, BwdGraphInfo] | None = None,
        stitchStrategy: Any = AutodiffStitchStrategy["SafeAddFwdOutputs"],
    ) -> dict[GraphId, BwdGraphInfo]:
        """The gradient graph of a graph and of those it calls, by id of the forward graph; entries given are returned too.

        Args:
            gradsProvidedForFwdId: ids of forward tensors whose gradients are inputs; none: all outputs.
            gradsRequiredForFwdId: ids of forward tensors whose gradients are outputs; an empty optional: all inputs.

        Raises:
            popart_exception: a write, a required gradient that does not arise, an unknown id, an op that has no gradient.
        """
        graph = ir.getGraph(fwdGraphId)
        provided, required = value_of(gradsProvidedForFwdId), value_of(gradsRequiredForFwdId)
        known = {str(id): info.plain() for id, info in (calledGraphsGradInfo or {}).items()}
        ids = graph.getOutputIds() if not provided else [str(id) for id in provided]
        wanted = None if required is None else [str(id) for id in required]
        made = graph.core.differentiate(graph.number, ids, wanted, known, stitchStrategy.name)
        return {GraphId(id): BwdGraphInfo.of_plain(info) for id, info in made.items()}


_BY_NAME = {kind.__name__: kind for kind in (Prune, DecomposeSum, MergeExchange)}


def of_name(name: Any) -> _Transform:
    if str(name) not in _BY_NAME:
        raise popart_exception(f"no transform of a graph is called '{name}'; there are {', '.join(_BY_NAME)}")
    return _BY_NAME[str(name)]()

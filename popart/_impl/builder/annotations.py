"""Where and when nodes run: settings of nodes that are there, and contexts whose nodes get a setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from popart._impl.builder import protos
from popart._impl.builder.arguments import Refused, integer, names, number, refusal, text
from popart._impl.builder.contexts import AttributeContextManager, KeyValueContextManager, NameContextManager
from popart._impl.builder.node_attributes import NodeAttributes
from popart._impl.builder.operation import Operation
from popart._impl.enums import RecomputeType
from popart._impl.exceptions import popart_exception
from popart._impl.locations import TensorLocation

VIRTUAL_GRAPH, PIPELINE_STAGE, EXECUTION_PHASE = "__ipu_number", "__pipeline_stage", "__execution_phase"
PRIORITY, RECOMPUTE, OUTPUT_LOCATION = (
    "__schedule_priority",
    "__recompute_output_in_backward_pass",
    "__output_tensor_location",
)
COMM_GROUP, OUTLINE, EXCLUDED = "__collectiveCommGroup", "__outline", "__exclude_patterns"
_KINDS = protos.Attribute
_KIND = {
    VIRTUAL_GRAPH: _KINDS.INT,
    PIPELINE_STAGE: _KINDS.INT,
    EXECUTION_PHASE: _KINDS.INT,
    PRIORITY: _KINDS.FLOAT,
    RECOMPUTE: _KINDS.INT,
    OUTPUT_LOCATION: _KINDS.INTS,
    COMM_GROUP: _KINDS.INTS,
    OUTLINE: _KINDS.STRINGS,
}


def _place(function: str, value: Any, shown: str) -> int:
    try:
        place = integer(value)
    except Refused:
        raise refusal(function, [shown], [value], {}) from None
    if place < 0:
        raise popart_exception(f"{function}: {place} is negative")
    return place


def _recompute(value: Any) -> int:
    try:
        return RecomputeType(integer(value.value if isinstance(value, RecomputeType) else value)).value
    except (Refused, ValueError):
        raise refusal("recomputeOutput", ["(value: RecomputeType = RecomputeType.Undefined)"], [value], {}) from None


def _location(value: Any) -> list[int]:
    if not isinstance(value, TensorLocation):
        raise refusal("outputTensorLocation", ["(value: TensorLocation = TensorLocation())"], [value], {})
    domain = value.shardingDomain
    parts = (value.storage, value.loadTileSet, value.storageTileSet, value.replicatedTensorSharding, domain.type)
    return [*(part.value for part in parts), domain.replicaGroupSize]


class Annotations(NodeAttributes):
    common: dict[str, Any]

    def _annotate(self, node: onnx.NodeProto) -> None:
        present = {attribute.name for attribute in node.attribute}
        for name, value in self.common.items():
            if name not in present:
                node.attribute.append(protos.attribute(name, _KIND[name], value))

    def _set(self, function: str, outputs: Any, attribute: str, value: Any) -> None:
        """One name stands for the node it is an output of; a set for one node; a list for the nodes of its names."""
        if isinstance(outputs, (list, tuple)) and not any(
            set(node.output) == set(outputs) for node in map(self.nodes.get, outputs) if node
        ):
            for output in outputs:
                self._set(function, output, attribute, value)
            return
        self.replace_attribute(self.node_with(outputs, function), protos.attribute(attribute, _KIND[attribute], value))

    def _placed(
        self, function: str, attribute: str, args: Sequence[Any], named: dict[str, Any], default: int | None
    ) -> Any:
        ways = [
            f"(value: int{'' if default is None else f' = {default}'}) -> AttributeContextManager",
            "(nodeOutputNames: str, value: int = 0) -> None",
        ]
        given = dict(zip(("nodeOutputNames", "value"), args))
        is_context = "nodeOutputNames" not in named and (
            not args or not isinstance(args[0], (str, set, frozenset, list, tuple))
        )
        if is_context:
            given = dict(zip(("value",), args))
        if (
            len(args) > (1 if is_context else 2)
            or named.keys() & given.keys()
            or named.keys() - {"nodeOutputNames", "value"}
        ):
            raise refusal(function, ways, args, named)
        given.update(named)
        if is_context:
            if "value" not in given and default is None:
                raise refusal(function, ways, args, named)
            return AttributeContextManager(self, attribute, _place(function, given.get("value", default), ways[0]))
        self._set(function, given["nodeOutputNames"], attribute, _place(function, given.get("value", 0), ways[1]))
        return None

    def virtualGraph(self, *args: Any, **kwargs: Any) -> Any:
        """(value): a context whose nodes run on this virtual graph; (nodeOutputNames, value=0): puts nodes on it."""
        return self._placed("virtualGraph", VIRTUAL_GRAPH, args, kwargs, None)

    def executionPhase(self, *args: Any, **kwargs: Any) -> Any:
        """(value=0): a context whose nodes run in this phase; (nodeOutputNames, value=0): puts nodes into it."""
        return self._placed("executionPhase", EXECUTION_PHASE, args, kwargs, 0)

    def pipelineStage(self, *args: Any, **kwargs: Any) -> Any:
        """(value): a context whose nodes run in this stage; (nodeOutputName, value=0): puts the node into it."""
        return self._placed("pipelineStage", PIPELINE_STAGE, args, kwargs, None)

    def schedulePriority(self, value: float) -> AttributeContextManager:
        """A context whose nodes run earlier than others of lower priority, where data allow it. The default is 0."""
        try:
            return AttributeContextManager(self, PRIORITY, number(value))
        except Refused:
            raise refusal("schedulePriority", ["(value: float) -> AttributeContextManager"], [value], {}) from None

    def recomputeOutput(
        self, nodeOutputNames: Any = RecomputeType.Undefined, value: Any = RecomputeType.Undefined
    ) -> Any:
        """(value): a context; (nodeOutputNames, value): says of nodes whether their outputs are kept or computed again."""
        if isinstance(nodeOutputNames, (str, set, frozenset, list, tuple)):
            return self._set("recomputeOutput", nodeOutputNames, RECOMPUTE, _recompute(value))
        chosen = nodeOutputNames if nodeOutputNames is not RecomputeType.Undefined else value
        return AttributeContextManager(self, RECOMPUTE, _recompute(chosen))

    def recomputeOutputInBackwardPass(self, nodeOutputName: Any, value: Any = RecomputeType.Recompute) -> None:
        self._set("recomputeOutputInBackwardPass", nodeOutputName, RECOMPUTE, _recompute(value))

    def getRecomputeOutputInBackwardPass(self, nodeOutputName: Any) -> bool:
        node = self.node_with(nodeOutputName, "getRecomputeOutputInBackwardPass")
        return protos.values_of(node).get(RECOMPUTE) == RecomputeType["Recompute"].value

    def checkpointOutput(self, nodeOutputNames: Sequence[str]) -> list[str]:
        """Puts an Identity behind each tensor whose output is kept for the backward pass; returns their outputs."""
        ids = [nodeOutputNames] if isinstance(nodeOutputNames, str) else list(nodeOutputNames)
        version = self.model.versions.get("", 10)
        outputs = []
        for id in ids:
            made = [
                protos.attribute(RECOMPUTE, _KINDS.INT, RecomputeType["Checkpoint"].value),
                protos.attribute(EXCLUDED, _KINDS.STRINGS, ["PreUniRepl", "PostNRepl"]),
            ]
            outputs += self.add_node(Operation("", "Identity", version, (1, 1), (1, 1)), [id], 1, made, "Checkpoint")  # type: ignore[attr-defined]
        return outputs

    def outputTensorLocation(self, nodeOutputNames: Any = None, value: Any = None) -> Any:
        """(value): a context; (nodeOutputNames, value): says of nodes where their outputs are kept."""
        if isinstance(nodeOutputNames, (str, set, frozenset, list, tuple)):
            return self._set(
                "outputTensorLocation", nodeOutputNames, OUTPUT_LOCATION, _location(value or TensorLocation())
            )
        chosen = nodeOutputNames if nodeOutputNames is not None else value
        return AttributeContextManager(self, OUTPUT_LOCATION, _location(TensorLocation() if chosen is None else chosen))

    def commGroup(self, type: Any = 0, groupSize: int = 0) -> AttributeContextManager:
        """A context whose collectives work within groups of replicas."""
        try:
            pair = [integer(getattr(type, "value", type)), integer(groupSize)]
        except Refused:
            raise refusal("commGroup", ["(type: int = 0, groupSize: int = 0)"], [type, groupSize], {}) from None
        return AttributeContextManager(self, COMM_GROUP, pair)

    def outlineAttributes(self, attributes: dict[str, str]) -> KeyValueContextManager:
        """A context whose nodes are only made one subgraph with nodes of the same keys and texts."""
        return KeyValueContextManager(self, OUTLINE, attributes)

    def excludePatterns(self, nodeOutputName: Any, patternNames: Sequence[str]) -> None:
        """Names patterns that leave this node alone."""
        node = self.node_with(nodeOutputName, "excludePatterns")
        try:
            listed = (
                [text(name) for name in ([] if isinstance(patternNames, str) else patternNames)]
                if not isinstance(patternNames, str)
                else None
            )
        except Refused:
            listed = None
        if listed is None:
            raise refusal(
                "excludePatterns",
                ["(nodeOutputName: str, patternNames: List[str]) -> None"],
                [nodeOutputName, patternNames],
                {},
            )
        self.replace_attribute(node, protos.attribute(EXCLUDED, _KINDS.STRINGS, listed))

    def nameScope(self, name: str) -> NameContextManager:
        """A context in which names of nodes and tensors begin with the name and a slash."""
        return NameContextManager(self, name)

    # --- what is set
    def _current(self, function: str, attribute: str) -> int:
        if attribute not in self.common:
            raise popart_exception(
                f"{function}: it is not set here; call it inside `with builder.{function[3].lower()}{function[4:]}(n):`"
            )
        return self.common[attribute]

    def getVirtualGraph(self, nodeOutputNames: Any = None) -> int:
        """The virtual graph of the open context, or of a node. Raises popart_exception when there is none."""
        if nodeOutputNames is None:
            return self._current("getVirtualGraph", VIRTUAL_GRAPH)
        outputs = names(nodeOutputNames)
        node = self.node_with(nodeOutputNames if isinstance(nodeOutputNames, str) else outputs, "getVirtualGraph")
        values = protos.values_of(node)
        if VIRTUAL_GRAPH not in values:
            raise popart_exception(f"getVirtualGraph: {node.op_type} '{node.output[0]}' is on no virtual graph")
        return values[VIRTUAL_GRAPH]

    def hasVirtualGraph(self) -> bool:
        return VIRTUAL_GRAPH in self.common

    def getPipelineStage(self) -> int:
        return self._current("getPipelineStage", PIPELINE_STAGE)

    def hasPipelineStage(self) -> bool:
        return PIPELINE_STAGE in self.common

    def getExecutionPhase(self) -> int:
        return self._current("getExecutionPhase", EXECUTION_PHASE)

    def hasExecutionPhase(self) -> bool:
        return EXECUTION_PHASE in self.common

"""Ops of a graph, by id: what every class of op has."""

from __future__ import annotations

from typing import Any

import numpy

from popart._impl.exceptions import popart_exception
from popart._impl.facade import gradients
from popart._impl.facade.ids import OperatorIdentifier, Scope, add_scope
from popart._impl.facade.settings import Settings
from popart._impl.facade.tensor import Tensor
from popart._impl.facade.unjudged import types_of_outputs
from popart._impl.facade.values import OPTIONALS, value_of
from popart._impl.tensor_info import TensorInfo

_NORMS = frozenset(["GroupNormalization", "BatchNormalization"])
_SIDE_EFFECTS = frozenset(["HostStore", "RemoteStore", "RemoteCodeLoad", "PrintTensor"])
_RANDOM = frozenset(["Dropout", "ShapedDropout", "RandomNormal", "RandomUniform"])


class Op:
    """Op(opid, settings) makes a plain op that its graph does not list; those of a graph come from it.

    Raises:
        popart_exception: the tensors do not fit, an attribute is not set.
        IndexError: there is no input or output of an index.
    """

    _ir: Any
    _op: int

    def __init__(self, opid: OperatorIdentifier, settings: Settings) -> None:
        self._ir = settings.getIr()
        # Rows of the native table cover published types alone; a plain op borrows that of Identity.
        self._op = self.core.create_bare_op(settings.graph.number, "Identity", {}, settings.plain(), opid.key())
        self._ir.unlisted_ops.add(self._op)
        self._ir.keep_op(self)
        self._take(settings, opid)

    @classmethod
    def of_id(cls, ir: Any, op: int) -> Op:
        self = object.__new__(cls)
        self._ir, self._op = ir, op
        return self

    def _take(self, settings: Settings, opid: OperatorIdentifier | None) -> None:
        """What the native side is not told when an op is made."""
        for name, value in settings.later().items():
            self.core.set_op_setting(self._op, name, value)
        self._opid = opid
        self._scope = settings.scope if not settings.scope.empty() else None

    _opid: OperatorIdentifier | None = None
    _scope: Scope | None = None
    _settings: Settings | None = None

    @property
    def core(self) -> Any:
        return self._ir.checked

    # --- identity
    @property
    def id(self) -> int:
        return self._op

    @property
    def opid(self) -> OperatorIdentifier:
        if self._opid is None:
            self._opid = OperatorIdentifier(*self.core.op_identifier(self._op))
        return self._opid

    @property
    def kind(self) -> str:
        """The native type, whatever the identifier says."""
        return self.core.op_type(self._op)

    def opType(self) -> str:
        return self.opid.type

    def name(self) -> str:
        return self.core.op_setting(self._op, "name")

    getName = name

    def setName(self, name: str) -> None:
        self.core.set_op_setting(self._op, "name", name)

    def __str__(self) -> str:
        return f"{self._op} ({self.opid})"

    __repr__ = __str__

    def str(self) -> Any:
        return self.__str__()

    def debugName(self) -> Any:
        inputs, outputs = (
            ", ".join(tensor.id for tensor in side) for side in (self.getInputTensors(), self.getOutputTensors())
        )
        callees = "".join(f", callee={graph.id}" for graph in self.getCalledGraphs())
        return f"Op({self.name()} ({self.opid}), inputs=[{inputs}], outputs=[{outputs}]{callees})"

    def getDebugInfo(self) -> Any:
        return self._ir.debug_info("op", self._op, self.name())

    def finalizeDebugInfo(self) -> None:
        """Nothing is left to be done: contexts are complete when they are made."""

    # --- place
    def getGraph(self) -> Any:
        return self._ir.wrap_graph(self.core.op_graph(self._op))

    def getIr(self) -> Any:
        return self._ir

    def getScope(self) -> Scope:
        return self._scope or self.getGraph().getScope()

    def setScope(self, scope: Scope) -> None:
        self._scope = scope

    def getSettings(self) -> Settings:
        if self._settings is None:
            self._settings = Settings.of_op(self)
        return self._settings

    @property
    def settings(self) -> Settings:
        return self.getSettings()

    # --- tensors
    def _wrap(self, side: dict[int, int]) -> dict[int, Tensor]:
        return {index: self._ir.wrap_tensor(side[index]) for index in sorted(side)}

    def getInputIndexMap(self) -> dict[int, Tensor]:
        return self._wrap(self.core.op_inputs(self._op))

    def getOutputIndexMap(self) -> dict[int, Tensor]:
        return self._wrap(self.core.op_outputs(self._op))

    def getInputTensors(self) -> list[Tensor]:
        return list(self.getInputIndexMap().values())

    def getOutputTensors(self) -> list[Tensor]:
        return list(self.getOutputIndexMap().values())

    def _at(self, what: Any, side: dict[int, int], index: int) -> Tensor:
        if index not in side:
            raise IndexError(f"{self} has no {what} {index}; there are {sorted(side)}")
        return self._ir.wrap_tensor(side[index])

    def inTensor(self, index: int) -> Tensor:
        return self._at("input", self.core.op_inputs(self._op), index)

    def outTensor(self, index: int) -> Tensor:
        return self._at("output", self.core.op_outputs(self._op), index)

    def hasInput(self, index: int) -> bool:
        return index in self.core.op_inputs(self._op)

    def hasOutput(self, index: int) -> bool:
        return index in self.core.op_outputs(self._op)

    def hasInputTensor(self, tensor: Tensor) -> bool:
        return tensor.number in self.core.op_inputs(self._op).values()

    def inTensorCount(self) -> int:
        return len(self.core.op_inputs(self._op))

    def outTensorCount(self) -> int:
        return len(self.core.op_outputs(self._op))

    @staticmethod
    def _first(what: Any, side: dict[int, int], tensor: Tensor) -> int:
        found = sorted(index for index, number in side.items() if number == tensor.number)
        if not found:
            raise popart_exception(f"'{tensor.id}' is no {what} of this op")
        return found[0]

    def inIndex(self, tensor: Tensor) -> int:
        return self._first("input", self.core.op_inputs(self._op), tensor)

    firstInIndex = inIndex

    def outIndex(self, tensor: Tensor) -> int:
        return self._first("output", self.core.op_outputs(self._op), tensor)

    def optionalInputs(self) -> set[int]:
        return set()

    # --- rewiring
    def _number(self, id: Any) -> int:
        """Returns the number of a tensor of the op's graph, given its full id or its name."""
        graph = self.getGraph()
        if isinstance(id, Tensor):
            return id.number
        scoped = self._scoped(id)
        return graph.find(id if id in graph or scoped not in graph else scoped)

    def _scoped(self, id: Any) -> Any:
        """A full id: a bare name gets the scope of the op's graph."""
        graph = str(self.getGraph().id)
        return id if not graph or id.startswith(graph + "/") else add_scope(graph, id)

    def connectInTensor(self, index: int, id: Any) -> None:
        self.core.connect_input(self._op, index, self._number(id))

    def connectOutTensor(self, index: int, id: Any) -> None:
        self.core.connect_output(self._op, index, self._number(id))

    def createAndConnectOutTensor(self, index: int, id: Any) -> None:
        self.core.create_output(self._op, index, self._scoped(id))

    def disconnectInTensor(self, which: Any, tensor: Tensor | None = None) -> None:
        """An input by index, or all inputs that are a tensor."""
        if isinstance(which, int):
            self.inTensor(which)
            self.core.disconnect_input(self._op, which)
            return
        self.inIndex(which)
        for index, found in self.core.op_inputs(self._op).items():
            if found == which.number:
                self.core.disconnect_input(self._op, index)

    def disconnectOutTensor(self, tensor: Tensor) -> None:
        self.core.disconnect_output(self._op, self.outIndex(tensor))

    def disconnectAllInputs(self) -> None:
        for index in self.core.op_inputs(self._op):
            self.core.disconnect_input(self._op, index)

    def disconnectAllOutputs(self) -> None:
        for index in self.core.op_outputs(self._op):
            self.core.disconnect_output(self._op, index)

    def setup(self) -> None:
        """Infers the types of the outputs. Whether inputs are of the right types is asked by transforms and sessions.

        Raises popart_exception where those of the inputs say nothing of the outputs.
        """
        try:
            self.core.setup(self._op)
        except popart_exception:
            found = types_of_outputs(self)
            if found is None:
                raise
            for index, info in enumerate(found):
                if self.hasOutput(index):
                    self.outTensor(index).info = info

    def cloneIntoGraph(self, graph: Any) -> Any:
        """An unconnected op of the same attributes and settings in another graph."""
        clone = type(self).of_id(self._ir, self.core.clone_op(self._op, graph.number))
        clone._opid = self._opid
        self._ir.keep_op(clone)
        return clone

    def clone(self) -> Any:
        """Raises RuntimeError for a plain op."""
        if self._op in self._ir.unlisted_ops:
            raise RuntimeError(f"{self} is a plain op: clone is of its subclasses")
        return self.cloneIntoGraph(self.getGraph())

    # --- attributes, by their native names
    def attributes(self) -> dict[Any, Any]:
        return self.core.op_attributes(self._op)

    def attribute(self, name: Any, default: Any = None) -> Any:
        return self.core.op_attributes(self._op).get(name, default)

    def set_attribute(self, name: Any, value: Any) -> None:
        self.core.set_op_attribute(self._op, name, value)

    # --- callees
    def getCalledGraphs(self) -> list[Any]:
        return [self._ir.wrap_graph(graph) for graph in self.core.callees(self._op)]

    def getCalledGraphIds(self) -> list[Any]:
        return [graph.id for graph in self.getCalledGraphs()]

    def getCalledGraphIndex(self, id: Any) -> int:
        ids = self.getCalledGraphIds()
        if id not in ids:
            raise popart_exception(f"{self} does not call '{id}'; it calls {[str(callee) for callee in ids]}")
        return ids.index(id)

    def _no_callee(self, *indices: int) -> int:
        raise popart_exception(f"{self} calls no graph: it has no index {indices} of one")

    opInToSubgraphInIndex = subgraphInToOpInIndex = _no_callee
    opOutToSubgraphOutIndex = subgraphOutToOpOutIndex = _no_callee

    # --- effects
    def modifiesIndex(self, index: int) -> bool:
        return self.core.modifies(self._op, index)

    def views_input(self, index: int) -> bool:
        """Does output 0 lie in the memory of this input, unchanged?"""
        views = self._ir.kinds[self.kind].views
        return index in views or -1 in views

    def overwritesTensor(self, tensor: Tensor) -> bool:
        indices = [index for index, number in self.core.op_inputs(self._op).items() if number == tensor.number]
        return any(self.modifiesIndex(index) for index in indices)

    def isInplaceViewChange(self) -> bool:
        return bool(self._ir.kinds[self.kind].views) if self.kind.endswith("Inplace") else False

    def isOutplaceViewChange(self) -> bool:
        return f"{self.kind}Inplace" in self._ir.kinds and bool(self._ir.kinds[f"{self.kind}Inplace"].views)

    def isOptimizerOp(self) -> bool:
        return self._ir.kinds[self.kind].is_optimizer

    def isIpuCopyOp(self) -> bool:
        return self.kind == "IpuCopy"

    def hasSideEffect(self) -> bool:
        return self.kind in _SIDE_EFFECTS

    def requiresRandomSeed(self) -> bool:
        return self.kind in _RANDOM and self._op not in self._ir.unlisted_ops

    def isNorm(self) -> bool:
        return self.kind in _NORMS

    def isElementWiseUnary(self) -> bool:
        kind = self._ir.kinds[self.kind]
        is_function = kind.elementwise != "" and kind.operands == 1 and kind.is_copying
        return is_function and self._op not in self._ir.unlisted_ops

    def isLossOp(self) -> bool:
        return self.kind == "Nll"

    def isOutlineable(self) -> bool:
        return True

    def inputsUnmodifiable(self) -> bool:
        return False

    canBeReplacedByIdentity = copiesOptimizerTensors = inputsUnmodifiable

    # --- inference helpers
    def prettyNpOut(self, first: Any, second: Any, checkDataType: bool = True) -> Any:
        """The broadcast shape of two shapes, or type of two TensorInfos. Raises popart_exception where they do not fit."""
        shapes = [value.shape() if isinstance(value, TensorInfo) else list(value) for value in (first, second)]
        try:
            shape = list(numpy.broadcast_shapes(*map(tuple, shapes)))
        except ValueError:
            raise popart_exception(f"the shapes {shapes[0]} and {shapes[1]} are not aligned: {self}") from None
        if not isinstance(first, TensorInfo):
            return shape
        if checkDataType and first.dataType() is not second.dataType():
            raise popart_exception(f"incompatible types {first.data_type()} and {second.data_type()}: {self}")
        return TensorInfo(first.dataType(), shape)

    # --- gradients
    def getGradOps(self) -> list[Any]:
        """Those that transforms.Autodiff makes for this op, as new unconnected ops that no listed graph has: in the order of
        their ids, for the gradients of all outputs and inputs. Empty where the op has no gradient or calls graphs.

        Raises popart_exception where the op refuses to be differentiated."""
        return gradients.gradient_ops(self)

    def gradInputInfo(self) -> list[gradients.GradInOutMapper]:
        """Says what each input of a gradient op is to the forward op. Raises popart_exception for another op."""
        return gradients.input_info(self)

    def gradOutToNonGradIn(self) -> dict[int, int]:
        """Maps outputs of a gradient op to inputs of the forward op. Raises popart_exception for another op."""
        return gradients.outputs_to_inputs(self)

    # --- figures of a planner
    def getInBatchAxis(self, index: int) -> int:
        return 0

    getOutBatchAxis = getInBatchAxis

    def getHighSubgraphValue(self) -> float:
        return 1000.0

    def getLowSubgraphValue(self) -> float:
        return 0.1

    def calcAutoVirtualGraphCost(self, inputs_seen: set[int]) -> float:
        return 0.0

    def inplacePriorityDefault(self) -> list[Any]:
        return []

    def getSubgraphInputs(self) -> dict[Any, Any]:
        return {}

    getSubgraphOutputs = getSubgraphInputs

    def getSubgraphEquivId(self, externalAttrs: dict[Any, Any] | None = None) -> Any:
        """A text that equal ops have in common: identifier, inputs, attributes."""
        text = "::".join(map(str, self.opid.key()))
        places = "".join(f"_{index}" for index in self.core.op_inputs(self._op))
        attributes = "".join(
            f"_{name}_{value}" for name, value in sorted({**self.attributes(), **(externalAttrs or {})}.items())
        )
        return f"{text}_{places}_{attributes}_NO_none_0_"


def _optional_methods(published: str, setting: str, optional: str) -> None:
    kind = OPTIONALS[optional]

    def has(self: Op) -> bool:
        return self.core.op_setting(self.id, setting) is not None

    def get(self: Op) -> int:
        value = self.core.op_setting(self.id, setting)
        if value is None:
            raise popart_exception(f"the {published} of {self} is not set")
        return value

    def set(self: Op, value: Any) -> None:
        self.core.set_op_setting(self.id, setting, value_of(value))

    def get_optional(self: Op) -> Any:
        return kind(self.core.op_setting(self.id, setting))

    for name, method in ((f"has{published}", has), (f"get{published}", get), (f"set{published}", set)):
        setattr(Op, name, method)
    setattr(Op, f"get{optional}", get_optional)


_optional_methods("VirtualGraphId", "ipu", "OptionalVGraphId")
_optional_methods("PipelineStage", "pipeline_stage", "OptionalPipelineStage")
_optional_methods("ExecutionPhase", "execution_phase", "OptionalExecutionPhase")
_optional_methods("BatchSerializedPhase", "batch_serialized_phase", "OptionalBatchSerializedPhase")


def _infos(side: str) -> None:
    for name, part in (
        ("Id", lambda tensor: tensor.id),
        ("Info", lambda tensor: tensor.info),
        ("Shape", lambda tensor: tensor.info.shape()),
        ("Rank", lambda tensor: tensor.info.rank()),
    ):
        # The shape of a tensor without a type is that of a scalar.
        setattr(Op, f"{side}{name}", lambda self, index, part=part: part(getattr(self, f"{side}Tensor")(index)))


_infos("in")
_infos("out")

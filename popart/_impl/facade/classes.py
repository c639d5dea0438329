"""Classes of ops: one for each published name, made from the native table and from what is said here of particular ones."""

from __future__ import annotations

from typing import Any

from popart._impl.enums import MatMulPartialsType
from popart._impl.exceptions import popart_exception
from popart._impl.facade.ids import add_scope
from popart._impl.facade.kinds import Kind
from popart._impl.facade.op import Op
from popart._impl.facade.values import MultiConvOptions, OptimizerValue, value_of
from popart._impl.tensor_info import native_number


# --- what particular classes have; programs ask with hasattr
def _called_graph(self: Op) -> Any:
    return self.getCalledGraphs()[0]


def _same(self: Op, *indices: int) -> int:
    """(index) or (callee, index): the same number on both sides."""
    return indices[-1]


def _add_modified(self: Op, index: int, regions: Any) -> None:
    if all(region.isEmpty() for region in regions):
        return
    if index not in self.core.op_inputs(self.id):
        raise popart_exception(f"{self} has no input {index} that it could modify")
    self.core.set_modified(self.id, index)


_CALL = {
    "getCalledGraph": _called_graph,
    "opInToSubgraphInIndex": _same,
    "subgraphInToOpInIndex": _same,
    "opOutToSubgraphOutIndex": _same,
    "subgraphOutToOpOutIndex": _same,
    "addModified": _add_modified,
}


def _trip_count(self: Op) -> int:
    return int(self.attribute("trip", 0))


def _set_trip_count(self: Op, count: int) -> None:
    self.set_attribute("trip", int(count))


def _shift_inputs(op: Op, index: int, by: int) -> None:
    """Moves the inputs from an index on by one place, with their marks."""
    inputs = op.core.op_inputs(op.id)
    moved = sorted((i for i in inputs if i >= index), reverse=by > 0)
    modified = [i for i in moved if op.core.modifies(op.id, i)]
    for i in moved:
        op.core.disconnect_input(op.id, i)
        op.core.connect_input(op.id, i + by, inputs[i])
    for i in modified:
        op.core.set_modified(op.id, i, False)
    for i in modified:
        op.core.set_modified(op.id, i + by)


def _shift_outputs(op: Op, index: int, by: int) -> None:
    outputs = op.core.op_outputs(op.id)
    for i in sorted((i for i in outputs if i >= index), reverse=by > 0):
        op.core.disconnect_output(op.id, i)
        op.core.connect_output(op.id, i + by, outputs[i])


def _add_loop_input(self: Any, index: int, parent: str, wrapper: str, overwrite: bool) -> None:
    """Connects a tensor of the parent as input `index`, and adds the input of the wrapper."""
    graph, tensor = self.getCalledGraph(), self.getGraph().getTensor(parent)
    if not overwrite:
        _shift_inputs(self, index, 1)
    elif self.hasInput(index):
        self.disconnectInTensor(index)
    self.core.connect_input(self.id, index, tensor.number)
    info = tensor.info
    scoped = wrapper if wrapper.startswith(f"{graph.id}/") else add_scope(str(graph.id), wrapper)
    self.core.add_input(
        graph.number, scoped, native_number(info.dataType()), info.shape(), info.metaShape(), index, overwrite
    )


def _add_loop_output(self: Any, index: int, parent: str, wrapper: str, overwrite: bool) -> None:
    """Makes output `index` of a tensor of the wrapper, which becomes its output `index` + 1."""
    graph = self.getCalledGraph()
    if not overwrite:
        _shift_outputs(self, index, 1)
    elif self.hasOutput(index):
        self.core.disconnect_output(self.id, index)
    graph.markAsOutput(index + 1, wrapper, overwrite)
    if parent in self.getGraph():
        self.connectOutTensor(index, parent)
    else:
        self.createAndConnectOutTensor(index, parent)
    self.outTensor(index).info = graph.getTensor(wrapper).info


def _remove_loop_input(self: Any, index: int) -> None:
    self.disconnectInTensor(index)
    _shift_inputs(self, index + 1, -1)
    self.getCalledGraph().removeInput(index)


def _remove_loop_output(self: Any, index: int) -> None:
    self.disconnectOutTensor(self.outTensor(index))
    _shift_outputs(self, index + 1, -1)
    self.getCalledGraph().removeOutput(index + 1)


_LOOP = {
    **_CALL,
    "opOutToSubgraphOutIndex": lambda self, *indices: indices[-1] + 1,
    "subgraphOutToOpOutIndex": lambda self, *indices: indices[-1] - 1,
    "getTripCountValue": _trip_count,
    "setTripCountValue": _set_trip_count,
    "addLoopInput": _add_loop_input,
    "addLoopOutput": _add_loop_output,
    "removeLoopInput": _remove_loop_input,
    "removeLoopOutput": _remove_loop_output,
    "getNumExplicitInputs": lambda self: len(self.getCalledGraph().getOutputIds()) + 1,
}


def _of_branch(side: int, from_op: bool) -> Any:
    def find(self: Op, branch: int, index: int) -> int:
        to_op = self.core.callee_maps(self.id)[side][branch]
        table = {op: graph for graph, op in to_op.items()} if from_op else to_op
        return table.get(index, -1)

    return find


_IF = {
    "opInToSubgraphInIndex": _of_branch(0, True),
    "subgraphInToOpInIndex": _of_branch(0, False),
    "opOutToSubgraphOutIndex": _of_branch(1, True),
    "subgraphOutToOpOutIndex": _of_branch(1, False),
    "getConditionInIndex": staticmethod(lambda: 0),
}


def _source_ipu(self: Any, id: str | None = None) -> int:
    """Returns the IPU that a tensor, or all tensors, come from. Raises popart_exception unless it is known and one."""
    sources = _sources(self)
    found = {source for index, source in sources.items() if id is None or self.inTensor(index).id == id}
    if len(found) != 1:
        raise popart_exception(
            f"the source IPUs of {self} are {sorted(sources.values())}: name one of the copied tensors"
        )
    return found.pop()


def _sources(self: Any) -> dict[int, int]:
    """Source IPU by input: as given, else where the tensor is."""
    given = self.sources if hasattr(self, "sources") else {}
    inputs = self.getInputIndexMap()
    return {index: given.get(index, tensor.getVirtualGraphIdUnsafe()) for index, tensor in inputs.items()}


def _connect_copied(self: Any, index: int, id: str, sourceIpu: int | None = None) -> None:
    Op.connectInTensor(self, index, id)
    if sourceIpu is not None:
        self.sources = {**(self.sources if hasattr(self, "sources") else {}), index: sourceIpu}
        self.set_attribute("source", sourceIpu)


_IPU_COPY = {
    "connectInTensor": _connect_copied,
    "getSourceIpu": _source_ipu,
    "getDestIpu": lambda self: int(self.attribute("destination")),
    "getMinSourceIpu": lambda self: min(_sources(self).values()),
    "getMaxSourceIpu": lambda self: max(_sources(self).values()),
}


def _memory(name: str) -> dict[str, Any]:
    def set(self: Op, value: Any) -> None:
        self.set_attribute(name, value_of(value))

    return {"getAvailableMemoryProportion": lambda self: self.attribute(name), "setAvailableMemoryProportion": set}


_MATMUL = {
    **_memory("availableMemoryProportion"),
    "getPartialsType": lambda self: MatMulPartialsType["HALF" if self.attribute("partialsType") == "half" else "FLOAT"],
    "setPartialsType": lambda self, type: self.set_attribute("partialsType", type.name.lower()),
    "useFullyConnectedPass": lambda self: bool(self.attribute("use_fully_connected_pass", True)),
    "setUseFullyConnectedPass": lambda self, value: self.set_attribute("use_fully_connected_pass", bool(value)),
}


def _conv_options(self: Any) -> MultiConvOptions:
    """A copy."""
    return MultiConvOptions(attr=self.attributes())


def _set_conv_options(self: Any, options: MultiConvOptions) -> None:
    for name, value in options.plain().items():
        self.set_attribute(name, value)


_CONV = {"getConvOptions": _conv_options, "setConvOptions": _set_conv_options}


def _factor(self: Op) -> OptimizerValue:
    has_tensor = self.hasInput(2)
    return OptimizerValue(0.0 if has_tensor else float(self.attribute("factor", 1.0)), not has_tensor)


_PRINT = {
    "getTitle": lambda self: self.attribute("title", ""),
    "setTitle": lambda self, title: self.set_attribute("title", title),
}

_BASES = {
    "MatMulBaseOp": "MatMulOp MatMulLhsGradOp MatMulRhsGradOp",
    "MultiConvBaseOp": "ConvOp ConvTransposeOp ConvDataGradOp ConvWeightsGradOp",
    "HasReceptiveFieldOp": "AveragePoolOp MaxPoolOp AveragePoolGradOp MaxPoolGradOp",
}
_MEMBERS: dict[str, dict[str, Any]] = {
    "CallOp": _CALL,
    "CallGradOp": _CALL,
    "LoopOp": _LOOP,
    "IfOp": _IF,
    "IfGradOp": _IF,
    "IpuCopyOp": _IPU_COPY,
    **dict.fromkeys(_BASES["MatMulBaseOp"].split(), _MATMUL),
    **dict.fromkeys(("ConvOp", "ConvDataGradOp", "ConvWeightsGradOp"), _CONV),
    **{name: _memory("available_memory_proportion") for name in ("GatherOp", "GatherGradOp")},
    "AccumulateOp": {"getFactor": _factor},
    "AccumulatorScaleOp": {"getFactor": _factor},
    "SparseAccumulateOp": {"getFactor": _factor, "getAxis": lambda self: int(self.attribute("axis", 0))},
    "PrintTensorOp": _PRINT,
}
# Sub-modules of `popart._internal.ir.op`.
SUB_MODULES = {
    "dynamic": "DynamicSliceOp DynamicUpdateOp DynamicUpdateInplaceOp".split(),
    "exchange": "HostLoadOp HostStoreOp RemoteLoadOp RemoteLoadInplaceOp RemoteStoreOp RemoteCodeLoadOp MultiExchangeOp".split(),
    "collectives": (
        "AllReduceOp ReplicatedAllReduceOp ReplicatedAllReduceInplaceOp ReplicatedAllGatherOp ReplicatedReduceScatterOp"
    ).split(),
}
# Published classes that no row of the native table is named after.
_MORE = ["AccumulateBaseOp", "AccumulatorZeroOp", "VarUpdateOp", "VarUpdateWithUpdaterOp"]


class Classes:
    """Class by published name, and by native type."""

    def __init__(self, kinds: dict[str, Kind], published: list[str]) -> None:
        self._kinds = kinds
        self.by_name: dict[str, type[Op]] = {}
        self._where = {name: module for module, names in SUB_MODULES.items() for name in names}
        bases = {name: base for base, names in _BASES.items() for name in names.split()}
        for base in _BASES:
            self._make(base, Op)
        for name in {
            **dict.fromkeys(kind.class_name for kind in kinds.values()),
            **dict.fromkeys([*published, *_MORE]),
        }:
            self._make(name, self.by_name[bases[name]] if name in bases else Op)

    def _make(self, name: str, base: type[Op]) -> None:
        if name not in self.by_name:
            where = f".{self._where[name]}" if name in self._where else ""
            members = {"__module__": f"popart._internal.ir.op{where}", "__doc__": f"Ops of class {name}."}
            self.by_name[name] = type(name, (base,), {**members, **_MEMBERS.get(name, {})})

    def of_type(self, type: str) -> type[Op]:
        return self.by_name[self._kinds[type].class_name] if type in self._kinds else Op

    def module(self, name: str) -> dict[str, type[Op]]:
        """Classes of a sub-module; "": of the module itself."""
        return {key: value for key, value in self.by_name.items() if self._where.get(key, "") == name}

"""Graphs, by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from popart._impl.enums import DataType, TensorType, VariableRetrievalMode
from popart._impl.exceptions import popart_exception, popart_internal_exception
from popart._impl.facade import creators
from popart._impl.facade.ids import GraphId, Scope, add_scope
from popart._impl.groups import VariableSettings
from popart._impl.tensor_info import TensorInfo, native_number, of_numpy


class TopoCons:
    """Ordering edges between ops of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def insert(self, before: Any, after: Any, tied: bool = False) -> None:
        """`before` runs before `after`; tied: right before."""
        self._graph.core.add_edge(before.id, after.id, tied)

    def remove(self, before: Any, after: Any) -> None:
        self._graph.core.remove_edge(before.id, after.id)

    def contains(self, before: Any, after: Any) -> bool:
        return after.id in self._graph.core.after(before.id)

    def getBefores(self, op: Any) -> list[Any]:
        return [self._graph.getIr().wrap_op(id) for id in self._graph.core.before(op.id)]

    def getAfters(self, op: Any) -> list[Any]:
        return [self._graph.getIr().wrap_op(id) for id in self._graph.core.after(op.id)]

    @staticmethod
    def transferToSubgraph(new_op: Any, old_to_new: Mapping[Any, Sequence[Any]], removeOld: bool = True) -> None:
        """Edges among ops that were moved into a subgraph are copied between their images there; edges to other ops become
        edges of `new_op`, which calls the subgraph."""
        core = new_op.core
        images = {old.id: [op.id for op in new] for old, new in old_to_new.items()}
        for old in images:
            for after in core.after(old):
                tied = after in core.tied(old)
                if after not in images:
                    core.add_edge(new_op.id, after, tied)
                for image in images[old] if after in images else ():
                    for image_after in images[after]:
                        core.add_edge(image, image_after, tied)
                if removeOld:
                    core.remove_edge(old, after)
            for before in core.before(old):
                if before not in images:
                    core.add_edge(before, new_op.id, old in core.tied(before))
                    if removeOld:
                        core.remove_edge(before, old)


class Graph:
    """Graph(ir, id) makes one that the Ir does not list; those of an Ir come from it.

    Raises:
        popart_exception: a tensor or index is not there; a type does not fit.
        popart_internal_exception: there is no op of an id.
    """

    _ir: Any
    _number: int

    def __init__(self, ir: Any, id: Any) -> None:
        self._ir = ir
        self._number = ir.create_scratch_graph(str(id))
        self._id = GraphId(str(id))
        ir.keep_graph(self)

    @staticmethod
    def of_number(ir: Any, number: int) -> Graph:
        self = object.__new__(Graph)
        self._ir, self._number = ir, number
        self._id = GraphId(ir.checked.graph_id(number))
        return self

    @property
    def core(self) -> Any:
        return self._ir.checked

    @property
    def number(self) -> int:
        return self._number

    @property
    def id(self) -> GraphId:
        return self._id

    def getIr(self) -> Any:
        return self._ir

    def getScope(self) -> Scope:
        return Scope((str(self._id),) if str(self._id) else ())

    def getGraphString(self) -> str:
        return f"subgraph '{self._id}'" if str(self._id) else "the main graph"

    def __repr__(self) -> str:
        return f"Graph({self._id})"

    def _wrap(self, numbers: Sequence[int]) -> list[Any]:
        return [self._ir.wrap_tensor(number) for number in numbers]

    # --- tensors
    def find(self, id: str) -> int:
        """The number of a tensor. Raises popart_exception when the graph has none of that id."""
        number = self.core.find_tensor(self._number, str(id))
        if number < 0:
            raise popart_exception(f"{self.getGraphString()} has no tensor '{id}'")
        return number

    def getTensor(self, id: str) -> Any:
        return self._ir.wrap_tensor(self.find(id))

    def getTensors(self) -> list[Any]:
        return self._wrap(self.core.tensors(self._number))

    def getTensorsOfType(self, type: TensorType) -> list[Any]:
        return [tensor for tensor in self.getTensors() if tensor.tensorType() is type]

    def __contains__(self, id: str) -> bool:
        return self.core.find_tensor(self._number, str(id)) >= 0

    def _place(self, id: str, info: TensorInfo) -> tuple[Any, ...]:
        return self._number, id, native_number(info.dataType()), info.shape(), info.metaShape()

    def addActGrad(self, id: str, debugContext: Any = "") -> None:
        self.core.create_tensor(self._number, id, TensorType["ActGrad"].value, native_number(DataType.UNDEFINED), ())

    def addStream(self, id: str, info: TensorInfo, debugContext: Any = "") -> None:
        number, id, dtype, shape, meta_shape = self._place(id, info)
        self.core.create_tensor(number, id, TensorType["Stream"].value, dtype, shape, meta_shape)

    def addVarInit(self, tensorId: str, tensorInfo: TensorInfo, data: Any, *rest: Any, **named: Any) -> None:
        """Adds a Variable: (id, info, data[, settings], debugContext="", copyData=True).

        Raises popart_exception where the data are of another type or number of elements than the info says."""
        rest_list = list(rest)
        settings = named.get("vs")
        if rest_list and isinstance(rest_list[0], VariableSettings):
            settings = rest_list.pop(0)
        copies = named.get("copyData", rest_list[1] if len(rest_list) > 1 else True)
        settings = settings or VariableSettings()
        array = self._data(tensorId, tensorInfo, data, copies)
        replicas = self._ir.checked.replicas
        grouping = settings.getReplicaGrouping(replicas)
        copies_of_it = grouping.getNumGroups()
        if array.size != tensorInfo.nelms() * copies_of_it:
            raise popart_exception(
                f"the data of '{tensorId}' have {array.size} elements; {tensorInfo} in {copies_of_it} groups has "
                f"{tensorInfo.nelms() * copies_of_it}"
            )
        tensor = self.core.add_variable(
            *self._place(tensorId, tensorInfo),
            stride=grouping.getStride(),
            size=grouping.getGroupSize(),
            all_replicas=settings.getRetrievalMode() is VariableRetrievalMode["AllReplicas"],
        )
        self._ir.host_variables.add(tensor, array)

    def addConstInit(self, tensorId: str, tensorInfo: TensorInfo, data: Any, debugContext: Any = "") -> None:
        array = self._data(tensorId, tensorInfo, data, True)
        if array.size != tensorInfo.nelms():
            raise popart_exception(
                f"the data of '{tensorId}' have {array.size} elements; {tensorInfo} has {tensorInfo.nelms()}"
            )
        dtype = native_number(tensorInfo.dataType())
        self.core.add_constant(self._number, tensorId, dtype, array.reshape(tensorInfo.shape()))

    def make_constant(self, tensor: Any, data: Any) -> None:
        """A Constant takes the place of a tensor that no op makes: its id, its readers, its place as output."""
        if tensor.hasProducer():
            raise popart_exception(
                f"the tensor '{tensor.id}' is made by {tensor.getProducer()}: it cannot be a Constant"
            )
        self._ir.replace_by_constant(self, tensor, self._data(tensor.id, tensor.info, data, True))

    @staticmethod
    def _data(id: str, info: TensorInfo, data: Any, copies: bool) -> numpy.ndarray:
        array = numpy.asarray(data)
        same = of_numpy(array.dtype) is info.dataType()
        if not same and not (array.dtype.itemsize == 1 and info.dataType().name.startswith("FLOAT8")):
            raise popart_exception(f"the data of '{id}' are of {array.dtype}, but the tensor is of {info.data_type()}")
        return numpy.array(array, order="C") if copies else array

    def removeIsolatedTensors(
        self,
        retainUsedIOTensors: bool = False,
        retainAllIOTensors: bool = False,
        retainVarTensors: bool = False,
        retainConstTensors: bool = False,
    ) -> None:
        """Deletes tensors that no op makes or reads and that are neither input nor output. A stream that an op loads from or
        stores to is not isolated, and a variable in a remote buffer is not: they stay whatever the flags say.
        `retainUsedIOTensors` therefore changes nothing.
        """
        core = self.core
        kept = {*core.inputs(self._number), *core.outputs(self._number)}
        used_streams: set[str] | None = None  # of the whole Ir: asked for once, where there is a stream to decide on
        for number in core.tensors(self._number):
            if number in kept or core.producer(number) >= 0 or core.consumers(number):
                continue
            kind = TensorType(core.tensor_type(number)).name
            if kind == "Stream" and not retainAllIOTensors:
                used_streams = self._ir.used_streams() if used_streams is None else used_streams
                if core.tensor_id(number) in used_streams:
                    continue
            retained = {"Stream": retainAllIOTensors, "Variable": retainVarTensors, "Const": retainConstTensors}
            if kind == "Variable" and core.variable(number).get("remote_buffer", -1) >= 0 or retained.get(kind, False):
                continue
            core.erase_tensor(number)

    # --- inputs and outputs
    def addInput(self, *arguments: Any, **named: Any) -> Any:
        """(id, info): the last input. (index, id, info, overwrite): there, before or in place of the one there."""
        index, id, info, overwrite = self._at(arguments, named, ("id", "info"), 2)
        self.core.add_input(*self._place(id, info), index, overwrite)

    def markAsOutput(self, *arguments: Any, **named: Any) -> None:
        """(id): the last output. (index, id, overwrite): there, before or in place of the one there."""
        index, id, overwrite = self._at(arguments, named, ("id",), 1)
        self.core.mark_output(self._number, self.find(id), index, overwrite)

    @staticmethod
    def _at(arguments: tuple[Any, ...], named: dict[str, Any], fields: tuple[str, ...], short: int) -> list[Any]:
        if len(arguments) + len(named) == short:
            given = dict(zip(fields, arguments)) | {
                {"tensorId": "id", "tensorInfo": "info"}.get(k, k): v for k, v in named.items()
            }
            return [-1, *(given[field] for field in fields), False]
        order = ("idx", *fields, "overwrite")
        alias = {"index": "idx", "tensorId": "id", "tensorInfo": "info"}
        given = dict(zip(order, arguments)) | {alias.get(key, key): value for key, value in named.items()}
        return [given[name] for name in order]

    def _index(self, what: str, numbers: list[int], id: str) -> int:
        number = self.core.find_tensor(self._number, str(id))
        if number not in numbers:
            raise popart_exception(f"'{id}' is no {what} of {self.getGraphString()}")
        return numbers.index(number)

    def _of_index(self, what: str, numbers: list[int], index: int) -> Any:
        if not 0 <= index < len(numbers):
            raise popart_exception(f"{self.getGraphString()} has {len(numbers)} {what}s; there is no {what} {index}")
        return self._ir.wrap_tensor(numbers[index])

    def getInputIds(self) -> list[str]:
        return [tensor.id for tensor in self._wrap(self.core.inputs(self._number))]

    def getInputId(self, index: int) -> str:
        return self.getInputTensor(index).id

    def getInputIndex(self, id: str) -> int:
        return self._index("input", self.core.inputs(self._number), id)

    def hasInputId(self, id: str) -> bool:
        return self.core.find_tensor(self._number, str(id)) in self.core.inputs(self._number)

    def getInputTensor(self, index: int) -> Any:
        return self._of_index("input", self.core.inputs(self._number), index)

    def removeInput(self, which: Any) -> None:
        self.core.remove_input(self._number, which if isinstance(which, int) else self.getInputIndex(which))

    def getOutputIds(self) -> list[str]:
        return [tensor.id for tensor in self._wrap(self.core.outputs(self._number))]

    def getOutputId(self, index: int) -> str:
        return self.getOutputTensor(index).id

    def getOutputIndex(self, id: str) -> int:
        return self._index("output", self.core.outputs(self._number), id)

    def hasOutputId(self, id: str) -> bool:
        return self.core.find_tensor(self._number, str(id)) in self.core.outputs(self._number)

    def getOutputTensor(self, index: int) -> Any:
        return self._of_index("output", self.core.outputs(self._number), index)

    def removeOutput(self, which: Any) -> None:
        self.core.remove_output(self._number, which if isinstance(which, int) else self.getOutputIndex(which))

    # --- ops
    def _listed(self) -> list[int]:
        unlisted = self._ir.unlisted_ops
        ops = self.core.ops(self._number)
        return [op for op in ops if op not in unlisted] if unlisted else ops

    def getOps(self) -> list[Any]:
        return [self._ir.wrap_op(op) for op in self._listed()]

    def getOpIds(self) -> list[int]:
        return self._listed()

    def getOp(self, op_id: int) -> Any:
        if op_id not in self._listed():
            raise popart_internal_exception(f"{self.getGraphString()} has no op {op_id}")
        return self._ir.wrap_op(op_id)

    def eraseOp(self, op_id: int) -> None:
        """Removes an op and its ordering edges; tensors stay."""
        self.getOp(op_id)
        self.core.erase_op(op_id)
        self._ir.forget_op(op_id)

    def getOpSchedule(self, requireOptimalSchedule: bool = True) -> list[Any]:
        """Ops in the order in which they run. Raises popart_exception for a cycle."""
        unlisted = self._ir.unlisted_ops
        return [self._ir.wrap_op(op) for op in self.core.schedule(self._number) if op not in unlisted]

    def topoCons(self) -> TopoCons:
        return TopoCons(self)

    def getCalledGraphs(self) -> list[Graph]:
        return [self._ir.wrap_graph(graph) for graph in self.core.called(self._number)]

    def is_called_by(self, kind: str) -> bool:
        """Does an op of this type anywhere in the Ir call the graph?"""
        core = self.core
        callers = [graph for graph in core.graphs() if self._number in core.called(graph)]
        return any(
            core.op_type(op) == kind and self._number in core.callees(op) for graph in callers for op in core.ops(graph)
        )

    def getAllVirtualGraphIds(self, includeInvalid: bool) -> set[int]:
        found = {self.core.op_setting(op, "ipu") for op in self._listed()}
        return {-1 if ipu is None else ipu for ipu in found if ipu is not None or includeInvalid}

    def canBeRecursivelyAutodiffed(self) -> bool:
        return self.core.may_be_differentiated(self._number)

    def setCanBeRecursivelyAutodiffed(self, value: bool) -> None:
        self.core.set_may_be_differentiated(self._number, value)

    def copyFrom(self, other: Graph) -> None:
        """Clones ops, tensors, inputs and outputs of another graph into this one, with ids in the scope of this one."""
        core = self.core
        numbers: dict[int, int] = {}

        def rescoped(tensor: Any) -> str:
            return add_scope(str(self._id), tensor.id.removeprefix(f"{other.id}/") if str(other.id) else tensor.id)

        for tensor in other._wrap(other.core.inputs(other.number)):
            numbers[tensor.number] = core.add_input(*self._place(rescoped(tensor), tensor.info))
        for tensor in other.getTensors():
            if tensor.number in numbers:
                continue
            if tensor.tensorType() is TensorType["Const"]:
                dtype = native_number(tensor.info.dataType())
                numbers[tensor.number] = core.add_constant(self._number, rescoped(tensor), dtype, tensor.host_array())
                continue
            number, id, dtype, shape, meta_shape = self._place(rescoped(tensor), tensor.info)
            numbers[tensor.number] = core.create_tensor(number, id, tensor.tensorType().value, dtype, shape, meta_shape)
        clones: dict[int, int] = {}
        for op in other.getOps():
            clone = op.cloneIntoGraph(self)
            clones[op.id] = clone.id
            for index, tensor in op.getInputIndexMap().items():
                core.connect_input(clone.id, index, numbers[tensor.number])
            for index, tensor in op.getOutputIndexMap().items():
                core.connect_output(clone.id, index, numbers[tensor.number])
        for old, new in clones.items():
            for after in core.after(old):
                core.add_edge(new, clones[after], after in core.tied(old))
        for output in core.outputs(other.number):
            core.mark_output(self._number, numbers[output])

    def __getattr__(self, name: str) -> Any:
        """createOp_<Class> and createConnectedOp_<Class>, by the table of creators."""
        for prefix, connected in (("createOp_", False), ("createConnectedOp_", True)):
            if name.startswith(prefix) and creators.is_known(name.removeprefix(prefix)):
                return creators.Creator(self, name.removeprefix(prefix), connected)
        raise AttributeError(f"'Graph' object has no attribute '{name}'")

"""A whole program: a native program, its options, and the objects that stand for its numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy
from ipu_common.host_variables import host_variables
from ipu_core import _native

from popart._impl.data_flow import DataFlow
from popart._impl.debug_info import DebugInfo
from popart._impl.enums import TensorType
from popart._impl.core_errors import Checked
from popart._impl.exceptions import popart_exception
from popart._impl.facade import creators, dot, rewriting, text, transforms
from popart._impl.facade.classes import Classes
from popart._impl.facade.graph import Graph
from popart._impl.facade.kinds import KINDS
from popart._impl.facade.op import Op
from popart._impl.facade.tensor import Tensor
from popart._impl.facade.values import RemoteBufferInfo
from popart._impl.logs import getLogger
from popart._impl.patterns import Patterns
from popart._impl.session_options import SessionOptions
from popart._impl.tensor_info import TensorInfo, native_number, of_native_number

CLASSES = Classes(KINDS, list(creators.TABLE))
_TYPE_OF_CLASS = {kind.class_name: kind.type for kind in KINDS.values()}


class Ir:
    """Ir() is an empty program with a main graph.

    One number of the native program is one object here for as long as the Ir lives: graphs, tensors and ops are compared by
    identity. The objects know their Ir and the Ir its objects; nothing native knows either, so a collection frees them all.

    Raises:
        popart_exception: a graph, tensor or buffer is not there.
    """

    kinds = KINDS
    classes = CLASSES

    def __init__(self) -> None:
        self.core = _native.Program()
        self.checked = Checked(self.core)
        self._graphs: dict[int, Graph] = {}
        self._tensors: dict[int, Tensor] = {}
        self._ops: dict[int, Op] = {}
        self._scratch: set[int] = set()
        self._kept: dict[str, int] = {}  # unlisted graphs by what they were asked for as
        self.unlisted_ops: set[int] = set()
        self.stream_modes: dict[int, Any] = {}
        self._options = SessionOptions()
        self._data_flow = DataFlow()
        self._patterns = Patterns()
        self._debug_infos: dict[tuple[str, int], DebugInfo] = {}
        self._is_prepared = False
        self._device: Any = None

    @property
    def _core(self) -> Any:
        return self.core

    @property
    def host_variables(self) -> Any:
        return host_variables(self.core)

    # --- objects of numbers
    def wrap_graph(self, number: int) -> Graph:
        found = self._graphs.get(number)
        if found is None:
            found = self._graphs[number] = Graph.of_number(self, number)
        return found

    def wrap_tensor(self, number: int) -> Tensor:
        found = self._tensors.get(number)
        if found is None:
            found = self._tensors[number] = Tensor.of_number(self, number)
        return found

    def wrap_op(self, id: int) -> Op:
        found = self._ops.get(id)
        if found is None:
            found = self._ops[id] = CLASSES.of_type(self.checked.op_type(id)).of_id(self, id)
        return found

    def keep_graph(self, graph: Graph) -> None:
        self._graphs[graph.number] = graph

    def keep_op(self, op: Op) -> None:
        self._ops[op.id] = op

    def forget_op(self, id: int) -> None:
        self._ops.pop(id, None)
        self.unlisted_ops.discard(id)

    def op_created(self, op: Op) -> None:
        """What follows the making of an op by hand."""
        creators.run_hooks(op)

    @staticmethod
    def type_of_class(name: str) -> str:
        if name not in _TYPE_OF_CLASS:
            raise popart_exception(f"ops of class {name} cannot be made in this version")
        return _TYPE_OF_CLASS[name]

    def replace_by_constant(self, graph: Graph, tensor: Tensor, data: numpy.ndarray) -> None:
        """A Constant of the same id, with the readers of the tensor and its places as output."""
        core, old, id, info = self.checked, tensor.number, tensor.id, tensor.info
        readers = [(op, i) for op in core.consumers(old) for i, t in core.op_inputs(op).items() if t == old]
        outputs = [i for i, t in enumerate(core.outputs(graph.number)) if t == old]
        for op, i in readers:
            core.disconnect_input(op, i)
        for i in reversed(outputs):
            core.remove_output(graph.number, i)
        core.erase_tensor(old)
        number = core.add_constant(graph.number, id, native_number(info.dataType()), data.reshape(info.shape()))
        for op, i in readers:
            core.connect_input(op, i, number)
        for i in outputs:
            core.mark_output(graph.number, number, i)
        self._tensors.pop(old, None)
        tensor._number = number
        self._tensors[number] = tensor

    # --- graphs
    def getId(self) -> int:
        return self.core.id

    def getMainGraph(self) -> Graph:
        return self.getGraph("")

    def _find(self, id: Any) -> int:
        return self.core.find_graph(str(id))

    def hasGraph(self, id: Any) -> bool:
        number = self._find(id)
        return number >= 0 and number not in self._scratch

    def getGraph(self, id: Any) -> Graph:
        if not self.hasGraph(id):
            raise popart_exception(
                f"the Ir has no graph '{id}'; it has {[str(graph.id) for graph in self.getAllGraphs()]}"
            )
        return self.wrap_graph(self._find(id))

    def createGraph(self, id: Any) -> Graph:
        """Raises popart_exception when there is a graph of that id."""
        return self.wrap_graph(self.checked.create_graph(str(id)))

    def create_scratch_graph(self, id: str) -> int:
        """A graph that is not listed, also where a listed one has its id."""
        names = itertools.chain([id], (f"{id}#{n}" for n in itertools.count()))
        number = self.checked.create_graph(next(name for name in names if self._find(name) < 0))
        self._scratch.add(number)
        return number

    def scratch_graph(self, id: str) -> int:
        """The unlisted graph of that id, which is made where there is none."""
        if id not in self._kept:
            self._kept[id] = self.create_scratch_graph(id)
        return self._kept[id]

    def erase_scratch_graph(self, number: int) -> None:
        self.checked.erase_graph(number)
        self._scratch.discard(number)
        self._graphs.pop(number, None)

    def removeGraph(self, id: Any) -> None:
        number = self.getGraph(id).number
        self.checked.erase_graph(number)
        self._graphs.pop(number, None)

    def getAllGraphs(self) -> list[Graph]:
        """By id: main is the first."""
        return [self.wrap_graph(number) for number in self.core.graphs() if number not in self._scratch]

    def removeIsolatedGraphs(self) -> None:
        """Removes graphs that main does not reach through calls."""
        reached, pending = {0}, [0]
        while pending:
            for callee in self.core.called(pending.pop()):
                if callee not in reached:
                    reached.add(callee)
                    pending.append(callee)
        for number in self.core.graphs():
            if number not in reached and number not in self._scratch:
                self.checked.erase_graph(number)
                self._graphs.pop(number, None)

    def createUniqueSubgraphId(self, base: str) -> str:
        return self.core.unique_subgraph_id(str(base))

    def createIntermediateTensorId(self, base: str) -> str:
        return self.core.intermediate_id(str(base))

    # --- tensors
    def getTensor(self, id: str) -> Tensor:
        """Finds a tensor in any graph."""
        for graph in self.core.graphs():
            number = self.core.find_tensor(graph, id)
            if number >= 0:
                return self.wrap_tensor(number)
        raise popart_exception(f"no graph of the Ir has a tensor '{id}'")

    def removeIsolatedTensors(self, *arguments: bool, **named: bool) -> None:
        for graph in self.getAllGraphs():
            graph.removeIsolatedTensors(*arguments, **named)

    def used_streams(self) -> set[str]:
        """Ids of the streams that ops name, alone or in a MultiExchange, of any graph."""
        found: set[str] = set()
        for graph in self.core.graphs():
            for op in self.core.ops(graph):
                kind = self.core.op_type(op)
                if kind in ("HostLoad", "HostStore"):
                    found.add(self.core.op_attributes(op).get("stream", ""))
                elif kind == "MultiExchange":
                    found.update(attributes.get("stream", "") for _, attributes, *_ in self.core.transfers(op))
        return found

    def dataStreamTensors(self) -> list[Tensor]:
        return self.getMainGraph().getTensorsOfType(TensorType["Stream"])

    def _of_streams(self, kind: str, side: str) -> dict[str, list[Tensor]]:
        found: dict[str, list[Tensor]] = {}
        for graph in self.getAllGraphs():
            for op in graph.getOps():
                for transfer, tensor in transforms.transfers(op, side):
                    if transfer.kind == kind:
                        found.setdefault(transfer.stream, []).append(tensor)
        return found

    def getHostLoadTensors(self) -> dict[str, list[Tensor]]:
        """Stream id → tensors that are loaded from it."""
        return self._of_streams("HostLoad", "out")

    def getHostStoreTensors(self) -> dict[str, list[Tensor]]:
        return self._of_streams("HostStore", "in")

    # --- options and state
    def getSessionOptions(self) -> SessionOptions:
        return self._options

    def getDataFlow(self) -> DataFlow:
        return self._data_flow

    def setDataFlow(self, dataFlow: DataFlow) -> None:
        self._data_flow = dataFlow

    def addAnchor(self, id: str) -> None:
        self._data_flow.add_anchor(id)

    def isPrepared(self) -> bool:
        return self._is_prepared

    def setIsPrepared(self) -> None:
        self._is_prepared = True

    def setDeviceInfo(self, deviceInfo: Any) -> None:
        self._device = deviceInfo

    def getDeviceInfo(self) -> Any:
        return self._device

    def logIr(self) -> None:
        getLogger("ir").info(text.as_text(self))

    def updateVertices(self) -> None:
        """Nothing follows: what is derived from the ops is found when it is asked for."""

    def finalizeOpDebugInfo(self) -> None:
        for graph in self.getAllGraphs():
            for op in graph.getOps():
                op.finalizeDebugInfo()

    def debug_info(self, category: str, number: int, name: str) -> DebugInfo:
        key = (category, number)
        if key not in self._debug_infos:
            self._debug_infos[key] = DebugInfo(name, "popart")
        return self._debug_infos[key]

    def serializeToJSON(self) -> str:
        """All graphs as JSON: ops in their order, with inputs, outputs and attributes."""
        return text.as_json(self)

    def dotCheckpoint(self, ir: Any, check: str) -> None:
        dot.checkpoint(ir, check)

    # --- remote buffers
    def getAllRemoteBufferInfos(self) -> dict[int, RemoteBufferInfo]:
        buffers = self.core.remote_buffers()
        return {
            id: RemoteBufferInfo(TensorInfo(of_native_number(dtype), shape, meta_shape), entries)
            for id, (dtype, shape, meta_shape, entries) in buffers.items()
        }

    def getRemoteBufferInfo(self, id: int) -> RemoteBufferInfo:
        buffers = self.getAllRemoteBufferInfos()
        if id not in buffers:
            raise popart_exception(f"there is no remote buffer {id}; there are {sorted(buffers)}")
        return buffers[id]

    def setRemoteBufferInfo(self, id: int, info: RemoteBufferInfo) -> None:
        of_entry = info.TensorInfo
        dtype = native_number(of_entry.dataType())
        self.checked.set_remote_buffer(id, dtype, of_entry.shape(), of_entry.metaShape(), info.repeats)

    # --- rewriting
    def setPatterns(self, patterns: Patterns) -> None:
        self._patterns = patterns

    def getPatterns(self) -> Patterns:
        return self._patterns

    def applyPreAliasPatterns(self, graph: Graph) -> None:
        """Rewrites ops of the graph, by the patterns that are on, until nothing changes. Results stay.

        Raises popart_exception when a mandatory pattern is off and its runtime asserts are on."""
        self._patterns.check()
        rewriting.apply_patterns(graph, self._patterns)

    def applyInplacePattern(self, graph: Graph) -> None:
        """Turns ops into variants that overwrite an operand, where no result changes."""
        if self._patterns.InPlace:
            rewriting.apply_in_place(graph)

    def applyTransform(self, name_id: Any, graph: Graph) -> bool:
        """By the name of a transform. Raises popart_exception for an unknown one."""
        return transforms.of_name(name_id).apply(graph)

    def __repr__(self) -> str:
        return f"Ir({self.getId()})"

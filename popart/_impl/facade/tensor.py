"""Tensors of a graph, by number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy

from popart._impl.debug_info import DebugInfo
from popart._impl.enums import DataType, ReplicatedStreamMode, TensorType, TileSet
from popart._impl.core_errors import Checked
from popart._impl.exceptions import popart_exception
from popart._impl.facade.regions import modified_regions
from popart._impl.facade.values import Region
from popart._impl.groups import VariableSettings
from popart._impl.tensor_info import NUMPY, TensorInfo, native_number, of_native_number


class Consumers:
    """Ops that read a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def getOps(self) -> list[Any]:
        """Each once, by id."""
        return [self._tensor.getIr().wrap_op(op) for op in self._tensor.core.consumers(self._tensor._number)]

    def getTotal(self) -> int:
        return sum(op.getInputTensors().count(self._tensor) for op in self.getOps())


class LocationInfo:
    """Whether a variable is in a remote buffer, and where."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def isRemote(self) -> bool:
        return self._tensor.variable().get("remote_buffer", -1) >= 0

    def isSharded(self) -> bool:
        return self._tensor.variable().get("shard_over", 1) > 1

    def getRemoteBufferInfo(self) -> tuple[int, int]:
        """Buffer and entry."""
        settings = self._tensor.variable()
        return settings.get("remote_buffer", -1), settings.get("remote_entry", 0)

    def setRemoteBufferInfo(self, id: int, index: int) -> None:
        settings = {**self._tensor.variable(), "remote_buffer": id, "remote_entry": index}
        self._tensor.core.set_variable(self._tensor.number, **settings)


class Tensor:
    """Those of a graph are found by id. Tensor(tensorId, tensorType, graph[, debugContext]) makes one that stands free: it knows
    the graph, and the graph does not know it, so that there may be any number of one id.
    """

    _ir: Any
    _number: int

    def __new__(cls, *arguments: Any, **named: Any) -> Tensor:
        return object.__new__(FreeTensor)

    @staticmethod
    def of_number(ir: Any, number: int) -> Tensor:
        self = object.__new__(Tensor)
        self._ir, self._number = ir, number
        return self

    @property
    def core(self) -> Any:
        return self._ir.checked

    @property
    def number(self) -> int:
        return self._number

    @property
    def id(self) -> str:
        return self.core.tensor_id(self._number)

    def str(self) -> Any:
        return self.id

    __str__ = str

    def __repr__(self) -> Any:
        return f"Tensor({self.id}, {self.info})"

    # --- type
    @property
    def info(self) -> TensorInfo:
        dtype, shape, meta_shape = self.core.tensor_info(self._number)
        info = TensorInfo(of_native_number(dtype), shape, meta_shape)
        return info.on_change(self._set_info)

    @info.setter
    def info(self, info: TensorInfo) -> None:
        self._set_info(info)

    def _set_info(self, info: TensorInfo) -> None:
        self.core.set_tensor_info(self._number, native_number(info.dataType()), info.shape(), info.metaShape())

    def tensorType(self) -> TensorType:
        return TensorType(self.core.tensor_type(self._number))

    def tensor_type(self) -> Any:
        return self.tensorType().name

    def setTensorType(self, tensorType: TensorType) -> None:
        self.core.set_tensor_type(self._number, tensorType.value)

    def clone(self, graph: Any) -> Tensor:
        clone = Tensor(f"clone_{self.id}", self.tensorType(), graph)
        clone.info = self.info
        return clone

    # --- what is around
    def getGraph(self) -> Any:
        return self._ir.wrap_graph(self.core.tensor_graph(self._number))

    def getIr(self) -> Any:
        return self._ir

    getGraph_const, getIr_const = getGraph, getIr

    def hasProducer(self) -> bool:
        return self.core.producer(self._number) >= 0

    def getProducer(self) -> Any:
        """Raises popart_exception when no op makes the tensor."""
        op = self.core.producer(self._number)
        if op < 0:
            raise popart_exception(f"no op makes the tensor '{self.id}'")
        return self._ir.wrap_op(op)

    def getProducerUnsafe(self) -> Any:
        return self.getProducer() if self.hasProducer() else None

    @property
    def consumers(self) -> Consumers:
        return Consumers(self)

    def isGraphInput(self) -> bool:
        return self._number in self.core.inputs(self.core.tensor_graph(self._number))

    def isGraphOutput(self) -> bool:
        return self._number in self.core.outputs(self.core.tensor_graph(self._number))

    def getGraphInputIndex(self) -> int:
        return self.getGraph().getInputIndex(self.id)

    def getGraphOutputIndex(self) -> int:
        return self.getGraph().getOutputIndex(self.id)

    def isModified(self, considerLoopInput: bool = True) -> bool:
        """Does an op write it, through a view too?"""
        return any(not region.isEmpty() for region in self.modifiedRegionsByOps(self.getGraph().getOps()))

    def isAliased(self) -> bool:
        """Does a view op share its memory?"""
        for op in self.consumers.getOps():
            for index, tensor in op.getInputIndexMap().items():
                if tensor is self and (op.views_input(index) or op.modifiesIndex(index)):
                    return True
        return False

    def modifiedRegionsByOps(self, ops: Iterable[Any], aliases: Any = None) -> list[Region]:
        """What these ops write of the tensor, through views too."""
        return modified_regions(self, list(ops))

    # --- place
    def hasVirtualGraphId(self) -> bool:
        return self.core.place(self._number)[0] is not None

    def getVirtualGraphId(self) -> int:
        """Raises popart_exception where no IPU is known."""
        ipu = self.core.place(self._number)[0]
        if ipu is None:
            raise popart_exception(f"no op says on which IPU the tensor '{self.id}' is")
        return ipu

    def getVirtualGraphIdUnsafe(self) -> int:
        ipu = self.core.place(self._number)[0]
        return -1 if ipu is None else ipu

    def getVirtualGraphIdAndTileSetUnsafe(self) -> tuple[int, TileSet]:
        ipu, tiles = self.core.place(self._number)
        return -1 if ipu is None else ipu, TileSet(2 if tiles is None else tiles)

    def getBatchAxis(self) -> int:
        return 0 if self.hasProducer() or self.core.consumers(self._number) else -1

    # --- streams and variables
    def getReplicatedStreamMode(self) -> ReplicatedStreamMode:
        return self._ir.stream_modes.get(self._number, ReplicatedStreamMode["Replicate"])

    def setReplicatedStreamMode(self, mode: ReplicatedStreamMode) -> None:
        self._ir.stream_modes[self._number] = mode

    def variable(self) -> dict[Any, Any]:
        """The native settings of a variable; of another tensor: none."""
        return self.core.variable(self._number) if self.tensorType() is TensorType["Variable"] else {}

    @property
    def tensorLocationInfo(self) -> LocationInfo:
        return LocationInfo(self)

    def setTensorLocationInfo(self, location: Any, id: int, index: int) -> None:
        self.tensorLocationInfo.setRemoteBufferInfo(id, index)

    def getVariableSettings(self) -> VariableSettings:
        settings = self.variable()
        modes = VariableSettings().getRetrievalMode().__class__
        mode = modes["AllReplicas" if settings.get("all_replicas") else "OnePerGroup"]
        size = settings.get("size", 0)
        return VariableSettings(settings.get("stride", 1), size, mode) if size else VariableSettings(mode)

    def isInSyncWithIPU(self) -> bool:
        return self._ir.host_variables.is_in_sync(self._number)

    # --- host data
    def hasTensorData(self) -> bool:
        return self._number in self._ir.host_variables.by_number or self.tensorType() is TensorType["Const"]

    def host_array(self) -> numpy.ndarray:
        """The array on the host, which is not copied. Raises popart_exception when the tensor has none."""
        held = self._ir.host_variables.by_number.get(self._number)
        if held is not None:
            return held.data
        if self.tensorType() is not TensorType["Const"]:
            raise popart_exception(
                f"the tensor '{self.id}' has no data on the host: it is of type {self.tensor_type()}"
            )
        return self.core.constant(self._number)

    def writeTensorData(self, array: numpy.ndarray, session: Any) -> None:
        """Copies the array over the data on the host. Raises popart_exception where it does not fit or is not C-contiguous."""
        if not array.flags["C_CONTIGUOUS"]:
            raise popart_exception(
                f"the data for '{self.id}' are not C-contiguous; numpy.ascontiguousarray makes them so"
            )
        data = self.host_array()
        if data.nbytes != array.nbytes:
            raise popart_exception(f"the data for '{self.id}' have {array.nbytes} bytes; {data.nbytes} are needed")
        data.reshape(-1).view(numpy.uint8)[...] = array.reshape(-1).view(numpy.uint8)

    def getDebugInfo(self) -> Any:
        return self._ir.debug_info("tensor", self._number, self.id)


class FreeTensor(Tensor):
    """A tensor of no graph, in a native program of its own."""

    def __init__(self, tensorId: str, tensorType: TensorType, graph: Any, debugContext: Any = "") -> None:
        from ipu_core import _native

        self._ir, self._graph, self._native = graph.getIr(), graph, Checked(_native.Program())
        undefined = native_number(DataType.UNDEFINED)
        self._number = self._native.create_tensor(0, tensorId, tensorType.value, undefined, ())
        self._stream_mode = ReplicatedStreamMode["Replicate"]

    @property
    def core(self) -> Any:
        return self._native

    @property
    def number(self) -> int:
        """Raises popart_exception: no op of a graph reads or makes it."""
        raise popart_exception(f"the tensor '{self.id}' stands free: it is none of the graph '{self._graph.id}'")

    def getGraph(self) -> Any:
        return self._graph

    getGraph_const = getGraph

    def getGraphInputIndex(self) -> int:
        return self._graph.getInputIndex(self.id)

    def getReplicatedStreamMode(self) -> ReplicatedStreamMode:
        return self._stream_mode

    def setReplicatedStreamMode(self, mode: ReplicatedStreamMode) -> None:
        self._stream_mode = mode

    def modifiedRegionsByOps(self, ops: Iterable[Any], aliases: Any = None) -> list[Region]:
        return []

    def isInSyncWithIPU(self) -> bool:
        return False

    def hasTensorData(self) -> bool:
        return False

    def host_array(self) -> numpy.ndarray:
        raise popart_exception(f"the tensor '{self.id}' has no data on the host: it stands free")

    def getDebugInfo(self) -> Any:
        return DebugInfo(self.id, "popart")


def _reader(dtype: DataType, seen_as: str) -> Any:
    def read(self: Tensor) -> numpy.ndarray:
        found = self.info.dataType()
        if found is not dtype:
            raise popart_exception(f"the tensor '{self.id}' is of {found.name}, not of {dtype.name}")
        return self.host_array().view(seen_as)

    read.__doc__ = f"The {dtype.name} data on the host, not copied. Raises popart_exception for another type."
    return read


for _name in "Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 Bool Float16 Float32 Float64".split():
    _type = DataType[{"Float32": "FLOAT", "Float64": "DOUBLE"}.get(_name, _name.upper())]
    setattr(Tensor, f"dataAs{_name}", _reader(_type, "uint16" if _name == "Float16" else NUMPY[_type].name))

_PREFIXES = {
    "isAccumulatorTensor": ("Accum___", "Accl"),
    "isOptimizerStateTensor": ("Accum___", "Accl", "Step___"),
    "isRandomSeedTensor": ("randomSeed___",),
    "isRemoteArgTensor": ("RemoteArg___",),
    "isLossScaleTensor": ("lossScaling_",),
    "isAnchored": (),
    "isRootAnchor": (),
    "isCheckpointTensor": (),
    "isImplicitRecomputeTensor": (),
    "isRestoreInplaceTensor": (),
    "isImplicitLoopInput": (),
    "isExplicitLoopInput": (),
}


def _query(prefixes: tuple[str, ...]) -> Any:
    def query(self: Tensor) -> bool:
        return self.id.rpartition("/")[2].startswith(prefixes) if prefixes else False

    return query


def _scaling(self: Tensor) -> bool:
    """Is it a stream with a value of an optimizer?"""
    return "___default___" in self.id or "___specific___" in self.id


def _by_ops(op_type: str, side: str) -> Any:
    def query(self: Tensor) -> bool:
        ops = (
            [self.getProducer()]
            if side == "out" and self.hasProducer()
            else self.consumers.getOps()
            if side == "in"
            else []
        )
        return any(op.kind == op_type for op in ops)

    return query


for _name, _found in _PREFIXES.items():
    setattr(Tensor, _name, _query(_found))
setattr(Tensor, "isOptimizerTensor", _scaling)
setattr(Tensor, "isHostLoadTensor", _by_ops("HostLoad", "out"))
setattr(Tensor, "isHostStoreTensor", _by_ops("HostStore", "in"))
setattr(Tensor, "isUnmodifiable", lambda self: self.tensorType().name == "Const")
setattr(
    Tensor, "isWeightTensor", lambda self: self.tensorType().name == "Variable" and not self.isOptimizerStateTensor()
)
setattr(Tensor, "isLoopInput", lambda self: self.isGraphInput() and self.getGraph().is_called_by("Loop"))
setattr(Tensor, "isLoopTripCounter", lambda self: self.isLoopInput() and self.getGraphInputIndex() == 0)

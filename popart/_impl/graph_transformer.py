"""popart.GraphTransformer: a model changed as a whole, before a Builder extends it or a session runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import onnx

from popart._impl.builder import model_files, protos
from popart._impl.exceptions import popart_exception

_T = protos.Tensor
_FIXED = (_T.INT8, _T.INT16, _T.INT32, _T.INT64, _T.UINT8, _T.UINT16, _T.UINT32, _T.UINT64, _T.BOOL)


class GraphTransformer:
    """Changes a model in place; `getModelProto()` returns it.

    Args:
        modelProtoOrFilename: the bytes of a model or the name of a file with one.

    Raises:
        popart_exception: there is no such file, or these bytes are no model. RuntimeError: the ONNX checker refuses it.
    """

    def __init__(self, modelProtoOrFilename: Any) -> None:
        self._model, _ = model_files.load(modelProtoOrFilename)
        self._graph = self._model.graph

    def getModelProto(self) -> bytes:
        return self._model.SerializeToString()

    def _check_nodes(self) -> None:
        kinds = protos.Attribute
        for node in self._graph.node:
            for attribute in node.attribute:
                if attribute.type in (kinds.GRAPH, kinds.GRAPHS):
                    raise popart_exception(
                        f"{node.op_type} '{node.name}' has a graph as attribute '{attribute.name}', which is not changed here"
                    )
                if attribute.type == kinds.UNDEFINED:
                    raise popart_exception(f"attribute '{attribute.name}' of {node.op_type} '{node.name}' has no type")

    # --- inputs and training
    def removeUnusedInputs(self) -> None:
        """Drops inputs and initialisers that no node and no output reads."""
        read = {id for node in self._graph.node for id in node.input} | {value.name for value in self._graph.output}
        read |= {id for node in self._graph.node for attribute in node.attribute for id in _read_inside(attribute)}
        for entries in (self._graph.input, self._graph.initializer):
            for index in reversed(range(len(entries))):
                if entries[index].name not in read:
                    del entries[index]

    def prepareNodesForTraining(self) -> None:
        """Gives each BatchNormalization the four further outputs of training."""
        for node in self._graph.node:
            if node.op_type == "BatchNormalization" and len(node.output) < 5:
                node.output.extend(f"{node.op_type}_{node.name}_oi{index}" for index in range(len(node.output), 5))

    # --- element types
    def _convert(self, before: int, after: int, change: Callable[[numpy.ndarray, str], numpy.ndarray]) -> None:
        """Every tensor of one element type has another: inputs, outputs, values, initialisers, constants."""
        self._check_nodes()
        for entries in (self._graph.input, self._graph.output, self._graph.value_info):
            for value in entries:
                if not value.HasField("type") or not value.type.HasField("tensor_type"):
                    raise popart_exception(f"tensor '{value.name}' has no element type")
                if value.type.tensor_type.elem_type == before:
                    value.type.tensor_type.elem_type = after
        for tensor in self._graph.initializer:
            _change(tensor, before, after, change)
        for node in self._graph.node:
            for attribute in node.attribute:
                if attribute.type == protos.Attribute.TENSOR and node.op_type in ("Constant", "ConstantOfShape"):
                    _change(attribute.t, before, after, change)
                elif (
                    attribute.name in ("to", "dtype")
                    and attribute.type == protos.Attribute.INT
                    and attribute.i == before
                ):
                    attribute.i = after

    def convertFloatsToHalfs(self) -> None:
        """FLOAT becomes FLOAT16; numbers that FLOAT16 cannot hold become infinite."""
        self._convert(_T.FLOAT, _T.FLOAT16, _cast("float16"))

    def convertDoublesToFloats(self) -> None:
        self._convert(_T.DOUBLE, _T.FLOAT, _cast("float32"))

    def convertDoublesToHalfs(self) -> None:
        self._convert(_T.DOUBLE, _T.FLOAT16, _cast("float16"))

    def convertBFloats16ToFloat32(self) -> None:
        self._convert(_T.BFLOAT16, _T.FLOAT, _cast("float32"))

    def convertUINT8ToINT32(self) -> None:
        self._convert(_T.UINT8, _T.INT32, _cast("int32"))

    def convertUINT16ToINT32(self) -> None:
        self._convert(_T.UINT16, _T.INT32, _cast("int32"))

    def convertINT8ToINT32(self) -> None:
        self._convert(_T.INT8, _T.INT32, _cast("int32"))

    def convertINT16ToINT32(self) -> None:
        self._convert(_T.INT16, _T.INT32, _cast("int32"))

    def convertINT64ToINT32(self, clip: bool = False) -> None:
        """INT64 becomes INT32. Numbers out of range raise popart_exception, or become the nearest one with `clip`."""
        limits = numpy.iinfo("int32")

        def narrow(array: numpy.ndarray, name: str) -> numpy.ndarray:
            outside = array[(array < limits.min) | (array > limits.max)]
            if outside.size and not clip:
                raise popart_exception(
                    f"convertINT64ToINT32: {outside.size} numbers of '{name}' are out of the range of INT32, the first is {outside[0]}; "
                    "clip=True makes them the nearest INT32"
                )
            return array.clip(limits.min, limits.max).astype("int32")

        self._convert(_T.INT64, _T.INT32, narrow)

    # --- initialisers
    def convertInitializersToConstants(self, ids: Sequence[str]) -> None:
        """These initialisers become Constant nodes with the same id. Raises popart_exception for an id that is none."""
        wanted, known = list(ids), {tensor.name: tensor for tensor in self._graph.initializer}
        for id in wanted:
            if id not in known:
                raise popart_exception(f"'{id}' is no initialiser; these are: {', '.join(sorted(known)) or 'none'}")
        chosen = dict.fromkeys(wanted)
        made = []
        for id in chosen:
            node = onnx.NodeProto(op_type="Constant", output=[id])
            node.attribute.append(protos.attribute("value", protos.Attribute.TENSOR, known[id]))
            made.append(node)
        nodes = [*made, *self._graph.node]
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        for entries in (self._graph.initializer, self._graph.input):
            for index in reversed(range(len(entries))):
                if entries[index].name in chosen:
                    del entries[index]
        if not any(model_files.domain_name(entry.domain) == "" for entry in self._model.opset_import):
            self._model.opset_import.add().version = model_files.DEFAULT_OPSET

    def convertAllFixedPointInitializersToConstants(self) -> None:
        """Initialisers of whole numbers become Constant nodes."""
        self.convertInitializersToConstants(
            [tensor.name for tensor in self._graph.initializer if tensor.data_type in _FIXED]
        )

    def saveInitializersExternally(self, ids: Sequence[str], filename: str) -> None:
        """As the method of Builder: moves the data of these initialisers to a file."""
        model_files.externalise(self._graph, list(ids), filename)


def _read_inside(attribute: onnx.AttributeProto) -> set[str]:
    """Names that a graph in an attribute reads or returns."""
    if attribute.type != protos.Attribute.GRAPH:
        return set()
    read = {value.name for value in attribute.g.output} | {id for node in attribute.g.node for id in node.input}
    return read | {id for node in attribute.g.node for inner in node.attribute for id in _read_inside(inner)}


def _cast(dtype: str) -> Callable[[numpy.ndarray, str], numpy.ndarray]:
    def cast(array: numpy.ndarray, name: str) -> numpy.ndarray:
        with numpy.errstate(over="ignore"):
            return array.astype(dtype)

    return cast


def _change(
    tensor: onnx.TensorProto, before: int, after: int, change: Callable[[numpy.ndarray, str], numpy.ndarray]
) -> None:
    if tensor.data_type == _T.UNDEFINED:
        raise popart_exception(f"tensor '{tensor.name}' has no element type")
    if tensor.data_type != before:
        return
    array = change(protos.to_array(tensor), tensor.name)
    protos.clear_data(tensor)
    tensor.data_type = after
    if after == _T.FLOAT16:
        tensor.raw_data = array.tobytes()
    else:
        protos.store(tensor, array)

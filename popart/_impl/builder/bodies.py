"""Types of the outputs of nodes that hold graphs: If, Loop, Scan, Call, PackedDataBlock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Optional

import onnx

from popart._impl.builder import protos
from popart._impl.builder.graph_view import GraphView, Types

# Tells the types of the outputs of a node of a graph.
Inference = Callable[[GraphView, onnx.NodeProto, Optional[int]], Types]


class _Body:
    """A graph inside a node, seen with the types of the arguments of that node."""

    def __init__(
        self,
        outside: GraphView,
        graph: onnx.GraphProto,
        arguments: Sequence[onnx.TypeProto | None],
        infer: Inference,
    ) -> None:
        self._outside, self.model = outside, outside.model
        self._types: dict[str, onnx.TypeProto | None] = {v.name: protos.known_type(v) for v in graph.value_info}
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        for tensor in graph.initializer:
            self._types[tensor.name] = protos.tensor_type(tensor.data_type, tensor.dims)
        same = True
        for value, argument in zip(graph.input, arguments):
            declared = protos.known_type(value)
            self._types[value.name] = argument if argument is not None else declared
            same = same and (argument is None or argument == declared)
        for value in graph.input[len(arguments) :]:
            self._types[value.name] = protos.known_type(value)
        for node in graph.node:
            if node.op_type == "Constant":
                for attribute in node.attribute:
                    if attribute.name == "value":
                        self._constants[node.output[0]] = attribute.t
            if not same or any(id and self._types.get(id) is None for id in node.output):
                inferred = infer(self, node, None)
                self._types.update({id: inferred.get(id) for id in node.output})
        self.outputs = [self.type_of(value.name) or protos.known_type(value) for value in graph.output]

    def type_of(self, id: str) -> onnx.TypeProto | None:
        return self._types[id] if id in self._types else self._outside.type_of(id)

    def constant(self, id: str) -> onnx.TensorProto | None:
        return self._constants[id] if id in self._constants else self._outside.constant(id)


def _argument(core: GraphView, id: str) -> onnx.TypeProto | None:
    return core.type_of(id) if id else None


def _pairs(node: onnx.NodeProto, types: Sequence[onnx.TypeProto | None]) -> Types:
    return {id: type_ for id, type_ in zip(node.output, types) if id and type_ is not None}


def _if(core: GraphView, node: onnx.NodeProto, infer: Inference) -> Types:
    return _pairs(node, _Body(core, protos.values_of(node)["then_branch"], [], infer).outputs)


def _stacked(type_: onnx.TypeProto | None, count: int | None, axis: int = 0) -> onnx.TypeProto | None:
    sizes = None if type_ is None else protos.shape_of(type_)
    if type_ is None or sizes is None:
        return type_
    axis = axis + len(sizes) + 1 if axis < 0 else axis
    return protos.tensor_type(type_.tensor_type.elem_type, [*sizes[:axis], count, *sizes[axis:]])


def _loop(core: GraphView, node: onnx.NodeProto, infer: Inference) -> Types:
    body = protos.values_of(node)["body"]
    trips = core.constant(node.input[0]) if node.input[0] else None
    iteration = protos.tensor_type(protos.Tensor.INT64, [])
    condition = protos.tensor_type(protos.Tensor.BOOL, [])
    declared = [protos.known_type(value) for value in body.input]
    first = [declared[0] if declared and declared[0] is not None else iteration, condition]
    carried = [_argument(core, id) for id in node.input[2:]]
    outputs = _Body(core, body, [*first, *carried], infer).outputs[1:]
    count = (
        int(protos.to_array(trips).reshape(-1)[0]) if trips is not None and protos.element_count(trips) == 1 else None
    )
    return _pairs(
        node, [type_ if index < len(carried) else _stacked(type_, count) for index, type_ in enumerate(outputs)]
    )


def _concatenated(type_: onnx.TypeProto | None, count: int | None, axis: int) -> onnx.TypeProto | None:
    sizes = None if type_ is None else protos.shape_of(type_)
    if type_ is None or not sizes or not -len(sizes) <= axis < len(sizes):
        return None
    one = sizes[axis]
    sizes[axis] = None if one is None or count is None else one * count
    return protos.tensor_type(type_.tensor_type.elem_type, sizes)


def _scan(core: GraphView, node: onnx.NodeProto, infer: Inference) -> Types:
    values = protos.values_of(node)
    scanned, body = values["num_scan_inputs"], values["body"]
    offset = 1 if len(node.input) and not node.input[0] else 0  # opset 8: the lengths of sequences come first
    arguments = [_argument(core, id) for id in node.input[offset:]]
    split, length = len(arguments) - scanned, None
    axes = values.get("scan_input_axes") or [0] * scanned
    pieces: list[onnx.TypeProto | None] = []
    for type_, axis in zip(arguments[split:], axes):
        sizes = None if type_ is None else protos.shape_of(type_)
        if type_ is None or not sizes or not -len(sizes) <= axis < len(sizes):
            pieces.append(None)
            continue
        axis += len(sizes) if axis < 0 else 0
        length = sizes[axis] if length is None else length
        one = sizes[:axis] + sizes[axis + 1 :] or [1]
        pieces.append(protos.tensor_type(type_.tensor_type.elem_type, one))
    outputs = _Body(core, body, [*arguments[:split], *pieces], infer).outputs
    into = values.get("scan_output_axes") or [0] * len(outputs)
    return _pairs(
        node,
        [
            type_ if index < split else _concatenated(type_, length, into[index - split])
            for index, type_ in enumerate(outputs)
        ],
    )


def _call(core: GraphView, node: onnx.NodeProto, infer: Inference) -> Types:
    return _pairs(
        node, _Body(core, protos.values_of(node)["callee"], [_argument(core, id) for id in node.input], infer).outputs
    )


def _packed(core: GraphView, node: onnx.NodeProto, infer: Inference) -> Types:
    values = protos.values_of(node)
    inside = _Body(core, values["callback"], [], infer).outputs
    sizes = protos.shape_of(inside[0]) if inside and inside[0] is not None else None
    if sizes is None:
        return {}
    return _pairs(node, [protos.tensor_type(inside[0].tensor_type.elem_type, [values["resultSize"], *sizes[2:]])])  # type: ignore[union-attr]


BODIES: dict[str, Callable[[GraphView, onnx.NodeProto, Inference], Types]] = {
    "If": _if,
    "Loop": _loop,
    "Call": _call,
    "Scan": _scan,
    "PackedDataBlock": _packed,
}

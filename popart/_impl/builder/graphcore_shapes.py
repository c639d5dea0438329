"""Types of the outputs of ai.graphcore operators. A rule takes a View of a node and returns (element type, sizes) per output."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import onnx

from popart._impl.builder import protos
from popart._impl.builder.graph_view import GraphView
from popart._impl.enums import DataType
from popart._impl.operators.rows import ROWS

T = protos.Tensor
Result = list[tuple[int, Sequence[int]]]


class Unknown(Exception):
    """The type of an input is not known, so neither are those of the outputs."""


class View:
    """A node with the types of its inputs."""

    def __init__(self, core: GraphView, node: onnx.NodeProto) -> None:
        self._core, self._node = core, node
        self.attributes = protos.values_of(node)

    def __len__(self) -> int:
        return len(self._node.input)

    def has(self, index: int) -> bool:
        return index < len(self._node.input) and self._node.input[index] != ""

    def _type(self, index: int) -> onnx.TypeProto:
        type_ = self._core.type_of(self._node.input[index]) if self.has(index) else None
        if type_ is None:
            raise Unknown
        return type_

    def element(self, index: int = 0) -> int:
        return self._type(index).tensor_type.elem_type

    def sizes(self, index: int = 0) -> list[int]:
        sizes = protos.shape_of(self._type(index))
        if sizes is None or None in sizes:
            raise Unknown
        return sizes  # type: ignore[return-value]

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def types(self, rule: Callable[[View], Result]) -> dict[str, onnx.TypeProto]:
        try:
            found = rule(self)
        except (Unknown, ValueError, IndexError, KeyError, ZeroDivisionError):
            return {}  # the session tells what is wrong with the shapes, with the place in the program
        return {id: protos.tensor_type(element, sizes) for id, (element, sizes) in zip(self._node.output, found) if id}


def _same(op: View) -> Result:
    return [(op.element(), op.sizes())]


def _broadcast(op: View) -> Result:
    sizes: list[int] = []
    for index in range(len(op)):
        other = op.sizes(index)
        rank = max(len(sizes), len(other))
        left, right = [1] * (rank - len(sizes)) + sizes, [1] * (rank - len(other)) + other
        if any(a != b and 1 not in (a, b) for a, b in zip(left, right)):
            raise Unknown
        sizes = [b if a == 1 else a for a, b in zip(left, right)]
    return [(op.element(), sizes)]


def _loss(op: View) -> Result:
    if op.get("reduction") != "None":
        return [(op.element(), [])]
    sizes = {"Nll": lambda: op.sizes(1), "Ctc": lambda: op.sizes()[1:2]}.get(op._node.op_type, op.sizes)()
    return [(op.element(), sizes)]


def _ctc(op: View) -> Result:
    steps, batch, classes = op.sizes()
    named = op.get("outDataType", "UNDEFINED")
    element = op.element() if named == "UNDEFINED" else protos.NUMBER[DataType[named]]
    return [(element, [batch] if op.get("reduction") == "None" else []), (element, [steps, batch, classes])]


def _decoded(op: View) -> Result:
    steps, batch, _ = op.sizes()
    paths = op.get("top_paths", 1)
    return [(op.element(), [batch, paths]), (T.UINT32, [batch, paths]), (T.UINT32, [batch, paths, steps])]


def _batch_norm(op: View) -> Result:
    mean, variance = [(op.element(operand), op.sizes(operand)) for operand in (3, 4)]
    return [(op.element(), op.sizes()), mean, variance, mean, variance]


def _group_norm(op: View) -> Result:
    statistics = (T.FLOAT, [op.sizes()[0] * op.get("num_groups")])
    return [(op.element(), op.sizes()), statistics, statistics]


def _dynamic_slice(op: View) -> Result:
    if op.has(2):  # the tensor to lie in
        return [(op.element(), op.sizes(2))]
    sizes = op.sizes()
    for axis, size in zip(op.get("axes"), op.get("sizes")):
        sizes[axis] = size
    return [(op.element(), sizes)]


def _grouped_gather(op: View) -> Result:
    data, indices, axis = op.sizes(), op.sizes(1), op.get("axis", 0)
    axis += len(data) if axis < 0 else 0
    if op.get("group_size", 1) > 1:
        return [(op.element(), [data[0], *data[1:axis], *indices[1:], *data[axis + 1 :]])]
    return [(op.element(), [*data[:axis], *indices, *data[axis + 1 :]])]


def _scatter_reduce(op: View) -> Result:
    if op.has(2):
        return [(op.element(2), op.sizes(2))]
    source, index, axis = op.sizes(), op.sizes(1), op.get("axis", -1)
    grouped = int(op.get("group_size", 1) > 1)
    axis += len(source) if axis < 0 else 0
    if op.get("enable_index_broadcast", 1):
        sizes = list(source)
    elif len(index) == 1 + grouped:
        sizes = [*index[:grouped], *[1] * (len(source) - grouped)]
        sizes[axis] = index[-1]
    else:
        sizes = index + [1] * (len(source) - len(index))
    sizes[axis] = op.get("axis_size")
    return [(op.element(), sizes)]


def _lstm(op: View) -> Result:
    steps, batch, _ = op.sizes()
    hidden = op.sizes(1)[2]
    whole = op.get("outputFullSequence", 1)
    return [(op.element(), [steps, batch, hidden] if whole else [batch, hidden]), (op.element(), [batch, hidden])]


def _multi_conv(op: View) -> Result:
    from popart._impl.builder.multiconv import shapes

    return shapes(op)


def _normalize_image(op: View) -> Result:
    return [(T.FLOAT16 if op.element() == T.UINT8 else op.element(), [*op.sizes()[:-1], 4])]


def _median(op: View) -> Result:
    sizes, axes = op.sizes(), op.get("axes")
    chosen = set(range(len(sizes))) if axes is None else {axis % len(sizes) for axis in axes}
    keep = op.get("keepdims", 1)
    reduced = [1 if axis in chosen else size for axis, size in enumerate(sizes) if keep or axis not in chosen]
    return [(op.element(), reduced), (T.INT32, reduced)]


def _reshape(op: View) -> Result:
    before, wanted = op.sizes(), list(op.get("shape"))
    sizes = [before[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    if -1 in sizes:
        rest = math.prod(size for size in sizes if size != -1)
        if rest == 0 or math.prod(before) % rest:
            raise Unknown
        sizes[sizes.index(-1)] = math.prod(before) // rest
    return [(op.element(), sizes)] if math.prod(sizes) == math.prod(before) else []


def _scatter_shard(op: View) -> Result:
    _, size = op.get("__collectiveCommGroup") or (0, 0)
    return (
        [(op.element(), [-(-math.prod(op.sizes()) // size)])] if size else []
    )  # all replicas: their number is not known yet


def _slice(op: View) -> Result:
    sizes = op.sizes()
    axes = op.get("axes") or range(len(op.get("starts")))
    for start, end, axis in zip(op.get("starts"), op.get("ends"), axes):
        low, high, _ = slice(start, end).indices(sizes[axis])
        sizes[axis] = max(0, high - low)
    return [(op.element(), sizes)]


def _sort(op: View) -> Result:
    return [(op.element(), op.sizes()), (T.INT32, op.sizes())]


def _spline_basis(op: View) -> Result:
    edges, dimensions = op.sizes()
    size = (op.get("degree") + 1) ** dimensions
    return [(op.element(), [edges, size]), (T.INT32, [edges, size])]


def _depth_to_space(op: View) -> Result:
    batch, channels, height, width = op.sizes()
    block = op.get("blocksize")
    return [(op.element(), [batch, channels // block**2, height * block, width * block])]


def _init(op: View) -> Result:
    return [(protos.NUMBER[DataType(op.get("data_type"))], op.get("shape"))]


RULES: dict[str, Callable[[View], Result]] = {
    **{row.type: {"=": _same, "~": _broadcast}[r.mark] for row in ROWS for r in row.results if r.mark in ("=", "~")},
    **dict.fromkeys(("IdentityLoss", "L1", "Nll"), _loss),
    "BatchNormalization": _batch_norm,
    "Bucketize": lambda op: [(T.INT32, op.sizes())],
    "Ctc": _ctc,
    "CtcBeamSearchDecoder": _decoded,
    "DepthToSpace": _depth_to_space,
    "DynamicSlice": _dynamic_slice,
    "GroupNormalization": _group_norm,
    "GroupedGather": _grouped_gather,
    "Init": _init,
    "LSTM": _lstm,
    "MultiConv": _multi_conv,
    "NormalizeImage": _normalize_image,
    "ReduceMedian": _median,
    "ReplicatedReduceScatter": _scatter_shard,
    "Reshape": _reshape,
    "ScatterReduce": _scatter_reduce,
    "SequenceSlice": lambda op: [(op.element(1), op.sizes(1))],
    "Slice": _slice,
    "Sort": _sort,
    "SplineBasis": _spline_basis,
    "SplineWeighting": lambda op: [(op.element(), [op.sizes()[0], op.sizes(1)[2]])],
    "Subsample": lambda op: [
        (op.element(), [-(-size // stride) for size, stride in zip(op.sizes(), op.get("strides"), strict=True)])
    ],
}

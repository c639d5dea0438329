"""ONNX models as the plain records that `ipu_core.compile_model` takes. Needs the package `onnx`."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy

from ipu_core._native import Error
from ipu_core.onnx_files import read_model

if TYPE_CHECKING:
    import onnx


def read_onnx(
    model: onnx.ModelProto | bytes | str | os.PathLike,
    *,
    trained: Iterable[str] | None = None,
    values: Mapping[str, numpy.ndarray] | None = None,
    dialect: str = "onnx",
) -> dict[str, Any]:
    """The records of an ONNX model.

    Args:
        model: a model, the bytes of one, or the name of a file. Tensors that are kept beside a file are read too.
        trained: names of the initialisers that an optimizer is to update; None: none of them.
        values: initialisers of the main graph that the caller has read already.
        dialect: "popart": operators follow PopART's rules where these are not those of the text of ONNX.

    Raises:
        Error: there is no model in the bytes or in the file, which is a regular one; a text of it is no UTF-8; the model has
            inputs of unknown size, functions of its own, values that are no tensors, or tensors that cannot be read. Whatever
            is wrong with a model, nothing else is raised.
    """
    model, source = read_model(model)
    if not model.HasField("graph"):
        raise Error(f"unsupported model: {source} holds no graph.")
    if model.functions:
        names = ", ".join(sorted({f"{f.domain}::{f.name}" for f in model.functions}))
        raise Error(f"unsupported model: {source} defines functions of its own: {names}. Inline them before.")
    graph = _graph(model.graph, source, values or {})
    graph["trained"] = list(trained or ())
    return {
        "source": source,
        "dialect": dialect,
        "versions": {opset.domain or "ai.onnx": opset.version for opset in model.opset_import},
        "graph": graph,
    }


_MOST_NESTED = 100  # graphs inside each other


def _graph(graph: onnx.GraphProto, source: str, values: Mapping[str, numpy.ndarray], depth: int = 0) -> dict[str, Any]:
    if graph.sparse_initializer:
        raise Error(f"unsupported model: {source} has sparse initialisers; store them as dense tensors.")
    if depth > _MOST_NESTED:
        raise Error(f"unsupported model: graphs of {source} lie in each other more than {_MOST_NESTED} times.")
    initialisers: dict[str, numpy.ndarray] = {}
    for tensor in graph.initializer:
        if tensor.name in initialisers:
            raise Error(f"duplicate name: two initialisers of {source} are called '{tensor.name}'.")
        known = values.get(tensor.name)
        initialisers[tensor.name] = _array(tensor, f"initialiser '{tensor.name}'", source) if known is None else known
    return {
        "name": graph.name,
        # Inside a node types follow what the graph is given.
        "inputs": [
            value.name if depth else _input(value, source) for value in graph.input if value.name not in initialisers
        ],
        "initialisers": initialisers,
        "nodes": [_node(node, source, depth) for node in graph.node],
        "outputs": [value.name for value in graph.output],
    }


def _array(tensor: onnx.TensorProto, what: str, source: str) -> numpy.ndarray:
    import onnx.helper
    import onnx.numpy_helper

    if any(size < 0 for size in tensor.dims):
        raise Error(
            f"unsupported model: {what} of {source} has the shape {list(tensor.dims)}; no size is negative, and those of a "
            "tensor are known."
        )
    try:
        size = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        count = math.prod(tensor.dims)
        entries = len(tensor.int32_data)
        if entries and size < 4 and entries < count and entries == -(-count * size // 4):
            # PopART keeps as many small elements in a 32-bit entry as fit, where ONNX keeps one.
            data = numpy.array(tensor.int32_data, "<i4").tobytes()[: count * size]
            return numpy.frombuffer(data, onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).reshape(
                tuple(tensor.dims)
            )
        return onnx.numpy_helper.to_array(tensor)
    except Exception as error:  # what onnx, protobuf and NumPy raise for one depends on what is wrong
        raise Error(f"unsupported model: {what} of {source} cannot be read: {error}.") from error


def _input(value: onnx.ValueInfoProto, source: str) -> tuple[str, numpy.dtype, list[int]]:
    import onnx.helper

    if not value.type.HasField("tensor_type"):
        raise Error(f"unsupported model: input '{value.name}' of {source} is no tensor.")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        raise Error(
            f"unknown size: input '{value.name}' of {source} has no shape. Sizes are fixed when a program is compiled: set "
            "them in the model, for example with onnx.tools.update_model_dims."
        )
    sizes: list[Any] = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim]
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise Error(
            f"unknown size: input '{value.name}' of {source} has shape {sizes}. Sizes are fixed when a program is "
            "compiled: set them in the model, for example with onnx.tools.update_model_dims."
        )
    if tensor.elem_type == onnx.TensorProto.UNDEFINED:
        raise Error(f"unsupported model: input '{value.name}' of {source} has no element type.")
    return value.name, _numpy_type(tensor.elem_type, f"input '{value.name}' of {source}"), sizes


def _numpy_type(number: int, what: str) -> numpy.dtype:
    import onnx.helper

    try:
        return onnx.helper.tensor_dtype_to_np_dtype(number)
    except KeyError as error:
        raise Error(f"unsupported model: {what} has the element type {number}, which ONNX does not have.") from error


def _node(node: onnx.NodeProto, source: str, depth: int) -> dict[str, Any]:
    import onnx

    attributes, subgraphs = {}, {}
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            subgraphs[attribute.name] = _graph(attribute.g, source, {}, depth + 1)
        else:
            attributes[attribute.name] = _attribute(attribute, node, source)
    return {
        "domain": node.domain,
        "type": node.op_type,
        "name": node.name,
        "operands": list(node.input),
        "results": list(node.output),
        "attributes": attributes,
        "subgraphs": subgraphs,
    }


def _attribute(attribute: onnx.AttributeProto, node: onnx.NodeProto, source: str) -> Any:
    import onnx.helper

    kinds = onnx.AttributeProto
    what = f"attribute '{attribute.name}' of {node.op_type} '{node.name}'"
    if attribute.type == kinds.TENSOR:
        return _array(attribute.t, what, source)
    if attribute.type in (kinds.INT, kinds.FLOAT, kinds.STRING, kinds.INTS, kinds.FLOATS, kinds.STRINGS):
        try:
            value = onnx.helper.get_attribute_value(attribute)
            if attribute.type == kinds.STRING:
                return value.decode()
            if attribute.type == kinds.STRINGS:
                return [text.decode() for text in value]
        except UnicodeDecodeError as error:
            raise Error(f"unsupported model: {what} in {source} is no text: {error}.") from error
        except ValueError as error:  # it refers to an attribute of a function
            raise Error(f"unsupported model: {what} in {source} cannot be read: {error}.") from error
        return value if attribute.type in (kinds.INT, kinds.FLOAT) else list(value)
    known = dict(zip(kinds.AttributeType.values(), kinds.AttributeType.keys()))
    kind = known.get(attribute.type, str(attribute.type))
    raise Error(f"unsupported model: {what} in {source} is of kind {kind}.")

"""Types of the outputs of one node: by ONNX for ai.onnx, by rules of ours for ai.graphcore and for nodes with bodies."""

from __future__ import annotations

import functools
from typing import Any

import onnx
import onnx.checker
import onnx.defs
import onnx.shape_inference

from popart._impl.builder import protos
from popart._impl.builder.bodies import BODIES
from popart._impl.builder.graph_view import GraphView, Types
from popart._impl.builder.graphcore_shapes import RULES, View
from popart._impl.builder.model_files import DEFAULT_OPSET, LAST_OPSET, domain_name

_READABLE = (protos.Tensor.INT64, protos.Tensor.INT32, protos.Tensor.FLOAT)  # constants whose layout ONNX knows


@functools.cache
def schema(op_type: str, version: int) -> Any:
    """What ONNX says of an operator at a version; of one that is withdrawn by then, what it said before. None: there is none."""
    try:
        found = onnx.defs.get_schema(op_type, version, "")
        return schema(op_type, found.since_version - 1) if found.deprecated else found
    except onnx.defs.SchemaError:
        return None


def types_of_outputs(core: GraphView, node: onnx.NodeProto, version: int | None) -> Types:
    """Types of those outputs that can be told. Raises popart_exception where a rule of ours finds the node wrong."""
    domain = domain_name(node.domain)
    if domain == "ai.graphcore" and node.op_type in RULES:
        return View(core, node).types(RULES[node.op_type])
    if domain == "ai.graphcore" and node.op_type in BODIES:
        return BODIES[node.op_type](core, node, types_of_outputs)
    if domain != "":
        return {}
    if node.op_type in BODIES:
        return BODIES[node.op_type](core, node, types_of_outputs)
    if node.op_type == "BatchNormalization" and len(node.output) == 5:
        return View(core, node).types(RULES["BatchNormalization"])
    return _by_onnx(core, node, version or core.model.versions.get("", DEFAULT_OPSET))


def _by_onnx(core: GraphView, node: onnx.NodeProto, version: int) -> Types:
    known = schema(node.op_type, min(version, LAST_OPSET))
    if known is None:
        return {}
    inputs, data = {}, {}
    for id in node.input:
        if not id:
            continue
        type_ = core.type_of(id)
        if type_ is None:
            return {}
        inputs[id] = type_.SerializeToString()
        constant = core.constant(id)
        if constant is not None and constant.data_type in _READABLE:
            data[id] = constant.SerializeToString()
    if "" in node.input:  # ONNX tells less of a node by itself when it leaves operands out
        return _of_other_types(node, inputs, data, version)
    try:
        found = known._infer_node_outputs(node.SerializeToString(), inputs, data, {}, {"": version}, 4)
    except onnx.checker.ValidationError:
        return _of_other_types(node, inputs, data, version)  # element types that ONNX does not list for this version
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError, KeyError):
        # A builder does not judge shapes beyond windows: the session does, with the names of the user.
        return {}
    types = {id: onnx.TypeProto.FromString(text) for id, text in found.items()}
    return {id: type_ for id, type_ in types.items() if type_.tensor_type.elem_type}


def _of_other_types(node: onnx.NodeProto, inputs: dict[str, bytes], data: dict[str, bytes], version: int) -> Types:
    """Inference over a model of this node alone, which does not ask whether its element types are listed."""
    model = onnx.ModelProto(ir_version=4, graph=onnx.GraphProto(name="one", node=[node]))
    model.opset_import.add().version = version
    for id, text in inputs.items():
        model.graph.input.add().CopyFrom(onnx.ValueInfoProto(name=id, type=onnx.TypeProto.FromString(text)))
    for id, text in data.items():
        tensor = model.graph.initializer.add()
        tensor.ParseFromString(text)
        tensor.name = id  # that of a Constant has none
    try:
        found = onnx.shape_inference.infer_shapes(model).graph.value_info
    except (onnx.shape_inference.InferenceError, RuntimeError):
        return {}
    return {value.name: value.type for value in found if value.type.tensor_type.elem_type}

"""Rows of the methods of ai.onnx: from the operator schemas of ONNX, and a table of what is published differently."""

from __future__ import annotations

import functools
from typing import Any

import numpy
import onnx.defs

from popart._impl.builder.methods import REQUIRED, Method, Parameter
from popart._impl.builder.model_files import FIRST_OPSET, LAST_OPSET
from popart._impl.exceptions import popart_exception

_RENAMED = {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor", "Not": "logical_not", "If": "logical_if"}
_TYPES = onnx.defs.OpSchema.AttrType
_KINDS = {
    _TYPES.INT: "int",
    _TYPES.FLOAT: "float",
    _TYPES.STRING: "string",
    _TYPES.INTS: "ints",
    _TYPES.FLOATS: "floats",
    _TYPES.STRINGS: "strings",
    _TYPES.TENSOR: "array",
    _TYPES.GRAPH: "graph",
}
_LISTS = ("ints", "floats", "strings")
# (method, parameter) → what is published instead of what the schema says; the kind, or the kind and the default.
_DIFFERENT: dict[tuple[str, str], tuple[Any, ...]] = {
    ("cast", "to"): ("type name", REQUIRED),
    ("constant", "value"): ("array", REQUIRED),
    ("constantofshape", "value"): ("array", REQUIRED),
    ("meanvariancenormalization", "axes"): ("ints", []),
}


def methods_of(version: int) -> list[Method]:
    """Methods that this version of ai.onnx adds or changes."""
    found = []
    for schema in _schemas(version):
        if version == FIRST_OPSET or schema.since_version == version:
            found.append(_method(schema, version))
    return sorted(found, key=lambda method: method.name)


@functools.cache
def _schemas(version: int) -> tuple[Any, ...]:
    newest: dict[str, Any] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= min(version, LAST_OPSET):
            known = newest.get(schema.name)
            if known is None or known.since_version < schema.since_version:
                newest[schema.name] = schema
    return tuple(schema for schema in newest.values() if not schema.deprecated)


def _method(schema: Any, version: int) -> Method:
    name = _RENAMED.get(schema.name, schema.name.lower())
    attributes = [
        _parameter(name, attribute) for key, attribute in sorted(schema.attributes.items()) if key != "auto_pad"
    ]
    if name == "constant":
        attributes = [a for a in attributes if a.name != "sparse_value"]
        attributes += [Parameter("is_value_sparse", "sparse", False)] if "sparse_value" in schema.attributes else []
    counted = schema.min_output != schema.max_output
    parameters = [Parameter("args", "ids")] if schema.max_input else []
    parameters += [Parameter("num_outputs", "count")] if counted else []
    parameters += [a for a in attributes if a.default is REQUIRED] + [
        a for a in attributes if a.default is not REQUIRED
    ]
    parameters.append(Parameter("name" if name == "logical_if" else "debugContext", "debug", ""))
    many = counted or schema.max_output > 1
    what = "list of the ids of the outputs" if many else "id of the output"
    doc = (
        f"Adds a node {schema.name} of ai.onnx, as version {schema.since_version} of the operator says: "
        f"https://onnx.ai/onnx/operators/onnx__{schema.name}.html\n\n{_inputs(schema)}"
        f"Returns: the {what}, whose shape and element type follow the operator.\n"
        "Raises: TypeError for arguments of other types; popart_exception for a wrong number of inputs and for unknown ones."
    )
    return Method(
        name, "", schema.name, tuple(parameters), (schema.min_input, schema.max_input), (schema.min_output, schema.max_output),
        "list" if many else "one", doc,
    )  # fmt: skip


def _inputs(schema: Any) -> str:
    if not schema.inputs:
        return ""
    listed = ", ".join(
        f"{p.name} ({p.type_str}{', ' + p.option.name.lower() if p.option.name != 'Single' else ''})"
        for p in schema.inputs
    )
    return f"args: ids of {listed}. An input in the middle that is left out is ''.\n"


def _parameter(method: str, attribute: Any) -> Parameter:
    kind, name = _KINDS.get(attribute.type, "array"), attribute.name
    if (method, name) in _DIFFERENT:
        return Parameter(name, *_DIFFERENT[method, name])
    if attribute.required:
        return Parameter(name, kind)
    if method.startswith("reduce") and name == "axes":
        return Parameter(name, kind, None)
    if kind in _LISTS:
        return Parameter(name, kind, [])
    value = attribute.default_value
    if value.type == 0:
        return Parameter(name, kind, "" if kind == "string" else None)
    return Parameter(
        name,
        kind,
        {"int": lambda: value.i, "float": lambda: _short(value.f), "string": lambda: value.s.decode()}[kind](),
    )


def _short(value: float) -> float:
    """The shortest number that is this float32: 0.01, not 0.009999999776."""
    return float(str(numpy.float32(value)))


def constant(core: Any, operation: Any, given: dict[str, Any], method: Method) -> str:
    if given.get("is_value_sparse"):
        raise popart_exception("constant: a sparse value is not supported; give it as a dense array")
    return core.new_constant(given["value"], given["debugContext"], operation.version)


def constant_of_shape(core: Any, operation: Any, given: dict[str, Any], method: Method) -> str:
    from popart._impl.builder.methods import make_node

    if given["value"].size != 1:
        raise popart_exception(f"constantofshape: the value is one element, not {given['value'].size}")
    return make_node(core, operation, {**given, "value": given["value"].reshape(1)}, method)


SPECIAL = {"constant": constant, "constantofshape": constant_of_shape}

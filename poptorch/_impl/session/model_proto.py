"""The program of `_debugGetPopartIR()` as a model of ONNX: text or bytes of its protocol buffer, without its weights."""

from __future__ import annotations

import json
import typing

_IR_VERSION = 4
_STRING = 3  # AttributeProto.AttributeType
_Node = dict[str, typing.Any]


def _graphs(model: dict[str, list[_Node]]) -> list[tuple[str, list[_Node]]]:
    return sorted(model.items(), key=lambda graph: graph[0] != "maingraph")


def text(model: dict[str, list[_Node]]) -> str:
    """In the text format of protocol buffers; `model`: graph name to list of operations."""
    lines = [f"ir_version: {_IR_VERSION}", 'producer_name: "poptorch"']
    for name, nodes in _graphs(model):
        lines.append("graph {")
        for node in nodes:
            lines.append("  node {")
            lines += [f"    input: {json.dumps(tensor['name'])}" for tensor in node["inputs"]]
            lines += [f"    output: {json.dumps(tensor['name'])}" for tensor in node["outputs"]]
            lines += [f"    name: {json.dumps(node['name'])}", f"    op_type: {json.dumps(node['type'])}"]
            for key, value in node["attributes"].items():
                lines.append(f"    attribute {{ name: {json.dumps(key)} type: STRING s: {json.dumps(value)} }}")
            lines.append("  }")
        lines += [f"  name: {json.dumps(name)}", "}"]
    return "\n".join(lines) + "\n"


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _bytes(field: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _node(node: _Node) -> bytes:
    """NodeProto."""
    made = [_bytes(1, tensor["name"]) for tensor in node["inputs"]]
    made += [_bytes(2, tensor["name"]) for tensor in node["outputs"]]
    made += [_bytes(3, node["name"]), _bytes(4, node["type"])]
    for key, value in node["attributes"].items():
        made.append(_bytes(5, _bytes(1, key) + _bytes(4, value) + _number(20, _STRING)))
    return b"".join(made)


def binary(model: dict[str, list[_Node]]) -> bytes:
    """The same as bytes of a ModelProto."""
    made = [_number(1, _IR_VERSION), _bytes(2, "poptorch")]
    for name, nodes in _graphs(model):
        made.append(_bytes(7, b"".join(_bytes(1, _node(node)) for node in nodes) + _bytes(2, name)))
    return b"".join(made)

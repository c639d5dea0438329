"""An Ir as JSON and as lines of text."""

from __future__ import annotations

import json
from typing import Any


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _tensor(tensor: Any) -> dict[str, Any]:
    info = tensor.info
    return {"name": tensor.id, "type": info.data_type(), "shape": info.shape()}


def _op(op: Any) -> dict[str, Any]:
    return {
        "id": op.id,
        "domain": op.opid.domain,
        "type": op.opid.type,
        "version": op.opid.version,
        "name": op.name(),
        "inputs": [{**_tensor(tensor), "index": index} for index, tensor in op.getInputIndexMap().items()],
        "outputs": [{**_tensor(tensor), "index": index} for index, tensor in op.getOutputIndexMap().items()],
        "attributes": {name: _plain(value) for name, value in op.attributes().items()},
        "calledGraphs": [str(id) for id in op.getCalledGraphIds()],
    }


def as_json(ir: Any) -> str:
    graphs = {
        str(graph.id) or "maingraph": {
            "inputs": graph.getInputIds(),
            "outputs": graph.getOutputIds(),
            "ops": [_op(op) for op in graph.getOps()],
        }
        for graph in ir.getAllGraphs()
    }
    return json.dumps(graphs)


def as_text(ir: Any) -> str:
    lines = []
    for graph in ir.getAllGraphs():
        lines.append(f"{graph.getGraphString()}: {graph.getInputIds()} -> {graph.getOutputIds()}")
        lines += [f"  {op.debugName()}" for op in graph.getOps()]
    return "\n".join(lines)

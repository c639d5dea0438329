"""Types of tensors that the program does not have since it computes without them: a transpose that a product reads through."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from popart._impl.builder import protos
from popart._impl.builder.inference import types_of_outputs
from popart._impl.builder.model_files import domain_name
from popart._impl.enums import DataType

if TYPE_CHECKING:
    import onnx

    from popart._impl.listing.records import Listing


class _View:
    """The model as rules of shape inference see it, with the types that a listing knows."""

    def __init__(self, listing: Listing, versions: dict[str, int]) -> None:
        self._listing = listing
        self.model: Any = types.SimpleNamespace(versions=versions)
        self._constants = {
            node.output[0]: attribute.t
            for node in listing.graph.node
            if node.op_type == "Constant"
            for attribute in node.attribute
            if attribute.HasField("t")
        } | listing.values

    def type_of(self, id: str) -> onnx.TypeProto | None:
        if id in self._constants:
            return protos.tensor_type(self._constants[id].data_type, self._constants[id].dims)
        known = self._listing.types.get(id)
        return None if known is None else protos.tensor_type(protos.NUMBER[DataType[known[0]]], known[1])

    def constant(self, id: str) -> onnx.TensorProto | None:
        return self._constants.get(id)


def add_types(listing: Listing) -> None:
    view, versions = None, {domain_name(entry.domain): entry.version for entry in listing.source.model.opset_import}
    for node in listing.graph.node:
        if node.op_type == "Constant" or all(not id or id in listing.types for id in node.output):
            continue
        view = view or _View(listing, versions)
        for id, type_ in types_of_outputs(view, node, versions.get("")).items():
            sizes = protos.shape_of(type_)
            if id not in listing.types and sizes is not None and None not in sizes:
                name = protos.DATA_TYPE[type_.tensor_type.elem_type].name
                listing.types[id] = (name, tuple(size for size in sizes if size is not None))
                listing.kinds.setdefault(id, "result")

"""Attributes of nodes that are already there. A node is named by the set of all its outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
import onnx

from popart._impl.builder import protos
from popart._impl.builder.arguments import Refused, names, refusal
from popart._impl.exceptions import popart_exception

if TYPE_CHECKING:
    from popart._impl.builder.model import Model

_KINDS = protos.Attribute


class NodeAttributes:
    nodes: dict[str, onnx.NodeProto]
    model: Model

    def node_of(self, outputs: Any, function: str) -> onnx.NodeProto:
        """The node with exactly these outputs. Raises popart_exception when there is none."""
        try:
            ids = names(outputs)
        except Refused:
            raise refusal(function, ["(nodeOutputNames: Set[str])"], [outputs], {}) from None
        found = self.nodes.get(next(iter(ids))) if ids else None
        if found is None or set(found.output) - {""} != ids:
            whole = f"; a node has the outputs {sorted(found.output)}, which must all be given" if found else ""
            raise popart_exception(f"{function}: no node has the outputs {sorted(ids)}{whole}")
        return found

    def node_with(self, output: Any, function: str) -> onnx.NodeProto:
        """The node with this output, or with exactly these outputs where a set is given."""
        if isinstance(output, str):
            if output not in self.nodes:
                raise popart_exception(f"{function}: no node has the output '{output}'")
            return self.nodes[output]
        return self.node_of(output, function)

    @staticmethod
    def make_attribute(name: str, value: Any) -> onnx.AttributeProto:
        """A number, a text, or a list of numbers or of texts. Raises popart_exception for anything else."""
        if isinstance(value, numpy.generic):
            value = value.item()
        if isinstance(value, str):
            return protos.attribute(name, _KINDS.STRING, value)
        if isinstance(value, (bool, int)):
            return protos.attribute(name, _KINDS.INT, int(value))
        if isinstance(value, float):
            return protos.attribute(name, _KINDS.FLOAT, value)
        if isinstance(value, (list, tuple)):
            for kind, of in ((_KINDS.INTS, int), (_KINDS.FLOATS, float), (_KINDS.STRINGS, str)):
                if all(isinstance(item, of) for item in value):
                    return protos.attribute(name, kind, value)
        raise popart_exception(
            f"attribute '{name}' is {value!r}: a number, a text, or a list of numbers all of one type can be the value of an attribute"
        )

    def replace_attribute(self, node: onnx.NodeProto, made: onnx.AttributeProto) -> None:
        self.model.changed()
        for attribute in node.attribute:
            if attribute.name == made.name:
                attribute.CopyFrom(made)
                return
        node.attribute.append(made)

    def addNodeAttribute(self, attributeName: str, attributeValue: Any, nodeOutputNames: Any) -> None:
        """Adds an attribute: int, float, str or a list of one of these. Raises popart_exception when the node has it already."""
        node = self.node_of(nodeOutputNames, "addNodeAttribute")
        if any(attribute.name == attributeName for attribute in node.attribute):
            raise popart_exception(f"addNodeAttribute: {node.op_type} already has the attribute '{attributeName}'")
        self.replace_attribute(node, self.make_attribute(attributeName, attributeValue))

    def nodeHasAttribute(self, attributeName: str, nodeOutputNames: Any) -> bool:
        node = self.node_of(nodeOutputNames, "nodeHasAttribute")
        return any(attribute.name == attributeName for attribute in node.attribute)

    def _attribute(self, function: str, name: str, outputs: Any, kind: int) -> Any:
        node = self.node_of(outputs, function)
        for attribute in node.attribute:
            if attribute.name == name:
                if attribute.type != kind:
                    have, want = (_KINDS.AttributeType.Name(k) for k in (attribute.type, kind))
                    raise popart_exception(
                        f"{function}: the attribute '{name}' of {node.op_type} is of kind {have}, not {want}"
                    )
                return protos.value_of(attribute)
        present = ", ".join(attribute.name for attribute in node.attribute)
        raise popart_exception(f"{function}: {node.op_type} has no attribute '{name}'; it has {present}")

    def getInt64NodeAttribute(self, attributeName: str, nodeOutputNames: Any) -> int:
        return self._attribute("getInt64NodeAttribute", attributeName, nodeOutputNames, _KINDS.INT)

    def getInt64VectorNodeAttribute(self, attributeName: str, nodeOutputNames: Any) -> list[int]:
        return self._attribute("getInt64VectorNodeAttribute", attributeName, nodeOutputNames, _KINDS.INTS)

    def getFloatNodeAttribute(self, attributeName: str, nodeOutputNames: Any) -> float:
        return self._attribute("getFloatNodeAttribute", attributeName, nodeOutputNames, _KINDS.FLOAT)

    def getFloatVectorNodeAttribute(self, attributeName: str, nodeOutputNames: Any) -> list[float]:
        return self._attribute("getFloatVectorNodeAttribute", attributeName, nodeOutputNames, _KINDS.FLOATS)

    def getStringNodeAttribute(self, attributeName: str, nodeOutputNames: Any) -> str:
        return self._attribute("getStringNodeAttribute", attributeName, nodeOutputNames, _KINDS.STRING)

    def getStringVectorNodeAttribute(self, attributeName: str, nodeOutputNames: Any) -> list[str]:
        return self._attribute("getStringVectorNodeAttribute", attributeName, nodeOutputNames, _KINDS.STRINGS)

    def removeNodeAttribute(self, attributeName: str, nodeOutputNames: Any) -> None:
        node = self.node_of(nodeOutputNames, "removeNodeAttribute")
        for index, attribute in enumerate(node.attribute):
            if attribute.name == attributeName:
                self.model.changed()
                del node.attribute[index]
                return
        raise popart_exception(f"removeNodeAttribute: {node.op_type} has no attribute '{attributeName}'")

    def getAllNodeAttributeNames(self, nodeOutputNames: Any) -> list[str]:
        """Names of all attributes, private ones (__...) among them."""
        return [attribute.name for attribute in self.node_of(nodeOutputNames, "getAllNodeAttributeNames").attribute]

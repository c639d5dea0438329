"""How single operators are to be computed: partial results, memory, serialised products, in-place variants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy
import onnx

from popart._impl.builder import protos
from popart._impl.builder.arguments import Refused, boolean, integer, number, refusal
from popart._impl.builder.node_attributes import NodeAttributes
from popart._impl.exceptions import popart_exception

_SERIAL_MODES = ("input_channels", "reducing_dim", "output_channels", "none")
_KINDS = protos.Attribute


class Tuning(NodeAttributes):
    def _tuned(self, function: str, outputs: Any, *types: str) -> onnx.NodeProto:
        node = self.node_with(outputs, function)
        if node.op_type not in types:
            raise popart_exception(
                f"{function}: '{node.output[0]}' comes from {node.op_type}; only {' and '.join(types)} take this setting"
            )
        return node

    def setPartialsType(self, nodeOutputName: str, partialsType: str) -> None:
        """The type of partial sums of a Conv or MatMul: "FLOAT" or "HALF" in any letter case; sessions refuse others."""
        node = self._tuned("setPartialsType", nodeOutputName, "Conv", "MatMul")
        self.replace_attribute(node, protos.attribute("__partials_type", _KINDS.STRING, partialsType))

    def getPartialsType(self, nodeOutputName: str) -> str:
        node = self._tuned("getPartialsType", nodeOutputName, "Conv", "MatMul")
        return protos.values_of(node).get("__partials_type", "FLOAT")

    def setAvailableMemoryProportion(self, nodeOutputName: Any, availableMemoryProportion: float) -> None:
        """The part of the memory of a tile that the operator may use for itself, in (0, 1]."""
        node = self.node_with(nodeOutputName, "setAvailableMemoryProportion")
        try:
            share = number(availableMemoryProportion)
        except Refused:
            way = "(nodeOutputName: str, availableMemoryProportion: float) -> None"
            raise refusal(
                "setAvailableMemoryProportion", [way], [nodeOutputName, availableMemoryProportion], {}
            ) from None
        if not 0 < share <= 1:
            raise popart_exception(f"setAvailableMemoryProportion: {share} is not in (0, 1]")
        self.replace_attribute(node, protos.attribute("__available_memory", _KINDS.FLOAT, share))

    def setEnableConvDithering(self, nodeOutputName: Any, enableConvDithering: Any) -> None:
        """Whether the tiles of a Conv are chosen at random: 0 or 1."""
        node = self._tuned("setEnableConvDithering", nodeOutputName, "Conv")
        if isinstance(enableConvDithering, str) or enableConvDithering not in (0, 1):
            raise popart_exception(f"setEnableConvDithering: {enableConvDithering!r} is neither 0 nor 1")
        self.replace_attribute(node, protos.attribute("__enable_conv_dithering", _KINDS.INT, int(enableConvDithering)))

    def setSerializeMatMul(
        self, nodeOutputNames: Any, mode: str, factor: int = 0, keep_precision: bool = False
    ) -> None:
        """Splits a MatMul into `factor` products, one after another: "input_channels", "reducing_dim", "output_channels", "none"."""
        node = self._tuned("setSerializeMatMul", nodeOutputNames, "MatMul")
        if mode not in _SERIAL_MODES:
            raise popart_exception(f"setSerializeMatMul: '{mode}' is no mode; there are {', '.join(_SERIAL_MODES)}")
        try:
            pieces, keep = (
                integer(factor),
                boolean(keep_precision) if not isinstance(keep_precision, int) else bool(keep_precision),
            )
        except Refused:
            way = "(nodeOutputNames: Set[str], mode: str, factor: int = 0, keep_precision: bool = False) -> None"
            raise refusal("setSerializeMatMul", [way], [nodeOutputNames, mode, factor, keep_precision], {}) from None
        self.replace_attribute(node, protos.attribute("__serialize_matmul_mode", _KINDS.STRING, mode))
        self.replace_attribute(node, protos.attribute("__serialize_matmul_factor", _KINDS.INT, pieces))
        self.replace_attribute(node, protos.attribute("__serialize_matmul_precision", _KINDS.INT, int(keep)))

    def setInplacePreferences(self, nodeOutputName: Any, prefs: Mapping[str, float]) -> None:
        """Which in-place variants of an operator are preferred: type to number, larger first, negative never."""
        node = self.node_with(nodeOutputName, "setInplacePreferences")
        if not isinstance(prefs, Mapping) or not all(
            isinstance(key, str) and isinstance(value, (int, float, numpy.number)) for key, value in prefs.items()
        ):
            way = "(nodeOutputName: str, prefs: Dict[str, float]) -> None"
            raise refusal("setInplacePreferences", [way], [nodeOutputName, prefs], {})
        self.replace_attribute(node, protos.attribute("__inplace_op_names", _KINDS.STRINGS, list(prefs)))
        self.replace_attribute(node, protos.attribute("__inplace_op_priorities", _KINDS.FLOATS, list(prefs.values())))

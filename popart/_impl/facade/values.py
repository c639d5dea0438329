"""Values that go with ops: optionals, settings of optimizers, regions, gradient information, formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from popart._impl.enums import AutoPad, ExpectedConnectionType, FloatFormat, SerialiseSettingsMode
from popart._impl.exceptions import popart_exception
from popart._impl.facade.ids import GraphId
from popart._impl.tensor_info import TensorInfo


class _Optional:
    """Nothing, or one value."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any = None) -> None:
        self._value = value.value if isinstance(value, _Optional) else value

    @property
    def value(self) -> Any:
        """The value; None where there is none."""
        return self._value

    def has_value(self) -> bool:
        return self._value is not None

    def reset(self, value: Any = None) -> None:
        self._value = value

    def __bool__(self) -> bool:
        return self._value is not None

    def __eq__(self, other: object) -> bool:
        return self._value == (other._value if isinstance(other, _Optional) else other)

    def __int__(self) -> int:
        if self._value is None:
            raise popart_exception(f"{type(self).__name__} is empty")
        return int(self._value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self._value is None else repr(self._value)})"


def _optionals(names: str) -> dict[str, type]:
    return {name: type(name, (_Optional,), {"__doc__": "Empty, or one value."}) for name in names.split()}


OPTIONALS = _optionals(
    "OptionalVGraphId OptionalPipelineStage OptionalExecutionPhase OptionalBatchSerializedPhase OptionalInt OptionalFloat "
    "OptionalDataType OptionalInt64Vector OptionalTensors OptionalTensorLocation"
)
OptionalVGraphId = OPTIONALS["OptionalVGraphId"]
OptionalFloat = OPTIONALS["OptionalFloat"]


def value_of(optional: Any) -> Any:
    """The value of an optional, or what stands for one: None is empty."""
    return optional.value if isinstance(optional, _Optional) else optional


class OptimizerValue:
    """A number of an optimizer; not const: it arrives as a tensor."""

    def __init__(self, val: float = 0.0, isConst: bool = True) -> None:
        self._val, self._const = val, isConst

    def val(self) -> float:
        return self._val

    def isConst(self) -> bool:
        return self._const


class RemoteBufferInfo:
    """The type of each entry of a remote buffer, and how many there are."""

    def __init__(self, info: TensorInfo, repeats: int) -> None:
        self.TensorInfo, self.repeats = info, repeats


class Region:
    """A box of a tensor: from `lower` to `upper` in each axis."""

    def __init__(self, lower: Sequence[int], upper: Sequence[int], is_empty: bool = False) -> None:
        self.lower, self.upper = tuple(lower), tuple(upper)
        self._empty = is_empty or any(low >= high for low, high in zip(self.lower, self.upper))

    @staticmethod
    def getFull(shape: Sequence[int]) -> Region:
        return Region([0] * len(shape), shape)

    @staticmethod
    def getEmpty(rank: int) -> Region:
        return Region([0] * rank, [0] * rank, True)

    def isEmpty(self) -> bool:
        return self._empty

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Region) and (self.lower, self.upper, self._empty) == (
            other.lower,
            other.upper,
            other._empty,
        )

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"L:{list(self.lower)} U:{list(self.upper)}"

    __repr__ = __str__


class ExpectedConnection:
    """A tensor of the forward graph, or its gradient."""

    def __init__(self, fwdId: str, type: ExpectedConnectionType) -> None:
        self.fwdId, self.type = fwdId, type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExpectedConnection) and (self.fwdId, self.type) == (other.fwdId, other.type)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self.type.name}({self.fwdId})"


class BwdGraphInfo:
    """A gradient graph, and what its inputs and outputs are to the forward graph."""

    def __init__(
        self, graphId: Any, expectedInputs: Sequence[ExpectedConnection], expectedOutputs: Sequence[ExpectedConnection]
    ) -> None:
        self.bwdGraphId = GraphId(graphId)
        self.expectedInputs, self.expectedOutputs = list(expectedInputs), list(expectedOutputs)

    def __repr__(self) -> str:
        return f"BwdGraphInfo({self.bwdGraphId}, {self.expectedInputs}, {self.expectedOutputs})"

    def plain(self) -> tuple[str, list[tuple[str, str]], list[tuple[str, str]]]:
        """As the native side takes it."""
        sides = (self.expectedInputs, self.expectedOutputs)
        inputs, outputs = ([(connection.fwdId, connection.type.name) for connection in side] for side in sides)
        return str(self.bwdGraphId), inputs, outputs

    @staticmethod
    def of_plain(plain: tuple[str, Any, Any]) -> BwdGraphInfo:
        graph, *sides = plain
        inputs, outputs = (
            [ExpectedConnection(id, ExpectedConnectionType[kind]) for id, kind in side] for side in sides
        )
        return BwdGraphInfo(graph, inputs, outputs)


class BranchInfo:
    """One branch of an IfOp: its graph, and which input and output of the op each of its own is."""

    def __init__(self, graphId: Any, inputIndicesMap: dict[int, int], outputIndicesMap: dict[int, int]) -> None:
        self.graphId = GraphId(graphId)
        self.inputIndicesMap, self.outputIndicesMap = dict(inputIndicesMap), dict(outputIndicesMap)


class ReceptiveOpAttributes:
    """Windows of poolings and convolutions."""

    def __init__(self) -> None:
        self.pads: list[int] = []
        self.outPads: list[int] = []
        self.strides: list[int] = []
        self.dilations: list[int] = []
        self.inDilations: list[int] = []
        self.auto_pad: Any = AutoPad["NOTSET"]
        self.ceil_mode = False


class Attributes(dict):
    """Attributes of an op by name."""


class SerialiseSettings:
    """How a product is cut into parts that run one after the other."""

    def __init__(self) -> None:
        self.mode: Any = SerialiseSettingsMode["NoSerialisation"]
        self.factor = 0
        self.keep_precision = False


class MultiConvOptions:
    """How convolutions are planned."""

    def __init__(self, sessionConvOptions: Any = None, attr: Any = None) -> None:
        attr = attr or {}
        self.availableMemoryProportions: list[float] = list(attr.get("availableMemoryProportions", []))
        self.partialsTypes: list[str] = list(attr.get("partialsTypes", []))
        self.planType = attr.get("planType")
        self.perConvReservedTiles = attr.get("perConvReservedTiles")
        self.cycleBackOff = attr.get("cycleBackOff")
        self.enableConvDithering: list[int] = list(attr.get("enableConvDithering", []))

    def plain(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value not in (None, [])}


class PrintTensorFmt:
    """How a tensor is printed: summarise threshold, edge items, line width, digits, format, separator, open, close."""

    def __init__(
        self,
        summariseThreshold: int = 1000,
        edgeItems: int = 3,
        maxLineWidth: int = 75,
        digits: int = 4,
        floatFormat: Any = FloatFormat["Auto"],
        separator: str = " ",
        openBracket: str = "[",
        closeBracket: str = "]",
    ) -> None:
        self.summariseThreshold, self.edgeItems, self.maxLineWidth = summariseThreshold, edgeItems, maxLineWidth
        self.digits, self.floatFormat, self.separator = digits, floatFormat, separator
        self.openBracket, self.closeBracket = openBracket, closeBracket


class TensorData:
    """A copy of host data of a type. Raises popart_exception when there are fewer bytes than the type has."""

    def __init__(self, tensorInfo: TensorInfo, src: Any) -> None:
        self.resetData(tensorInfo, src)

    def resetData(self, tensorInfo: TensorInfo, src: Any) -> None:
        data = src.tobytes()
        if len(data) < tensorInfo.nbytes():
            raise popart_exception(f"{len(data)} bytes of data for {tensorInfo}, which has {tensorInfo.nbytes()}")
        self.info, self.data = tensorInfo, data[: tensorInfo.nbytes()]

"""What goes in and out of a run: how many steps, which tensors are returned and how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from popart._impl.enums import AnchorReturnTypeId, ExchangeStrategy, ReplicatedStreamMode, TileSet
from popart._impl.exceptions import popart_exception
from popart._impl.tensor_info import TensorInfo
from popart._impl.typed_fields import converted


class AnchorReturnType:
    """Which values of a tensor a run returns: "Final", "EveryN" (with a period), "All" or "Sum", in any case."""

    def __init__(
        self,
        anchorReturnTypeString: str,
        returnPeriod: Any = None,
        tileSet: Any = TileSet["Compute"],
        exchangeStrategy: Any = ExchangeStrategy["JustInTime"],
    ) -> None:
        if isinstance(returnPeriod, TileSet):  # the form without a period
            if isinstance(tileSet, ExchangeStrategy):
                exchangeStrategy = tileSet
            returnPeriod, tileSet = None, returnPeriod
        found = [kind for kind in AnchorReturnTypeId if kind.name.lower() == str(anchorReturnTypeString).lower()]
        if not found:
            raise popart_exception(
                f"'{anchorReturnTypeString}' is no way to return a tensor; there are Final, EveryN, All and Sum"
            )
        self._id, self._period = found[0], returnPeriod
        if (found[0] is AnchorReturnTypeId["EveryN"]) != (returnPeriod is not None):
            raise popart_exception(
                f"'{anchorReturnTypeString}' with period {returnPeriod}: EveryN alone takes a period"
            )
        if returnPeriod is not None and returnPeriod <= 0:
            raise popart_exception(f"the period of EveryN is {returnPeriod}: it must be at least 1")
        self._tile_set, self._strategy = tileSet, exchangeStrategy

    def id(self) -> AnchorReturnTypeId:
        return self._id

    def rp(self) -> int:
        if self._period is None:
            raise popart_exception(f"'{self._id.name}' has no period; EveryN has one")
        return self._period

    def tileSet(self) -> TileSet:
        return self._tile_set

    def exchangeStrategy(self) -> ExchangeStrategy:
        return self._strategy


class InputSettings:
    """How an input reaches the replicas.

    Takes (tileSet, exchangeStrategy) or (relicatedStreamMode=...): so it is spelled; the right spelling is taken too.
    """

    def __init__(
        self,
        tileSet: Any = TileSet["Compute"],
        exchangeStrategy: Any = ExchangeStrategy["JustInTime"],
        relicatedStreamMode: Any = ReplicatedStreamMode["Replicate"],
        *,
        replicatedStreamMode: Any = None,
    ) -> None:
        mode = relicatedStreamMode if replicatedStreamMode is None else replicatedStreamMode
        if isinstance(tileSet, ReplicatedStreamMode):  # the form of one argument
            tileSet, mode = TileSet["Compute"], tileSet
        self._values = (
            converted("tileSet of InputSettings", TileSet, tileSet),
            converted("exchangeStrategy of InputSettings", ExchangeStrategy, exchangeStrategy),
            converted("relicatedStreamMode of InputSettings", ReplicatedStreamMode, mode),
        )

    def tileSet(self) -> TileSet:
        return self._values[0]

    def exchangeStrategy(self) -> ExchangeStrategy:
        return self._values[1]

    def replicatedStreamMode(self) -> ReplicatedStreamMode:
        return self._values[2]


class InputShapeInfo:
    """Types of the inputs of a model."""

    def __init__(self) -> None:
        self._infos: dict[str, TensorInfo] = {}

    def add(self, id: str, info: TensorInfo) -> None:
        self._infos[id] = info

    def get(self, id: str) -> TensorInfo:
        if id not in self._infos:
            raise popart_exception(f"no type was given for '{id}'; there are types for {sorted(self._infos)}")
        return self._infos[id]

    def has(self, id: str) -> bool:
        return id in self._infos


class DataFlow:
    """How many batches one run takes, and which tensors it returns.

    Takes (), (batchesPerStep), (batchesPerStep, {id: AnchorReturnType}) or
    (batchesPerStep, [ids], anchorReturnType=AnchorReturnType("All")).
    """

    def __init__(
        self,
        batchesPerStep: int | None = None,
        anchorTensors: Mapping[str, AnchorReturnType] | Sequence[str] = (),
        anchorReturnType: AnchorReturnType | None = None,
        *,
        anchorIds: Sequence[str] | None = None,
    ) -> None:
        self._batches = 0 if batchesPerStep is None else batchesPerStep
        if batchesPerStep is not None:
            self.setBatchesPerStep(batchesPerStep)
        kind = anchorReturnType or AnchorReturnType("All")
        anchors = anchorTensors if anchorIds is None else anchorIds
        self._anchors = dict(anchors) if isinstance(anchors, Mapping) else {str(id): kind for id in anchors}
        for id, anchor in self._anchors.items():
            converted(f"the anchor '{id}' of DataFlow", AnchorReturnType, anchor)
            if anchor.id() is AnchorReturnTypeId["EveryN"] and self._batches % anchor.rp():
                raise popart_exception(
                    f"the period {anchor.rp()} of '{id}' does not divide {self._batches} batches per step"
                )

    def isAnchored(self, id: str) -> bool:
        return id in self._anchors

    def nAnchors(self) -> int:
        return len(self._anchors)

    def batchesPerStep(self) -> int:
        return self._batches

    def setBatchesPerStep(self, batchesPerStep: int) -> None:
        if batchesPerStep <= 0:
            raise popart_exception(f"batchesPerStep is {batchesPerStep}: it must be at least 1")
        self._batches = batchesPerStep

    def anchors(self) -> list[str]:
        return sorted(self._anchors)

    def art(self, id: str) -> AnchorReturnType:
        if id not in self._anchors:
            raise popart_exception(f"'{id}' is not anchored; {self.anchors()} are")
        return self._anchors[id]

    def add_anchor(self, id: str) -> None:
        """Returns one more tensor, every value of it."""
        self._anchors.setdefault(id, AnchorReturnType("All"))

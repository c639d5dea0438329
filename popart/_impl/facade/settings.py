"""Name and place of an op: free, or live of an op that there is."""

from __future__ import annotations

from typing import Any

from popart._impl.enums import ExecutionContext, TileSet
from popart._impl.facade.ids import Scope
from popart._impl.facade.values import OPTIONALS, value_of

# Published name → name of the native setting.
_NATIVE = {
    "name": "name",
    "vgraphId": "ipu",
    "executionContext": "context",
    "tileSet": "tile_set",
    "pipelineStage": "pipeline_stage",
    "executionPhase": "execution_phase",
    "batchSerializedPhase": "batch_serialized_phase",
}
_OPTIONALS = {
    "vgraphId": OPTIONALS["OptionalVGraphId"],
    "pipelineStage": OPTIONALS["OptionalPipelineStage"],
    "executionPhase": OPTIONALS["OptionalExecutionPhase"],
    "batchSerializedPhase": OPTIONALS["OptionalBatchSerializedPhase"],
}
_ENUMS = {"executionContext": ExecutionContext, "tileSet": TileSet}
_DEFAULTS = {"executionContext": 0, "tileSet": 0}


class Settings:
    """Settings(graph, name[, scope]): what an op is made with. Those of an op are live: changes reach it."""

    def __init__(self, graph: Any, name: str, scope: Scope | None = None) -> None:
        self.graph = graph
        self.scope = scope or Scope()
        self.op: Any = None
        self.inferTensorMappingToFrom: dict[int, int] = {}
        self.debugInfoId = 0
        self.location = ("", 0)
        self._values: dict[str, Any] = {**_DEFAULTS, "name": name}

    @staticmethod
    def of_op(op: Any) -> Settings:
        settings = Settings(op.getGraph(), "")
        settings.op = op
        return settings

    def read(self, name: str) -> Any:
        """The plain value: text, number or None."""
        if self.op is not None:
            return self.op.core.op_setting(self.op.id, _NATIVE[name])
        return self._values.get(name)

    def write(self, name: str, value: Any) -> None:
        if self.op is not None:
            self.op.core.set_op_setting(self.op.id, _NATIVE[name], value)
        else:
            self._values[name] = value

    def getIr(self) -> Any:
        return self.graph.getIr()

    def copy(self, name: str) -> Settings:
        """Free settings with the same values and another name."""
        settings = Settings(self.graph, name, self.scope)
        settings._values = {key: self.read(key) for key in _NATIVE} | {"name": name}
        settings.inferTensorMappingToFrom, settings.location = dict(self.inferTensorMappingToFrom), self.location
        return settings

    def plain(self) -> tuple[str, int | None, int, int, str, int]:
        """As the native side takes it; the stages and phases follow in `later`."""
        context, tiles = self.read("executionContext"), self.read("tileSet")
        return (self.read("name"), self.read("vgraphId"), context, tiles, *self.location)

    def later(self) -> dict[str, int]:
        values = {name: self.read(name) for name in ("pipelineStage", "executionPhase", "batchSerializedPhase")}
        return {_NATIVE[name]: value for name, value in values.items() if value is not None}


def _property(name: str) -> property:
    def get(self: Settings) -> Any:
        value = self.read(name)
        if name in _OPTIONALS:
            return _OPTIONALS[name](value)
        return _ENUMS[name](value) if name in _ENUMS else value

    def set(self: Settings, value: Any) -> None:
        self.write(name, value.value if name in _ENUMS else value_of(value))

    return property(get, set)


for _name in _NATIVE:
    setattr(Settings, _name, _property(_name))

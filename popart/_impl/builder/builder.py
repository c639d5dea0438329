"""popart.Builder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy

from popart._impl.builder import opsets
from popart._impl.builder.core import _BuilderCore
from popart._impl.builder.model_files import DEFAULT_OPSET, FIRST_OPSET, LAST_OPSET
from popart._impl.debug_info import DebugContext

_ACCESSORS = {"aiOnnx": None, **{f"aiOnnxOpset{version}": version for version in range(FIRST_OPSET, LAST_OPSET + 1)}}
_ONNX = "ai.onnx"


class Builder:
    """Makes an ONNX model op by op, or extends one.

    Args:
        modelProtoOrFilename: None for a new model; or the bytes of a model, or the name of a file with one.
        opsets: versions of domains: {"ai.onnx": 6 to 11, "ai.graphcore": 1}; both are needed when it is given.
        builderCore: a graph that exists already.

    Raises:
        popart_exception: there is no such file, the bytes are no model, or its version of ai.onnx is not one of 6 to 11.
        RuntimeError: the ONNX checker refuses the model.
        KeyError: opsets lack a domain. ValueError: they have a version that there is not.

    >>> builder = Builder()
    >>> x = builder.addInputTensor("FLOAT", [2, 3])
    >>> builder.getTensorShape(builder.aiOnnx.transpose([x]))
    [3, 2]

    Methods that are not here are those of the graph: addInputTensor, virtualGraph, getModelProto and so on.
    """

    def __init__(
        self, modelProtoOrFilename: Any = None, opsets: dict[str, int] | None = None, builderCore: Any = None
    ) -> None:
        self._versions: dict[str, int] = {}
        self._opsets: dict[str, Any] = {}
        if opsets is not None:
            self._lock(opsets)
        self._impl: _BuilderCore = builderCore if builderCore is not None else _BuilderCore(modelProtoOrFilename)
        if "" in self._impl.model.versions:
            self._versions.setdefault(_ONNX, self._impl.model.versions[""])

    def _lock(self, versions: dict[str, int]) -> None:
        for domain, first, last in ((_ONNX, FIRST_OPSET, LAST_OPSET), ("ai.graphcore", 1, 1)):
            if domain not in versions:
                raise KeyError(f"opsets has no version of {domain}")
            if not first <= versions[domain] <= last:
                allowed = f"{first} to {last}" if first != last else str(first)
                raise ValueError(f"version {versions[domain]} of {domain} is not supported; there is {allowed}")
        if versions.get("ai.onnx.ml", 1) != 1:
            raise ValueError(f"version {versions['ai.onnx.ml']} of ai.onnx.ml is not supported; there is 1")
        self._versions = dict(versions)

    def __getattr__(self, name: str):  # type: ignore[no-untyped-def]
        if name.startswith("__") or name in ("_impl", "_versions", "_opsets"):
            raise AttributeError(f"'Builder' object has no attribute '{name}'")
        return getattr(self._impl, name)

    # Tools read the classes of the opsets from here.
    __getattr__.__annotations__["return"] = Union[tuple(opsets.NATIVE.values())]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(self._impl) if not name.startswith("_"))})

    def _onnx(self, wanted: int | None) -> Any:
        version = wanted or self._versions.get(_ONNX, DEFAULT_OPSET)
        known = self._versions.setdefault(_ONNX, version)
        if known != version:
            raise RuntimeError(f"invalid opset {version} of {_ONNX}: it is already defined as {known} in this builder")
        return self._made(_ONNX, opsets.WRAPPERS[version])

    def _made(self, domain: str, kind: Any) -> Any:
        if domain not in self._opsets:
            self._opsets[domain] = kind(self)
        return self._opsets[domain]

    @property
    def aiOnnxMl(self) -> opsets.AiOnnxMl:
        return self._made("ai.onnx.ml", opsets.AiOnnxMl)

    aiOnnxMlOpset1 = aiOnnxMl

    @property
    def aiGraphcore(self) -> opsets.AiGraphcore:
        return self._made("ai.graphcore", opsets.AiGraphcore)

    aiGraphcoreOpset1 = aiGraphcore

    def createSubgraphBuilder(self) -> Builder:
        """A builder of a graph inside this one, for bodies of loops, branches and callees. Ids stay unique over both."""
        child = Builder(builderCore=self._impl.createSubgraphBuilder())
        child._versions = self._versions
        return child

    def reshape_const(self, aiOnnx: Any, args: Sequence[str], shape: Sequence[float], debugContext: Any = "") -> str:
        """reshape to a constant shape: makes the constant (its name ends in _const) and the node."""
        name = debugContext.name if isinstance(debugContext, DebugContext) else debugContext
        sizes = numpy.asarray(list(shape)).astype(numpy.int64)
        return aiOnnx.reshape([*args, aiOnnx.constant(sizes, debugContext=name + "_const")], debugContext)


def _accessor(version: int | None) -> property:
    what = f"version {version}" if version else f"the version in use, {DEFAULT_OPSET} when none is"
    return property(
        lambda self: self._onnx(version), doc=f"Methods of ai.onnx, {what}. The first use fixes the version."
    )


for _name, _version in _ACCESSORS.items():
    setattr(Builder, _name, _accessor(_version))
Builder.__module__ = "popart.builder"

"""The classes whose methods make nodes: native ones on a graph, and those that a Builder hands out."""

from __future__ import annotations

from typing import Any

from popart._impl.builder import graphcore_methods, onnx_methods
from popart._impl.builder.methods import add_methods
from popart._impl.builder.model_files import FIRST_OPSET, LAST_OPSET


class _Native:
    """Methods of one version of a domain. Takes a Builder or a _BuilderCore."""

    _domain = ""
    _version = 0

    def __init__(self, builder: Any) -> None:
        self._core = getattr(builder, "_impl", builder)

    def getOpsetVersion(self) -> int:
        return self._version


def _native_classes() -> dict[int, type]:
    classes: dict[int, type] = {}
    for version in range(FIRST_OPSET, LAST_OPSET + 1):
        base = classes.get(version - 1, _Native)
        members = {"_version": version, "__doc__": f"Methods of version {version} of ai.onnx.", "__module__": "popart"}
        classes[version] = type(f"AiOnnxOpset{version}", (base,), members)
        add_methods(classes[version], onnx_methods.methods_of(version), onnx_methods.SPECIAL)
    return classes


NATIVE = _native_classes()
AiOnnxOpset6, AiOnnxOpset7, AiOnnxOpset8, AiOnnxOpset9, AiOnnxOpset10, AiOnnxOpset11 = NATIVE.values()


class AiGraphcoreOpset1(_Native):
    """Methods of version 1 of ai.graphcore."""

    _domain = "ai.graphcore"
    _version = 1


AiGraphcoreOpset1.__module__ = "popart"
add_methods(AiGraphcoreOpset1, graphcore_methods.METHODS, graphcore_methods.SPECIAL)


class Opset:
    """What a Builder hands out: methods of one version of one domain. `str()` is the name of the class."""

    def __str__(self) -> str:
        return type(self).__name__


class AiOnnx(Opset):
    """Methods of ai.onnx, of whichever version the class is."""


class AiOnnxMl(Opset, _Native):
    """Version 1 of ai.onnx.ml, which has no methods."""

    _domain = "ai.onnx.ml"
    _version = 1


class AiGraphcore(Opset, AiGraphcoreOpset1):
    """Methods of ai.graphcore: losses, dynamic slices, collectives, calls and more."""


def _wrapper_classes() -> dict[int, type]:
    classes: dict[int, type] = {}
    for version, native in NATIVE.items():
        bases = (classes.get(version - 1, AiOnnx), native)
        classes[version] = type(f"AiOnnx{version}", bases, {"__doc__": native.__doc__, "__module__": "popart.builder"})
    return classes


WRAPPERS = _wrapper_classes()
AiOnnx6, AiOnnx7, AiOnnx8, AiOnnx9, AiOnnx10, AiOnnx11 = WRAPPERS.values()
for _kind in (Opset, AiOnnx, AiOnnxMl, AiGraphcore):
    _kind.__module__ = "popart.builder"

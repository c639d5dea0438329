"""Builder, and the classes of the opsets that it hands out. Importing this module loads onnx."""

from popart._impl.builder.builder import Builder
from popart._impl.builder.opsets import (
    AiGraphcore,
    AiGraphcoreOpset1,
    AiOnnx,
    AiOnnx6,
    AiOnnx7,
    AiOnnx8,
    AiOnnx9,
    AiOnnx10,
    AiOnnx11,
    AiOnnxMl,
    Opset,
)

__all__ = [
    "AiGraphcore",
    "AiGraphcoreOpset1",
    "AiOnnx",
    "AiOnnx6",
    "AiOnnx7",
    "AiOnnx8",
    "AiOnnx9",
    "AiOnnx10",
    "AiOnnx11",
    "AiOnnxMl",
    "Builder",
    "Opset",
]

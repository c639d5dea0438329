"""What a listing is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from popart._impl.data_flow import DataFlow
from popart._impl.patterns import Patterns
from popart._impl.session_options import SessionOptions


@dataclasses.dataclass(frozen=True)
class Source:
    """The parts of a session that its listing reads.

    model: the ONNX model; loss: "" without training; tensors: id → (type, shape, kind); program: the native one;
    initialisers: values of the model's variables and constants; optimizer: None without training; scalars: values that the
    optimizer changes at run time.
    """

    model: Any
    options: SessionOptions
    patterns: Patterns
    data_flow: DataFlow
    loss: str
    tensors: Mapping[str, Any]
    program: Any
    initialisers: Any
    optimizer: Any
    scalars: Mapping[str, Any]

"""What a listing is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

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


class Crossing(NamedTuple):
    """A value that goes to another virtual graph, or that a later stage reads. Stages are -1 without a pipeline."""

    node: str
    is_backward: bool
    from_ipu: int
    to_ipu: int
    from_stage: int
    to_stage: int
    cycles: int
    is_repeated_from: bool

    @property
    def waits(self) -> int:
        """The micro-batches that it lies on the virtual graph to which it goes; a copy takes one."""
        return self.cycles - (self.from_ipu != self.to_ipu) if self.to_stage >= 0 else 0


class Machine(NamedTuple):
    """What the machine form says of operators, by their first results (executable/machine_operators.h)."""

    there: set[str]
    marked: set[str]
    repeated: set[str]
    gradient_reads: dict[str, set[str]]  # before any pass
    stages: dict[tuple[str, bool], int]
    crossings: list[Crossing]

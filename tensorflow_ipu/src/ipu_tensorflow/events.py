"""Events of compiling and running, as older programs read them. Nothing is recorded, so that there are never any; what is
given to these functions is taken as events of this form."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

TYPES = (
    "COMPILE_BEGIN",
    "COMPILE_END",
    "HOST_TO_DEVICE_TRANSFER",
    "DEVICE_TO_HOST_TRANSFER",
    "LOAD_ENGINE",
    "EXECUTE",
)


@dataclasses.dataclass
class ModuleEvent:
    """What an event says of one program."""

    module_name: str = ""


@dataclasses.dataclass
class IpuTraceEvent:
    """An event: its type, a number of TYPES, its time in seconds, and the part that belongs to its type."""

    type: int = 0
    timestamp: float = dataclasses.field(default_factory=time.time)
    compile_begin: ModuleEvent = dataclasses.field(default_factory=ModuleEvent)
    compile_end: ModuleEvent = dataclasses.field(default_factory=ModuleEvent)
    data_transfer: ModuleEvent = dataclasses.field(default_factory=ModuleEvent)
    load_engine: ModuleEvent = dataclasses.field(default_factory=ModuleEvent)
    execute: ModuleEvent = dataclasses.field(default_factory=ModuleEvent)

    def SerializeToString(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def FromString(cls, data: bytes) -> IpuTraceEvent:
        found = json.loads(data)
        parts: dict[str, Any] = {
            name: ModuleEvent(**value) if isinstance(value, dict) else value for name, value in found.items()
        }
        return cls(**parts)


for _number, _name in enumerate(TYPES):
    setattr(IpuTraceEvent, _name, _number)


def ipu_event_trace(name: str | None = None) -> tf.Tensor:
    """A vector of the serialised events since the last call: none."""
    return tf.constant([], tf.string, name=name or "ipu_event_trace")


def extract_all_events(events: Iterable[bytes]) -> list[IpuTraceEvent]:
    """The events of a vector of serialised ones."""
    return [IpuTraceEvent.FromString(event) for event in events]


def extract_all_types_from_event_trace(events: Iterable[bytes]) -> list[int]:
    """Their types."""
    return [event.type for event in extract_all_events(events)]


def extract_all_strings_from_event_trace(events: Iterable[bytes]) -> str:
    """The events as text, one a line."""
    return "".join(f"{TYPES[event.type]} {event}\n" for event in extract_all_events(events))


def extract_compile_reports(events: Iterable[bytes]) -> list[Any]:
    """Reports are no part of events: []."""
    return []


def extract_execute_reports(events: Iterable[bytes]) -> list[Any]:
    """Reports are no part of events: []."""
    return []


def extract_poplar_serialized_graphs(events: Iterable[bytes]) -> list[Any]:
    """Graphs are no part of events: []."""
    return []

"""What one run of a session moves between arrays of the host and the streams of its program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy

from popart._impl.enums import AnchorReturnTypeId

ANCHOR = "anchor/"  # streams of anchors are called so


@dataclasses.dataclass(frozen=True)
class Transfers:
    """What one run of a session moves.

    inputs, outputs: by tensor, the NumPy type of its stream and the shape of all that a run moves through it; types: the
    types that users see; shapes: of one element; all_outputs: anchors of which every element is returned; broadcast: inputs
    of which all replicas get the same elements; model_inputs: inputs and initialisers of the model; micro_batches: of each
    replica in a run; others: anchors that the program does not
    make: scalars, which are the host's, and in a forward program gradients and states. An input that no operator reads is
    among model_inputs alone.
    """

    inputs: Mapping[str, tuple[numpy.dtype, tuple[int, ...]]]
    outputs: Mapping[str, tuple[numpy.dtype, tuple[int, ...]]]
    types: Mapping[str, numpy.dtype]
    shapes: Mapping[str, tuple[int, ...]]
    all_outputs: frozenset[str]
    broadcast: frozenset[str]
    model_inputs: frozenset[str]
    initialisers: Mapping[str, int]
    micro_batches: int
    replicas: int
    others: frozenset[str]


def transfers_of(session: Any, native: Any, entry: str) -> Transfers:
    streams = native.streams(entry)
    flow = session.dataFlow
    inputs = {
        name: (numpy.dtype(dtype), shape)
        for name, (way, dtype, shape) in streams.items()
        if way == "input" and name not in session._connected
    }
    outputs = {
        id: (numpy.dtype(streams[ANCHOR + id][1]), streams[ANCHOR + id][2])
        for id in flow.anchors()
        if ANCHOR + id in streams and ANCHOR + id not in session._connected
    }
    tensors = session._tensors
    known = {*inputs, *outputs}
    return Transfers(
        inputs,
        outputs,
        {id: numpy.dtype(tensors[id][0]) for id in known},
        {id: tuple(tensors[id][1]) for id in known},
        frozenset(id for id in outputs if flow.art(id).id() is AnchorReturnTypeId["All"]),
        frozenset(session._broadcast & inputs.keys()),
        frozenset(value.name for value in session._model.graph.input),
        {name: value.size for name, value in session._initialisers.values.items()},
        flow.batchesPerStep() * session.accumulationFactor,
        session.replicationFactor,
        frozenset({*flow.anchors(), *session._scalars} - outputs.keys()),
    )

"""What several options of a session say together."""

from __future__ import annotations

from popart._impl.session_options import SessionOptions


def accumulation_of(options: SessionOptions) -> int:
    return options.accumulationFactor if options.enableGradientAccumulation else 1


def local_replicas_of(options: SessionOptions) -> int:
    return options.replicatedGraphCount if options.enableReplicatedGraphs else 1


def is_explicit(options: SessionOptions) -> bool:
    """Pipelines are loops of the program."""
    return bool(options.useHostCopyOps and options.enableExplicitMainLoops)

"""Enumerations of `ipu.config`."""

from __future__ import annotations

import enum


class DeviceConnectionType(enum.Enum):
    """When IPUs are attached: when configured, at the first run, or never (programs are only compiled)."""

    ALWAYS = 0
    ON_DEMAND = 1
    NEVER = 2
    PRE_COMPILE = 3  # a run compiles, stores, and gives zeros


class ExecutionProfileType(enum.Enum):
    """How much a profile of a run tells."""

    NO_PROFILE = 0
    DEVICE_PROFILE = 1
    IPU_PROFILE = 2
    TILE_PROFILE = 3


class MergeRemoteBuffersBehaviour(enum.Enum):
    """When remote buffers of one type are merged."""

    NO_MERGING = 0
    MERGE = 1
    IF_BENEFICIAL = 2


class SchedulingAlgorithm(enum.Enum):
    """How instructions are ordered."""

    CHOOSE_BEST = 0
    CLUSTERING = 1
    POST_ORDER = 2
    LOOK_AHEAD = 3
    SHORTEST_PATH = 4


class SelectionOrder(enum.Enum):
    """Which IPU a shard comes to, on a ladder of rows of two IPUs."""

    AUTO = 0
    ZIGZAG = 1
    SNAKE = 2
    HOOF = 3

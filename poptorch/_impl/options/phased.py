"""Phased execution: which phase, stage and IPU each block belongs to, and how phases are numbered in the program."""

from __future__ import annotations

import collections.abc
import typing

from poptorch import enums
from poptorch._impl.options.strategies import Stage

if typing.TYPE_CHECKING:
    from typing_extensions import Self


class Phase:
    """Stages that run in one phase, each on an IPU of its own.

    Args:
        args: `Stage`s, or block ids (str) which make one stage.

    Raises:
        AssertionError: arguments of other types, or of both.

    Example:
        >>> phase = poptorch.Phase(poptorch.Stage("left"), poptorch.Stage("right"))
        >>> phase.ipus(0, 2)
    """

    def __init__(self, *args: Stage | str) -> None:
        if all(isinstance(argument, Stage) for argument in args):
            self._stages: tuple[Stage, ...] = typing.cast("tuple[Stage, ...]", args)
            return
        assert all(isinstance(argument, str) for argument in args), (
            f"A phase takes either poptorch.Stage objects or block ids (str), got {args!r}"
        )
        self._stages = (Stage(*typing.cast("tuple[str, ...]", args)),)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages, in order (tuple of `Stage`)."""
        return self._stages

    def stage(self, idx: int) -> Stage:
        """The `Stage` of this number (int); IndexError when there is none."""
        return self._stages[idx]

    def ipus(self, *ipus: int) -> None:
        """Fixes the IPUs (int each), one per stage.

        Raises:
            AssertionError: another number of IPUs than of stages, or one that is not an int.
        """
        assert len(ipus) == len(self._stages), (
            f"One IPU per stage: the phase has {len(self._stages)} stages, and {len(ipus)} IPUs are given"
        )
        for stage, ipu in zip(self._stages, ipus):
            stage.ipu(ipu)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Phase) and self._stages == other._stages

    def __hash__(self) -> int:
        return hash(self._stages)

    def __repr__(self) -> str:
        return f"Phase({', '.join(map(repr, self._stages))})"


def _phase_of(argument: object) -> Phase:
    if isinstance(argument, Phase):
        return argument
    if isinstance(argument, (list, tuple)):
        return Phase(*argument)
    assert isinstance(argument, (str, Stage)), (
        f"A phase is a poptorch.Phase, a poptorch.Stage, a block id (str) or a list of either, not {argument!r}"
    )
    return Phase(argument)


class PhasedExecution:
    """What both phased strategies share. Not public: use `SerialPhasedExecution` or `ParallelPhasedExecution`."""

    _schedule = "phased"
    _mode = 2  # number in `Options.toDict()`
    _serial: bool

    def __init__(self, *phases: Phase | Stage | str | list[Stage] | list[str]) -> None:
        assert phases, "A phased strategy needs its phases: there is no automatic mode"
        self._phases = [_phase_of(phase) for phase in phases]
        self._separate = False
        self._liveness = enums.Liveness.AlwaysLive
        known = self._known()
        for block in known:
            assert known.count(block) == 1, f"Block '{block}' is associated with more than one stage"

    def _known(self) -> list[str]:
        return [block for phase in self._phases for stage in phase.stages for block in stage.blocks]

    def phase(self, phase: int) -> Phase:
        """The `Phase` of this number (int). AssertionError unless it is that of a phase."""
        assert isinstance(phase, int) and 0 <= phase < len(self._phases), (
            f"phase must be an int from 0 to {len(self._phases) - 1}, got {phase!r}"
        )
        return self._phases[phase]

    def stage(self, block_id: str) -> Stage:
        """The `Stage` that holds this block; AssertionError for an unknown one."""
        for phase in self._phases:
            for stage in phase.stages:
                if block_id in stage.blocks:
                    return stage
        raise AssertionError(f"Unknown block '{block_id}': expected one of {self._known()}")

    def useSeparateBackwardPhase(self, use: bool = True) -> Self:
        """Whether the last forward and the first backward phase are different ones. Returns self.

        Raises:
            AssertionError: no bool.
        """
        assert isinstance(use, bool), f"use must be True or False, got {type(use).__name__}"
        self._separate = use
        return self

    def _places(self, blocks: collections.abc.Iterable[tuple[str, int | None]]) -> list[tuple[int, int, int]]:
        """Stage of its phase, IPU and phase of each of `blocks`: (block id, ipu id or None), as `PipelinedExecution`."""
        places = []
        for block, ipu in blocks:
            found = next(
                (
                    (number, phase, stage)
                    for phase, stages in enumerate(self._phases)
                    for number, stage in enumerate(stages.stages)
                    if block in stage.blocks
                ),
                None,
            )
            assert found is not None, f"Unknown Block '{block}': the execution strategy expects one of {self._known()}"
            number, phase, stage = found
            fixed = stage._ipu if stage._ipu is not None else ipu
            places.append((number, number if fixed is None else fixed, phase))
        return places

    def _to_dict(self) -> dict[str, typing.Any]:
        return {
            "execution_mode": self._mode,
            "separate_backward_phase": self._separate,
            "tensors_liveness": self._liveness,
            "serial_phases_execution": self._serial,
        }

    def __eq__(self, other: object) -> bool:
        return (
            type(self) is type(other)
            and isinstance(other, PhasedExecution)
            and (self._phases, self._separate, self._liveness) == (other._phases, other._separate, other._liveness)
        )

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._phases))})"


def native(strategy: PhasedExecution) -> dict[str, typing.Any]:
    """What the compiler needs to know of a strategy beside the places of blocks."""
    return {
        "parallel": not strategy._serial,
        "separate_backward": strategy._separate,
        "liveness": int(strategy._liveness),
        "declared": len(strategy._phases),
    }


def back_end_values(strategy: PhasedExecution) -> dict[str, int]:
    """`executionPhaseSettings.*`, as the numbering of phases asks for."""
    stride = {enums.Liveness.OffChipAfterFwdNoOverlap: 2, enums.Liveness.OffChipAfterEachPhase: 4}
    last = stride.get(strategy._liveness, 1) * (len(strategy._phases) - 1)
    more = 4 if strategy._liveness != enums.Liveness.AlwaysLive else 2 if strategy._separate else 1
    return {
        "executionPhaseSettings.phases": last + more,
        "executionPhaseSettings.stages": 1 if strategy._serial else 2,
    }


class SerialPhasedExecution(PhasedExecution):
    """Phases run one after the other on one group of IPUs; what a phase does not need waits in streaming memory.

    Args:
        phases: one argument per phase: a `Phase`, a `Stage`, a block id (str), or a list of stages or of block ids.

    Raises:
        AssertionError: no phase, a block in two of them, or an argument of another kind.

    Example:
        >>> strategy = poptorch.SerialPhasedExecution(["encoder", "bridge"], "decoder")
        >>> strategy.setTensorsLiveness(poptorch.Liveness.OffChipAfterFwd)
        >>> options.setExecutionStrategy(strategy)
    """

    _serial = True

    def setTensorsLiveness(self, liveness: enums.Liveness) -> Self:
        """When forward values leave the chip (`poptorch.Liveness`). Returns self. AssertionError for another type."""
        assert isinstance(liveness, enums.Liveness), (
            f"liveness must be a poptorch.Liveness, got {type(liveness).__name__} ({liveness!r})"
        )
        self._liveness = liveness
        return self


class ParallelPhasedExecution(PhasedExecution):
    """Two groups of IPUs alternate: while one computes a phase, the other loads and stores.

    Even phases run on even IPUs, odd phases on odd ones; the compiler refuses others.

    Args:
        phases: one argument per phase: a `Phase`, a `Stage`, a block id (str), or a list of stages or of block ids.

    Raises:
        AssertionError: no phase, a block in two of them, or an argument of another kind.

    Example:
        >>> strategy = poptorch.ParallelPhasedExecution("first", "second")
        >>> strategy.phase(1).ipus(1)
        >>> options.setExecutionStrategy(strategy)
    """

    _serial = False

    def sendTensorsOffChipAfterFwd(self, off_chip: bool = True) -> Self:
        """Whether forward values leave the chip once the forward pass is done. Returns self. AssertionError for no bool."""
        assert isinstance(off_chip, bool), f"off_chip must be True or False, got {type(off_chip).__name__}"
        self._liveness = enums.Liveness.OffChipAfterFwd if off_chip else enums.Liveness.AlwaysLive
        return self


def restored(
    kind: type[SerialPhasedExecution] | type[ParallelPhasedExecution],
    phases: list[Phase],
    separate: bool,
    liveness: enums.Liveness,
) -> PhasedExecution:
    """A strategy of this kind, as one from a file says. AssertionError for a block in two phases."""
    strategy = kind(*phases)
    strategy._separate, strategy._liveness = separate, liveness
    return strategy

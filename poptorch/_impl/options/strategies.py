"""Execution strategies: which stage and IPU each block of the captured program belongs to."""

from __future__ import annotations

import collections.abc
import typing

from poptorch import enums

if typing.TYPE_CHECKING:
    from typing_extensions import Self


class Stage:
    """Blocks that run together, on one IPU.

    Args:
        block_ids: ids (str) of the blocks of this stage.

    Raises:
        AssertionError: an id is not a str.

    Example:
        >>> poptorch.Stage("encoder", "head").ipu(1)
    """

    def __init__(self, *block_ids: str) -> None:
        assert all(isinstance(block, str) for block in block_ids), f"Block ids must be strings, got {block_ids!r}"
        self._blocks = block_ids
        self._ipu: int | None = None
        self._stage_id: int | None = None

    @property
    def blocks(self) -> tuple[str, ...]:
        """Ids of the blocks (tuple of str)."""
        return self._blocks

    def ipu(self, ipu: int) -> Self:
        """Fixes the IPU (int, counted within the replica). Returns self."""
        assert isinstance(ipu, int), f"ipu must be an int, got {type(ipu).__name__}"
        self._ipu = ipu
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stage) and (self._blocks, self._ipu) == (other._blocks, other._ipu)

    def __hash__(self) -> int:
        return hash(self._blocks)

    def __repr__(self) -> str:
        return f"Stage({', '.join(map(repr, self._blocks))}, ipu={self._ipu})"


class PipelinedExecution:
    """Stages run at the same time on different micro-batches.

    Args:
        args: nothing or one `AutoStage` for automatic stages; else one stage per argument: a `Stage`, a block id, or
            a list or tuple of block ids. Argument number i becomes stage i.

    Raises:
        AssertionError: a block in two stages, or an argument of another kind.

    Example:
        >>> options.setExecutionStrategy(poptorch.PipelinedExecution("front", ["middle", "back"]))
    """

    _schedule = "pipelined"
    _mode = 0  # number in `Options.toDict()`

    def __init__(self, *args: Stage | str | list[str] | tuple[str, ...] | enums.AutoStage) -> None:
        self._auto: enums.AutoStage | None = None
        self._stages: list[Stage] = []
        if not args:
            self._auto = enums.AutoStage.SameAsIpu
        elif len(args) == 1 and isinstance(args[0], enums.AutoStage):
            self._auto = args[0]
        else:
            for argument in args:
                self._add(argument)

    def _add(self, argument: object) -> None:
        if isinstance(argument, Stage):
            stage = argument
        elif isinstance(argument, str):
            stage = Stage(argument)
        else:
            assert isinstance(argument, (list, tuple)) and all(isinstance(block, str) for block in argument), (
                f"A stage is a poptorch.Stage, a block id (str) or a list of block ids, not {argument!r}"
            )
            stage = Stage(*argument)
        for block in stage.blocks:
            assert block not in self._known(), f"Block '{block}' is associated with more than one stage"
        stage._stage_id = len(self._stages)
        self._stages.append(stage)

    def _to_dict(self) -> dict[str, typing.Any]:
        return {"execution_mode": self._mode}

    def _known(self) -> list[str]:
        return [block for stage in self._stages for block in stage.blocks]

    def stage(self, block_id: str) -> Stage:
        """The `Stage` that holds this block; AssertionError for an unknown one."""
        for stage in self._stages:
            if block_id in stage.blocks:
                return stage
        if self._auto is not None:
            stage = Stage(block_id)
            self._stages.append(stage)
            return stage
        raise AssertionError(f"Unknown block '{block_id}': expected one of {self._known()}")

    def _places(self, blocks: collections.abc.Iterable[tuple[str, int | None]]) -> list[tuple[int, int]]:
        """Stage and IPU of each captured block.

        Args:
            blocks: (block id, ipu id or None) in order of first appearance. An id on several IPUs is there for each: they
                are one stage, but for `SameAsIpu`, whose stages are IPUs.

        Returns:
            list of (stage, ipu), one for each of `blocks`.
        """
        places = []
        automatic: dict[str, int] = {}  # stages of AutoIncrement
        latest: tuple[int, int | None] = (-1, None)  # stage and IPU of the block before, for SameAsIpu
        for block, ipu in blocks:
            number, fixed = next(((i, s) for i, s in enumerate(self._stages) if block in s.blocks), (0, None))
            where = fixed._ipu if fixed is not None and fixed._ipu is not None else ipu
            if self._auto is None:
                assert fixed is not None, (
                    f"Unknown Block '{block}': the execution strategy expects one of {self._known()}"
                )
                stage = number  # not what the stage says: other strategies may have it, too
            elif self._auto == enums.AutoStage.SameAsIpu:
                assert where is not None, (
                    f"poptorch.AutoStage.SameAsIpu needs an ipu_id: block '{block}' has none. Pass ipu_id to the block, "
                    "or use poptorch.AutoStage.AutoIncrement."
                )
                stage = _stage_on(where, latest)
                latest = (stage, where)
            else:
                stage = automatic.setdefault(block, len(automatic) + 1)
            places.append((stage, stage if where is None else where))
        return places

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and (self._auto, self._stages) == (other._auto, other._stages)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        inside = [repr(self._auto)] if self._auto is not None else []
        return f"{type(self).__name__}({', '.join(inside + [repr(stage) for stage in self._stages])})"


def _stage_on(ipu: int, latest: tuple[int, int | None]) -> int:
    """Stage of a new block: the number of its IPU, or the next one when that would go back (IPUs 0, 1, 0: 0, 1, 2)."""
    stage, previous_ipu = latest
    if ipu == previous_ipu:
        return stage
    return ipu if ipu > stage else stage + 1


class ShardedExecution(PipelinedExecution):
    """Same mapping of blocks to IPUs, executed strictly one after another. Arguments as `PipelinedExecution`."""

    _schedule = "sharded"
    _mode = 1

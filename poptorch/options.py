"""Options of a wrapper or data loader. Setters check, store and return the object, so calls chain."""

from __future__ import annotations

import copy
import json
import os
import typing

import torch

from poptorch import enums
from poptorch._impl import environment
from poptorch._impl.options import config_file, names as option_names
from poptorch._impl.options import replication
from poptorch._impl.session.progress import compilation_progress as _compilation_progress
from poptorch._impl.options.device_options import DEFAULT_LOCATION_EXCLUDES, DeviceOptions
from poptorch._impl.options.locations import TensorLocationOptions, TensorLocationSettings as TensorLocationSettings
from poptorch._impl.log import logger
from poptorch._impl.options.container import OptionContainer
from poptorch._impl.options import popart_options
from poptorch._impl.options.phased import (
    ParallelPhasedExecution as ParallelPhasedExecution,
    Phase as Phase,
    PhasedExecution,
    SerialPhasedExecution as SerialPhasedExecution,
)
from poptorch._impl.options.strategies import (
    PipelinedExecution as PipelinedExecution,
    ShardedExecution as ShardedExecution,
    Stage as Stage,
)

if typing.TYPE_CHECKING:
    from typing_extensions import Self

_PopartOptions = popart_options.PopartOptions
_TensorLocationOptions = TensorLocationOptions  # published name


class ConfigFileError(Exception):
    """A configuration file with a syntax error."""


class _JitOptions(OptionContainer):
    """Options of the removed tracing front end."""

    def traceModel(self, trace_model: bool) -> Self:
        """Deprecated. False has no effect; True raises ValueError."""
        logger.warning("traceModel is deprecated: programs are always captured by the dispatcher.")
        if trace_model:
            raise ValueError("traceModel(True) is not supported: the tracing front end was removed.")
        return self


class _PrecisionOptions(OptionContainer):
    """Numeric behaviour. Deprecated settings warn and do nothing, as published."""

    _popart: _PopartOptions

    def __init__(self, popart: _PopartOptions) -> None:
        super().__init__()
        object.__setattr__(self, "_popart", popart)

    def enableFloatingPointExceptions(self, enabled: bool) -> Self:
        """Stop with a poptorch.Error when an operation gives an invalid result or overflows its format (bool)."""
        assert isinstance(enabled, bool), f"enabled must be a bool, got {type(enabled).__name__}"
        self._check_writable()
        self._popart.set("enableFloatingPointChecks", enabled)
        return self

    def enableStochasticRounding(self, enabled: bool) -> Self:
        """Round float16 results of arithmetic, and float32 that becomes float16, up or down at random (bool).

        The probability is the distance, so that means of many results are exact and small updates of float16 weights are
        not lost. `Options.randomSeed` and `PoplarExecutor.rng_state` reproduce a run (docs/types.md).

        Example:
            >>> options.Precision.enableStochasticRounding(True)
        """
        self._check_writable()
        self._popart.set("enableStochasticRounding", bool(enabled))
        return self

    def setPartialsType(self, dtype: torch.dtype) -> Self:
        """Type of the partial sums of products and convolutions: torch.float32 or torch.float16; ValueError otherwise.

        With torch.float16, float16 products and convolutions round their sum to float16 after every 16 products
        (docs/types.md); others are not affected. Replaces all convolution options.

        Example:
            >>> options.Precision.setPartialsType(torch.half)
        """
        names = {torch.float32: "float", torch.float16: "half"}
        if not isinstance(dtype, torch.dtype) or dtype not in names:
            raise ValueError(f"setPartialsType needs torch.float32 or torch.float16, got {dtype!r}.")
        self._check_writable()
        self._popart.set("partialsTypeMatMuls", names[dtype])
        self._popart.set("convolutionOptions", {"partialsType": names[dtype]})
        return self

    def halfFloatCasting(self, half_float_casting: enums.HalfFloatCastingBehavior) -> Self:
        """Deprecated, ignored with a warning: mixed operands are computed in float32."""
        logger.warning("halfFloatCasting is deprecated and ignored: mixed operands are computed in float32.")
        return self

    def runningStatisticsAlwaysFloat(self, value: bool) -> Self:
        """Deprecated, ignored with a warning. ValueError when `value` is not a bool."""
        if not isinstance(value, bool):
            raise ValueError("runningStatisticsAlwaysFloat needs True or False.")
        logger.warning("runningStatisticsAlwaysFloat is deprecated and ignored: statistics follow the module.")
        return self


class _TrainingOptions(OptionContainer):
    """How gradients become updates."""

    gradient_accumulation: int
    accumulation_and_replication_reduction_type: enums.ReductionType
    meanAccumulationAndReplicationReductionStrategy: enums.MeanReductionStrategy
    _popart: _PopartOptions

    def __init__(self, popart: _PopartOptions) -> None:
        super().__init__(
            gradient_accumulation=1,
            accumulation_and_replication_reduction_type=enums.ReductionType.Mean,
            meanAccumulationAndReplicationReductionStrategy=enums.MeanReductionStrategy.Post,
        )
        object.__setattr__(self, "_popart", popart)

    def gradientAccumulation(self, gradient_accumulation: int) -> Self:
        """Micro-batches whose gradients are combined before one weight update (int >= 1)."""
        assert isinstance(gradient_accumulation, int), (
            f"gradient_accumulation must be an int, got {type(gradient_accumulation).__name__}"
        )
        assert gradient_accumulation >= 1, f"gradient_accumulation must be at least 1, got {gradient_accumulation}"
        return self._set("gradient_accumulation", gradient_accumulation)

    def accumulationAndReplicationReductionType(self, reduction_type: enums.ReductionType) -> Self:
        """Combine gradients of micro-batches and replicas by `ReductionType.Mean` or `Sum`; ValueError otherwise."""
        if reduction_type not in (enums.ReductionType.Sum, enums.ReductionType.Mean):
            raise ValueError(
                "accumulationAndReplicationReductionType must be poptorch.ReductionType.Sum or Mean, "
                f"not {reduction_type!r}."
            )
        return self._set("accumulation_and_replication_reduction_type", enums.ReductionType(reduction_type))

    def setMeanAccumulationAndReplicationReductionStrategy(
        self, mean_reduction_strategy: enums.MeanReductionStrategy
    ) -> Self:
        """How means over micro-batches are taken (`MeanReductionStrategy`): `Post` divides the sum at the end,
        `Running` keeps the mean so far, whose magnitude never exceeds that of a gradient. Half precision accumulators
        always take `Running`."""
        assert isinstance(mean_reduction_strategy, enums.MeanReductionStrategy), (
            "the strategy must be a poptorch.MeanReductionStrategy, "
            f"got {type(mean_reduction_strategy).__name__} ({mean_reduction_strategy!r})"
        )
        if mean_reduction_strategy == enums.MeanReductionStrategy.PostAndLoss:
            logger.warning("MeanReductionStrategy.PostAndLoss is deprecated: it gives what Post gives.")
        return self._set("meanAccumulationAndReplicationReductionStrategy", mean_reduction_strategy)

    def setAutomaticLossScaling(self, enabled: bool) -> Self:
        """Multiply the loss scaling of the optimizer by a factor that halves when float16 gradients get large, and doubles
        when they do not (bool). docs/optimizers.md has the rule and its settings.

        Raises (when compiled):
            poptorch.Error: no float16 gradient, settings out of range, a pipeline without gradient accumulation.

        Example:
            >>> options.Training.setAutomaticLossScaling(True)
            >>> options.anchorTensor("scale", "finalLossScale")
        """
        self._check_writable()
        self._popart.set("automaticLossScalingSettings.enabled", bool(enabled))
        return self

    def setConvolutionDithering(self, enabled: bool) -> Self:
        """Spread small convolutions over different tiles: changes placement on the machine, never results.

        Replaces all convolution options.
        """
        self._check_writable()
        self._popart.set("convolutionOptions", {"enableConvDithering": "true" if enabled else "false"})
        return self


class _DistributedOptions(OptionContainer):
    """The processes of one job, which train one model with `replicationFactor` replicas each."""

    num_distributed_processes: int
    distributed_process_id: int
    ipuof_configs: dict[typing.Any, typing.Any]

    def __init__(self) -> None:
        super().__init__(num_distributed_processes=1, distributed_process_id=0, ipuof_configs={})
        self.setEnvVarNames("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")

    @property
    def processId(self) -> int:
        """Rank of this process."""
        return self.distributed_process_id

    @property
    def numProcesses(self) -> int:
        """Number of processes."""
        return self.num_distributed_processes

    def disable(self) -> Self:
        """Back to one process with id 0. Returns self."""
        return self.configureProcessId(0, 1)

    def configureProcessId(self, process_id: int, num_processes: int) -> Self:
        """Sets rank and number of processes (ints). Returns self."""
        self._set("distributed_process_id", process_id)
        return self._set("num_distributed_processes", num_processes)

    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> Self:
        """Reads both numbers from these environment variables (missing: 1 and 0); ValueError when not integers."""
        self._set("num_distributed_processes", environment.integer(var_num_processes, 1))
        return self._set("distributed_process_id", environment.integer(var_process_id, 0))


class Options(DeviceOptions):
    """All settings of a wrapper or a data loader.

    The object handed to a wrapper or to `poptorch.DataLoader` is frozen; use `clone()` to derive a variant.

    Example:
        >>> options = poptorch.Options().deviceIterations(4)
        >>> options.Training.gradientAccumulation(8)
    """

    replication_factor: int
    input_group_size: int
    input_cgt: enums.CommGroupType
    broadcast_buffers: bool
    device_iterations: int
    log_dir: str
    max_repeat_logs: int
    auto_round_num_ipus: bool
    connection_type: int
    sync_pattern: int
    available_memory_proportion: dict[int, float]
    # Options only once they were set.
    random_seed: int
    model_name: str
    ipu_version: int
    updatable_named_buffers: list[str]
    # What is no option by name.
    _training: _TrainingOptions
    _precision: _PrecisionOptions
    _distributed: _DistributedOptions
    _locations: TensorLocationOptions
    _jit: _JitOptions
    _strategy: PipelinedExecution | PhasedExecution
    _relax_optimizer_checks: bool
    _show_progress_bar: bool
    _module_namescope: bool

    def __init__(self) -> None:
        self._set_defaults()
        if os.environ.get("POPTORCH_CACHE_DIR"):
            self.enableExecutableCaching(os.environ["POPTORCH_CACHE_DIR"])
            logger.info("POPTORCH_CACHE_DIR is set: executables are cached in %s", os.environ["POPTORCH_CACHE_DIR"])
        defaults = os.environ.get("POPTORCH_DEFAULT_OPTIONS", "{}")
        self.from_json(defaults)

    @classmethod
    def _plain(cls) -> Self:
        """Options with the defaults of this version, whatever the environment says."""
        made = object.__new__(cls)
        made._set_defaults()
        return made

    def _set_defaults(self) -> None:
        super().__init__(
            replication_factor=1,
            input_group_size=1,
            input_cgt=enums.CommGroupType.Consecutive,
            broadcast_buffers=True,
            device_iterations=1,
            log_dir=".",
            max_repeat_logs=4,
            auto_round_num_ipus=False,
            anchored_tensors={},
            output_mode=int(enums.OutputMode.Default),
            output_return_period=1,
            connection_type=int(enums.ConnectionType.Always),
            sync_pattern=int(enums.SyncPattern.Full),
            available_memory_proportion={},
        )
        popart = _PopartOptions()
        object.__setattr__(self, "_popart", popart)
        object.__setattr__(self, "_training", _TrainingOptions(popart))
        object.__setattr__(self, "_precision", _PrecisionOptions(popart))
        object.__setattr__(self, "_distributed", _DistributedOptions())
        object.__setattr__(self, "_locations", TensorLocationOptions())
        object.__setattr__(self, "_jit", _JitOptions())
        object.__setattr__(self, "_strategy", PipelinedExecution())
        object.__setattr__(self, "_relax_optimizer_checks", False)
        object.__setattr__(self, "_show_progress_bar", True)
        object.__setattr__(self, "_module_namescope", True)
        object.__setattr__(self, "_location_excludes", list(DEFAULT_LOCATION_EXCLUDES))

    def _parts(self) -> dict[str, typing.Any]:
        return {
            "Distributed": self._distributed,
            "Jit": self._jit,
            "Precision": self._precision,
            "TensorLocations": self._locations,
            "Training": self._training,
            "_Popart": self._popart,
        }

    @property
    def _execution_strategy(self) -> PipelinedExecution | PhasedExecution:
        """What `setExecutionStrategy` was given."""
        return self._strategy

    @property
    def Training(self) -> _TrainingOptions:
        """Options of training (read-only property; set through its methods)."""
        return self._training

    @property
    def Precision(self) -> _PrecisionOptions:
        """Options of numeric behaviour."""
        return self._precision

    @property
    def Distributed(self) -> _DistributedOptions:
        """Options of multi-process jobs."""
        return self._distributed

    @property
    def TensorLocations(self) -> TensorLocationOptions:
        """Options of memory placement."""
        return self._locations

    @property
    def Jit(self) -> _JitOptions:
        """Options of the removed tracing front end."""
        return self._jit

    @property
    def _Popart(self) -> _PopartOptions:
        """Back-end settings."""
        return self._popart

    def deviceIterations(self, device_iterations: int) -> Self:
        """Micro-batch loops (training: weight updates) per call: an int >= 1. Default 1."""
        assert isinstance(device_iterations, int), (
            f"device_iterations must be an int, got {type(device_iterations).__name__}"
        )
        assert device_iterations >= 1, f"device_iterations must be at least 1, got {device_iterations}"
        return self._set("device_iterations", device_iterations)

    def replicationFactor(self, replication_factor: int) -> Self:
        """Data-parallel copies of the model (int >= 1) that this process drives. Default 1.

        Each replica has micro-batches of its own; gradients are summed over replicas (or averaged, see
        `Training.accumulationAndReplicationReductionType`) before every update.
        """
        assert isinstance(replication_factor, int), (
            f"replication_factor must be an int, got {type(replication_factor).__name__}"
        )
        assert replication_factor >= 1, f"replication_factor must be at least 1, got {replication_factor}"
        return self._set("replication_factor", replication_factor)

    def inputReplicaGrouping(self, input_group_size: int, input_group_type: enums.CommGroupType) -> Self:
        """Replicas of one group are fed the same input. Set `replicationFactor` first.

        Args:
            input_group_size: replicas per group (int), a divisor of the replication factor.
            input_group_type: `poptorch.CommGroupType`; `NoGrouping` gives each replica its own input.

        Raises:
            AssertionError: an argument of another type.
            ValueError: `All`, a size above the replication factor, or no divisor of it.
        """
        size, kind = replication.check_input_grouping(input_group_size, input_group_type, self.replication_factor)
        self._set("input_group_size", size)
        return self._set("input_cgt", kind)

    def broadcastBuffers(self, broadcast_buffers: bool = True) -> Self:
        """True (default): buffers are equal on all replicas, so none may be written. False: each replica keeps its own."""
        assert isinstance(broadcast_buffers, bool), (
            f"broadcast_buffers must be True or False, got {type(broadcast_buffers).__name__}"
        )
        return self._set("broadcast_buffers", broadcast_buffers)

    def setExecutionStrategy(self, strategy: PipelinedExecution | PhasedExecution) -> Self:
        """How blocks map to IPUs and time.

        Args:
            strategy: `PipelinedExecution` (default), `ShardedExecution`, `SerialPhasedExecution` or
                `ParallelPhasedExecution`.

        Raises:
            AssertionError: an object of another type.
        """
        assert isinstance(strategy, (PipelinedExecution, PhasedExecution)), (
            "strategy must be a PipelinedExecution, ShardedExecution, SerialPhasedExecution or "
            f"ParallelPhasedExecution, got {type(strategy).__name__}"
        )
        self._check_writable()
        object.__setattr__(self, "_strategy", strategy)
        return self

    def autoRoundNumIPUs(self, auto_round_num_ipus: bool = True) -> Self:
        """Reserve the next power of two of IPUs instead of failing; the surplus stays idle."""
        assert isinstance(auto_round_num_ipus, bool), "auto_round_num_ipus must be True or False"
        return self._set("auto_round_num_ipus", auto_round_num_ipus)

    def outputMode(self, output_mode: enums.OutputMode, output_return_period: int | None = None) -> Self:
        """Which micro-batch results come back.

        Args:
            output_mode: a `poptorch.OutputMode`.
            output_return_period: for `EveryN`, the number of device iterations (int >= 1; must divide them).
        """
        assert isinstance(output_mode, enums.OutputMode), "output_mode must be a poptorch.OutputMode"
        if output_mode == enums.OutputMode.EveryN:
            assert isinstance(output_return_period, int) and output_return_period > 0, (
                "poptorch.OutputMode.EveryN needs output_return_period, a positive int"
            )
        elif output_return_period is not None:
            logger.info("output_return_period is only used with poptorch.OutputMode.EveryN: ignored")
        self._set("output_mode", int(output_mode))
        return self._set("output_return_period", output_return_period or 1)

    def defaultOutputMode(self) -> bool:
        """True while no output mode was chosen: the wrapper then takes Final (training) or All (inference)."""
        return self.output_mode == enums.OutputMode.Default

    def randomSeed(self, random_seed: int) -> Self:
        """Seeds the device generators and, at once, `torch.manual_seed`."""
        assert isinstance(random_seed, int), f"random_seed must be an int, got {type(random_seed).__name__}"
        self._register("random_seed", random_seed)
        torch.manual_seed(random_seed)
        return self

    def modelName(self, name: str) -> Self:
        """Name shown in reports; default "inference" or "training"."""
        return self._register("model_name", name)

    def relaxOptimizerAttributesChecks(self, relax: bool = True) -> Self:
        """Log unexpected optimizer attributes at DEBUG rather than WARN."""
        self._check_writable()
        object.__setattr__(self, "_relax_optimizer_checks", bool(relax))
        return self

    def showCompilationProgressBar(self, show: bool = True) -> Self:
        """Show a progress bar on stderr while compiling; also enables `compilationTime()`."""
        self._check_writable()
        object.__setattr__(self, "_show_progress_bar", bool(show))
        return self

    def connectionType(self, connection_type: enums.ConnectionType) -> Self:
        """When the device is attached: `ConnectionType` Always (before compiling), OnDemand (right before running), Never."""
        assert isinstance(connection_type, enums.ConnectionType), "connection_type must be a poptorch.ConnectionType"
        return self._set("connection_type", int(connection_type))

    def useOfflineIpuTarget(self, ipu_version: int = 2) -> Self:
        """Compile only, for an IPU of version 1, 2 or 21; sets `ConnectionType.Never`."""
        assert ipu_version in (1, 2, 21), f"ipu_version must be 1, 2 or 21, got {ipu_version!r}"
        self.connectionType(enums.ConnectionType.Never)
        return self._register("ipu_version", ipu_version)

    def syncPattern(self, sync_pattern: enums.SyncPattern) -> Self:
        """Which IPUs wait for each other (`SyncPattern`). Changes timing on the machine, never results."""
        assert isinstance(sync_pattern, enums.SyncPattern), "sync_pattern must be a poptorch.SyncPattern"
        return self._set("sync_pattern", int(sync_pattern))

    def setAvailableMemoryProportion(self, available_memory_proportion: dict[str, float]) -> Self:
        """Share of tile memory (0..1) that matmuls and convolutions may use, by IPU: `{"IPU0": 0.3}`.

        Changes how the machine would cut these operations, never results.
        """
        assert isinstance(available_memory_proportion, dict), (
            "available_memory_proportion must be a dict such as {'IPU0': 0.3}, "
            f"got {type(available_memory_proportion).__name__}"
        )
        proportions = {}
        for name, value in available_memory_proportion.items():
            assert isinstance(name, str) and name.startswith("IPU"), f"keys must be 'IPU<number>', got {name!r}"
            proportions[int(name[3:])] = float(value)
        return self._set("available_memory_proportion", proportions)

    def enableExecutableCaching(self, path: str | os.PathLike[str] | None) -> Self:
        """Folder (str) in which compiled programs are kept and looked for; None: no cache.

        Default: the environment variable POPTORCH_CACHE_DIR. Entries are never deleted. A program is found again when
        graph, constants, options, machine and version are the same; the log says at level INFO what differed.
        """
        self._check_writable()
        self._popart.options["enableEngineCaching"] = path is not None
        if path is None:
            self._popart.options.pop("cachePath", None)
        else:
            self._popart.options["cachePath"] = os.fspath(path)
        return self

    def enableStableNorm(self, enabled: bool) -> Self:
        """Two-pass variance in normalisation layers. Always on here: the emulator's kernels are stable ones."""
        self._check_writable()
        self._popart.set("enableStableNorm", bool(enabled))
        return self

    def logDir(self, log_dir: str) -> Self:
        """Folder (str) for the logs of the back end."""
        assert isinstance(log_dir, str), f"log_dir must be a str, got {type(log_dir).__name__}"
        return self._set("log_dir", log_dir)

    def maxRepeatLogs(self, max_lines: int | None) -> Self:
        """Identical consecutive log lines that are kept (int), or None for all."""
        assert max_lines is None or isinstance(max_lines, int), f"max_lines must be an int or None, got {max_lines!r}"
        return self._set("max_repeat_logs", 2**64 - 1 if max_lines is None else int(max_lines))

    def disableModuleNamescope(self) -> Self:
        """Do not add module names to the names of operations."""
        self._check_writable()
        object.__setattr__(self, "_module_namescope", False)
        return self

    def updatableNamedBuffers(self, buffers: list[str]) -> Self:
        """Names (list of str, as in `named_buffers()`) that `copyNamedBuffersToDevice()` refreshes."""
        assert isinstance(buffers, list) and all(isinstance(name, str) for name in buffers), (
            "buffers must be a list of buffer names"
        )
        return self._register("updatable_named_buffers", list(buffers))

    def loadFromFile(self, filepath: str | os.PathLike[str]) -> Self:
        """Applies an options file: one call per line, such as `deviceIterations(4)`; `#` starts a comment.

        Raises:
            ConfigFileError: a line that is no legal call; nothing is applied.
            FileNotFoundError: no such file.
            AttributeError, AssertionError, ValueError: what an option says.
        """
        config_file.load(filepath, self, ConfigFileError)
        return self

    def from_json(self, string: str) -> Self:
        """Applies options from one JSON object: dotted setter name → argument, or list of arguments.

        A string such as "OutputMode.All" becomes that enum member; strings inside lists stay strings.

        Raises:
            ValueError: no JSON, or no object.
            AttributeError: a name that is no published setter.
        """
        try:
            calls = json.loads(string)
        except RecursionError:
            raise ValueError("Options.from_json: the JSON is nested too deeply") from None
        if not isinstance(calls, dict):
            raise ValueError(f"Options.from_json needs one JSON object, got a {type(calls).__name__}")
        for accessor, value in calls.items():
            target = option_names.setter(self, accessor.split("."))
            if isinstance(value, list):
                target(*value)
                continue
            if isinstance(value, str) and value.count(".") == 1:
                enum_name, member = value.split(".")
                value = getattr(getattr(enums, enum_name, None), "__members__", {}).get(member, value)
            target(value)
        return self

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        flags = (
            "_strategy",
            "_relax_optimizer_checks",
            "_show_progress_bar",
            "_module_namescope",
            "_location_excludes",
        )
        return OptionContainer.__eq__(self, other) and all(getattr(self, f) == getattr(other, f) for f in flags)

    __hash__ = OptionContainer.__hash__

    def clone(self) -> Self:
        """A deep copy that is not frozen."""
        return copy.deepcopy(self)

    def toDict(self) -> dict[str, typing.Any]:
        """All values as one flat dict, as compilation parses it; `poptorch_core._validateOptions` checks one.

        Raises:
            AssertionError: the output mode is undecided, or two parts set one name.

        Example:
            >>> poptorch.poptorch_core._validateOptions(options.toDict())
        """
        assert not self.defaultOutputMode(), "the output mode must be decided before toDict()"
        buffers = {"updatable_named_buffers": "updatableNamedBuffers"}
        general = {buffers.get(name, name): value for name, value in self._values.items()}
        if self._show_progress_bar:
            general["compilation_progress_bar_fn"] = _compilation_progress
        merged: dict[str, typing.Any] = {}
        for part in (
            self._strategy._to_dict(),
            general,
            self._training._values,
            self._precision._values,
            self._distributed._values,
            self._locations._to_dict(),
            self._jit._values,
            self._popart._to_dict(),
        ):
            for name, value in part.items():
                assert name not in merged, f"option '{name}' is defined twice"
                merged[name] = value
        return merged


# What options files and JSON may call (poptorch/_impl/options/names.py).
option_names.publish(_JitOptions, "traceModel")
option_names.publish(
    _PrecisionOptions,
    "enableFloatingPointExceptions",
    "enableStochasticRounding",
    "setPartialsType",
    "halfFloatCasting",
    "runningStatisticsAlwaysFloat",
)
option_names.publish(
    _TrainingOptions,
    "gradientAccumulation",
    "accumulationAndReplicationReductionType",
    "setMeanAccumulationAndReplicationReductionStrategy",
    "setAutomaticLossScaling",
    "setConvolutionDithering",
)
option_names.publish(_DistributedOptions, "disable", "configureProcessId", "setEnvVarNames")
option_names.publish(
    DeviceOptions,
    "useIpuModel",
    "useIpuId",
    "anchorTensor",
    "enableSyntheticData",
    "logCycleCount",
    "enableProfiling",
    "enableStrictMemory",
    "sourceLocationExcludes",
    "appendToLocationExcludes",
)
option_names.publish(
    Options,
    "deviceIterations",
    "replicationFactor",
    "inputReplicaGrouping",
    "broadcastBuffers",
    "setExecutionStrategy",
    "autoRoundNumIPUs",
    "outputMode",
    "randomSeed",
    "modelName",
    "relaxOptimizerAttributesChecks",
    "showCompilationProgressBar",
    "connectionType",
    "useOfflineIpuTarget",
    "syncPattern",
    "setAvailableMemoryProportion",
    "enableExecutableCaching",
    "enableStableNorm",
    "logDir",
    "maxRepeatLogs",
    "disableModuleNamescope",
    "updatableNamedBuffers",
    "loadFromFile",
    "from_json",
)

"""What can be looked into after a call: counters, latencies, cycles, internal tensors. Mixed into PoplarExecutor."""

from __future__ import annotations

import collections.abc
import json
import os
import typing

import torch

from ipu_common import regular_files
from ipu_common.reports import Report
from poptorch import enums, poptorch_core
from poptorch._impl import environment, errors
from poptorch._impl.log import INFO, logger
from poptorch._impl.session import job, model_proto, reports
from poptorch._impl.session.state import WrapperState
from poptorch.options import Options


def uses_ipu_model(options: Options) -> bool:
    """Does a wrapper with these options run on the IPU model rather than on the emulated hardware?"""
    if options.exists("use_model"):
        return options.use_model
    return environment.flag("POPTORCH_IPU_MODEL") or environment.flag("POPTORCH_SMALL_IPU_MODEL")


def check_device_options(options: Options) -> None:
    """poptorch.Error for device options that exclude each other, and for back-end options that do not exist."""
    popart = options._Popart
    for name in filter(poptorch_core.is_general_option, popart.options):
        raise errors.create_error(
            f"unknown back-end option: _Popart.set({name!r}, ...). It is an option of poptorch.Options: set it there."
        )
    poptorch_core._validateOptions(options.toDict())
    if options.exists("use_model"):
        state = "Enabled" if options.use_model else "Disabled"
        poptorch_core.log(INFO, f"From the user configuration: Ipu model: {state}")
    offline = options.connection_type == enums.ConnectionType.Never
    model = uses_ipu_model(options)
    poptorch_core.check_device_choice(
        offline, model, options.exists("ipu_id"), popart.options["instrumentWithHardwareCycleCounter"]
    )


def compile_settings(options: Options) -> dict[str, typing.Any]:
    """The part of the native compile options that comes from here."""
    return {
        **_loss_scaling(options),
        "stochastic_rounding": bool(options._Popart.options.get("enableStochasticRounding", False)),
        "available_memory": options.available_memory_proportion,
        "product_partials": options._Popart.options.get("partialsTypeMatMuls", "float"),
        "convolution_partials": options._Popart.options.get("convolutionOptions", {}).get("partialsType", "float"),
        "anchors": [(short, *anchor) for short, anchor in options.anchored_tensors.items()],
        "any_ipu_count": uses_ipu_model(options) or options.connection_type == enums.ConnectionType.Never,
    }


def _loss_scaling(options: Options) -> dict[str, typing.Any]:
    given, prefix = options._Popart.options, "automaticLossScalingSettings."
    if not given.get(prefix + "enabled"):
        return {}
    return {
        "loss_scaling": {
            "tracking": given.get(prefix + "gradientTensorTrackingMethod", 0),
            "bin_edge": given.get(prefix + "binEdgeLocation", 0.125),
            "upper_proportion": given.get(prefix + "thresholdUpperCountProportion", 1e-7),
            "period": given.get(prefix + "updatePeriod", 1),
        }
    }


def run_settings(options: Options) -> dict[str, typing.Any]:
    """What the native executor is told after compiling or loading."""
    small = environment.flag("POPTORCH_SMALL_IPU_MODEL") and not environment.flag("POPTORCH_IPU_MODEL")
    model = uses_ipu_model(options)
    if model:
        poptorch_core.ipuModelVersion(small)  # an unknown POPTORCH_IPU_MODEL_VERSION fails here
    settings = {
        "ipu_model": model,
        "small_model": model and small,
        "wait_for_ipu": environment.flag("POPTORCH_WAIT_FOR_IPU"),
        "synthetic_data": options._Popart.options.get("syntheticDataMode", 0),
        "check_floating_point": options._Popart.options.get("enableFloatingPointChecks", False),
    }
    if options.exists("ipu_id"):
        settings["ipu_id"] = options.ipu_id
    return settings


def engine_options(options: Options) -> dict[str, typing.Any]:
    """Engine options by name; those of POPLAR_ENGINE_OPTIONS win."""
    given = dict(options._Popart.options.get("engineOptions", {}))
    given.update(json.loads(os.environ.get("POPLAR_ENGINE_OPTIONS") or "{}"))
    return given


def is_outlined(options: Options) -> bool:
    """Whether operations that come again run the code of earlier ones."""
    return bool(options._Popart.options.get("enableOutlining", True))


def system_of(options: Options) -> str:
    """Whose memory is judged: the IPU model, the target of an offline compilation, or "" for the attached system."""
    if uses_ipu_model(options):
        small = environment.flag("POPTORCH_SMALL_IPU_MODEL") and not environment.flag("POPTORCH_IPU_MODEL")
        return "small model" if small else "model"
    if options.connection_type == enums.ConnectionType.Never and options.exists("ipu_version"):
        return f"ipu{options.ipu_version}"
    return ""


def judge_memory(executor: poptorch_core.Executor, options: Options) -> None:
    """Warns of a program that does not fit the machine; poptorch.Error where the options are strict about it."""
    given = str(engine_options(options).get("enableStrictMemory", "false")).lower()
    strict = given == "true" or environment.flag("POPTORCH_STRICT_MEMORY")
    found = executor.judge_memory(system_of(options), options.replication_factor, is_outlined(options), strict)
    if found is None:
        return
    note = "" if strict else "the emulator runs it all the same; Options.enableStrictMemory(True) makes this an error, "
    logger.warning("%s\n  note:     %sPOPTORCH_LOG_LEVEL=ERR hides this", found, note)


def write_reports(executor: poptorch_core.Executor, options: Options, name: str) -> str | None:
    """Reports of a compiled model, when `autoReport.all` asks for them: program, memory, statistics.

    Returns the folder they were written to, or None.
    """
    exported = os.environ.get("POPTORCH_EXPORT_PROTO_FILE")
    if exported:
        folder = os.path.dirname(os.path.abspath(exported))
        regular_files.make_folder(folder, "POPTORCH_EXPORT_PROTO_FILE", logger.warning)
        is_binary = os.environ.get("POPTORCH_EXPORT_PROTO_AS_BINARY") == "1"
        model = json.loads(executor.back_end_ir())
        data = model_proto.binary(model) if is_binary else model_proto.text(model)
        regular_files.write(exported, data, poptorch_core.check_target)
    given = engine_options(options)
    if str(given.get("autoReport.all", "false")).lower() != "true":
        return None
    directory = given.get("autoReport.directory", ".")
    reports.write(executor, directory, name, str(given.get("autoReport.outputDebugInfo", "false")).lower() == "true")
    return os.path.join(directory, name)


def _latency(starts: list[float], ends: list[float]) -> tuple[float, float, float]:
    """(min, max, mean) of end minus start per step; several starts for one end count as their earliest."""
    if not starts or not ends:
        return (0.0, 0.0, 0.0)
    group = max(1, len(starts) // len(ends))
    starts = [min(starts[i * group : (i + 1) * group]) for i in range(len(ends))]
    differences = [end - start for start, end in zip(starts, ends)]
    return (min(differences), max(differences), sum(differences) / len(differences))


class Inspection:
    """Methods of `PoplarExecutor`; see there."""

    _state: WrapperState

    def getPerfCounters(self) -> dict[str, list[list[float]]]:
        """Time stamps of the last call, in seconds.

        Returns:
            dict with "input", "input_complete", "output", "output_complete": one list per tensor, one time per transfer;
            an empty list for a tensor that is not transferred (synthetic data), `[[]]` when not compiled.
        """
        executable = self._state.executable
        counters = {}
        for name, is_input in (("input", True), ("output", False)):
            tensors = executable.transfer_times(is_input) if executable is not None else []
            counters[name] = [[begin for begin, _ in tensor] for tensor in tensors] or [[]]
            counters[f"{name}_complete"] = [[end for _, end in tensor] for tensor in tensors] or [[]]
        return counters

    def _interval(
        self,
        start: str,
        end: str,
        start_choice: collections.abc.Callable[[tuple[float, ...]], float],
        end_choice: collections.abc.Callable[[tuple[float, ...]], float],
    ) -> tuple[float, float, float]:
        moved = {name: [times for times in tensors if times] for name, tensors in self.getPerfCounters().items()}
        return _latency(
            [start_choice(step) for step in zip(*moved[start])], [end_choice(step) for step in zip(*moved[end])]
        )

    def getLatency(self) -> tuple[float, float, float]:
        """(min, max, mean) seconds from asking for the inputs of a step to having its outputs, in the last call."""
        return self._interval("input", "output_complete", min, max)

    def getHostIpuLatency(self) -> tuple[float, float, float]:
        """(min, max, mean) seconds of moving inputs to the device, in the last call."""
        return self._interval("input", "input_complete", min, max)

    def getComputeLatency(self) -> tuple[float, float, float]:
        """(min, max, mean) seconds between having inputs and beginning to write outputs, in the last call."""
        return self._interval("input_complete", "output", max, max)

    def getIpuHostLatency(self) -> tuple[float, float, float]:
        """(min, max, mean) seconds of moving outputs to the host, in the last call."""
        return self._interval("output", "output_complete", min, max)

    def cycleCount(self) -> int:
        """Device cycles of the last call (int): the time of the emulation in cycles of the device's clock.

        Raises:
            poptorch.Error: `Options.logCycleCount(True)` was not used, or nothing has run yet.
        """
        executable = self._state.require_program("cycleCount").executable
        if not self._state.options._Popart.options["instrumentWithHardwareCycleCounter"]:
            raise errors.create_error("cycleCount needs Options.logCycleCount(True) before compiling.")
        try:
            return executable.cycles()
        except poptorch_core.Error as error:  # nothing has run yet
            raise errors.create_error(error.message) from None

    def report(self, machine: str | os.PathLike[str] | None = None) -> Report:
        """What the compiled program takes on the machine: whether it fits, how long a call takes, and why. Not part of PopTorch.

        Nothing runs for it, and it is made when it is asked for.

        Args:
            machine: the name of a machine (`poptorch machine --list`) or the path of a machine file, which must have IPUs for
                all replicas. Default: what the model was compiled for, the attached system (`POPTORCH_EMULATED_SYSTEM`), an IPU
                model or an offline target, with IPUs for the replicas of this process.

        Returns:
            A `poptorch.Report`: `str()` of it is a text, `.seconds`, `.cycles`, `.memory` are figures, `.json()` has all.

        Raises:
            poptorch.Error: the model has not been compiled, or the machine is unknown.

        Example:
            >>> model = poptorch.inferenceModel(net)
            >>> model.compile(example)
            >>> print(model.report())
        """
        compiled = self._state.require_compiled("report")
        options = self._state.options
        processes = job.number_of_processes(options)
        replicas = options.replication_factor
        samples = compiled.signature.common_size() * processes
        name = "" if machine is None else os.fspath(machine)
        system = system_of(options)
        return Report(
            *compiled.executable.report(name, system, samples, replicas * processes, replicas, is_outlined(options))
        )

    def getTensorNames(self) -> list[str]:
        """Names (list of str) of the tensors of the program; AssertionError when not compiled.

        `Options.anchorTensor` takes those of inputs, parameters, buffers, results of operations, gradients and updated
        weights; state and scalars of the optimizer are in its `state_dict()`.
        """
        executable = self._state.executable
        assert executable is not None, "getTensorNames: the model has not been compiled. Call it or compile() first."
        return list(poptorch_core._getTensorNames(executable))

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor:
        """Value of an anchored tensor in the last call; AssertionError when there is none."""
        executable = self._state.executable
        assert executable is not None, (
            "getAnchoredTensor: the model has not been compiled or has been destroyed. Call it or compile() first."
        )
        self._state.require_program("getAnchoredTensor")
        assert executable.has_anchor(short_name), (
            f"getAnchoredTensor: '{short_name}' was not anchored. Anchored are "
            f"{sorted(self._state.options.anchored_tensors)}: use Options.anchorTensor before compiling."
        )
        value = executable.anchored(short_name)
        assert value is not None, f"getAnchoredTensor: '{short_name}' has no value yet. Call the model first."
        return value

    def _debugGetPopartIR(self) -> str:
        """The program as PopART would list it: one JSON object (str), graph name to list of operations."""
        return poptorch_core._getPopartIR(self._state.require_compiled("_debugGetPopartIR").executable)

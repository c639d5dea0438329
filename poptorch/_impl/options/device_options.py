"""Options about devices, what can be looked into, and what the back end is told. Mixed into `poptorch.Options`."""

from __future__ import annotations

import json
import os
import typing

from poptorch import enums
from poptorch._impl.log import logger
from poptorch._impl.options.container import OptionContainer
from poptorch._impl.options.popart_options import PopartOptions

if typing.TYPE_CHECKING:
    from typing_extensions import Self

DEFAULT_LOCATION_EXCLUDES = ("install/poptorch", "site-packages/torch", "site-packages/poptorch")


class DeviceOptions(OptionContainer):
    """Methods of `poptorch.Options`; see there."""

    # Options, those below only once they were set.
    anchored_tensors: dict[str, list[typing.Any]]
    output_mode: int
    output_return_period: int
    use_model: bool
    ipu_id: int
    # Set by `poptorch.Options`.
    _popart: PopartOptions
    _location_excludes: list[str]

    def useIpuModel(self, use_model: bool) -> Self:
        """Software simulation of an IPU (bool); wins over the environment variables.

        The emulated machine and the model compute the same; the model has no fixed number of IPUs and no cycle counter.
        """
        self._check_writable()
        assert isinstance(use_model, bool), f"use_model must be a bool, got {type(use_model).__name__}"
        return self._register("use_model", use_model)

    def useIpuId(self, ipu_id: int) -> Self:
        """A fixed device (int): devices are numbered as groups of 1, 2, 4, ... IPUs, smallest first."""
        assert isinstance(ipu_id, int), f"ipu_id must be an int, got {type(ipu_id).__name__}"
        return self._register("ipu_id", ipu_id)

    def anchorTensor(
        self,
        short_name: str,
        long_name: str,
        output_mode: enums.OutputMode | None = None,
        output_return_period: int = 1,
    ) -> None:
        """Also returns an internal tensor; `executor.getAnchoredTensor(short_name)` reads it after each call.

        Args:
            short_name: your name for it (str).
            long_name: one of `executor.getTensorNames()` (str), such as "Gradient___fc.weight".
            output_mode: `poptorch.OutputMode`; None takes that of the wrapper.
            output_return_period: for `EveryN`, the number of device iterations; 1 otherwise.
        """
        assert isinstance(short_name, str), f"short_name must be a str, got {type(short_name).__name__}"
        assert isinstance(long_name, str), f"long_name must be a str, got {type(long_name).__name__}"
        assert output_mode is None or isinstance(output_mode, enums.OutputMode), (
            "output_mode must be a poptorch.OutputMode"
        )
        if output_mode == enums.OutputMode.EveryN:
            assert isinstance(output_return_period, int) and output_return_period > 0, (
                "poptorch.OutputMode.EveryN needs output_return_period, a positive int"
            )
        else:
            output_return_period = 1
        mode = enums.OutputMode.Default if output_mode is None else output_mode
        self.anchored_tensors[short_name] = [long_name, int(mode), output_return_period]

    def _fix_anchor_modes(self) -> None:
        """Anchors without a mode of their own take the wrapper's (called when wrapping)."""
        for anchor in self.anchored_tensors.values():
            if anchor[1] == enums.OutputMode.Default:
                anchor[1:] = [int(self.output_mode), self.output_return_period]

    def enableSyntheticData(self, enabled: bool) -> Self:
        """True: no host input or output; the device reads normal data it generates and results are zeros (bool)."""
        self._check_writable()
        self._popart.set("syntheticDataMode", 2 if enabled else 0)
        return self

    def logCycleCount(self, log_cycle_count: bool) -> Self:
        """Count the device cycles of each call (bool); read them with `executor.cycleCount()`."""
        self._check_writable()
        self._popart.set("instrumentWithHardwareCycleCounter", bool(log_cycle_count))
        return self

    def enableProfiling(self, profile_dir: str | None = None) -> Self:
        """Writes reports of compiled models into a folder (str, default "."); sets engine options `autoReport.*`."""
        assert profile_dir is None or isinstance(profile_dir, str), (
            f"profile_dir must be a str, got {type(profile_dir).__name__}"
        )
        self._check_writable()
        wanted = {
            "autoReport.all": "true",
            "autoReport.directory": profile_dir or ".",
            "debug.allowOutOfMemory": "true",
        }
        environment = json.loads(os.environ.get("POPLAR_ENGINE_OPTIONS") or "{}")
        for key in wanted:
            if key in environment:
                logger.warning(
                    "POPLAR_ENGINE_OPTIONS sets %s to %r, which wins over enableProfiling.", key, environment[key]
                )
        present = self._popart.options.get("engineOptions", {})
        self._popart.set("engineOptions", {**present, **wanted})
        return self

    def enableStrictMemory(self, enabled: bool) -> Self:
        """Refuses programs that the machine would refuse for lack of memory (bool), instead of warning of them.

        Not in PopTorch, where the machine refuses always. Sets the engine option `enableStrictMemory`;
        POPTORCH_STRICT_MEMORY=1 does so for all models.
        """
        self._check_writable()
        assert isinstance(enabled, bool), f"enabled must be a bool, got {type(enabled).__name__}"
        present = self._popart.options.get("engineOptions", {})
        self._popart.set("engineOptions", {**present, "enableStrictMemory": str(enabled).lower()})
        return self

    def sourceLocationExcludes(self, excludes: list[str]) -> Self:
        """Replaces the list of path fragments (list of str) that are skipped when operations get source lines."""
        assert isinstance(excludes, list) and all(isinstance(part, str) for part in excludes), (
            "excludes must be a list of str"
        )
        self._check_writable()
        object.__setattr__(self, "_location_excludes", list(excludes))
        return self

    def appendToLocationExcludes(self, *excludes: str) -> Self:
        """Appends path fragments (str) to that list."""
        assert all(isinstance(part, str) for part in excludes), "excludes must be str"
        self._location_excludes.extend(excludes)
        return self

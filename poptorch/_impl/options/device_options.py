"""Options about devices, what can be looked into, and what the back end is told. Mixed into `poptorch.Options`."""

import json
import os

from poptorch import enums
from poptorch._impl.log import logger

DEFAULT_LOCATION_EXCLUDES = ("install/poptorch", "site-packages/torch", "site-packages/poptorch")


class DeviceOptions:
    """Methods of `poptorch.Options`; see there."""

    def useIpuModel(self, use_model):
        """Software simulation of an IPU (bool); wins over the environment variables.

        The emulated machine and the model compute the same; the model has no fixed number of IPUs and no cycle counter.
        """
        self._check_writable()
        assert isinstance(use_model, bool), f"use_model must be a bool, got {type(use_model).__name__}"
        return self._register("use_model", use_model)

    def useIpuId(self, ipu_id):
        """A fixed device (int): devices are numbered as groups of 1, 2, 4, ... IPUs, smallest first."""
        assert isinstance(ipu_id, int), f"ipu_id must be an int, got {type(ipu_id).__name__}"
        return self._register("ipu_id", ipu_id)

    def anchorTensor(self, short_name, long_name, output_mode=None, output_return_period=1):
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

    def _fix_anchor_modes(self):
        """Anchors without a mode of their own take the wrapper's (called when wrapping)."""
        for anchor in self.anchored_tensors.values():
            if anchor[1] == enums.OutputMode.Default:
                anchor[1:] = [int(self.output_mode), self.output_return_period]

    def enableSyntheticData(self, enabled):
        """True: no host input or output; the device reads normal data it generates and results are zeros (bool)."""
        self._check_writable()
        self._popart.set("syntheticDataMode", 2 if enabled else 0)
        return self

    def logCycleCount(self, log_cycle_count):
        """Count the device cycles of each call (bool); read them with `executor.cycleCount()`."""
        self._check_writable()
        self._popart.set("instrumentWithHardwareCycleCounter", bool(log_cycle_count))
        return self

    def enableProfiling(self, profile_dir=None):
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

    def sourceLocationExcludes(self, excludes):
        """Replaces the list of path fragments (list of str) that are skipped when operations get source lines."""
        assert isinstance(excludes, list) and all(isinstance(part, str) for part in excludes), (
            "excludes must be a list of str"
        )
        self._check_writable()
        object.__setattr__(self, "_location_excludes", list(excludes))
        return self

    def appendToLocationExcludes(self, *excludes):
        """Appends path fragments (str) to that list."""
        assert all(isinstance(part, str) for part in excludes), "excludes must be str"
        self._location_excludes.extend(excludes)
        return self

"""Files and reports of a session: executables, variables, profiles, texts."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

import numpy

import ipu_core
from ipu_common.reports import Report
from popart._impl import files
from popart._impl.enums import DeviceType
from popart._impl.exceptions import popart_exception, popart_runtime_error, poplar_exception
from popart._impl.logs import getLogger
from popart._impl.sessions import engine_options, executable_files
from popart._impl.sessions.memory import judged_by

_VARIABLE = "variable."


class SessionFiles:
    """What a session writes and reads besides models."""

    _native: Any
    _program: Any
    _device: Any
    _options: Any
    _weights: Any
    _compile: Any
    _file: Any
    _name: str
    _engine_options: dict[str, str]
    _has_run: bool

    # --- executables
    def compileAndExport(self, filename: Any) -> None:
        """Compiles for the device, which need not be there, and writes the executable.

        Args:
            filename: of the file; a folder: `executable.popef` in it. Folders that are missing are made. The format is our
                own (docs/file-format.md).

        Raises:
            popart_exception: the device is neither Ipu nor OfflineIpu.
            OSError: the file cannot be written.
            OutOfMemoryException: the program does not fit.
        """
        executable_files.check_exportable(self._device, "compileAndExport")
        path = executable_files.target_path(filename, "executable.popef")
        self._engine_options = engine_options.engine_options(dict(self._options.engineOptions))
        native = self._native if self._native is not None else self._compile()
        executable_files.save(native, self._program, self._device, path, self._variables_of_file(), self._info())

    def saveExecutable(self, path: Any, savePopartMetadata: bool = True, saveVariables: bool = True) -> None:
        """Writes the compiled program, and with `saveVariables` the host's values of the variables.

        Raises:
            popart_exception: as compileAndExport.
            popart_runtime_error: before prepareDevice.
            OSError: the file cannot be written.
        """
        executable_files.check_exportable(self._device, "saveExecutable")
        self._compiled("saveExecutable", popart_runtime_error)
        target = executable_files.target_path(path, "executable.popef")
        variables = self._variables_of_file() if saveVariables else {}
        info = self._info() if savePopartMetadata else {}
        executable_files.save(self._native, self._program, self._device, target, variables, info)

    def saveVariables(self, path: Any) -> None:
        """Writes the host's values of the variables; into `variables.popef` where `path` is a folder. Errors as
        saveExecutable."""
        executable_files.check_exportable(self._device, "saveVariables")
        target = executable_files.target_path(path, "variables.popef")
        executable_files.save(None, self._program, self._device, target, self._variables_of_file(), self._info())

    def loadExecutable(self, filename: Any) -> None:
        """Takes an executable of compileAndExport or saveExecutable: prepareDevice compiles nothing then. Values of
        variables in the file become the host's.

        Raises:
            popart_exception: there is no such file, it is damaged, or it holds another program.
            popart_runtime_error: after prepareDevice.
        """
        if self._native is not None:
            raise popart_runtime_error("loadExecutable: the device is prepared already; load the executable before")
        file = executable_files.load(filename, self._program)
        for name, value in executable_files.arrays_of(file).items():
            known = self._weights.values.get(name.removeprefix(_VARIABLE))
            if known is not None and (known.shape != value.shape or known.dtype != value.dtype):
                raise popart_exception(f"the file '{filename}' holds '{name}' as {value.dtype} {value.shape}")
            self._weights.values[name.removeprefix(_VARIABLE)] = value
        getLogger("session").info(f"loading a serialised executable of '{self._name}' from {filename}")
        self._file = file

    def updateEngineCache(self) -> None:
        """Writes the compiled program to the engine cache, where caching is enabled for this kind of device.

        Raises:
            popart_runtime_error: before prepareDevice.
        """
        self._compiled("updateEngineCache", popart_runtime_error)
        getLogger("session").info("the engine cache is current: programs are written to it when they are compiled")

    def _variables_of_file(self) -> dict[str, numpy.ndarray]:
        ids = (*self._weights.ids, *self._weights.states)
        return {_VARIABLE + id: self._weights.values[id] for id in ids if id in self._weights.values}

    def _info(self) -> dict[str, str]:
        return {"session": self._name}

    def _compiled(self, what: str, kind: type[Exception] = popart_exception) -> Any:
        if self._native is None:
            raise kind(f"{what}: the device is not prepared; call prepareDevice first")
        return self._native

    # --- reports
    def getSummaryReport(self, resetProfile: bool = True) -> str:
        """A report as text: IPUs, memory, variables, operations, streams, cycles of the last run.

        Args:
            resetProfile: forgets the cycles of the last run.

        Raises:
            popart_runtime_error: nothing was compiled, or the executable is that of a file or of the cache.
            poplar_exception: on the Cpu device.
        """
        return self._report_of(self._profiled("getSummaryReport"))

    def _report_of(self, native: Any) -> str:
        lines = [f"session '{self._name}' on {self._device!r}"]
        lines += [native.report(self._device.bytes_per_ipu).rstrip("\n"), "variables on the host:"]
        lines += [f"  {name}: {dtype} {tuple(shape)}" for name, (dtype, shape) in sorted(native.variables().items())]
        lines.append("streams of a step:")
        lines += [f"  {name}: {way} {dtype} {tuple(s)}" for name, (way, dtype, s) in sorted(native.streams().items())]
        if self._has_run and native.is_attached:
            with contextlib.suppress(ipu_core.Error):  # nothing ran since the last report or loading
                lines.append(f"cycles of the last run: {native.cycles()}")
        return "\n".join(lines) + "\n"

    def report(self, machine: Any = None) -> Report:
        """What the compiled program takes on the machine: whether it fits, how long a step takes, and why. Not part of PopART.

        Args:
            machine: the name of a machine (`poptorch machine --list`) or the path of a machine file, which must have IPUs for
                all replicas. Default: the device, which must have IPUs for those of this process.

        Returns:
            A `Report`, as `poptorch.Report`: `str()` of it is a text, `.seconds` and `.memory` are figures, `.json()` has all.

        Raises:
            popart_runtime_error: before prepareDevice.
            popart_exception: the machine is unknown.

        Example:
            >>> session.prepareDevice()
            >>> print(session.report())
        """
        native = self._compiled("report", popart_runtime_error)
        try:
            name = "" if machine is None else os.fspath(machine)
            return Report(*native.report_on(name, *judged_by(self._device, self._judged_options())))
        except ipu_core.Error as error:
            raise popart_exception(str(error)) from error

    def _judged_options(self) -> Any:
        return self._options

    def getReport(self) -> Any:
        """A report of libpva. Errors as getSummaryReport, and popart_exception where no engine option asked for a profile or
        the package pva is not installed."""
        self._profiled("getReport")
        if not engine_options.is_profiled(self._engine_options):
            raise popart_exception(
                "getReport needs a profile: set the engine option autoReport.all or debug.instrument to 'true'"
            )
        try:
            import pva  # type: ignore[import-not-found]
        except ImportError as error:
            raise popart_exception(
                "getReport needs the package pva (libpva), which is not installed; getSummaryReport gives a text, and "
                "autoReport.all writes files"
            ) from error
        return pva.openReport(self._profile_path())

    def getSerializedGraph(self) -> bytes:
        """The program as the machine runs it: the text of our IR in UTF-8, not Cap'n Proto. Errors as getSummaryReport."""
        return str(self._profiled("getSerializedGraph").machine_text()).encode()

    def _profiled(self, what: str) -> Any:
        native = self._compiled(what, popart_runtime_error)
        if self._device.type is DeviceType.Cpu:
            raise poplar_exception(f"{what}: the Cpu device has no profile; use an IPU model")
        if self._file is not None or native.from_cache:
            source = "the engine cache" if self._file is None else "a file"
            raise popart_runtime_error(f"{what}: the executable was loaded from {source}, which holds no profile")
        return native

    def _profile_path(self) -> str:
        directory = self._engine_options.get("autoReport.directory", ".")
        return os.path.join(directory, self._name, "profile.pop")

    def _write_profile(self, native: Any) -> str:
        """Writes what is known of the program, as JSON, where an engine option asks for it; the path of the file, or ""."""
        if not engine_options.writes_profile(self._engine_options) or self._device.type is DeviceType.Cpu:
            return ""
        path = self._profile_path()
        files.make_folder(os.path.dirname(path), "the profile")
        content = {"session": self._name, "memory": native.memory(), "program": native.program_text()}
        files.write(path, json.dumps(content, indent=1))
        return path

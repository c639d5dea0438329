"""The report on a compiled program, as its front ends give it."""

from __future__ import annotations

import functools
import json
import typing


class Report:
    """What a program takes on the machine: whether it fits, how long a run takes, and why (docs/device-model.md).

    It is computed from the program and a machine file, not measured: nothing ran, and the emulator's own time does not appear.

    `str(report)` is the text. All figures are those of `json()`, whose schema is docs/report-schema.md.

    Example:
        >>> report = model.report()
        >>> print(report)  # the verdict first
        >>> report.milliseconds, report.fits
        >>> model.report(machine="bow-pod16").cycles
    """

    def __init__(self, text: str, json_text: str) -> None:
        self._text = text
        self._json = json_text

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Report({self.cycles} cycles, {self.seconds:.4g} s on {self.machine}, {self.verdict})"

    def json(self) -> str:
        """The report as JSON (str). Equal programs give equal texts, on every computer."""
        return self._json

    @functools.cached_property
    def _figures(self) -> dict[str, typing.Any]:
        return self.to_dict()

    def to_dict(self) -> dict[str, typing.Any]:
        """The same as a new dict."""
        return typing.cast("dict[str, typing.Any]", json.loads(self._json))

    @property
    def machine(self) -> str:
        """Name of the machine (str)."""
        return str(self._figures["machine"]["name"])

    @property
    def verdict(self) -> str:
        """Whether the program fits the machine (str): "fits", "does not fit", or one of them with ", near the limit"."""
        return str(self._figures["verdict"]["word"])

    @property
    def fits(self) -> bool:
        """Whether the verdict is that it fits."""
        return bool(self._figures["verdict"]["fits"])

    @property
    def cycles(self) -> int:
        """Cycles of the tiles' clock in one run, until the last IPU is done."""
        return int(self._figures["time"]["cycles"])

    @property
    def seconds(self) -> float:
        """Seconds of one run."""
        return float(self._figures["time"]["seconds"])

    @property
    def milliseconds(self) -> float:
        """Milliseconds of one run."""
        return self.seconds * 1e3

    @property
    def is_maximum(self) -> bool:
        """Whether a value decides how long a run takes, and cycles are those of the longest one."""
        return bool(self._figures["time"]["is_maximum"])

    @property
    def maximum_cycles(self) -> int:
        """Cycles of the longest run: more than `cycles` where loops are expected to end before their bounds."""
        return int(self._figures["time"]["maximum_cycles"])

    @property
    def samples_per_second(self) -> float | None:
        """Samples in a second, of all replicas; None where nobody said how many a run takes."""
        return float(self._figures["time"]["samples_per_second"]) or None

    @property
    def busy(self) -> dict[int, int]:
        """Of each IPU of a replica the cycles in which it does something (number -> int); in the others it waits."""
        return {of["ipu"]: of["busy"]["total"] for of in self._figures["time"]["ipus"]}

    @property
    def memory(self) -> dict[int, int]:
        """Of each IPU of a replica the bytes of its fullest tile (number -> int)."""
        return {of["ipu"]: of["bytes"] for of in self._figures["memory"]["ipus"]}

    @property
    def streaming_bytes(self) -> int:
        """Bytes in streaming memory, of one replica."""
        return int(self._figures["memory"]["streaming_bytes"])

    @property
    def guessed(self) -> list[str]:
        """Kinds of operations that are priced by their bytes alone, since their definitions say nothing else (list of str)."""
        return [of["what"] for of in self._figures["time"]["guesses"]]

"""What the host holds of the variables of a program: their values, as users give and read them. Sessions share it."""

from __future__ import annotations

import weakref
from typing import Any

import numpy


class HostVariable:
    """One variable on the host.

    `data` has the shape that the user gives: one value for each group in front, where there are several. A grouping that
    is not constant lies on the device in a finer one: `to_device` gives the user's group of each group there.
    """

    __slots__ = ("data", "memmap", "to_device")

    def __init__(
        self, data: numpy.ndarray, memmap: numpy.memmap | None = None, to_device: list[int] | None = None
    ) -> None:
        self.data, self.memmap, self.to_device = data, memmap, to_device

    def check_writable(self, tensor_id: str) -> None:
        """Raises ValueError when the data lie in memory that cannot be written."""
        if self.data.flags.writeable:
            return
        if self.memmap is not None:
            where, cure = f"a read-only np.memmap of {self.memmap.filename}", "open it with mode 'r+' or 'c'"
        else:
            where, cure = "a read-only array", "give a copy of it"
        raise ValueError(
            f"the variable '{tensor_id}' cannot be written: its value on the host is {where}; {cure} before the variable is made"
        )


class HostVariables:
    """The variables of one program, by number of their tensor."""

    def __init__(self) -> None:
        self.by_number: dict[int, HostVariable] = {}
        self.in_sync = True  # with the device that ran last: one flag for all

    def add(
        self,
        number: int,
        data: numpy.ndarray,
        memmap: numpy.memmap | None = None,
        to_device: list[int] | None = None,
    ) -> None:
        self.by_number[number] = HostVariable(data, memmap, to_device)

    def is_in_sync(self, number: int) -> bool:
        return self.in_sync or number not in self.by_number

    def flush(self) -> None:
        """What was written to files gets there."""
        for variable in self.by_number.values():
            if variable.memmap is not None:
                variable.memmap.flush()


_of: weakref.WeakKeyDictionary[Any, HostVariables] = weakref.WeakKeyDictionary()


def host_variables(program: Any) -> HostVariables:
    """Those of a native program; always the same object."""
    found = _of.get(program)
    if found is None:
        found = _of[program] = HostVariables()
    return found

"""Values of optimizers: one number with its mark, one number for each weight, and settings of clipping."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy

from popart._impl.exceptions import popart_exception


def float32(value: Any) -> float:
    """The number as the device and the host of the device hold it."""
    return float(numpy.float32(value))


def is_number(value: Any) -> bool:
    return isinstance(value, (numbers.Real, numpy.bool_)) and not isinstance(value, complex)


def is_flag(value: Any) -> bool:
    return isinstance(value, (bool, numpy.bool_))


class OptimizerValue:
    """A hyper-parameter: a float32 number, and whether it is compiled into the program.

    Args:
        val: the number; 0 when left out. A pair `(number, constant)` stands for both arguments.
        isConst: True: a constant. False: the host may change it while the session lives.

    Raises:
        popart_exception: the arguments are not a number and a flag.

    >>> OptimizerValue(0.5, False).isConst()
    False
    """

    def __init__(self, val: Any = 0.0, isConst: Any = True) -> None:
        if isinstance(val, (tuple, list)):
            if len(val) != 2:
                raise popart_exception(f"An optimizer value is a pair of a number and a flag; got {val!r}.")
            val, isConst = val
        if not is_number(val) or not is_flag(isConst):
            raise popart_exception(
                f"An optimizer value is a pair of a number and a flag; got ({val!r}, {isConst!r}). "
                "Give for example (0.1, False)."
            )
        self._value, self._is_constant = float32(val), bool(isConst)

    def val(self) -> float:
        return self._value

    def isConst(self) -> bool:
        return self._is_constant

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OptimizerValue):
            return NotImplemented
        return (self._value, self._is_constant) == (other._value, other._is_constant)

    def __hash__(self) -> int:
        return hash((self._value, self._is_constant))

    def __repr__(self) -> str:
        return f"OptimizerValue({self._value}, {self._is_constant})"


class OptimizerValueMap:
    """One hyper-parameter of all weights: a default and the weights that have their own."""

    def __init__(self, default: OptimizerValue) -> None:
        self._default = default
        self._specific: dict[str, OptimizerValue] = {}

    def getDefault(self) -> OptimizerValue:
        return self._default

    def get(self, weight: str) -> OptimizerValue:
        """The value of a weight: its own, else the default."""
        return self._specific.get(weight, self._default)

    def hasSpecific(self) -> bool:
        return bool(self._specific)

    def _insert(self, weight: str, value: OptimizerValue) -> None:
        self._specific[weight] = value


class ClipNormSettings:
    """Scales the gradients of a group of weights down to a common 2-norm.

    Args:
        weightIds: names of the weights of the group.
        maxNorm: of all of them together, a number from 0 on.

    The constructor is deprecated: use `clipWeights` or `clipAllWeights`.
    """

    def __init__(self, weightIds: Sequence[str], maxNorm: float) -> None:
        if isinstance(weightIds, str) or not all(isinstance(name, str) for name in weightIds):
            raise popart_exception(
                f"weightIds of ClipNormSettings is {weightIds!r}: it takes a list of names of weights."
            )
        if not is_number(maxNorm) or not float(maxNorm) >= 0.0:
            raise popart_exception(f"maxNorm of ClipNormSettings is {maxNorm!r}: it takes a number from 0 on.")
        self.weightIds = list(weightIds)
        self.maxNorm = float32(maxNorm)
        self._clips_all = False

    @classmethod
    def clipWeights(cls, weightIds: Sequence[str], maxNorm: float) -> ClipNormSettings:
        """A group of the weights that are named."""
        return cls(weightIds, maxNorm)

    @classmethod
    def clipAllWeights(cls, maxNorm: float) -> ClipNormSettings:
        """All weights of the model are one group."""
        settings = cls([], maxNorm)
        settings._clips_all = True
        return settings

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClipNormSettings):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (self._clips_all, tuple(self.weightIds), self.maxNorm)

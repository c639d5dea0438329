"""Arrays that a run reads and writes, by tensor id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy

from popart._impl.exceptions import popart_exception


def _arrays(arrays: Any, what: str) -> dict[str, numpy.ndarray]:
    """Raises TypeError for anything but NumPy arrays by id."""
    if not isinstance(arrays, Mapping):
        raise TypeError(f"incompatible arguments: {what} are arrays by id in a dict, not {arrays!r}")
    for id, array in arrays.items():
        if not isinstance(id, str) or not isinstance(array, (numpy.ndarray, numpy.generic)):
            raise TypeError(
                f"incompatible arguments: {what} are NumPy arrays by id, and {id!r} is {type(array).__name__}"
            )
    return dict(arrays)


def _contiguous(arrays: Mapping[str, numpy.ndarray], what: str) -> dict[str, numpy.ndarray]:
    for id, array in arrays.items():
        if not array.flags["C_CONTIGUOUS"]:
            raise popart_exception(f"the {what} '{id}' is not C-contiguous; numpy.ascontiguousarray makes it so")
    return dict(arrays)


class IStepIO:
    """What a run reads and writes."""

    runtime_asserts = True

    def enableRuntimeAsserts(self, enable: bool) -> None:
        """False: neither ids nor numbers of elements are checked."""
        self.runtime_asserts = enable


class PyStepIO(IStepIO):
    """A run takes its inputs from these arrays and writes its outputs to those, in place.

    Raises:
        popart_exception: an array is not C-contiguous.
        TypeError: something is no array.

    >>> PyStepIO({"x": numpy.ones(4, numpy.float32)}, {"y": numpy.empty(4, numpy.float32)}).outputs["y"].shape
    (4,)
    """

    def __init__(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        self.inputs = _contiguous(_arrays(inputs, "inputs of PyStepIO"), "input")
        self.outputs = _contiguous(_arrays(outputs, "outputs of PyStepIO"), "output")
        # Elements of each array that runs before have used; 0 again at the end of the array.
        self.input_offsets: dict[str, int] = {}
        self.output_offsets: dict[str, int] = {}


class PyStepIOCallback(IStepIO):
    """A run asks these functions for each micro-batch, on the threads that run the program.

    Args:
        input_callback: (id, prefetch) -> a C-contiguous array of one micro-batch. `prefetch` is False: data are needed now.
        input_complete_callback: (id): the array was read, and may be used again.
        output_callback: (id) -> a C-contiguous array to fill with one micro-batch.
        output_complete_callback: (id): the array was filled.

    What a function raises ends the run with a `popart_runtime_error`; the session can run again.

    >>> PyStepIOCallback(lambda id, prefetch: numpy.ones(4, numpy.float32), print, dict.get, print)  # doctest: +ELLIPSIS
    <...PyStepIOCallback object at ...>
    """

    def __init__(
        self,
        input_callback: Callable[..., Any],
        input_complete_callback: Callable[..., Any],
        output_callback: Callable[..., Any],
        output_complete_callback: Callable[..., Any],
    ) -> None:
        self.input_callback, self.input_complete_callback = input_callback, input_complete_callback
        self.output_callback, self.output_complete_callback = output_callback, output_complete_callback


class IWeightsIO:
    """Arrays of variables."""


class PyWeightsIO(IWeightsIO):
    """Arrays of variables by id, that readWeights fills and writeWeights takes."""

    def __init__(self, weights: Mapping[str, numpy.ndarray]) -> None:
        self.weights = _arrays(weights, "weights of PyWeightsIO")

    def array(self, id: str) -> numpy.ndarray:
        """Raises popart_exception where there is none, or it is not C-contiguous."""
        if id not in self.weights:
            raise popart_exception(f"no array was given for the variable '{id}'; there are {sorted(self.weights)}")
        return _contiguous({id: self.weights[id]}, "array of the variable")[id]

"""Arrays that a run reads and writes."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from popxl import dtypes
from popxl.utils import to_numpy


def input_array(stream: Any, value: Any, downcast: bool) -> np.ndarray:
    """The array of an input. Numbers and sequences of Python take the stream's dtype where that loses nothing."""
    if not (isinstance(value, np.ndarray) or hasattr(value, "detach")):
        plain = np.asarray(value)
        dtype = stream.dtype
        fits = {"b": True, "i": dtype is not dtypes.bool, "f": dtype.is_floating_point}.get(plain.dtype.kind, False)
        if fits and dtype not in dtypes._FLOAT8:
            return np.ascontiguousarray(plain.astype(dtype.as_numpy())).reshape(plain.shape)
        value = plain
    return to_numpy(value, None, downcast, copy=False)


def check_arrays(what: str, arrays: Mapping[Any, Any], streams: Collection[Any], transfers: int, replicas: int) -> None:
    """Checks streams and shapes of the arrays of a run. Raises ValueError."""
    expected, given = set(streams), set(arrays)
    if expected != given:
        unexpected = sorted(str(s) for s in given - expected)
        missing = sorted(str(s) for s in expected - given)
        raise ValueError(
            f"The {what} streams are others than the program uses: unexpected {unexpected}, missing {missing}."
        )
    for stream, array in arrays.items():
        shape = tuple(np.shape(array))
        full = ((transfers,) if transfers > 1 else ()) + ((replicas,) if replicas > 1 else ()) + stream.shape
        rest = shape
        wrong = ""
        if transfers > 1:
            if not rest or rest[0] < transfers:
                wrong = f"the first axis must have at least {transfers} (num_host_transfers)"
            rest = rest[1:]
        if not wrong and replicas > 1:
            if not rest or rest[0] != replicas:
                wrong = f"the axis of replicas must have {replicas}"
            rest = rest[1:]
        if not wrong and rest != stream.shape and not (_is_one(rest) and _is_one(stream.shape)):
            wrong = f"the shape of an element must be {stream.shape}"
        if wrong:
            raise ValueError(f"The array of {what} {stream} has shape {shape}, and {full} is needed: {wrong}.")


def check_dtypes(outputs: Mapping[Any, Any]) -> None:
    """Checks that arrays which a run fills have the dtypes of their streams: values are not cast. Raises ValueError."""
    for stream, array in outputs.items():
        wanted, given = stream.dtype.as_numpy(), np.asarray(array).dtype
        if given != wanted:
            raise ValueError(
                f"The array of output {stream} has dtype {given}, and the stream has {wanted}: values are not cast. Give an "
                f"array of {wanted} (create_host_outputs makes all of them) and cast it after the run."
            )


def _is_one(shape: Any) -> bool:
    return all(size == 1 for size in shape)

"""Inputs of sessions with synthetic data: made once, and read again in every run."""

from __future__ import annotations

from typing import Any

import numpy

from popart._impl.enums import SyntheticDataMode

_SEED = 7


def bind_synthetic(session: Any, native: Any) -> None:
    """With synthetic data, the program's inputs get values that stay; otherwise nothing happens."""
    mode = session._options.syntheticDataMode
    if mode is SyntheticDataMode["Off"]:
        return
    random = numpy.random.default_rng(_SEED)
    for name, (way, dtype, shape) in native.streams("main").items():
        if way == "input":
            native.bind(name, synthetic_array(mode, numpy.dtype(dtype), shape, random), wrap=True)


def synthetic_array(
    mode: Any, dtype: numpy.dtype, shape: tuple[int, ...], random: numpy.random.Generator
) -> numpy.ndarray:
    """Zeros; normal numbers of mean 0 and variance 1; or numbers from the whole range of the type."""
    if mode is SyntheticDataMode["RandomNormal"]:
        return random.normal(size=shape).astype(dtype)
    if mode is SyntheticDataMode["RandomUniform"]:
        if dtype.kind == "b":
            return random.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            info = numpy.iinfo(dtype)
            return random.integers(info.min, info.max, shape, dtype, endpoint=True)
        limit = float(numpy.finfo(dtype).max)
        return (random.uniform(-1.0, 1.0, shape) * limit).astype(dtype)
    return numpy.zeros(shape, dtype)

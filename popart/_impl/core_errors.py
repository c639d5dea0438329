"""Errors of the core as the exceptions that PopART has for them, with PopART's cures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ipu_core
from ipu_core.cures import with_cure
from popart._impl.exceptions import popart_exception, poplar_application_runtime_error

CURES = {
    "ambiguous_order": "say which op is first: topoCons().insert(first, second) of the graph",
    "no_gradient": "detach what the operator reads (Builder.aiGraphcore.detach), or use an operator that has a gradient",
    "no_half_gradient": "weights and inputs of FLOAT16, or no automaticLossScalingSettings: gradients of FLOAT need no loss scaling",
    "not_attached": "call prepareDevice(), which loads the program onto the device",
    "too_many_ipus": "fewer replicas, or several processes: poprun, with enableDistributedReplicatedGraphs in the SessionOptions",
}


def as_popart(error: Any, of_run: bool = False, cures: Mapping[str, str] = CURES) -> Exception:
    """The exception to raise in place of an `ipu_core.Error`.

    Args:
        cures: what the front end advises, by reason.
    """
    text = with_cure(error, cures)
    is_of_program = error.type == poplar_application_runtime_error.__name__
    if of_run and (is_of_program or error.parameters.get("operand") == "log2_scale"):
        return poplar_application_runtime_error(text)
    unknown = error.parameters.get("unknown")
    return popart_exception(f"no class for {unknown}: {text}" if unknown else text)


def reason_of(error: Exception) -> str:
    """Why the core refused what this exception is about; "" where it did not."""
    return getattr(error.__cause__, "reason", "")


class core_errors:
    """`with core_errors():` makes `popart_exception` of what the native side refuses; arguments as of `as_popart`."""

    def __init__(self, cures: Mapping[str, str] = CURES, of_run: bool = False) -> None:
        self._cures, self._of_run = cures, of_run

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ipu_core.Error):
            raise as_popart(error, self._of_run, self._cures) from error


class Checked:
    """A native object whose methods raise `popart_exception`."""

    def __init__(self, core: Any) -> None:
        self._native = core

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._native, name)
        if not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            with core_errors():
                return value(*args, **kwargs)

        # The object itself is not captured twice: methods are looked up once and kept.
        self.__dict__[name] = call
        return call

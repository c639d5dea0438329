"""Errors of the native side as the exceptions that PopART has for them."""

from __future__ import annotations

import re

from popart._impl.exceptions import (
    OutOfMemoryException,
    popart_exception,
    poplar_application_runtime_error,
)

_UNKNOWN = re.compile(r"^  (\S+)::(\S+), version (\d+)  x\d+: there is no importer for it$", re.MULTILINE)


def as_popart(error: Exception, of_run: bool = False) -> Exception:
    """The exception to raise in place of an error of the core."""
    text = str(error)
    if of_run and any(part in text for part in ("log2_scale", "floating point", "floating-point exception", "aborted")):
        return poplar_application_runtime_error(text)
    if "out of tile memory" in text:
        return OutOfMemoryException(text)
    unknown = [f"{domain}.{kind}:{version}" for domain, kind, version in _UNKNOWN.findall(text)]
    return popart_exception(f"no class for {', '.join(unknown)}: {text}" if unknown else text)

"""What one compilation of a wrapper made."""

from __future__ import annotations

import collections.abc
import typing

import torch

from poptorch import poptorch_core
from poptorch._impl.structures import Signature


class Compiled(typing.NamedTuple):
    """Replaced as a whole: a call in another thread sees one compilation or the other."""

    executable: poptorch_core.Executor
    captured: poptorch_core.Captured
    signature: Signature
    argument_names: list[str]
    example_inputs: tuple[list[str], list[typing.Any], list[str | None]]
    result_structure: typing.Any
    states: dict[str, torch.Tensor]  # on the host
    on_meta: tuple[str, ...]  # what has no values, "the parameter 'fc.weight'": a dry run (dry_run.py)
    call: collections.abc.Callable[[tuple[object, ...]], typing.Any] | None  # the native one for flat tensor arguments

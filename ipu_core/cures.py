"""What a front end advises its users to do about errors of the core: texts by reason, with the error's parameters as fields."""

from collections.abc import Mapping
from typing import Any


def with_cure(error: Any, cures: Mapping[str, str]) -> str:
    """The message of an `ipu_core.Error`, and what the front end advises."""
    cure = cures.get(error.reason)
    return str(error) if cure is None else f"{error}\n  try:      {cure.format(**error.parameters)}"

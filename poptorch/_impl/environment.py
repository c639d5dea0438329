"""Environment variables that are numbers."""

import os


def integer(name: str, default: int) -> int:
    """Value (int) of a variable, `default` when it is not set or empty; ValueError when it is no integer."""
    text = os.environ.get(name)
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"the environment variable {name} must be an integer, got {text!r}") from None


def flag(name: str) -> bool:
    """Is this variable a number other than 0? ValueError for anything that is no integer."""
    return integer(name, 0) != 0

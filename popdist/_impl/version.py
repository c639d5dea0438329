"""The version of the distribution that popdist is part of."""

import importlib.metadata
import pathlib
import re


def of_poptorch() -> str:
    """As the installed distribution or, in a source tree, the package says; torch is not imported."""
    source = pathlib.Path(__file__).resolve().parents[2] / "poptorch" / "__init__.py"
    found = re.search(r'^__version__ = "([^"]+)"', source.read_text(), re.M) if source.exists() else None
    return found[1] if found else importlib.metadata.version("poptorch")

"""The distributions `poptorch` and `ipu-core` hold the same files: only one of them may be installed."""

from __future__ import annotations

import functools
import pathlib


@functools.cache
def check(site: pathlib.Path = pathlib.Path(__file__).resolve().parent.parent) -> None:
    """Raises ImportError if both are installed in the folder."""
    if any(site.glob("poptorch-*.dist-info")) and any(site.glob("ipu_core-*.dist-info")):
        raise ImportError(
            f"poptorch and ipu-core are both installed in {site}: they hold the same files, and the one that was installed first is "
            "damaged. Remove both, then install the one you want: pip uninstall -y poptorch ipu-core"
        )

"""Sessions, as `popart.session` has them."""

from __future__ import annotations

from typing import Any

import numpy

from popart._impl.exceptions import OutOfMemoryException
from popart._impl.sessions.executable_files import makedirsAndCheckWritable
from popart._impl.sessions.inference import InferenceSession
from popart._impl.sessions.training import TrainingSession

__all__ = ["InferenceSession", "OutOfMemoryException", "TrainingSession", "makedirsAndCheckWritable"]


def _initAnchorArrays(sess: Any) -> dict[str, numpy.ndarray]:
    """The arrays of a session's anchors, as its initAnchorArrays makes them."""
    arrays: dict[str, numpy.ndarray] = sess.initAnchorArrays()
    return arrays

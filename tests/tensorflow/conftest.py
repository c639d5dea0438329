"""The tests of the TensorFlow front end, with PYTHONPATH=$PWD:$PWD/tensorflow_ipu/src in an environment with TensorFlow (.venv-tf).
Where there is no TensorFlow they are left out (tests/conftest.py says so)."""

import importlib.util
import os
import sys

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # the first import of TensorFlow reads it
HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None
if not HAS_TENSORFLOW:
    collect_ignore_glob = ["*"]
elif "OverlayFinder" not in [getattr(finder, "__name__", "") for finder in sys.meta_path]:
    raise pytest.UsageError("tests/tensorflow needs PYTHONPATH=$PWD:$PWD/tensorflow_ipu/src")
else:  # TensorFlow draws from a global generator when it is imported, which test modules must not
    from tensorflow.python import ipu  # noqa: F401

    from devices import configured, recorder  # noqa: F401

"""In the source tree, with PYTHONPATH=$PWD:$PWD/tensorflow_ipu/src: finds the modules of tensorflow_ipu/overlay inside the installed
TensorFlow, where the wheel puts them. No part of the wheel; Python imports a module of this name when it starts."""

import importlib.machinery
import pathlib
import sys

OVERLAY = pathlib.Path(__file__).resolve().parent.parent / "overlay"


class OverlayFinder:
    """Asked when no other finder knows a module."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        parent, _, last = name.rpartition(".")
        folder = OVERLAY.joinpath(*parent.split("."))
        if not name.startswith("tensorflow.") or not ((folder / last).is_dir() or (folder / f"{last}.py").is_file()):
            return None
        return importlib.machinery.PathFinder.find_spec(name, [str(folder)])


sys.meta_path.append(OverlayFinder)

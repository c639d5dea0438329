"""Builds the native module with CMake against the installed torch, and packages it with the Python sources."""

import os
import pathlib
import re
import subprocess
import sys

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
ROOT = pathlib.Path(__file__).resolve().parent


def check_torch():
    """Stops with one sentence when torch is missing or of another release."""
    try:
        import torch
    except ImportError:
        sys.exit(
            "poptorch is built against an installed torch: run `pip install torch==2.13.0`, then "
            "`pip install --no-build-isolation .`"
        )
    if not torch.__version__.startswith("2.13."):
        sys.exit(
            f"poptorch needs torch 2.13, but torch {torch.__version__} is installed: run `pip install torch==2.13.0`"
        )


class CMakeBuild(build_ext):
    """Runs CMake once; the shared libraries land in the folders of the packages."""

    def build_extension(self, extension):
        check_torch()
        build = ROOT / "build" / "wheel"
        output = pathlib.Path(self.get_ext_fullpath(extension.name)).resolve().parent
        subprocess.run(
            [
                "cmake",
                "-S",
                str(ROOT),
                "-B",
                str(build),
                "-G",
                "Ninja",
                "-DCMAKE_BUILD_TYPE=Release",
                "-DIPU_TESTS=OFF",
                "-DIPU_UNITS=ON",
                f"-DPython3_EXECUTABLE={sys.executable}",
                f"-DIPU_MODULE_DIR={output}",
            ],
            check=True,
        )
        subprocess.run(["ninja", "-C", str(build), "poptorch_core", "ipu_core"], check=True)


version = re.search(r'^__version__ = "([^"]+)"', (ROOT / "poptorch" / "__init__.py").read_text(), re.M)[1]
setup(
    version=version.replace("-open.", "+open."),
    packages=find_packages(
        include=[f"{name}{rest}" for name in ("poptorch", "popdist", "popxl", "popart") for rest in ("", ".*")] + ["ipu_core"]
    ),
    py_modules=["popart_core"],
    package_data={"poptorch": ["py.typed", "*.pyi"], "popdist": ["py.typed"], "popxl": ["py.typed"]},
    ext_modules=[Extension("poptorch.poptorch_core", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)

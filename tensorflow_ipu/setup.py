"""Packages ipu_tensorflow with the op library that scripts/build put there, and the modules of overlay/ inside TensorFlow's folder."""

import pathlib
import re

from setuptools import Distribution, setup

HERE = pathlib.Path(__file__).resolve().parent


class WithLibrary(Distribution):
    """The wheel is for one platform."""

    def has_ext_modules(self):
        return True


def packages_below(top, folder):
    """Package → its folder."""
    files = sorted((HERE / folder).rglob("__init__.py"))
    names = {file.parent.relative_to(HERE / folder).parts: file.parent.relative_to(HERE).as_posix() for file in files}
    return {".".join((*top, *parts)): path for parts, path in names.items()}


# Those of `tensorflow` and `tensorflow.python` are TensorFlow's own.
packages = packages_below(("tensorflow", "python", "ipu"), "overlay/tensorflow/python/ipu")
packages |= packages_below(("tensorflow", "compiler", "plugin"), "overlay/tensorflow/compiler/plugin")
packages |= packages_below(("ipu_tensorflow",), "src/ipu_tensorflow")
version = re.search(r'^__version__ = "([^"]+)"', (HERE / "src/ipu_tensorflow/__init__.py").read_text(), re.M)[1]
setup(
    version=version.replace("-open.", "+open."),
    packages=list(packages),
    package_dir=packages,
    package_data={"ipu_tensorflow": ["*.so"]},
    distclass=WithLibrary,
)

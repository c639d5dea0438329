"""Builds the native modules with CMake, against the installed torch unless IPU_TORCH=OFF, and packages them with the Python sources
(scripts/distributions.py)."""

import os
import pathlib
import re
import subprocess
import sys

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "scripts"))
import distributions
from needs import lacking

WANTED = distributions.wanted(os.environ)
HAS_TORCH = WANTED is distributions.POPTORCH

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
# What pip installed for this Python comes first, also where its environment is not active.
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
# pip asks for metadata before it downloads what the package depends on, and before it builds.
BUILDING = {"dist_info", "bdist_wheel", "editable_wheel", "build", "build_ext", "install", "develop"}
if BUILDING & set(sys.argv) and (message := lacking(HAS_TORCH)):
    sys.exit(message)


def run(what, *command):
    """Runs a command, which says itself why it fails."""
    if subprocess.run(command).returncode != 0:
        sys.exit(f"{WANTED.name} was not built: {what} failed, as said above")


class CMakeBuild(build_ext):
    """Runs CMake once; the shared libraries land in the folders of the packages."""

    def build_extension(self, extension):
        build = ROOT / "build" / ("wheel" if HAS_TORCH else "core_wheel")
        output = pathlib.Path(self.get_ext_fullpath(extension.name)).resolve().parent
        run(
            "configuring",
            "cmake",
            "-S",
            str(ROOT),
            "-B",
            str(build),
            "-G",
            "Ninja",
            "-DCMAKE_BUILD_TYPE=Release",
            "-DIPU_TESTS=OFF",
            f"-DIPU_TORCH={'ON' if HAS_TORCH else 'OFF'}",
            "-DIPU_CORE_MODULE=ON",
            "-DIPU_UNITS=ON",
            f"-DPython3_EXECUTABLE={sys.executable}",
            f"-DIPU_MODULE_DIR={output}",
        )
        jobs = os.environ.get("JOBS") or str(len(os.sched_getaffinity(0)))
        progress = str(ROOT / "scripts" / "progress.py")
        run("compiling", sys.executable, progress, "--jobs", jobs, str(build), *WANTED.targets)


version = re.search(r'^__version__ = "([^"]+)"', (ROOT / "poptorch" / "__init__.py").read_text(), re.M)[1]
setup(
    name=WANTED.name,
    description=WANTED.description,
    long_description=(ROOT / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="MIT",
    python_requires=">=3.9",
    install_requires=WANTED.requirements,
    entry_points={"console_scripts": WANTED.commands},
    version=version.replace("-open.", "+open."),
    packages=find_packages(include=WANTED.packages),
    py_modules=["popart_core"],
    package_data=WANTED.package_data,
    ext_modules=[Extension(WANTED.module, sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)

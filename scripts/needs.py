"""What building the package needs and this machine lacks, all of it in one message. For setup.py."""

import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parent.parent
TORCH = "2.13"
OLDEST_GCC = 12
OLDEST_CMAKE = (3, 24)


def header_packages():
    """(header, Debian package with it) of each library."""
    rows = [line.split() for line in (ROOT / "scripts" / "packages.txt").read_text().splitlines() if line[:1] != "#"]
    return [(row[2], row[0]) for row in rows if len(row) == 3]


def output_of(command, text=""):
    """What the command prints; nothing if it cannot be run."""
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True).stdout
    except OSError:
        return ""


def find_compiler():
    """The command that CMake takes, too; nothing if there is none."""
    if os.environ.get("CXX"):
        return shlex.split(os.environ["CXX"])
    return next(([name] for name in ("c++", "g++", "clang++") if shutil.which(name)), [])


def include_folders():
    """Where CMake looks beside the compiler's own folders."""
    listed = os.environ.get("CMAKE_INCLUDE_PATH", "").split(os.pathsep)
    prefixes = os.environ.get("CMAKE_PREFIX_PATH", "").split(os.pathsep)
    prefixes += [os.path.dirname(folder.rstrip("/")) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    return [
        folder for folder in (*listed, *(f"{prefix}/include" for prefix in prefixes if prefix)) if os.path.isdir(folder)
    ]


# Each of these gives a list of (what is lacking, the package with it).


def lacking_torch():
    try:
        import torch
    except ImportError:
        why = f"torch {TORCH} is not installed for {sys.executable}, or pip hides it without --no-build-isolation"
    else:
        if torch.__version__.startswith(f"{TORCH}."):
            return []
        why = f"torch {torch.__version__} is installed; this version of poptorch is built against torch {TORCH}"
    return [(why, "torch==2.13.0")]


def lacking_pybind():
    if importlib.util.find_spec("pybind11") is None:
        return [(f"pybind11 is not installed for {sys.executable}", "pybind11")]
    return []


def lacking_tools():
    found = []
    version = re.search(r"version (\d+)\.(\d+)", output_of(["cmake", "--version"]))
    if version is None:
        found.append(("CMake is not installed", "'cmake>=3.24'"))
    elif (int(version[1]), int(version[2])) < OLDEST_CMAKE:
        found.append((f"CMake {version[1]}.{version[2]} is too old: 3.24 or newer is needed", "'cmake>=3.24'"))
    if not output_of(["ninja", "--version"]):
        found.append(("ninja is not installed", "ninja"))
    return found


def lacking_compiler_and_headers():
    """The compiler itself is asked which headers it finds; if there is none, the folders of the system are looked into."""
    compiler, folders = find_compiler(), include_folders()
    headers = header_packages()
    probe = "\n".join(
        ["#ifdef __clang__", "clang", "#else", "gcc __GNUC__", "#endif"]
        + [f"#if __has_include(<{header}>)\nfound {header}\n#endif" for header, _ in headers]
    )
    command = [*compiler, *(f"-I{folder}" for folder in folders), "-E", "-P", "-x", "c++", "-"]
    told = output_of(command, probe).splitlines() if compiler else []
    found = []
    if not told:
        why = (
            f"the C++ compiler `{shlex.join(compiler)}` does not run" if compiler else "a C++ compiler is not installed"
        )
        found.append((why, "g++"))
        known = {
            header
            for header, _ in headers
            for folder in ("/usr/include", *folders)
            if os.path.exists(f"{folder}/{header}")
        }
    else:
        gcc = re.fullmatch(r"gcc (\d+)", told[0])
        if gcc and int(gcc[1]) < OLDEST_GCC:
            found.append(
                (f"g++ {gcc[1]} is too old: g++ {OLDEST_GCC} or newer is needed (CXX names it)", f"g++-{OLDEST_GCC}")
            )
        known = {line.removeprefix("found ") for line in told}
    found += [(f"{header} is not installed", package) for header, package in headers if header not in known]
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        found.append((f"Python.h is not installed for {sys.executable}", "python{}.{}-dev".format(*sys.version_info)))
    return found


def lacking(has_torch=True):
    """The message; nothing if all is there. `has_torch`: the package is the one with torch."""
    of_pip = [*(lacking_torch() if has_torch else lacking_pybind()), *lacking_tools()]
    of_apt = lacking_compiler_and_headers()
    if not of_pip and not of_apt:
        return ""
    cures = [
        f"{install} {' '.join(package for _, package in found)}"
        for install, found in (("apt-get install", of_apt), ("pip install", of_pip))
        if found
    ]
    name, again = ("poptorch", "pip install --no-build-isolation .") if has_torch else ("ipu-core", "IPU_TORCH=OFF pip install .")
    lines = [f"{name} cannot be built:", *(f"  {why}" for why, _ in (*of_pip, *of_apt))]
    return "\n".join([*lines, "Run:", *(f"  {cure}" for cure in (*cures, again))])

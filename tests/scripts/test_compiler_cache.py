"""A second clone in another folder takes its objects from the compiler cache: no command and no unit names the folder."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = pathlib.Path(sys.executable).parent
BUILT_FROM = ("CMakeLists.txt", "CMakePresets.json", "cmake", "csrc", "scripts")

pytestmark = pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is not installed")


class Clone:
    """A copy of what a build reads, with a build folder."""

    def __init__(self, folder, preset, cache):
        folder.mkdir()
        for name in BUILT_FROM:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, folder / name)
        self.build = folder / "build" / preset
        self.environment = {**os.environ, "CCACHE_DIR": str(cache), "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}"}
        options = ["-DIPU_TESTS=OFF", "-DIPU_UNITS=ON", f"-DPython3_EXECUTABLE={sys.executable}"]
        self.run("cmake", "-S", folder, "-B", self.build, "--preset", preset, *options, cwd=folder)

    def run(self, *command, **keywords):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, **keywords)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def smallest_unit(self, target):
        """The object of the unit of this target with the fewest lines."""

        def lines(unit):
            return sum((ROOT / name).read_text().count("\n") for name in re.findall(r'#include "(.+)"', unit.read_text()))

        units = (self.build / "CMakeFiles" / f"{target}.dir" / "Unity").glob("*.cxx")
        return f"{min(units, key=lines).relative_to(self.build)}.o"

    def translate(self, *objects):
        self.run("ninja", "-C", self.build, *objects)

    def counts(self):
        """(objects taken from the cache, objects that were not there) so far."""
        stats = dict(line.split("\t") for line in self.run("ccache", "--print-stats").splitlines())
        return int(stats["direct_cache_hit"]) + int(stats["preprocessed_cache_hit"]), int(stats["cache_miss"])


def translated_twice(tmp_path, preset, targets, also=()):
    """What the cache counted after the first and after the second of two clones."""
    counted = []
    for name in ("one", "another folder of a longer name"):
        clone = Clone(tmp_path / name, preset, tmp_path / "cache")
        clone.translate(*also, *(clone.smallest_unit(target) for target in targets))
        counted.append(clone.counts())
    return counted


@pytest.mark.parametrize("preset", ["core", *(pytest.param(p, marks=pytest.mark.slow) for p in ("asan", "tsan"))])
def test_units_of_a_second_clone_come_from_the_cache(tmp_path, preset):
    assert translated_twice(tmp_path, preset, ["ipu_step", "ipu_compiler"]) == [(0, 2), (2, 2)]


@pytest.mark.slow
def test_units_that_see_torch_and_their_precompiled_header_come_from_the_cache(tmp_path):
    header = "CMakeFiles/poptorch_core.dir/cmake_pch.hxx.gch"
    assert translated_twice(tmp_path, "release", ["poptorch_core", "ipu_core"], also=[header]) == [(0, 3), (3, 3)]

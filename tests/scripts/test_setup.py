"""scripts/setup, on a machine of pretended tools: what it installs, says, and does when a tool fails."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = [
    line.split() for line in (ROOT / "scripts" / "packages.txt").read_text().splitlines() if not line.startswith("#")
]
TO_BUILD = [name for name, purpose, *_ in PACKAGES if purpose == "build"]


class Machine:
    def __init__(self, folder):
        self.folder, self.calls = folder, folder / "calls"
        for made in ("scripts", ".venv/bin", ".venv-tf/bin", "bin"):
            (folder / made).mkdir(parents=True)
        for script in ("setup", "packages.txt", *(f"requirements{kind}.txt" for kind in ("", "-test", "-tensorflow"))):
            shutil.copy(ROOT / "scripts" / script, folder / "scripts")
        self.calls.touch()
        self.tool("bin/id", "echo 0")
        self.tool("bin/apt-get", f'echo "apt-get $*" >> {self.calls}')
        self.tool(".venv/bin/pip", "")
        self.tool(".venv-tf/bin/pip", "")
        self.pip("echo 'WARNING: something odd'")
        self.installed([name for name, *_ in PACKAGES])

    def tool(self, name, command):
        (self.folder / name).write_text(f"#!/usr/bin/env bash\n{command}\n")
        (self.folder / name).chmod(0o755)

    def pip(self, install, listed="torch 2.13.0"):
        command = f'case "$*" in *list*) echo "{listed}";; *compileall*) exit 1;; *) echo "$*" >> {self.calls}; {install};; esac'
        self.tool(".venv/bin/python", command)
        self.tool(".venv-tf/bin/python", command)

    def installed(self, names):
        rows = "".join(f"install ok installed {name}\\n" for name in names)
        self.tool("bin/dpkg-query", f'printf "{rows}deinstall ok config-files mold\\n"')

    def setup(self, *arguments, **environment):
        self.calls.write_text("")
        return subprocess.run(
            [self.folder / "scripts" / "setup", *arguments],
            env={**os.environ, "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}", **environment},
            capture_output=True,
            text=True,
        )

    def called(self):
        return self.calls.read_text().splitlines()


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_the_first_run_says_what_it_installs_and_the_second_does_nothing(machine):
    first = machine.setup()
    assert first.returncode == 0 and first.stderr == ""
    said = re.sub(r"took \d+ s", "took N s", first.stdout).splitlines()
    assert said == ["Installing torch 2.13.0 (CPU) and 9 packages into .venv, to build and run", "  took N s"]
    torch, rest = machine.called()
    assert torch.endswith("torch==2.13.0") and rest.endswith("-r scripts/requirements.txt")
    second = machine.setup()
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert machine.called() == []


def test_what_tests_and_lint_need_is_installed_for_them_alone(machine):
    assert machine.setup().returncode == 0
    run = machine.setup("test")
    assert "packages into .venv, to test and lint" in run.stdout
    assert [call.split()[-1] for call in machine.called()] == ["scripts/requirements-test.txt"]
    assert machine.setup("test").stdout == ""
    assert machine.setup("tests").returncode == 2


def test_tensorflow_gets_an_environment_of_its_own_without_torch(machine):
    machine.installed([])
    run = machine.setup("--tensorflow")
    assert run.returncode == 0 and run.stdout.startswith("Installing TensorFlow 2.21.0 into .venv-tf"), run.stderr
    requirements, keras = machine.called()  # no system packages, nothing into .venv
    assert requirements.endswith("tensorflow-cpu==2.21.0 numpy pytest pytest-xdist==3.8.0 hypothesis")
    assert keras.endswith("--no-deps tf-keras==2.21.0")
    listed = (machine.folder / "scripts" / "requirements-tensorflow.txt").read_text()
    assert "tensorflow-cpu==2.21.0\n" in listed and "torch" not in listed
    assert machine.setup("--tensorflow").stdout == "" and machine.called() == []
    (machine.folder / ".venv-tf" / "bin" / "pip").unlink()
    machine.tool("bin/python3", f'echo "$*" >> {machine.calls}; [ "$1" != -V ] || echo Python 3.11.2')
    machine.setup("--tensorflow")
    assert "-m venv .venv-tf" in machine.called()


@pytest.mark.parametrize(
    "version, packages", [("2.15.1", "tensorflow-cpu==2.15.1 numpy"), ("newest", "tensorflow-cpu numpy")]
)
def test_another_tensorflow_gets_another_environment(machine, version, packages):
    machine.installed([])
    shutil.copytree(machine.folder / ".venv-tf", machine.folder / f".venv-tf-{version}")
    run = machine.setup("--tensorflow", version)
    assert run.returncode == 0 and f"into .venv-tf-{version}, " in run.stdout, run.stderr
    assert packages in machine.called()[0]
    assert machine.setup("--tensorflow", version).stdout == "" and machine.called() == []


def test_changed_requirements_are_installed_again(machine):
    assert machine.setup().returncode == 0
    with open(machine.folder / "scripts" / "requirements.txt", "a") as file:
        file.write("another\n")
    assert "and 10 packages" in machine.setup().stdout


def test_missing_system_packages_are_installed_by_root(machine):
    machine.setup()
    machine.installed(name for name in TO_BUILD if name not in ("mold", "libfmt-dev"))
    run = machine.setup()
    assert run.stdout.splitlines()[0] == "Installing with apt, to build and run: mold libfmt-dev"
    assert machine.called() == ["apt-get update -qq", "apt-get install -y -qq mold libfmt-dev"]
    machine.setup("test")
    assert machine.called()[1].endswith("mold libfmt-dev clang-format")


def test_who_is_not_root_gets_the_command(machine):
    machine.tool("bin/id", "echo 1000")
    machine.installed(name for name in TO_BUILD if name != "mold")
    run = machine.setup()
    assert run.returncode == 1 and machine.called() == []
    assert run.stderr.splitlines()[-1] == "  sudo apt-get install mold"


def test_apt_that_fails_ends_the_setup_with_what_it_said(machine):
    machine.installed(name for name in TO_BUILD if name != "mold")
    machine.tool("bin/apt-get", "echo 'E: no such package'; exit 100")
    run = machine.setup()
    assert run.returncode == 100
    assert run.stderr.splitlines() == [
        "E: no such package",
        "This failed, as said above: Installing with apt, to build and run: mold",
    ]


@pytest.mark.parametrize("failing", ["torch==2.13.0", "requirements.txt"])
def test_pip_that_fails_ends_the_setup_with_what_it_said_and_runs_again(machine, failing):
    machine.pip(f"case \"$*\" in *{failing}) echo 'ERROR: no disk'; exit 4;; esac")
    run = machine.setup()
    assert run.returncode == 4
    assert run.stderr.splitlines()[0] == "ERROR: no disk"
    machine.pip("")
    assert machine.setup().returncode == 0 and len(machine.called()) == 2


def test_torch_for_cuda_is_refused(machine):
    machine.pip("", listed="nvidia-cublas 13")
    run = machine.setup()
    assert run.returncode == 1 and "A CUDA build of torch was installed" in run.stderr


def test_a_step_that_takes_long_says_what_it_is_at(machine):
    """pip goes on here only when a line about it has been seen."""
    seen = machine.folder / "seen"
    machine.pip(f"echo 'Downloading torch'; echo 'WARNING: odd'; until [ -e {seen} ]; do sleep 0.01; done")
    with subprocess.Popen(
        [machine.folder / "scripts" / "setup"],
        env={**os.environ, "PATH": f"{machine.folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "SETUP_EVERY": "0.05"},
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert any(re.fullmatch(r"  \d+ s so far; Downloading torch\n", line) for line in run.stdout)
        seen.touch()
        assert run.stdout.read().splitlines()[-1].startswith("  took ")
    assert run.returncode == 0


@pytest.mark.parametrize("packages", ["-venv -dev", None])
def test_an_environment_is_made_with_debians_python_only_when_its_packages_are_there(machine, packages):
    machine.installed(TO_BUILD)
    (machine.folder / ".venv" / "bin" / "pip").unlink()
    machine.tool("bin/readlink", "echo /usr/bin/python3.11" if packages else "echo /opt/python3.11")
    machine.tool("bin/python3", f'echo "$*" >> {machine.calls}; [ "$1" != -V ] || echo Python 3.11.2')
    run = machine.setup()
    assert run.returncode == 0, run.stderr
    wanted = (
        ["apt-get update -qq", "apt-get install -y -qq python3.11 python3.11-venv python3.11-dev"] if packages else []
    )
    assert [call for call in machine.called() if call.startswith("apt-get")] == wanted
    assert "-m venv .venv" in machine.called()
    assert "Making .venv with Python 3.11.2\n" in run.stdout


def test_every_package_that_cmake_asks_for_is_in_the_list():
    asked = {
        package
        for path in [*(ROOT / "cmake").glob("*.cmake"), ROOT / "CMakeLists.txt"]
        for package in re.findall(
            r"apt-get install ([a-z0-9+-]+)|ipu_require_headers\(\w+ \S+ \S+ ([\w-]+)\)", path.read_text()
        )
        for package in package
        if package
    }
    assert len(asked) >= 8
    assert asked - {"g++-12"} <= {name for name, *_ in PACKAGES}

"""Forged executable files for the tests: a sound program and any model part under sound checksums; and children to load them in."""

import pathlib
import textwrap

import torch
from python_programs import run_program

import poptorch
from poptorch import poptorch_core
from poptorch._impl.files import unpickler
from poptorch._impl.session.executor import state_of

WRITTEN = {"poptorch_version": poptorch.__version__}


def contents_of(executor):
    """The dict of the model part that `executor.save` would write."""
    state = state_of(executor)
    link = state.optimizer_link
    contents = {
        "version": poptorch.__version__,
        "training": state.training,
        "options": state.options.clone(),
        "inputs": state.compiled.example_inputs,
        "groupings": state.groupings,
        "rng_state": None,
        "model": state.user_model,
    }
    if link is not None:
        contents |= {"optimizer": link.optimizer, "optimizer_state": link.host.snapshot()}
    return contents


def forge(executor, path, **changes):
    """A file of a compiled wrapper whose model part has other values. Returns the path."""
    model, storages = unpickler.write({**contents_of(executor), **changes})
    return forge_bytes(executor, path, model, storages)


def forge_bytes(executor, path, model, storages=()):
    """The same with any bytes as the model part."""
    poptorch_core.save_executable(executor._executable, str(path), WRITTEN, model, list(storages))
    return path


def storages_of(path):
    return poptorch_core.ExecutableFile(str(path)).storages()


def in_a_child(code, *arguments, timeout=240, memory=None, cwd=None):
    """Standard output of a Python process that knows poptorch and the test models.

    Args:
        memory: most bytes of address space, beyond what importing takes.
        timeout: seconds; the test fails when they are over.
    """
    prologue = "import sys\nimport torch, models\nimport poptorch\nimport hostile\n"
    if memory is not None:
        prologue += (
            "import resource\n"
            "taken = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
            f"resource.setrlimit(resource.RLIMIT_AS, (taken + {memory},) * 2)\n"
        )
    result = run_program(prologue + textwrap.dedent(code), *arguments, timeout=timeout, cwd=cwd)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*"))


class Linear(torch.nn.Module):
    """A small model whose class the loading process knows."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


def predictor(model=None, options=None):
    """A compiled inference wrapper."""
    torch.manual_seed(0)
    executor = poptorch.inferenceModel((model or Linear()).eval(), options or quiet())
    executor.compile(torch.zeros(2, 4))
    return executor

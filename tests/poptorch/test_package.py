"""Installing and importing: what changes, and what does not."""

import enum
import subprocess
import sys

import pytest
import torch
from python_programs import run_program

import poptorch


@pytest.mark.tiny
def test_program_that_does_not_import_poptorch_sees_plain_torch():
    result = run_program(
        "import torch; assert torch._C._get_privateuse1_backend_name() == 'privateuseone'; "
        "assert torch.accelerator.current_accelerator() is None; assert not hasattr(torch, 'ipu')"
    )
    assert result.returncode == 0, result.stderr


def test_import_makes_the_ipu_device_known():
    assert torch.device("ipu").type == "ipu" and torch.ipu.is_available()
    assert torch.zeros(2).is_ipu is False


@pytest.mark.shows("ipuHardwareIsAvailable", "ipuHardwareVersion", "poptorch_core.ipuHardwareVersion")
def test_hardware_queries_describe_the_emulated_system(monkeypatch):
    assert poptorch.ipuHardwareIsAvailable() and poptorch.ipuHardwareIsAvailable(16)
    assert not poptorch.ipuHardwareIsAvailable(17)
    for system, version in (("pod4", 2), ("bow-pod16", 21), ("mk1-16", 1)):
        result = run_program(
            f"import os; os.environ['POPTORCH_EMULATED_SYSTEM'] = '{system}'; "
            "import poptorch; print(poptorch.ipuHardwareVersion())"
        )
        assert result.stdout.strip() == str(version), result.stderr
    monkeypatch.setenv("POPTORCH_IPU_MODEL", "1")
    assert not poptorch.ipuHardwareIsAvailable()
    with pytest.raises(AssertionError):
        poptorch.ipuHardwareVersion()


def test_the_emulated_system_can_be_a_machine_file(tmp_path):
    path = tmp_path / "desk.json"
    path.write_text('{"inherits": "mk1-16", "ipus": 2}')
    result = run_program(
        f"import os; os.environ['POPTORCH_EMULATED_SYSTEM'] = {str(path)!r}; import poptorch; "
        "print(poptorch.ipuHardwareVersion(), poptorch.ipuHardwareIsAvailable(3))"
    )
    assert result.stdout.split() == ["1", "False"], result.stderr


def test_unknown_system_lists_the_known_ones():
    result = run_program(
        "import os; os.environ['POPTORCH_EMULATED_SYSTEM'] = 'pod3'; import poptorch; poptorch.ipuHardwareVersion()"
    )
    assert result.returncode != 0 and "pod16" in result.stderr and "pod3" in result.stderr


def test_set_log_level_takes_names_and_numbers_of_levels_only():
    poptorch.setLogLevel("DEBUG")
    poptorch.setLogLevel(3)
    with pytest.raises(ValueError, match="DEBUG, ERR, INFO, OFF, TRACE and WARN"):
        poptorch.setLogLevel("LOUD")
    with pytest.raises(ValueError, match="Invalid log level"):
        poptorch.setLogLevel(5)


def test_import_sets_the_fault_handler_the_log_level_and_the_excepthook():
    result = run_program(
        "import os, sys, logging, faulthandler; import poptorch; assert os.environ['RDMAV_FORK_SAFE'] == '1'; "
        "assert faulthandler.is_enabled(); assert sys.excepthook is not sys.__excepthook__; "
        "assert logging.getLogger('poptorch::python').level == logging.WARNING; raise ValueError('shown')"
    )
    assert (
        "[poptorch::python] [critical] Uncaught ValueError: shown\nTraceback (most recent call last):" in result.stderr
    )
    assert result.stderr.count("Traceback") == 1 and result.stderr.endswith("\nValueError: shown\n")


@pytest.mark.shows("poptorchAtExit")
def test_after_the_end_errors_of_operations_have_no_class_of_this_package():
    result = run_program(
        "import torch, poptorch\n"
        "def kind():\n"
        "    try:\n"
        "        torch.zeros(2, device='ipu') + 1\n"
        "    except Exception as error:\n"
        "        assert 'operation outside a model' in str(error)\n"
        "        return type(error).__name__\n"
        "before = kind()\n"
        "poptorch.poptorchAtExit()\n"
        "print(before, kind())\n"
    )
    assert result.stdout == "Error RuntimeError\n", result.stderr


def test_what_a_failed_child_process_wrote_is_in_the_log():
    result = run_program(
        "import poptorch, subprocess, sys; "
        "subprocess.run([sys.executable, '-c', 'import sys; sys.exit(\"the child says why\")'], check=True, "
        "capture_output=True)"
    )
    assert "[critical] Uncaught CalledProcessError" in result.stderr
    assert result.stderr.endswith("returned non-zero exit status 1.\nthe child says why\n\n")


def test_import_frees_locks_of_progress_bars_and_leaves_the_testing_module_alone():
    result = run_program(
        "import sys, poptorch, tqdm; assert tqdm.tqdm.get_lock().locks == []; "
        "assert 'poptorch.testing' not in sys.modules; assert poptorch.testing.allclose([], [])"
    )
    assert result.returncode == 0, result.stderr


def test_profiling_channels_do_nothing_without_the_tracer():
    channel = poptorch.profiling.Channel("mine")
    with channel.tracepoint("inside"):
        pass
    items = [1]
    assert channel.instrument(items, "append", "pop") is items
    with pytest.raises(AttributeError):
        channel.instrument(items, "push")


@pytest.mark.shows("createPoptorchError")
def test_create_error_builds_a_python_side_error():
    error = poptorch.createPoptorchError("text")
    assert isinstance(error, poptorch.Error)
    assert (str(error), error.message, error.type, error.location) == (
        "'poptorch_py_error': text",
        "text",
        "poptorch_py_error",
        "",
    )
    assert issubclass(poptorch.RecoverableError, poptorch.Error) and issubclass(
        poptorch.UnrecoverableError, poptorch.Error
    )


@pytest.mark.shows("testing.allclose", "testing")
def test_allclose_of_structures():
    from poptorch.testing import allclose

    a = torch.ones(2)
    assert allclose([a, (a, a)], [a, (a, a.clone())])
    assert not allclose([a], (a,)) and not allclose([a], [a, a]) and not allclose(a, a + 1)


@pytest.mark.shows("enums", "ops", "options")
def test_modules_have_the_names_of_the_package():
    kinds = [
        kind for kind in vars(poptorch.enums).values() if isinstance(kind, type) and issubclass(kind, enum.IntEnum)
    ]
    assert len(kinds) > 10 and all(
        getattr(poptorch, kind.__name__) is kind for kind in kinds if kind is not enum.IntEnum
    )
    options = poptorch.options.Options().outputMode(poptorch.enums.OutputMode.Sum).deviceIterations(2)
    with poptorch.ops.Block("outside a capture", ipu_id=3):
        result = poptorch.inferenceModel(lambda x: x * 3, options)(torch.tensor([1.0, 10.0]))
    assert result.tolist() == [33]


@pytest.mark.shows("BlockId")
def test_ids_of_blocks_are_texts():
    assert poptorch.BlockId is str


def test_compatibility_page_is_current():
    root = __import__("pathlib").Path(__file__).resolve().parents[2]
    result = subprocess.run(
        [sys.executable, root / "scripts" / "compatibility.py", "--check"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.shows("registerPreCompileHook", "registerPostCompileHook")
def test_compile_hooks_run_around_each_capture():
    seen = []
    before = poptorch.registerPreCompileHook(lambda: seen.append("before"))
    after = poptorch.registerPostCompileHook(lambda: seen.append("after"))
    try:
        poptorch.inferenceModel(lambda t: t + 1)(torch.ones(2))

        def fails(t):
            raise ValueError

        with pytest.raises(ValueError):
            poptorch.inferenceModel(fails)(torch.ones(2))
    finally:
        before.remove()
        after.remove()
    poptorch.inferenceModel(lambda t: t + 1)(torch.ones(2))
    assert seen == ["before", "after"] * 2
    with pytest.raises(RuntimeError):
        poptorch.registerPreCompileHook(3)


def test_capture_does_not_load_the_compilers_of_torch():
    result = run_program(
        "import sys, torch, poptorch; poptorch.inferenceModel(torch.nn.Linear(2, 2))(torch.ones(1, 2)); "
        "assert 'torch._dynamo' not in sys.modules and 'torch._inductor' not in sys.modules; "
        "assert torch._inductor.config is not None"
    )
    assert result.returncode == 0, result.stderr


def test_shape_rules_in_python_do_not_load_a_symbolic_algebra_package():
    result = run_program(
        "import sys, torch, poptorch\n"
        "class Net(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        y = torch.nn.functional.max_pool2d(x.flip(1), 2)\n"
        "        return y.argmax(1), x.mean((2, 3)), x.flip(2).amax(1)\n"
        "x = torch.randn(1, 3, 4, 4)\n"
        "results = poptorch.inferenceModel(Net())(x)\n"
        "assert 'sympy' not in sys.modules\n"
        "for ours, theirs in zip(results, Net()(x)):\n"
        "    torch.testing.assert_close(ours, theirs, check_dtype=False)\n"
        "assert torch.compile(Net(), backend='eager')(x)[0].shape == (1, 2, 2)\n"
        "from torch.fx.experimental.symbolic_shapes import ShapeEnv\n"
    )
    assert result.returncode == 0, result.stderr

"""Faults of the machine: the documented error, then the documented recovery; the page's restart loop runs."""

import gc
import inspect
import logging
import os
import pathlib
import re
import signal
import threading
import time

import pytest
import torch
from models import Mlp
from python_programs import run_program

import poptorch
import poptorch.testing

ROOT = pathlib.Path(__file__).resolve().parents[3]
ACTIONS = ("IPU_RESET", "LINK_RESET", "PARTITION_RESET", "FULL_RESET")


@pytest.fixture(autouse=True)
def no_model_of_other_tests_is_attached():
    gc.collect()


def model(ipus=1):
    return poptorch.inferenceModel(Mlp(ipus), poptorch.Options().deviceIterations(4))


def inputs():
    return Mlp.inputs(4, torch.Generator().manual_seed(1))[0]


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("step", ["kernel", "load", "push"])
@pytest.mark.shows("RecoverableError")
def test_recoverable_fault_names_its_action_and_the_recovery_works(action, step, idle_ipus):
    run, x = model(2), inputs()
    before = run(x)
    with poptorch.testing.faults(f"{action}@run=2,ipu=0,step={step}"):
        assert torch.equal(run(x), before)
        with pytest.raises(poptorch.RecoverableError) as raised:
            run(x)
        error = raised.value
        assert error.recovery_action == action and error.type == "poplar_recoverable_runtime_error"
        assert re.fullmatch(
            rf"device fault \[IPU-E413\]: IPU 0 stopped and needs {action}\n  at: IPU 0, instruction \d+ .*",
            error.message,
        )
        assert f"Recovery action required: {action}" in str(error) and "read:     docs/errors/E413.md" in str(error)
        with pytest.raises(poptorch.RecoverableError):  # nothing works until the reset
            run(x)
        run.detachFromDevice()
        if action != "IPU_RESET":
            with pytest.raises(poptorch.RecoverableError):
                run.attachToDevice()
            poptorch.testing.recover(action)
        run.attachToDevice()
        assert torch.equal(run(x), before)
    run.destroy()


def test_weaker_reset_is_not_enough_and_a_stronger_one_is(idle_ipus):
    run, x = model(), inputs()
    with poptorch.testing.faults("PARTITION_RESET@run=1"):
        with pytest.raises(poptorch.RecoverableError):
            run(x)
        with pytest.raises(poptorch.Error) as raised:
            poptorch.testing.recover("PARTITION_RESET")
        assert raised.value.message == (
            "IPUs are in use [IPU-E407]: PARTITION_RESET resets all IPUs, and 1 are attached. Call detachFromDevice() or "
            "destroy() on each model first"
        )
        run.detachFromDevice()
        with pytest.raises(poptorch.Error) as raised:
            poptorch.testing.recover("LINK_RESET")
        assert raised.value.message == (
            "reset is not enough [IPU-E407]: LINK_RESET was made, PARTITION_RESET is needed"
        )
        poptorch.testing.recover("FULL_RESET")
        run(x)
    with pytest.raises(poptorch.Error) as raised:
        poptorch.testing.recover("RESET")
    assert raised.value.message == (
        "unknown recovery action [IPU-E407]: 'RESET'; known are IPU_RESET, LINK_RESET, PARTITION_RESET, FULL_RESET"
    )


@pytest.mark.shows("UnrecoverableError")
def test_unrecoverable_fault_takes_the_system_out_of_service(idle_ipus):
    run, x = model(), inputs()
    with poptorch.testing.faults("unrecoverable@run=1"):
        with pytest.raises(poptorch.UnrecoverableError) as raised:
            run(x)
        assert raised.value.type == "poplar_unrecoverable_runtime_error"
        assert raised.value.message.startswith("device fault [IPU-E413]: IPU 0 does not answer\n  at: IPU 0")
        run.detachFromDevice()
        with pytest.raises(poptorch.UnrecoverableError):
            poptorch.testing.recover("FULL_RESET")
        with pytest.raises(poptorch.UnrecoverableError):
            model()(x)
    run(x)  # another system


def test_nested_blocks_keep_the_rules_around_them():
    run, x = model(), inputs()
    good = run(x)
    with poptorch.testing.faults("IPU_RESET@run=3"):
        with poptorch.testing.faults("error@run=1"):
            with pytest.raises(poptorch.Error, match="a fault was asked for"):
                run(x)
        assert torch.equal(run(x), good)
        with pytest.raises(poptorch.RecoverableError):
            run(x)
        run.detachFromDevice()
        run.attachToDevice()
    assert torch.equal(run(x), good)
    run.destroy()


def test_rules_of_the_environment_outlive_a_block():
    code = (
        "import torch, poptorch, poptorch.testing\n"
        "run = poptorch.inferenceModel(torch.nn.Linear(2, 2))\n"
        "x = torch.ones(1, 2)\n"
        "with poptorch.testing.faults(''):\n"
        "    run(x)\n"
        "try:\n"
        "    run(x)\n"
        "except poptorch.RecoverableError as error:\n"
        "    print(error.recovery_action)\n"
    )
    done = run_program(code, environment={"POPTORCH_FAULTS": "LINK_RESET@run=2"}, timeout=120)
    assert done.stdout.strip() == "LINK_RESET", done.stderr


def test_damaged_stream_data_is_an_error_and_not_a_result():
    run, x = model(), inputs()
    good = run(x)
    with poptorch.testing.faults("corrupt@run=1,stream=x"):
        with pytest.raises(poptorch.RecoverableError) as raised:
            run(x)
        assert raised.value.recovery_action == "LINK_RESET"
        assert raised.value.message.startswith(
            "device fault [IPU-E413]: data of stream 'x' arrived damaged\n  at: IPU 0"
        )
        run.detachFromDevice()
        poptorch.testing.recover("LINK_RESET")
        assert torch.equal(run(x), good)


def test_failed_allocation_is_an_error_and_the_next_attach_works():
    run, x = model(2), inputs()
    run.compile(x)
    run.detachFromDevice()
    with poptorch.testing.faults("allocation@ipu=1"):
        with pytest.raises(poptorch.Error) as raised:
            run(x)
        assert raised.value.message == (
            "out of host memory [IPU-E302]: the arena of IPU 1 could not be had (a fault was asked for). Attach again"
        )
        assert not run.isAttachedToDevice()
        run(x)


def test_slow_links_change_no_result():
    run, x = model(2), inputs()
    good = run(x)
    with poptorch.testing.faults("slow_link:50000@step=push"):
        began = time.monotonic()
        assert torch.equal(run(x), good)
        assert time.monotonic() - began >= 0.05  # one push at least was slow


def test_step_that_throws_stops_the_run_with_one_error_and_the_next_run_works():
    run, x = model(2), inputs()
    good = run(x)
    lines, first = inspect.getsourcelines(Mlp.chain)
    user_line = first + next(i for i, line in enumerate(lines) if "x = part(x)" in line)
    with poptorch.testing.faults("error@run=1,ipu=1,step=kernel"):
        with pytest.raises(poptorch.Error) as raised:
            run(x)
        assert re.fullmatch(
            r"execution failed \[IPU-E407\]: a fault was asked for\n  at: IPU 1, instruction \d+ \(kernel linear\), "
            rf"op %\w+ = linear, from \S*models.py:{user_line} \[parts.2.0\]",
            raised.value.message,
        )
        assert raised.value.location == "  [0] running"
        assert torch.equal(run(x), good)


def test_weights_that_were_not_read_are_lost_with_a_warning():
    net = Mlp(1)
    trainer = poptorch.trainingModel(net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1))
    pair = Mlp.inputs(1, torch.Generator().manual_seed(1))
    trainer(*pair)
    kept = {name: value.clone() for name, value in net.state_dict().items()}
    with poptorch.testing.faults("IPU_RESET@run=2"):
        trainer(*pair)
        with pytest.raises(poptorch.RecoverableError):
            trainer(*pair)
        records = []
        handler = logging.Handler()
        handler.emit = lambda record: records.append(record.getMessage())
        poptorch.logger.addHandler(handler)
        try:
            trainer.detachFromDevice()
        finally:
            poptorch.logger.removeHandler(handler)
        assert records == [
            "A device fault took the device: the weights of calls since the last copyWeightsToHost are lost."
        ]
    assert all(torch.equal(value, kept[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize(
    "rules, detail",
    [
        (
            "explode",
            "kinds are IPU_RESET, LINK_RESET, PARTITION_RESET, FULL_RESET, unrecoverable, "
            "slow_link:MICROSECONDS, allocation, corrupt, error",
        ),
        ("IPU_RESET@run", "a condition is name=value"),
        ("IPU_RESET@run=x", "'x' is not a number"),
        ("IPU_RESET@when=1", "conditions are run, ipu, replica, step, stream and times"),
        ("IPU_RESET@step=add", "step is one of kernel, load, store, push, pop, collective"),
        ("slow_link@step=push", "'' is not a number"),
        ("error:3", "only slow_link has a value"),
    ],
)
def test_rules_that_are_not_understood(rules, detail):
    with pytest.raises(poptorch.Error) as raised:
        with poptorch.testing.faults(rules):
            pass
    assert raised.value.message == (
        f"faults are not understood [IPU-E503]: '{rules}': {detail}. Rules look like IPU_RESET@run=2,ipu=1,step=kernel and "
        "are separated by ';'"
    )


def test_rules_of_the_environment():
    program = (
        "import torch, poptorch\n"
        "run = poptorch.inferenceModel(lambda x: x * 2)\n"
        "try:\n"
        "    run(torch.ones(2)); run(torch.ones(2))\n"
        "except poptorch.RecoverableError as e:\n"
        "    print(e.recovery_action)\n"
    )
    result = run_program(program, environment={"POPTORCH_FAULTS": "IPU_RESET@run=2"})
    assert result.stdout == "IPU_RESET\n", result.stderr


@pytest.fixture
def python_handles_sigint():
    """A program in the background of a shell script starts with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_in_a_run_and_the_next_run_works(python_handles_sigint):
    run, x = model(2), inputs()
    good = run(x)
    with poptorch.testing.faults("slow_link:20000@step=push"):
        timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            while True:
                run(x)
                time.sleep(0)
        timer.join()
    assert torch.equal(run(x), good)


def test_the_restart_loop_of_the_page_runs():
    page = (ROOT / "docs" / "faults.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.S)
    result = run_program(program)
    assert result.returncode == 0, result.stderr
    assert re.findall(r"step \d+: \w+ needed, back to step \d+", result.stdout) == [
        "step 3: IPU_RESET needed, back to step 2",
        "step 3: LINK_RESET needed, back to step 2",
        "step 3: FULL_RESET needed, back to step 2",
    ]

"""Data loaders in other processes, ten times over: no process and no shared memory stays behind."""

import multiprocessing
import os
import signal
import time

import pytest
import torch
from test_async_loading import Rows, loader

import poptorch
from poptorch import DataLoaderMode, SharingStrategy

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("loading")]


def shared_files():
    """Shared memory objects of torch that belong to this user."""
    return {name for name in os.listdir("/dev/shm") if name.startswith("torch_")}


def descendants():
    """Ids of living processes whose parent is this one, as the system sees them; server processes apart."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            with open(f"/proc/{entry}/cmdline") as file:
                command = file.read()
        except OSError:
            continue
        is_server = "forkserver" in command or "resource_tracker" in command
        if int(fields[1]) == os.getpid() and fields[0] != "Z" and not is_server:
            found.append(int(entry))
    return found


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    files, processes = shared_files(), set(descendants())
    yield
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        left, memory = set(descendants()) - processes, shared_files() - files
        if not left and not memory and not multiprocessing.active_children():
            return
        time.sleep(0.05)
    raise AssertionError(f"left behind: processes {left}, shared memory {memory}")


@pytest.mark.parametrize("repeat", range(10))
@pytest.mark.parametrize("strategy", list(SharingStrategy))
def test_every_epoch_delivers_all_rows_in_order(strategy, repeat):
    data = loader(mode=DataLoaderMode.Async, async_options={"sharing_strategy": strategy}, num_workers=repeat % 3)
    for _ in range(2):
        assert torch.cat([index.clone() for _, index in data]).tolist() == list(range(24))
    data.terminate()


@pytest.mark.parametrize("repeat", range(10))
@pytest.mark.parametrize("strategy", [SharingStrategy.Fork, SharingStrategy.SharedMemory])
def test_a_loader_ends_cleanly_in_the_middle_of_an_epoch(strategy, repeat):
    data = loader(
        mode=DataLoaderMode.AsyncRebatched, async_options={"sharing_strategy": strategy}, num_workers=repeat % 3
    )
    next(iter(data))
    data.terminate()


@pytest.mark.parametrize("repeat", range(10))
@pytest.mark.parametrize("strategy", [SharingStrategy.Fork, SharingStrategy.SharedMemory])
def test_a_killed_or_failing_loading_process_is_an_error_and_leaves_nothing(strategy, repeat):
    data = loader(mode=DataLoaderMode.Async, async_options={"sharing_strategy": strategy, "buffer_size": 1})
    iterator = iter(data)
    next(iterator)
    os.kill(data._accessor._process.pid, signal.SIGKILL)
    with pytest.raises(AssertionError) as raised:
        for _ in range(5):
            next(iterator)
    assert str(raised.value) == "An error occurred in the data fetcher: see its traceback above."
    data.terminate()
    accessor = poptorch.AsynchronousDataAccessor(
        torch.utils.data.DataLoader(Rows(8, fail_at=5)), sharing_strategy=strategy
    )
    with pytest.raises(AssertionError) as raised:
        for _ in accessor:
            pass
    assert str(raised.value).startswith("ValueError: row is broken\nTraceback (most recent call last):\n")
    assert str(raised.value).splitlines()[-1] == "An error occurred in the data fetcher: see its traceback above."
    accessor.terminate()


@pytest.mark.parametrize("strategy", [SharingStrategy.Fork, SharingStrategy.SharedMemory])
def test_a_model_runs_before_and_after_loaders_fork(strategy):
    """A model that ran before and after the process was made; its own threads are none of the child's business."""
    run = poptorch.inferenceModel(torch.nn.Linear(1, 1))
    run(torch.ones(8, 1))
    for _ in range(3):
        data = loader(mode=DataLoaderMode.Async, async_options={"sharing_strategy": strategy})
        for rows, _ in data:
            run(rows.reshape(8, 1))
        data.terminate()

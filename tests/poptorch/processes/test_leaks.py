"""Wrappers and loaders that come and go leave nothing behind: memory, threads, files, shared memory."""

import gc
import os
import threading

import pytest
import torch

import poptorch

pytestmark = pytest.mark.xdist_group("loading")


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def native_threads():
    return len(os.listdir("/proc/self/task"))


def held():
    """What a process holds besides memory."""
    gc.collect()
    return {
        "files": len(os.listdir("/proc/self/fd")),
        "threads": (threading.active_count(), native_threads()),
        "shared memory": sorted(os.listdir("/dev/shm")),
        "children": len(os.listdir("/proc/self/task")) and _children(),
    }


def _children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return len(file.read().split())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32))

    def forward(self, x):
        y = self.layers(x)
        return poptorch.identity_loss(y.pow(2), "mean") if self.training else y


def options():
    return poptorch.Options().showCompilationProgressBar(False).deviceIterations(2)


def one_wrapper(number):
    model, x = Net(), torch.randn(8, 32)
    if number % 2:
        optimizer = poptorch.optim.Adam(model.parameters(), lr=0.01)
        wrapper = poptorch.trainingModel(model.train(), options(), optimizer)
    else:
        wrapper = poptorch.inferenceModel(model.eval(), options())
    wrapper(x)
    model.state_dict()
    if number % 3:
        wrapper.destroy()
    else:
        del wrapper  # as good as destroy()


DATA = torch.utils.data.TensorDataset(torch.arange(64.0).view(16, 4), torch.arange(16))


def one_loader(number):
    # Every fourth starts a process of its own.
    mode = poptorch.DataLoaderMode.Async if number % 4 == 1 else poptorch.DataLoaderMode.Sync
    loader = poptorch.DataLoader(options(), DATA, batch_size=2, num_workers=int(number % 10 == 0), mode=mode)
    it = iter(loader)
    next(it)
    if number % 5:
        for _ in it:
            pass
    if number % 8 == 1:
        loader.terminate()


# Growth of memory per item once everything has been loaded, warmed up and cached. An allocator keeps some.
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "make,warm,count,bytes_each", [(one_wrapper, 60, 200, 32 * 1024), (one_loader, 20, 200, 16 * 1024)]
)
def test_nothing_is_left_behind(make, warm, count, bytes_each):
    for number in range(warm):
        make(number)
    before, memory = held(), None
    gc.collect()
    memory = resident_bytes()
    for number in range(count):
        make(number)
    after = held()
    grown = resident_bytes() - memory
    assert after == before
    assert grown < count * bytes_each, f"{grown / count:.0f} bytes for each of {count}"

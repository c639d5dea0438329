"""Loading in another process: modes, strategies, epochs, early exit, failures; nothing is left behind."""

import multiprocessing
import os
import signal
import time

import pytest
import torch

import poptorch
from poptorch import DataLoaderMode, SharingStrategy


class Rows(torch.utils.data.Dataset):
    def __init__(self, count, fail_at=None):
        self.count = count
        self.fail_at = fail_at

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == self.fail_at:
            raise ValueError("row is broken")
        return torch.tensor([float(index)]), index


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        share = range(self.count) if info is None else range(info.id, self.count, info.num_workers)
        return (torch.tensor(float(i)) for i in share)


def no_worker(worker_id):
    pass


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    yield
    deadline = time.time() + 5
    while multiprocessing.active_children() and time.time() < deadline:
        time.sleep(0.05)
    assert multiprocessing.active_children() == []


def loader(count=24, **arguments):
    options = poptorch.Options().deviceIterations(2)
    arguments.setdefault("batch_size", 4)
    return poptorch.DataLoader(options, Rows(count, arguments.pop("fail_at", None)), **arguments)


def indices(items):
    return torch.cat([index.clone() for _, index in items]).tolist()


@pytest.mark.parametrize("strategy", list(SharingStrategy))
def test_every_sharing_strategy_delivers_every_row_in_order_for_two_epochs(strategy):
    data = loader(mode=DataLoaderMode.Async, async_options={"sharing_strategy": strategy})
    try:
        for _ in range(2):
            assert indices(data) == list(range(24))
    finally:
        data.terminate()


class LeavingRows(Rows):
    """Leaves behind what a process leaves that ends while it shares a tensor."""

    def __getitem__(self, index):
        open(f"/dev/shm/torch_{os.getpid()}_1_{index}", "w").close()
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("killed", [False, True])
def test_shared_memory_of_ended_processes_is_removed(workers, killed):
    before = set(os.listdir("/dev/shm"))
    data = poptorch.DataLoader(
        poptorch.Options(),
        LeavingRows(8),
        batch_size=2,
        num_workers=workers,
        mode=DataLoaderMode.Async,
        async_options={"sharing_strategy": SharingStrategy.Fork},
    )
    assert indices(data) == list(range(8))
    left = {name for name in os.listdir("/dev/shm") if name.startswith("torch_")} - before
    assert len({name.split("_")[1] for name in left}) >= max(workers, 1)
    other = "/dev/shm/torch_1_1_1"  # of a process that lives and is none of ours
    open(other, "w").close()
    try:
        if killed:
            data._accessor._process.kill()
        data.terminate()
        assert os.path.exists(other)
    finally:
        os.unlink(other)
    assert not set(os.listdir("/dev/shm")) & left


@pytest.mark.parametrize("load_indefinitely", [True, False])
def test_breaking_out_and_iterating_again_starts_from_the_beginning(load_indefinitely):
    data = loader(
        mode=DataLoaderMode.Async,
        async_options={"load_indefinitely": load_indefinitely, "sharing_strategy": SharingStrategy.Fork},
    )
    try:
        for items in (1, 2, 1):
            for number, (_, index) in enumerate(data, 1):
                assert index[0] == 8 * (number - 1)
                if number == items:
                    break
        assert indices(data) == list(range(24))
    finally:
        data.terminate()


def test_iterating_again_before_anything_was_consumed_does_not_restart():
    accessor = poptorch.AsynchronousDataAccessor(loader(), early_preload=True, sharing_strategy=SharingStrategy.Fork)
    try:
        iter(accessor)
        iter(accessor)
        assert indices(accessor) == list(range(24))
        assert len(accessor) == 3
    finally:
        accessor.terminate()


def test_rebatching_keeps_rows_that_workers_would_drop():
    options = poptorch.Options().deviceIterations(8)
    kept = {}
    for mode in (DataLoaderMode.Sync, DataLoaderMode.AsyncRebatched):
        data = poptorch.DataLoader(
            options, Stream(60), batch_size=1, num_workers=4, worker_init_fn=no_worker, mode=mode
        )
        try:
            kept[mode] = [len(item) for item in data]
        finally:
            data.terminate()
    assert kept[DataLoaderMode.Sync] == [8] * 4
    assert kept[DataLoaderMode.AsyncRebatched] == [8] * 7


def test_rebatching_gives_a_shorter_last_item_only_when_asked_to_keep_it():
    for drop_last, sizes in ((True, [8, 8]), (False, [8, 8, 4])):
        data = loader(20, mode=DataLoaderMode.AsyncRebatched, drop_last=drop_last)
        try:
            assert len(data) == len(sizes)
            assert [len(index) for _, index in data] == sizes
        finally:
            data.terminate()


def test_dict_and_single_tensor_elements_and_the_ring_is_reused():
    elements = [{"b": torch.full((2,), float(i)), "a": torch.full((1,), i)} for i in range(7)]
    accessor = poptorch.AsynchronousDataAccessor(elements, buffer_size=2, sharing_strategy=SharingStrategy.Fork)
    try:
        seen = [(int(item["a"]), item["b"].tolist()) for item in accessor]
        assert seen == [(i, [float(i)] * 2) for i in range(7)]
    finally:
        accessor.terminate()


def test_failing_row_is_reported():
    data = loader(fail_at=17, mode=DataLoaderMode.Async, async_options={"sharing_strategy": SharingStrategy.Fork})
    with pytest.raises(AssertionError, match="error occurred in the data fetcher"):
        for _ in data:
            pass
    data.terminate()


def test_process_that_fails_at_once_is_reported():
    data = loader(fail_at=0, mode=DataLoaderMode.Async, async_options={"sharing_strategy": SharingStrategy.Fork})
    with pytest.raises(poptorch.Error, match="failed to start"):
        next(iter(data))
    data.terminate()


def test_empty_data_set_is_reported():
    accessor = poptorch.AsynchronousDataAccessor([], sharing_strategy=SharingStrategy.Fork)
    with pytest.raises(poptorch.Error, match="failed to start"):
        next(iter(accessor))
    accessor.terminate()


def test_nested_elements_are_refused():
    accessor = poptorch.AsynchronousDataAccessor([[[torch.ones(1)]]], sharing_strategy=SharingStrategy.Fork)
    with pytest.raises(poptorch.Error, match="failed to start"):
        next(iter(accessor))
    accessor.terminate()


def test_killed_process_is_reported():
    data = loader(mode=DataLoaderMode.Async, async_options={"sharing_strategy": SharingStrategy.Fork, "buffer_size": 1})
    iterator = iter(data)
    next(iterator)
    os.kill(data._accessor._process.pid, signal.SIGKILL)
    with pytest.raises(AssertionError, match="error occurred in the data fetcher"):
        for _ in range(5):
            next(iterator)
    data.terminate()


def test_dropping_the_loader_stops_its_process():
    data = loader(mode=DataLoaderMode.Async, async_options={"sharing_strategy": SharingStrategy.Fork})
    next(iter(data))
    del data
    import gc

    gc.collect()


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: poptorch.AsynchronousDataAccessor(loader(20, drop_last=False)), AssertionError, "rebatched_size"),
        (
            lambda: poptorch.AsynchronousDataAccessor([torch.ones(1)], rebatched_size=1),
            AssertionError,
            "greater than 1",
        ),
    ],
)
def test_arguments_that_do_not_fit(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_wrapping_an_asynchronous_loader_is_refused():
    data = loader(mode=DataLoaderMode.Async, async_options={"sharing_strategy": SharingStrategy.Fork})
    try:
        with pytest.raises(poptorch.Error, match="asynchronous already"):
            poptorch.AsynchronousDataAccessor(data)
    finally:
        data.terminate()

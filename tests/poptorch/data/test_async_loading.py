"""Loading in another process: modes, strategies, epochs, early exit, failures; nothing is left behind."""

import gc
import contextlib
import multiprocessing
import os
import pickle
import signal
import time

import pytest
import torch

import poptorch
from poptorch import DataLoaderMode, SharingStrategy

pytestmark = pytest.mark.xdist_group("loading")


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
    deadline = time.monotonic() + 60
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert multiprocessing.active_children() == []


FAILED_LATER = "An error occurred in the data fetcher: see its traceback above."
FAILED_AT_ONCE = "The data loading process failed to start: see its traceback above."


@contextlib.contextmanager
def raises(kind, message, first=""):
    """The block raises exactly this, behind what another process raised: its text `first`, then its traceback. A poptorch.Error
    is one of the Python side."""
    with pytest.raises(Exception) as raised:
        yield
    assert type(raised.value) is kind
    text = str(raised.value)
    if kind is poptorch.Error:
        text = raised.value.message
        assert (raised.value.type, raised.value.location) == ("poptorch_py_error", "")
    if first:
        told, _, rest = text.partition("\nTraceback (most recent call last):\n")
        assert told == first
        trace, _, text = rest.rpartition("\n")
        assert trace.endswith(first)
    assert text == message


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
@pytest.mark.shows("DataLoader.terminate")
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


@pytest.mark.shows("DataLoaderMode")
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


@pytest.mark.shows("DataLoaderMode")
def test_rebatching_gives_a_shorter_last_item_only_when_asked_to_keep_it():
    for drop_last, sizes in ((True, [8, 8]), (False, [8, 8, 4])):
        data = loader(20, mode=DataLoaderMode.AsyncRebatched, drop_last=drop_last)
        try:
            assert len(data) == len(sizes)
            assert [len(index) for _, index in data] == sizes
        finally:
            data.terminate()


@pytest.mark.shows("AsynchronousDataAccessor")
@pytest.mark.edge("22.17")
def test_dict_and_single_tensor_elements_and_the_ring_is_reused():
    elements = [{"b": torch.full((2,), float(i)), "a": torch.full((1,), i)} for i in range(7)]
    accessor = poptorch.AsynchronousDataAccessor(elements, buffer_size=2, sharing_strategy=SharingStrategy.Fork)
    try:
        seen = [(int(item["a"]), item["b"].tolist()) for item in accessor]
        assert seen == [(i, [float(i)] * 2) for i in range(7)]
    finally:
        accessor.terminate()


def test_failing_row_is_reported(capfd):
    data = loader(fail_at=17, mode=DataLoaderMode.Async, async_options={"sharing_strategy": SharingStrategy.Fork})
    with raises(AssertionError, FAILED_LATER, "ValueError: row is broken"):
        for _ in data:
            pass
    data.terminate()
    assert "ValueError: row is broken\n" in capfd.readouterr().err


def test_a_first_row_that_fails_is_an_error_of_the_constructor(capfd):
    with raises(poptorch.Error, FAILED_AT_ONCE, "ValueError: row is broken"):
        loader(fail_at=0, mode=DataLoaderMode.Async, async_options={"sharing_strategy": SharingStrategy.Fork})
    assert "ValueError: row is broken\n" in capfd.readouterr().err


@pytest.mark.parametrize("strategy", list(SharingStrategy))
def test_an_empty_data_set_is_an_error_of_the_constructor(strategy, capfd):
    first = "poptorch.poptorch_core.Error: 'poptorch_py_error': Dataset is empty"
    with raises(poptorch.Error, FAILED_AT_ONCE, first):
        poptorch.AsynchronousDataAccessor([], sharing_strategy=strategy)
    if strategy != SharingStrategy.ForkServer:  # the server has the standard error of the test that started it
        assert "Error: 'poptorch_py_error': Dataset is empty\n" in capfd.readouterr().err


def test_nested_elements_are_refused(capfd):
    first = "AssertionError: elements must be flat containers of tensors, found a list inside"
    with raises(poptorch.Error, FAILED_AT_ONCE, first):
        poptorch.AsynchronousDataAccessor([[[torch.ones(1)]]], sharing_strategy=SharingStrategy.Fork)
    assert f"{first}\n" in capfd.readouterr().err


def test_killed_process_is_reported():
    data = loader(mode=DataLoaderMode.Async, async_options={"sharing_strategy": SharingStrategy.Fork, "buffer_size": 1})
    iterator = iter(data)
    next(iterator)
    os.kill(data._accessor._process.pid, signal.SIGKILL)
    with raises(AssertionError, FAILED_LATER):
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
    "make, message",
    [
        (
            lambda: poptorch.AsynchronousDataAccessor(loader(20, drop_last=False)),
            "A DataLoader with drop_last=False has a shorter last item, which the ring cannot hold: pass rebatched_size or "
            "use DataLoaderMode.AsyncRebatched.",
        ),
        (
            lambda: poptorch.AsynchronousDataAccessor([torch.ones(1)], rebatched_size=1),
            "rebatched_size must be greater than 1, got 1",
        ),
        (
            lambda: poptorch.AsynchronousDataAccessor([torch.ones(1)], buffer_size=0),
            "buffer_size must be a positive int, got 0",
        ),
        (
            lambda: poptorch.AsynchronousDataAccessor([torch.ones(1)], sharing_strategy="fork"),
            "sharing_strategy must be a poptorch.SharingStrategy, got 'fork'",
        ),
    ],
)
def test_arguments_that_do_not_fit(make, message):
    with raises(AssertionError, message):
        make()


@pytest.mark.parametrize(
    "second, message",
    [
        (
            {"a": torch.ones(3)},
            "the shapes and dtypes of the first one: expected [2] torch.float32, got [3] torch.float32",
        ),
        (
            {"a": torch.ones(2).int()},
            "the shapes and dtypes of the first one: expected [2] torch.float32, got [2] torch.int32",
        ),
        ({"a": torch.ones(2), "b": torch.ones(2)}, "as many tensors as the first one: expected 1, got 2"),
        ({"b": torch.ones(2)}, "the keys of the first one: expected ['a'], got ['b']"),
    ],
)
def test_elements_that_differ_from_the_first_are_refused_after_it(second, message, capfd):
    accessor = poptorch.AsynchronousDataAccessor([{"a": torch.ones(2)}, second], sharing_strategy=SharingStrategy.Fork)
    assert next(iter(accessor))["a"].tolist() == [1, 1]
    with raises(AssertionError, FAILED_LATER, f"AssertionError: every element must have {message}"):
        next(accessor)
    accessor.terminate()
    assert f"AssertionError: every element must have {message}\n" in capfd.readouterr().err


@pytest.mark.parametrize(
    "strategy", [SharingStrategy.SharedMemory, SharingStrategy.FileSystem, SharingStrategy.ForkServer]
)
def test_data_that_cannot_be_pickled_is_pickles_own_error_here_and_leaves_no_file(strategy, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        poptorch.AsynchronousDataAccessor([lambda: 0], sharing_strategy=strategy)
    assert [path for path in tmp_path.iterdir() if path.suffix == ".poptorch"] == []


@pytest.mark.shows("SharingStrategy")
def test_only_a_forked_process_takes_data_that_cannot_be_pickled():
    class Local(Rows):
        pass

    def load(strategy):
        asked = {"sharing_strategy": strategy}
        return poptorch.DataLoader(
            poptorch.Options(), Local(8), batch_size=2, mode=DataLoaderMode.Async, async_options=asked
        )

    data = load(SharingStrategy.Fork)
    try:
        assert indices(data) == list(range(8))
    finally:
        data.terminate()
    with pytest.raises((pickle.PicklingError, AttributeError), match="Local"):
        load(SharingStrategy.SharedMemory)


class Noted(Rows):
    """Rows that say, by a line in a file, that somebody read them."""

    def __init__(self, count, path):
        super().__init__(count)
        self.path = path

    def __getitem__(self, index):
        with open(self.path, "a") as file:
            file.write(f"{index}\n")
        return super().__getitem__(index)

    def read(self):
        return len(self.path.read_text().splitlines())


@pytest.mark.parametrize("early_preload", [True, False])
def test_the_constructor_loads_the_first_item_and_early_preload_fills_the_ring(early_preload, tmp_path):
    rows = Noted(8, tmp_path / "read")
    accessor = poptorch.AsynchronousDataAccessor(
        poptorch.DataLoader(poptorch.Options(), rows),
        buffer_size=4,
        early_preload=early_preload,
        sharing_strategy=SharingStrategy.Fork,
    )
    filled = accessor._worker._data_buffers.indices_mem
    try:
        if not early_preload:
            assert (list(filled), rows.read()) == ([1, 0, 0, 0], 1)
        deadline = time.monotonic() + (60 if early_preload else 0.3)
        while sum(filled) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert sum(filled) == (4 if early_preload else 1)
        assert early_preload or rows.read() == 1
        assert indices(accessor) == list(range(8))
    finally:
        accessor.terminate()


@pytest.mark.parametrize("load_indefinitely", [True, False])
def test_an_epoch_that_is_over_stays_over_until_the_next_is_begun(load_indefinitely):
    accessor = poptorch.AsynchronousDataAccessor(
        loader(), load_indefinitely=load_indefinitely, sharing_strategy=SharingStrategy.Fork
    )
    try:
        for _ in range(2):
            assert indices(accessor) == list(range(24))
            for _ in range(2):
                with pytest.raises(StopIteration):
                    next(accessor)
    finally:
        accessor.terminate()


def test_length_counts_items_of_the_new_size():
    for data, length in (([torch.ones(2)] * 7, 3), (loader(), 12)):
        accessor = poptorch.AsynchronousDataAccessor(data, rebatched_size=2, sharing_strategy=SharingStrategy.Fork)
        assert len(accessor) == length
        accessor.terminate()


def test_wrapping_an_asynchronous_loader_is_refused():
    data = loader(mode=DataLoaderMode.Async, async_options={"sharing_strategy": SharingStrategy.Fork})
    try:
        with raises(poptorch.Error, "The DataLoader is asynchronous already: use mode=DataLoaderMode.Sync."):
            poptorch.AsynchronousDataAccessor(data)
    finally:
        data.terminate()


def test_the_process_ends_with_the_last_user_of_a_loader_without_the_garbage_collector():
    data = torch.utils.data.TensorDataset(torch.arange(64.0).view(16, 4))
    gc.disable()
    try:
        loader = poptorch.DataLoader(poptorch.Options(), data, batch_size=2, mode=poptorch.DataLoaderMode.Async)
        process, items = loader._accessor._process, iter(loader)
        del loader
        assert next(items)[0].shape == (2, 4) and process.is_alive()
        del items
        process.join(120)
        assert process.exitcode is not None
    finally:
        gc.enable()

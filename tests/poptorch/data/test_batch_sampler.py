"""A batch sampler's micro-batches: each collated by itself, joined for a call, and the same in all modes."""

import collections
import dataclasses

import pytest
import torch

import poptorch
from poptorch import DataLoaderMode, SharingStrategy

pytestmark = pytest.mark.xdist_group("loading")

MODES = list(DataLoaderMode)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.full((2,), float(index)), index


class Sizes:
    """Micro-batches of 1, 2, 3, 1, 2, 3, ... rows; without a length."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        row = 0
        for number in range(self.count):
            size = number % 3 + 1
            yield [row % 24 for row in range(row, row + size)]
            row += size


class NoLength(Sizes):
    def __len__(self):
        raise NotImplementedError


class Padded:
    """Pads each micro-batch to 3 rows with -1, and remembers how many rows it was given."""

    def __init__(self):
        self.seen = []

    def __call__(self, samples):
        self.seen.append(len(samples))
        values = torch.stack([value for value, _ in samples])
        indices = torch.tensor([index for _, index in samples])
        missing = 3 - len(samples)
        return (
            torch.nn.functional.pad(values, (0, 0, 0, missing), value=-1),
            torch.nn.functional.pad(indices, (0, missing), value=-1),
        )


def items(mode, sampler, *, iterations=2, dataset=None, workers=0, copy=True, **arguments):
    """All items of two epochs."""
    loader = poptorch.DataLoader(
        poptorch.Options().deviceIterations(iterations),
        Rows() if dataset is None else dataset,
        batch_sampler=sampler,
        num_workers=workers,
        mode=mode,
        async_options={"sharing_strategy": SharingStrategy.Fork},
        **arguments,
    )
    try:
        return [[[tensor.clone() for tensor in item] for item in loader] for _ in range(2)]
    finally:
        loader.terminate()


def equal(some, others):
    assert [[[t.tolist() for t in item] for item in epoch] for epoch in some] == [
        [[t.tolist() for t in item] for item in epoch] for epoch in others
    ]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", MODES)
def test_each_micro_batch_is_collated_by_itself(mode, workers):
    first, second = items(mode, Sizes(6), collate_fn=Padded(), workers=workers)
    assert [index.tolist() for _, index in first] == [
        [0, -1, -1, 1, 2, -1],
        [3, 4, 5, 6, -1, -1],
        [7, 8, -1, 9, 10, 11],
    ]
    assert [value.shape for value, _ in first] == [(6, 2)] * 3
    equal([first], [second])


def test_collate_fn_sees_one_micro_batch_at_a_time():
    collate = Padded()
    items(DataLoaderMode.Sync, Sizes(4), collate_fn=collate)
    assert collate.seen == [1, 2, 3, 1] * 2


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_an_incomplete_last_group_is_dropped_or_shorter(mode, drop_last):
    found = items(mode, Sizes(5), collate_fn=Padded(), drop_last=drop_last)
    assert [[len(index) for _, index in epoch] for epoch in found] == [[6, 6] if drop_last else [6, 6, 3]] * 2
    equal(found, items(DataLoaderMode.Sync, Sizes(5), collate_fn=Padded(), drop_last=drop_last))


@pytest.mark.parametrize("mode", MODES)
def test_items_of_different_rows_come_as_they_are_in_all_modes(mode):
    """1+2, 3+1, 2+3 rows: later items are longer than the first one, and shorter."""
    found = items(mode, Sizes(9))
    assert [[len(index) for _, index in epoch] for epoch in found] == [[3, 4, 5, 3]] * 2
    equal(found, items(DataLoaderMode.Sync, Sizes(9)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sampler", [Sizes(4), NoLength(4)], ids=["no length", "NotImplementedError"])
def test_a_sampler_needs_no_length(sampler, mode):
    found = items(mode, sampler, collate_fn=Padded())
    assert [len(epoch) for epoch in found] == [2, 2]
    loader = poptorch.DataLoader(poptorch.Options(), Rows(), batch_sampler=sampler)
    with pytest.raises((TypeError, NotImplementedError)):
        len(loader)


def test_the_combined_batch_size_is_that_of_the_sampler_times_the_micro_batches_of_a_call():
    def combined(sampler):
        options = poptorch.Options().deviceIterations(2).replicationFactor(3)
        return poptorch.DataLoader(options, Rows(), batch_sampler=sampler).combinedBatchSize

    assert combined(Sizes(6)) == 6
    assert combined(torch.utils.data.BatchSampler(range(24), 4, drop_last=True)) == 24


@pytest.mark.parametrize("mode", [DataLoaderMode.Async, DataLoaderMode.AsyncRebatched])
def test_an_accessor_of_ones_own_takes_a_loader_with_a_batch_sampler(mode):
    data = poptorch.DataLoader(poptorch.Options().deviceIterations(2), Rows(), batch_sampler=Sizes(4), drop_last=True)
    accessor = poptorch.AsynchronousDataAccessor(data, sharing_strategy=SharingStrategy.Fork)
    try:
        assert [len(index) for _, index in accessor] == [3, 4]
    finally:
        accessor.terminate()


# --- structures ---


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


class PairParser(poptorch.ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.left
        yield struct.right

    def reconstruct(self, original_structure, tensor_iterator):
        return Pair(next(tensor_iterator), next(tensor_iterator))


@pytest.fixture
def pairs():
    poptorch.registerCustomArgParser(Pair, PairParser())
    yield
    poptorch.registerCustomArgParser(Pair, None)


Named = collections.namedtuple("Named", ["index", "value"])
COLLATED = {
    "tensor": lambda rows: torch.tensor([index for _, index in rows]),
    "tuple": lambda rows: (torch.tensor([index for _, index in rows]), torch.stack([value for value, _ in rows])),
    "dict": lambda rows: {"i": torch.tensor([index for _, index in rows])},
    "named tuple": lambda rows: Named(torch.tensor([index for _, index in rows]), torch.ones(len(rows))),
    "custom": lambda rows: Pair(torch.tensor([index for _, index in rows]), torch.ones(len(rows), 1)),
}
FIRST = {
    "tensor": lambda item: item,
    "tuple": lambda item: item[0],
    "dict": lambda item: item["i"],
    "named tuple": lambda item: item.index if isinstance(item, Named) else item[0],
    "custom": lambda item: item.left,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", COLLATED)
def test_items_keep_the_structure_that_collate_fn_returns(kind, mode, pairs):
    loader = poptorch.DataLoader(
        poptorch.Options().deviceIterations(3),
        Rows(),
        batch_sampler=[[0], [1], [2, 3], [4], [5], [6, 7]],
        collate_fn=COLLATED[kind],
        mode=mode,
        async_options={"sharing_strategy": SharingStrategy.Fork},
    )
    try:
        assert [FIRST[kind](item).tolist() for item in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        if mode == DataLoaderMode.Sync and kind != "tuple":
            expected = {"tensor": torch.Tensor, "dict": dict, "named tuple": Named, "custom": Pair}[kind]
            assert type(next(iter(loader))) is expected
    finally:
        loader.terminate()


@pytest.mark.parametrize(
    "collated, message",
    [
        (
            lambda rows: torch.ones(len(rows), len(rows)),
            "item is [1, 1] torch.float32, [2, 2] torch.float32. Let collate_fn pad all of them to one shape behind "
            "dimension 0.",
        ),
        (
            lambda rows: [torch.tensor(1.0)],
            "item[0] is a tensor without dimensions. Let collate_fn give it a first dimension of rows.",
        ),
        (
            lambda rows: {"name": "a"},
            "item['name'] is of type str. Only tensors can be joined: leave it out in collate_fn.",
        ),
        (
            lambda rows: [torch.ones(1)] * len(rows),
            "item has [1, 2] members. Let collate_fn give all of them one form.",
        ),
        (
            lambda rows: {len(rows): torch.ones(1)},
            "the keys of item differ. Let collate_fn give all of them the same keys.",
        ),
        (
            lambda rows: torch.ones(1) if len(rows) == 1 else [torch.ones(1)],
            "item is of types Tensor, list. Let collate_fn give all of them one form.",
        ),
    ],
)
def test_micro_batches_that_cannot_be_joined_are_an_error_with_a_cure(collated, message):
    loader = poptorch.DataLoader(
        poptorch.Options().deviceIterations(2), Rows(), batch_sampler=[[0], [1, 2]], collate_fn=collated
    )
    with pytest.raises(poptorch.Error) as raised:
        next(iter(loader))
    assert raised.value.message == f"The micro-batches of one call do not fit together: {message}"


# --- element types that differ ---


class PaddedWithFloats:
    """Pads labels to 3 rows with -100., so that those of a full micro-batch alone stay integers."""

    def __call__(self, samples):
        labels = torch.tensor([index for _, index in samples])
        missing = 3 - len(samples)
        if missing:
            labels = torch.cat([labels, torch.full((missing,), -100.0)])
        return {"labels": labels, "count": torch.tensor([len(samples)])}


WARNING = (
    "The micro-batches of one call differ in their element types: item['labels'] is of torch.float32 and torch.int64. They are "
    "joined as torch.cat does, to torch.float32. Let collate_fn (test_batch_sampler.PaddedWithFloats) give all of them one type."
)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("mode", MODES)
def test_element_types_that_differ_are_joined_by_promotion_with_one_warning(mode, workers, capfd):
    options = poptorch.Options().deviceIterations(3)
    asynchronous = {"sharing_strategy": SharingStrategy.Fork}
    loader = poptorch.DataLoader(
        options,
        Rows(),
        batch_sampler=Sizes(6),
        collate_fn=PaddedWithFloats(),
        mode=mode,
        num_workers=workers,
        async_options=asynchronous,
    )
    try:
        for _ in range(2):
            items = [(item["labels"].tolist(), item["labels"].dtype, item["count"].dtype) for item in loader]
            labels = [[0, -100, -100, 1, 2, -100, 3, 4, 5], [6, -100, -100, 7, 8, -100, 9, 10, 11]]
            assert items == [(row, torch.float32, torch.int64) for row in labels]
    finally:
        loader.terminate()
    assert capfd.readouterr().err.count(WARNING) == 1


def types_by_row(samples):
    """Floats for the batch that begins with row 0, else integers."""
    rows = torch.tensor([index for _, index in samples])
    return rows.float() if rows[0] == 0 else rows


def test_packed_rows_of_different_types_are_joined_with_one_warning(capfd):
    loader = poptorch.DataLoader(
        poptorch.Options(),
        Rows(),
        batch_size=4,
        rebatched_worker_size=3,
        collate_fn=types_by_row,
        mode=poptorch.DataLoaderMode.AsyncRebatched,
        async_options={"sharing_strategy": SharingStrategy.Fork},
    )
    try:
        for _ in range(2):
            items = iter(loader)
            torch.testing.assert_close(next(items), torch.tensor([0.0, 1, 2, 3]))
    finally:
        loader.terminate()
    warning = "differ in their element types: tensor 0 is of torch.float32 and torch.int64. They are joined"
    assert capfd.readouterr().err.count(warning) == 1


PAIRS = [
    (torch.int64, torch.float32),
    (torch.float16, torch.float32),
    (torch.float32, torch.float64),
    (torch.bool, torch.int32),
    (torch.uint8, torch.int8),
    (torch.int32, torch.int64),
    (torch.float16, torch.bfloat16),
    (torch.bool, torch.float16),
]


@pytest.mark.parametrize("first, second", PAIRS)
def test_every_pair_of_types_is_joined_as_torch_does(first, second):
    def collate(rows):
        return torch.ones(len(rows), 2, dtype=first if len(rows) == 1 else second)

    loader = poptorch.DataLoader(
        poptorch.Options().deviceIterations(2), Rows(), batch_sampler=[[0], [1, 2]], collate_fn=collate
    )
    item = next(iter(loader))
    expected = torch.cat([torch.ones(1, 2, dtype=first), torch.ones(2, 2, dtype=second)])
    assert item.dtype == expected.dtype and torch.equal(item, expected)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("strategy", [SharingStrategy.Fork, SharingStrategy.ForkServer])
def test_shapes_that_differ_are_told_first_in_the_asynchronous_modes(strategy, workers, capfd):
    with pytest.raises(poptorch.Error) as raised:
        poptorch.DataLoader(
            poptorch.Options().deviceIterations(2),
            Rows(),
            batch_sampler=[[0], [1, 2]],
            collate_fn=square,
            mode=DataLoaderMode.Async,
            num_workers=workers,
            async_options={"sharing_strategy": strategy},
        )
    told = "The micro-batches of one call do not fit together: item is [1, 1] torch.float32, [2, 2] torch.float32"
    lines = raised.value.message.splitlines()
    assert told in (lines[0] if workers == 0 else raised.value.message)  # torch wraps what a worker raised
    assert lines[-1] == "The data loading process failed to start: see its traceback above."
    assert "in _concatenated" in raised.value.message


def square(rows):
    return torch.ones(len(rows), len(rows))


# --- what a program sees ---


class Configured(Rows):
    offset = 0

    def __getitem__(self, index):
        return torch.tensor(index + self.offset)


def configure(worker):
    torch.utils.data.get_worker_info().dataset.offset = 100


def test_the_program_keeps_its_data_set_and_collate_fn_and_workers_configure_theirs():
    rows, collate = Configured(), torch.utils.data.default_collate
    loader = poptorch.DataLoader(
        poptorch.Options().deviceIterations(2),
        rows,
        batch_sampler=[[0, 1], [2]],
        collate_fn=collate,
        num_workers=1,
        worker_init_fn=configure,
    )
    assert loader.dataset is rows and loader.collate_fn is collate
    assert [item.tolist() for item in loader] == [[100, 101, 102]]


class ManyAtOnce(Rows):
    def __getitems__(self, indices):
        return [torch.tensor([index, len(indices)]) for index in indices]


def test_a_data_set_that_gives_many_samples_at_once_is_asked_for_a_micro_batch():
    loader = poptorch.DataLoader(
        poptorch.Options().deviceIterations(2), ManyAtOnce(), batch_sampler=[[5, 6], [7, 8, 9]]
    )
    assert [item.tolist() for item in loader] == [[[5, 2], [6, 2], [7, 3], [8, 3], [9, 3]]]


def test_a_model_takes_what_the_loader_of_its_options_gives():
    options = poptorch.Options().deviceIterations(2)
    loader = poptorch.DataLoader(options, Rows(), batch_sampler=Sizes(6), collate_fn=Padded())
    run = poptorch.inferenceModel(lambda x: x.sum(0, keepdim=True), options)
    assert [run(index).tolist() for _, index in loader] == [[-2, 2], [12, 4], [14, 30]]

"""poptorch.DataLoader in Sync mode: one item is one call."""

import pytest
import torch

import poptorch

pytestmark = pytest.mark.xdist_group("loading")


class Rows(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.tensor([float(index)]), index


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return (torch.tensor([float(i)]) for i in range(self.count))


def options(device_iterations=2, accumulation=3):
    opts = poptorch.Options().deviceIterations(device_iterations)
    opts.Training.gradientAccumulation(accumulation)
    return opts


@pytest.mark.shows("DataLoader", "DataLoader.combinedBatchSize")
@pytest.mark.edge("22.16")
def test_items_have_the_combined_batch_size_and_remainders_are_dropped():
    loader = poptorch.DataLoader(options(), Rows(40), batch_size=2)
    assert loader.combinedBatchSize == 12 and len(loader) == 3
    items = [index for _, index in loader]
    assert [len(item) for item in items] == [12, 12, 12]
    assert torch.equal(torch.cat(items), torch.arange(36))


@pytest.fixture
def warnings(caplog):
    """What is logged at the default level."""
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("mode", list(poptorch.DataLoaderMode))
def test_nothing_is_said_of_samples_that_were_asked_to_be_dropped(mode, warnings):
    options_ = {"sharing_strategy": poptorch.SharingStrategy.Fork}
    loader = poptorch.DataLoader(options(), Rows(40), batch_size=2, mode=mode, async_options=options_, drop_last=True)
    for _ in range(2):
        assert len(list(loader)) == 3
    loader.terminate()
    assert warnings() == []


def test_a_batch_sampler_with_a_remainder_always_warns(warnings):
    loader = poptorch.DataLoader(options(), Rows(40), batch_sampler=[[i] for i in range(20)])
    assert len(list(loader)) == 3 and warnings() == [
        "2 of 20 micro-batches are dropped in each epoch: a call takes 6. drop_last=False keeps them."
    ]
    loader = poptorch.DataLoader(options(), Rows(40), batch_sampler=[[i] for i in range(20)], drop_last=False)
    assert [len(item) for _, item in loader] == [6, 6, 6, 2]
    assert warnings()[1:] == [
        "The last item of an epoch has 2 micro-batches and a call takes 6; a compiled program refuses it. Use drop_last=True "
        "or a second wrapper."
    ]


def test_keeping_the_remainder_warns(warnings):
    loader = poptorch.DataLoader(options(), Rows(40), batch_size=2, drop_last=False)
    assert warnings() == [
        "The last item of an epoch has 4 rows instead of the combined batch size 12; a compiled program refuses it. Use "
        "drop_last=True or a second wrapper."
    ]
    assert [len(index) for _, index in loader] == [12, 12, 12, 4]


@pytest.mark.parametrize(
    "arguments, warns", [({}, True), ({"worker_init_fn": None}, True), ({"worker_init_fn": id}, False)]
)
def test_workers_that_would_each_deliver_a_whole_iterable_data_set_are_warned_about(arguments, warns, warnings):
    poptorch.DataLoader(options(), Stream(12), num_workers=2, **arguments)
    message = "An iterable dataset with 2 workers and no worker_init_fn delivers every element once per worker."
    assert warnings() == ([message] if warns else [])


def test_an_iterable_data_set_gives_whole_batches_only():
    items = list(poptorch.DataLoader(options(1, 4), Stream(10), batch_size=1))
    assert [item.shape for item in items] == [(4, 1), (4, 1)]


def test_shuffle_visits_every_kept_row_once():
    items = torch.cat([index for _, index in poptorch.DataLoader(options(1, 1), Rows(10), batch_size=5, shuffle=True)])
    assert sorted(items.tolist()) == list(range(10))


def test_workers_deliver_in_order():
    loader = poptorch.DataLoader(options(1, 2), Rows(16), batch_size=2, num_workers=2)
    assert torch.equal(torch.cat([index for _, index in loader]), torch.arange(16))


def test_batch_size_none_passes_items_on():
    loader = poptorch.DataLoader(options(), Rows(3), batch_size=None)
    assert loader.combinedBatchSize is None and [index for _, index in loader] == [0, 1, 2]
    with pytest.raises(AttributeError):
        loader.options


def test_batch_sampler_concatenates_micro_batches():
    sampler = torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(Rows(24)), batch_size=2, drop_last=True)
    loader = poptorch.DataLoader(options(), Rows(24), batch_sampler=sampler)
    assert loader.combinedBatchSize == 12
    assert [len(index) for _, index in loader] == [12, 12]
    with pytest.raises(poptorch.Error, match="batch_sampler cannot be combined"):
        poptorch.DataLoader(options(), Rows(24), batch_sampler=sampler, shuffle=True)


@pytest.mark.edge("22.20")
def test_options_are_frozen_and_checked():
    opts = options()
    poptorch.DataLoader(opts, Rows(12))
    with pytest.raises(AttributeError, match="frozen"):
        opts.deviceIterations(1)
    with pytest.raises(AssertionError, match="must be a poptorch.Options"):
        poptorch.DataLoader({}, Rows(12))


@pytest.mark.shows("DataLoader.options")
def test_the_options_of_a_loader_are_those_it_was_made_with():
    loader = poptorch.DataLoader(options(3, 1), Rows(12), batch_size=2)
    assert loader.options.device_iterations == 3
    run = poptorch.inferenceModel(lambda x: x.sum(0, keepdim=True), loader.options)
    assert [run(x).flatten().tolist() for x, _ in loader] == [[1, 5, 9], [13, 17, 21]]


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ({"batch_size": 0}, AssertionError, "positive int"),
        ({"async_options": {"rebatched_size": 2}}, AssertionError, "rebatched_size"),
        ({"rebatched_worker_size": 100}, AssertionError, "combined batch size"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        poptorch.DataLoader(options(), Rows(12), **arguments)

"""Each process of a job loads its own part of the data set: sizes, order, epochs, mistakes."""

import pickle

import pytest
import torch
from test_data_loader import Rows, Stream

import poptorch

pytestmark = pytest.mark.xdist_group("loading")


def loaders(processes, count, seed=None, **arguments):
    """One loader for each process of a job; items of 4 rows unless said otherwise."""
    made = []
    for process in range(processes):
        options = poptorch.Options().deviceIterations(2)
        options.Distributed.configureProcessId(process, processes)
        if seed is not None:
            options.randomSeed(seed)
        made.append(poptorch.DataLoader(options, Rows(count), batch_size=2, **arguments))
    return made


def epoch(loader):
    return [index for _, item in loader for index in item.tolist()]


@pytest.mark.shows("Options.Distributed.configureProcessId")
def test_whole_items_in_order_without_overlap():
    parts = loaders(3, 40)
    assert [len(part) for part in parts] == [3, 3, 3]
    assert [epoch(part) for part in parts] == [list(range(12)), list(range(12, 24)), list(range(24, 36))]


def test_keeping_the_rest_shares_every_element_out():
    parts = loaders(3, 23, drop_last=False)
    assert [epoch(part) for part in parts] == [list(range(8)), list(range(8, 16)), list(range(16, 23))]


@pytest.mark.parametrize("processes", [2, 3, 5])
def test_shuffling_never_overlaps_and_takes_in_turn_what_was_left_out(processes):
    parts = loaders(processes, 43, seed=7, shuffle=True)
    reference = torch.Generator().manual_seed(7)
    for number in range(4):
        order = torch.randperm(43, generator=reference).tolist()
        per_process = 4 * (43 // (4 * processes))
        start = (43 - per_process * processes) if number % 2 else 0
        seen = [epoch(part) for part in parts]
        assert [len(part) for part in seen] == [per_process] * processes
        assert sum(seen, []) == order[start : start + per_process * processes]


def test_epochs_differ_and_go_on_after_a_copy():
    (first, _) = loaders(2, 40, seed=1, shuffle=True)
    one, two = epoch(first), epoch(first)
    assert one != two
    sampler = loaders(2, 40, seed=1, shuffle=True)[0].sampler
    assert list(sampler) == one
    assert list(pickle.loads(pickle.dumps(sampler))) == two == list(sampler)


def test_asynchronous_loading_of_a_part():
    parts = loaders(
        2,
        22,
        drop_last=False,
        mode=poptorch.DataLoaderMode.AsyncRebatched,
        async_options={"sharing_strategy": poptorch.SharingStrategy.Fork},
    )
    try:
        assert [len(part) for part in parts] == [3, 3]
        assert [epoch(part) for part in parts] == [list(range(11)), list(range(11, 22))]
    finally:
        for part in parts:
            part.terminate()


def test_other_ways_to_partition_are_left_to_the_user():
    options = poptorch.Options()
    options.Distributed.configureProcessId(1, 2)
    loader = poptorch.DataLoader(options, Stream(4), batch_size=2, auto_distributed_partitioning=False)
    assert len(list(loader)) == 2


@pytest.mark.parametrize(
    "make, error, message",
    [
        (
            lambda o: poptorch.DataLoader(o, Rows(5), batch_size=4),
            poptorch.Error,
            "'poptorch_py_error': The dataset is too small: 5 elements are not one item of 4 rows for each of 2 processes. "
            "Use drop_last=False or a smaller combined batch size.",
        ),
        (
            lambda o: poptorch.DataLoader(o, Rows(40), shuffle=True),
            AssertionError,
            "Shuffling in a job of several processes needs Options.randomSeed: all processes must draw the same order.",
        ),
        (
            lambda o: poptorch.DataLoader(o, Stream(40)),
            AssertionError,
            "An iterable dataset cannot be partitioned among processes automatically. "
            "Share it out yourself and pass auto_distributed_partitioning=False.",
        ),
        (
            lambda o: poptorch.DataLoader(o, Rows(40), batch_size=None),
            AssertionError,
            "batch_size=None (a dataset that yields whole items) cannot be partitioned among processes automatically. "
            "Share it out yourself and pass auto_distributed_partitioning=False.",
        ),
        (
            lambda o: poptorch.DataLoader(o, Rows(40), batch_sampler=[[0, 1]]),
            poptorch.Error,
            "'poptorch_py_error': A sampler cannot be partitioned among processes automatically. "
            "Share it out yourself and pass auto_distributed_partitioning=False.",
        ),
    ],
)
@pytest.mark.edge("22.60")
def test_what_cannot_be_partitioned(make, error, message):
    options = poptorch.Options()
    options.Distributed.configureProcessId(0, 2)
    with pytest.raises(error) as raised:
        make(options)
    assert str(raised.value) == message

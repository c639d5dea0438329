"""What starting many workers costs: each begins with everything imported and leaves the objects it shares alone."""

import gc
import os
import sys

import pytest
import torch

import poptorch
from poptorch import DataLoaderMode, SharingStrategy

pytestmark = pytest.mark.xdist_group("loading")

looked_for = []  # modules that were looked for in this process since it was forked
os.register_at_fork(after_in_child=looked_for.clear)


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        looked_for.append(name)
        return None


class Rows(torch.utils.data.Dataset):
    """An item says how many objects its process has frozen, and how many modules it looked for."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([gc.get_freeze_count(), len(looked_for)])

    def __setstate__(self, state):  # in a loading process that was not forked from here
        sys.meta_path.insert(0, Finder)


WAYS = [
    pytest.param({}, id="Sync"),
    *(
        pytest.param({"mode": DataLoaderMode.Async, "async_options": {"sharing_strategy": strategy}}, id=strategy.name)
        for strategy in SharingStrategy
    ),
]


@pytest.mark.parametrize("way", WAYS)
def test_workers_import_nothing_and_begin_with_frozen_objects(way, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    before = gc.get_freeze_count()
    loader = poptorch.DataLoader(poptorch.Options(), Rows(), num_workers=2, **way)
    items = torch.cat(list(loader))
    loader.terminate()
    assert items.shape == (8, 2)
    assert items[:, 0].min() > 50_000
    assert items[:, 1].tolist() == [0] * 8
    assert gc.get_freeze_count() == before, "the program's own objects are collected as before"

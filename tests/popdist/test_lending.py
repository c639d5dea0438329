"""Tensors that threads of torch exchange: an exchange ends when these threads have let go of them."""

import threading
import time

import torch
from popdist._impl import lending


def test_an_exchange_ends_when_a_thread_has_let_go_of_its_tensors():
    tensors, let_go = [torch.ones(2), torch.ones(3)], []

    def exchange(held):
        time.sleep(0.05)
        let_go.append(True)
        del held

    with lending.lent(tensors):
        thread = threading.Thread(target=exchange, args=(tensors[1],))
        thread.start()
        thread = None  # the thread alone holds its arguments
        assert not let_go
    assert let_go


def test_a_tensor_that_the_caller_keeps_ends_the_wait(monkeypatch):
    monkeypatch.setattr(lending, "_PATIENCE", 0.01)
    tensors, kept = [torch.ones(2)], []
    began = time.monotonic()
    with lending.lent(tensors):
        kept.append(tensors[0])
    assert time.monotonic() - began < 5


def test_an_exchange_that_fails_does_not_wait():
    tensors, kept = [torch.ones(2)], []
    began = time.monotonic()
    try:
        with lending.lent(tensors):
            kept.append(tensors[0])
            raise ValueError("failed")
    except ValueError:
        pass
    assert time.monotonic() - began < lending._PATIENCE / 2

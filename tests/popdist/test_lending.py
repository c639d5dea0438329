"""Tensors that threads of torch exchange: an exchange ends when these threads have let go of them."""

import threading
import time

import pytest
import torch
from popdist._impl import lending


@pytest.fixture
def clock(monkeypatch):
    """Stands for the module time: a second goes by with each sleep."""

    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

        def sleep(self, seconds):
            self.now += 1

    monkeypatch.setattr(lending, "time", Clock())
    return lending.time


def test_an_exchange_ends_when_a_thread_has_let_go_of_its_tensors(monkeypatch):
    monkeypatch.setattr(lending, "_PATIENCE", 60)  # a limit for hangs
    tensors, let_go, is_asked = [torch.ones(2), torch.ones(3)], [], threading.Event()

    def exchange(held):
        is_asked.wait()
        time.sleep(0.05)
        let_go.append(True)
        del held

    with lending.lent(tensors):
        thread = threading.Thread(target=exchange, args=(tensors[1],))
        thread.start()
        thread = None  # the thread alone holds its arguments
        assert not let_go
        is_asked.set()
    assert let_go


def test_a_tensor_that_the_caller_keeps_ends_the_wait(clock):
    tensors, kept = [torch.ones(2)], []
    with lending.lent(tensors):
        kept.append(tensors[0])
    assert clock.now == lending._PATIENCE


def test_an_exchange_that_fails_does_not_wait(clock):
    tensors, kept = [torch.ones(2)], []
    try:
        with lending.lent(tensors):
            kept.append(tensors[0])
            raise ValueError("failed")
    except ValueError:
        pass
    assert clock.now == 0

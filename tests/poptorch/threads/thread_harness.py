"""Threads for tests: each has a time limit, and who misses it shows all stacks."""

import contextlib
import faulthandler
import sys
import threading
import time

import torch

import poptorch

LIMIT = 120  # seconds, for hangs alone


class Stopped(AssertionError):
    """A thread did not end in time; all stacks are on stderr."""


class Worker(threading.Thread):
    """Runs `function(*args)`; `result()` is what it returned, or raises what it raised."""

    def __init__(self, function, *args):
        super().__init__(daemon=True, name=getattr(function, "__name__", None))
        self._work, self._value, self._error = (function, args), None, None
        self.start()

    def run(self):
        function, args = self._work
        try:
            self._value = function(*args)
        except BaseException as error:
            self._error = error

    def result(self, limit=LIMIT):
        self.join(limit)
        if self.is_alive():
            faulthandler.dump_traceback(all_threads=True, file=sys.__stderr__)
            raise Stopped(f"{self.name} did not end within {limit} s")
        if self._error is not None:
            raise self._error
        return self._value


@contextlib.contextmanager
def watchdog(seconds=2 * LIMIT):
    """The last resort: prints all stacks and ends the process when nothing goes on any more, not even Python."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


class Long(torch.nn.Module):
    """A small model; how long a call takes is a matter of device iterations."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.layer = torch.nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        y = self.layer(x)
        if self.training:
            return y, poptorch.identity_loss((y * y).mean(), "mean")
        return y


ITERATIONS = 30_000  # some 100 ms


def options(iterations=ITERATIONS):
    chosen = poptorch.Options().showCompilationProgressBar(False)
    return chosen.deviceIterations(iterations) if iterations > 1 else chosen


def inputs(iterations=ITERATIONS):
    return torch.linspace(-1, 1, 8 * iterations).reshape(iterations, 8)


def trainer(iterations=ITERATIONS, model=None, optimizer=None, chosen=None):
    model = model if model is not None else Long().train()
    optimizer = optimizer or poptorch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return poptorch.trainingModel(model, chosen or options(iterations), optimizer)


class Caller:
    """A thread that calls a wrapper again and again until the context ends."""

    def __init__(self, wrapper, x, allowed=()):
        self._wrapper, self._x, self._allowed = wrapper, x, allowed
        self._stop = threading.Event()
        self.calls = 0
        self.errors = []

    def _loop(self):
        while not self._stop.is_set():
            try:
                self._wrapper(self._x)
            except self._allowed as error:
                self.errors.append(error)
            self.calls += 1

    def __enter__(self):
        self._worker = Worker(self._loop)
        return self

    def __exit__(self, *exception):
        self._stop.set()
        self._worker.result()

    def wait_for_a_call(self):
        """Until a call that began after this one has ended; another one has most likely begun."""
        target, end = self.calls + 2, time.monotonic() + LIMIT
        while self.calls < target:
            assert time.monotonic() < end and self._worker.is_alive(), "no call ends"
            time.sleep(0.001)

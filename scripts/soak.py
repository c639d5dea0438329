#!/usr/bin/env python3
"""Works for a long time and fails when something grows: memory, threads, open files, processes, shared memory.

    scripts/soak.py --minutes 60 [--seed N]
    scripts/soak.py --minutes 1 --every 2 --leak files     # must fail: each work leaves a file open

Training (pipelined, replicated, accumulated), inference, attach and detach, loaders of all modes, and saving and loading go on
in turn; beside them a second thread trains and infers with wrappers of its own, so that both cores work. Every `--every` seconds
the main thread samples what the process holds, when both are between two works. The first quarter of the time, after each work
has been done in each way, is warm-up: what is imported, compiled and cached there is not looked at.

A line is fitted to the rest by least squares. The run fails (exit 1, and says which) when a line rises by more than its bound, in
units an hour, and more than `NOISE` over the samples: a resident set moves in steps of what the allocator takes at once, so a
short run cannot tell a leak from one step. Both numbers are printed for everything, with the first and the last sample.
"""

import argparse
import contextlib
import gc
import os
import pathlib
import secrets
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch

import poptorch

# What is sampled: the most it may rise, an hour and (against steps of the allocator) in all.
BOUNDS = {"resident MiB": 24.0, "threads": 0.5, "open files": 0.5, "processes": 0.5, "shared files": 0.5}
NOISE = {"resident MiB": 6.0, "threads": 0.5, "open files": 0.5, "processes": 0.5, "shared files": 0.5}
LEAKS = ("none", "memory", "threads", "files")
WARM_UP = 0.25  # of the time
WAYS = 4  # each work goes these first; the warm-up begins with them
MIB = 1 << 20


class Net(torch.nn.Module):
    """Two stages of a pipeline, or one IPU."""

    def __init__(self, ipus=1):
        super().__init__()
        self.first, self.second = torch.nn.Linear(32, 64), torch.nn.Linear(64, 8)
        self.ipus = ipus

    def forward(self, x, target=None):
        poptorch.Block.start("first", ipu_id=0)
        x = torch.relu(self.first(x))
        poptorch.Block.start("second", ipu_id=self.ipus - 1)
        x = self.second(x)
        return x if target is None else (x, torch.nn.functional.mse_loss(x, target))


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((32,), float(index)), torch.full((8,), index / 64)


def options(iterations=2, accumulation=1, replicas=1):
    made = poptorch.Options().deviceIterations(iterations).showCompilationProgressBar(False)
    made.replicationFactor(replicas)
    made.Training.gradientAccumulation(accumulation)
    return made


def trainer(ipus, made):
    model = Net(ipus)
    return poptorch.trainingModel(model, made, torch.optim.Adam(model.parameters(), lr=1e-3))


def check(is_right, what):
    if not is_right:
        raise RuntimeError(f"wrong result while soaking: {what}")


def train(number):
    """A wrapper of each kind from compilation to its end; every other one is only dropped."""
    ipus, replicas = 1 + number % 2, 1 + number // 2 % 2
    run = trainer(ipus, options(accumulation=4, replicas=replicas))
    x, target = torch.randn(16 * replicas, 32), torch.zeros(16 * replicas, 8)
    losses = [run(x, target)[1].mean().item() for _ in range(20)]
    check(losses[-1] < losses[0], "the loss does not fall")
    if number % 2:
        run.destroy()


def infer(number):
    model = Net(1 + number % 2).eval()
    run = poptorch.inferenceModel(model, options())
    x = torch.randn(16, 32)
    for _ in range(20):
        out = run(x)
    check(torch.allclose(out, model(x), atol=1e-5), "inference differs from the CPU")
    run.destroy()


def attach_and_detach(number):
    run = trainer(1 + number % 2, options(accumulation=4))
    x, target = torch.randn(16, 32), torch.zeros(16, 8)
    for _ in range(5):
        run(x, target)
        run.detachFromDevice()
        run.attachToDevice()
    run.destroy()


def load_data(number):
    """Sync and Async, with and without workers, whole epochs and broken-off ones, ended and dropped."""
    mode = list(poptorch.DataLoaderMode)[number % 3]
    loader = poptorch.DataLoader(options(), Rows(), batch_size=4, num_workers=number // 3 % 3, mode=mode)
    for _ in range(2):
        rows = sum(len(x) for x, _ in loader)
        check(rows == 64, f"{rows} of 64 rows came")
    next(iter(loader))
    if number % 2:
        loader.terminate()


def save_and_load(number, folder):
    run = trainer(1, options())
    x, target = torch.randn(4, 32), torch.zeros(4, 8)
    run(x, target)
    file = os.path.join(folder, "soak.poptorch")
    run.save(file)
    again = poptorch.load(file)
    check(torch.equal(again(x, target)[1], run(x, target)[1]), "a loaded trainer goes another way")
    for wrapper in (run, again):
        wrapper.destroy()
    os.unlink(file)


class Beside(threading.Thread):
    """Trains and infers until told to stop; what it raises is raised by `end`."""

    def __init__(self):
        super().__init__(daemon=True)
        self._working = threading.Lock()  # held during a work: between two of them its wrappers are gone
        self._may_work = threading.Event()
        self._may_work.set()
        self._is_over = threading.Event()
        self._error = None

    def run(self):
        number = 0
        try:
            while not self._is_over.is_set():
                self._may_work.wait()
                with self._working:
                    (train, infer)[number % 2](number // 2)
                number += 1
        except BaseException as error:
            self._error = error

    @contextlib.contextmanager
    def paused(self):
        """Between two works of the thread."""
        self._may_work.clear()
        with self._working:
            yield
        self._may_work.set()

    def end(self):
        self._is_over.set()
        self.join()
        if self._error is not None:
            raise self._error


def leak(kind, held):
    """What a test asks for: one more thing that stays after each work."""
    if kind == "memory":
        held.append(bytearray(os.urandom(1024)) * 8192)  # 8 MiB, written
    elif kind == "threads":
        held.append(threading.Thread(target=time.sleep, args=(3600,), daemon=True))
        held[-1].start()
    elif kind == "files":
        os.open(__file__, os.O_RDONLY)


def sample():
    """What the process holds between two works, by name."""
    gc.collect()
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    children = 0
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            children += len((task / "children").read_text().split())
        except OSError:  # a thread that has just ended
            pass
    mine = [name for name in os.listdir("/dev/shm") if name.startswith(f"torch_{os.getpid()}_")]
    return {
        "resident MiB": pages * os.sysconf("SC_PAGE_SIZE") / MIB,
        "threads": len(os.listdir("/proc/self/task")),
        "open files": len(os.listdir("/proc/self/fd")),
        "processes": children,
        "shared files": len(mine),
    }


def slope(seconds, values):
    """Units a second of the line through the samples (least squares)."""
    middle, mean = sum(seconds) / len(seconds), sum(values) / len(values)
    spread = sum((s - middle) ** 2 for s in seconds)
    return sum((s - middle) * (v - mean) for s, v in zip(seconds, values)) / spread


def verdict(samples):
    """Prints a row for everything sampled; the names of what grows."""
    seconds = [when for when, _ in samples]
    length = seconds[-1] - seconds[0]
    growing = []
    print(f"{'held':<14} {'first':>9} {'last':>9} {'an hour':>9} {'bound':>7} {'in all':>8} {'noise':>6}")
    for name, bound in BOUNDS.items():
        values = [held[name] for _, held in samples]
        rate = slope(seconds, values)
        grows = rate * 3600 > bound and rate * length > NOISE[name]
        growing += [name] if grows else []
        print(
            f"{name:<14} {values[0]:>9.1f} {values[-1]:>9.1f} {rate * 3600:>9.2f} {bound:>7.1f} {rate * length:>8.2f} "
            f"{NOISE[name]:>6.1f}{'  GROWS' if grows else ''}"
        )
    return growing


def soak(seconds, every, kind):
    """(samples after the warm-up: (seconds, sample), number of works done)."""
    number, samples, held = 0, [], []
    beside = Beside()
    beside.start()
    with tempfile.TemporaryDirectory() as folder:
        works = (train, infer, attach_and_detach, load_data, lambda index: save_and_load(index, folder))
        for work in works:
            for index in range(WAYS):
                work(index)
        began = time.monotonic()
        due = began + WARM_UP * seconds
        while time.monotonic() < began + seconds:
            works[number % len(works)](number // len(works))
            leak(kind, held)
            number += 1
            now = time.monotonic()
            if now >= due:
                with beside.paused():
                    samples.append((now - began, sample()))
                due = max(due + every, now)
                print(f"{now - began:7.0f} s  {number} works  {samples[-1][1]}", flush=True)
    beside.end()
    return samples, number


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--every", type=float, default=30, help="seconds between samples")
    parser.add_argument("--leak", choices=LEAKS, default="none", help="leave something behind on purpose, for tests")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32), help="of all draws; a fresh one by default")
    arguments = parser.parse_args()
    poptorch.logger.setLevel("ERROR")
    torch.manual_seed(arguments.seed)
    print(f"again with: --seed {arguments.seed} (both threads draw from one generator, in turns that differ)", flush=True)
    samples, works = soak(60 * arguments.minutes, arguments.every, arguments.leak)
    if len(samples) < 4:
        sys.exit(f"only {len(samples)} samples after the warm-up: soak longer, or sample more often")
    growing = verdict(samples)
    print(f"{works} works, {len(samples)} samples")
    if growing:
        sys.exit(f"these grow: {', '.join(growing)}")


if __name__ == "__main__":
    main()

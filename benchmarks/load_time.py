#!/usr/bin/env python3
"""What loading an executable costs as programs grow: seconds of the processor to read and check the file, per instruction.

    python benchmarks/load_time.py [--products 1000 --products 10000 ...]

A chain of products of small matrices, compiled once and saved without the model; the file is then read as `poptorch.load`
reads it, without capturing. The last column stays level when the cost is linear.
"""

import argparse
import os
import tempfile
import time

import torch

import poptorch
from poptorch import poptorch_core


class Chain(torch.nn.Module):
    def __init__(self, products):
        super().__init__()
        self.products = products
        self.w = torch.nn.Parameter(torch.eye(4))

    def forward(self, x):
        for _ in range(self.products):
            x = x @ self.w
        return x


def seconds_to_load(path):
    """Returns the processor time to load the file, best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        try:
            poptorch_core.ExecutableFile(path).executor("no graph")
        except poptorch.Error as error:  # the last check of all, after everything was read
            assert "executable of another model" in error.message
        best = min(best, time.process_time() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", type=int, action="append")
    arguments = parser.parse_args()
    print("products  instructions        bytes   seconds  us/instruction")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "e.poptorch")
        for products in arguments.products or (1000, 10_000, 50_000):
            executor = poptorch.inferenceModel(Chain(products).eval())
            executor.compile(torch.zeros(4, 4))
            executor.save(path, export_model=False)
            count = executor._executable.statistics()["instructions"]
            seconds = seconds_to_load(path)
            size = os.path.getsize(path)
            print(f"{products:8} {count:13} {size:12} {seconds:9.3f} {seconds / count * 1e6:15.1f}", flush=True)


if __name__ == "__main__":
    main()

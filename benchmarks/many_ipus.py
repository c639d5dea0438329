#!/usr/bin/env python3
"""What a pipeline over emulated IPUs costs: the same model on one IPU and cut into stages over 4 and 64 of them, in one process, in turns.

    python benchmarks/many_ipus.py [--ipus 4 --ipus 64] [--turns 7] [--micro-batch 16] [--size 512]

The model is a stack of 64 linear layers with relu; a call runs as many micro-batches as twice the stages of the longest pipeline.
Prints milliseconds of a call (the median of turns) and one IPU's time over each plan's: above 1 the pipeline is faster.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("POPTORCH_EMULATED_SYSTEM", "pod64")

import poptorch  # noqa: E402
import torch  # noqa: E402

LAYERS = 64


class Stack(torch.nn.Module):
    """`LAYERS` layers in as many equal blocks as there are IPUs."""

    def __init__(self, size, ipus):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(size, size) for _ in range(LAYERS))
        self.ipus = ipus

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            block = i * self.ipus // LAYERS
            poptorch.Block.start(f"block{block}", ipu_id=block)
            x = torch.relu(layer(x))
        return x, poptorch.identity_loss(x, "mean")


def wrapper_of(size, ipus, training, micro_batches):
    """The stack on so many IPUs: a pipeline if they are several. A call takes `micro_batches` micro-batches."""
    torch.manual_seed(0)
    model = Stack(size, ipus)
    options = poptorch.Options().showCompilationProgressBar(False).outputMode(poptorch.OutputMode.Final)
    if ipus > 1:
        options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
    if not training:
        options.deviceIterations(micro_batches)
        return poptorch.inferenceModel(model.eval(), options)
    options.Training.gradientAccumulation(micro_batches)
    return poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=1e-4))


def measured(wrappers, x, turns):
    """The median of the seconds that a call of each wrapper takes, in turns: a turn is a call to warm up and one that counts."""
    seconds = {ipus: [] for ipus in wrappers}
    for _ in range(turns):
        for ipus, wrapper in wrappers.items():
            if not wrapper.isCompiled():
                wrapper.compile(x)
            else:
                wrapper.attachToDevice()
            wrapper(x)
            start = time.perf_counter()
            wrapper(x)
            seconds[ipus].append(time.perf_counter() - start)
            wrapper.detachFromDevice()  # the machine has not as many as all of them take
    return {ipus: statistics.median(values) for ipus, values in seconds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ipus", type=int, action="append")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=512)
    arguments = parser.parse_args()
    plans = arguments.ipus or [4, 64]
    micro_batches = 2 * max(plans)
    x = torch.randn(micro_batches * arguments.micro_batch, arguments.size)
    print("| mode | IPUs | ms a call | one IPU's time / this |\n|---|---|---|---|")
    for training in (False, True):
        wrappers = {
            ipus: wrapper_of(arguments.size, ipus, training, micro_batches) for ipus in dict.fromkeys([1, *plans])
        }
        for ipus, seconds in (times := measured(wrappers, x, arguments.turns)).items():
            mode = "training" if training else "inference"
            print(f"| {mode} | {ipus} | {seconds * 1e3:.1f} | {times[1] / seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What compiling costs as models grow: seconds of capture and compilation, and peak memory, per number of operations.

    python benchmarks/compile_cost.py [--training] [--ops 1000 --ops 2000 ...]

Each size in a process of its own. A block of ten operations (two products, two activations, sums, a norm by hand) is
repeated; the last column is time per operation, which stays level when the cost is linear.
"""

import argparse
import os
import pathlib
import subprocess
import sys

ONE = """
import resource, sys, time, torch, poptorch
ops, training, ipus = int(sys.argv[1]), sys.argv[2] == "True", int(sys.argv[3])
class Net(torch.nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(2 * blocks))
        self.blocks = blocks
    def forward(self, x):
        for i in range(self.blocks):
            poptorch.Block.start(f"b{i * ipus // self.blocks}", ipu_id=i * ipus // self.blocks)
            y = torch.tanh(self.layers[2 * i](x))
            y = torch.relu(self.layers[2 * i + 1](y) + x) * 0.5
            x = (y - y.mean()) * 0.9 + x * 0.1
        return x, poptorch.identity_loss(x, "mean")
net = Net(ops // 10)
options = poptorch.Options().showCompilationProgressBar(True)
options.setExecutionStrategy(poptorch.ShardedExecution())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
wrapper = poptorch.trainingModel(net, options) if training else poptorch.inferenceModel(net, options)
start = time.perf_counter()
wrapper.compile(torch.randn(4, 32))
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(seconds, (peak - before) / 1024)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--ops", type=int, action="append")
    parser.add_argument("--ipus", type=int, default=1)
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[1]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]))
    print("| operations | seconds | memory added, MiB | µs per operation |\n|---|---|---|---|")
    for ops in arguments.ops or (1000, 2000, 5000, 10000):
        command = [sys.executable, "-c", ONE, str(ops), str(arguments.training), str(arguments.ipus)]
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        if result.returncode:
            sys.exit(f"{ops} operations failed:\n{result.stderr[-3000:]}")
        seconds, memory = map(float, result.stdout.split())
        print(f"| {ops} | {seconds:.2f} | {memory:.0f} | {seconds / ops * 1e6:.0f} |", flush=True)


if __name__ == "__main__":
    main()

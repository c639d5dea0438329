"""Compiles a training program on a machine without IPUs, and trains with it in another process that compiles nothing.

    python examples/precompile.py                 # both parts, one after the other
    python examples/precompile.py compile FILE    # on the build machine
    python examples/precompile.py train FILE      # on the machine with IPUs

`useOfflineIpuTarget` compiles for a version of the IPU that need not be there: the wrapper is compiled, takes no calls, and
`compileAndExport` writes program, weights and optimizer to one file. `poptorch.load` reads that file. It records `forward`
once, to check that the model is the one of the file, and takes the program as it is. Prints for each part the seconds, whether a
device is attached, and the losses; at last whether they are those of a program compiled where it runs, to the last bit.
"""

import os
import subprocess
import sys
import tempfile
import time

import torch

import poptorch

WIDTH, LAYERS, ROWS, ITERATIONS, ACCUMULATION = 64, 12, 8, 2, 4


class Net(torch.nn.Module):
    """A deep network on two IPUs; its second half begins the second stage of the pipeline."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, x, target):
        for index, layer in enumerate(self.layers):
            if index % (LAYERS // 2) == 0:
                poptorch.Block.start(f"half{index}", ipu_id=index // (LAYERS // 2))
            x = x + torch.tanh(layer(x))
        return torch.nn.functional.mse_loss(x, target)


def options():
    made = poptorch.Options().deviceIterations(ITERATIONS).showCompilationProgressBar(False)
    made.outputMode(poptorch.OutputMode.Final)
    made.Training.gradientAccumulation(ACCUMULATION)
    return made


def trainer_for(made):
    torch.manual_seed(1)
    model = Net()
    return poptorch.trainingModel(model, made, torch.optim.AdamW(model.parameters(), lr=1e-2))


def data(calls=4):
    generator = torch.Generator().manual_seed(2)
    rows = torch.randn(calls, ITERATIONS * ACCUMULATION * ROWS, WIDTH, generator=generator)
    return [(call, call.roll(1, 1)) for call in rows]


def losses_of(trainer):
    return [trainer(*call).item() for call in data()]


def compile_for_later(file):
    """The build machine: only shapes and types of the example inputs matter."""
    trainer = trainer_for(options().useOfflineIpuTarget())
    began = time.monotonic()
    trainer.compileAndExport(file, *data()[0])
    seconds = time.monotonic() - began
    print(f"compiled in {seconds:.3f} s: {os.path.getsize(file):,} bytes", end=", ")
    print(f"attached: {trainer.isAttachedToDevice()}")
    trainer.destroy()


def train_without_compiling(file):
    """The machine with IPUs. The file may name only classes that this program has: Net is one."""
    began = time.monotonic()
    trainer = poptorch.load(file)
    seconds = time.monotonic() - began
    print(f"loaded in {seconds:.3f} s: attached: {trainer.isAttachedToDevice()}")
    print("losses:", *map(float.hex, losses_of(trainer)))
    trainer.destroy()


def main():
    if len(sys.argv) == 3:
        {"compile": compile_for_later, "train": train_without_compiling}[sys.argv[1]](sys.argv[2])
        return
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "net.poptorch")
        parts = [
            subprocess.run([sys.executable, __file__, part, file], check=True, text=True, stdout=subprocess.PIPE).stdout
            for part in ("compile", "train")
        ]
    print("".join(parts), end="")
    there = [float.fromhex(loss) for loss in parts[1].splitlines()[-1].split()[1:]]
    here = losses_of(trainer_for(options()))
    print("losses of a program compiled here:", *(f"{loss:.6f}" for loss in here))
    print(f"the same to the last bit: {here == there}")


if __name__ == "__main__":
    main()

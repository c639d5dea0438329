"""An operation of a user's own in a model that is trained.

    python examples/custom_op/use.py LIBRARY     built with CMakeLists.txt
    python examples/custom_op/use.py --torch     built here, with the compiler of torch.utils.cpp_extension
"""

import ctypes
import pathlib
import sys
import tempfile

import torch

import poptorch

HERE = pathlib.Path(__file__).resolve().parent


def build_with_torch(folder):
    """Compiles cube.cc as torch compiles extensions; returns the path of the library."""
    from torch.utils import cpp_extension

    return cpp_extension.load(
        name="cube",
        sources=[str(HERE / "cube.cc")],
        extra_include_paths=[str(HERE.parents[1] / "csrc" / "include")],
        build_directory=folder,
        is_python_module=False,
        is_standalone=False,
    ) or str(pathlib.Path(folder) / "cube.so")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x, target=None):
        y = self.fc(x)
        if poptorch.isRunningOnIpu():
            y = poptorch.custom_op([y], "cube", "acme", 1, example_outputs=[y], attributes={"scale": 0.5})[0]
        else:
            y = 0.5 * y**3
        return y if target is None else (y, torch.nn.functional.mse_loss(y, target))


def main():
    with tempfile.TemporaryDirectory() as folder:
        library = build_with_torch(folder) if sys.argv[1] == "--torch" else sys.argv[1]
        ctypes.cdll.LoadLibrary(library)
        torch.manual_seed(1)
        model, reference = Model(), Model()
        reference.load_state_dict(model.state_dict())
        x, target = torch.randn(8, 4), torch.randn(8, 4)
        optimizer = torch.optim.SGD(reference.parameters(), lr=0.05)
        trainer = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.05))
        for step in range(5):
            _, loss = trainer(x, target)
            optimizer.zero_grad()
            expected = reference(x, target)[1]
            expected.backward()
            optimizer.step()
            print(f"step {step}: loss {loss.item():.4f}, on the CPU {expected.item():.4f}")
        trainer.copyWeightsToHost()
        print("same weights:", torch.allclose(model.fc.weight, reference.fc.weight, atol=1e-5))


if __name__ == "__main__":
    main()

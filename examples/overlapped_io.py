"""Overlapped host I/O: I/O tiles fetch the next micro-batch and store the last result while the IPU computes.

The images come as 64-bit integers, which are narrowed on their way to the device, so that a fetch takes about as long as
the products. The trace of one call says how often a transfer ran beside the computation of another micro-batch, and the
results are compared bit for bit with those of a model without overlap. Run it with: python examples/overlapped_io.py
"""

import torch

import poptorch
from poptorch import OverlapMode

ROWS, FEATURES, CLASSES, MICRO_BATCHES = 256, 1024, 512, 8


class Classifier(torch.nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.mode = mode
        self.layer = torch.nn.Linear(FEATURES, CLASSES)

    def forward(self, pixels):
        pixels = poptorch.set_overlap_for_input(pixels, self.mode)  # before any other operation
        scores = self.layer(pixels.to(torch.float32) / 255)
        return poptorch.set_overlap_for_output(scores, self.mode)  # the last one


def wrapped(mode):
    torch.manual_seed(0)
    options = poptorch.Options().deviceIterations(MICRO_BATCHES)
    options.setExecutionStrategy(poptorch.ShardedExecution())  # a pipeline does not overlap, one IPU or more
    options.TensorLocations.numIOTiles(32)
    options._Popart.set("defaultPrefetchBufferingDepth", 2)  # micro-batches that wait for their turn
    return poptorch.inferenceModel(Classifier(mode), options)


def beside_compute(model, pixels):
    """Transfers of a call that ran while the products of another micro-batch did."""
    model(pixels)  # compiles, and warms up
    model._executable.trace(True)
    model(pixels)
    events = model._executable.take_trace()
    products = [e for e in events if e["kernel"].startswith("linear")]
    transfers = [e for e in events if e["step"] in ("stream_load", "stream_store")]
    return sum(
        any(
            t["iteration"] != p["iteration"] and t["begin_ns"] < p["end_ns"] and p["begin_ns"] < t["end_ns"]
            for p in products
        )
        for t in transfers
    ), len(transfers)


def main():
    pixels = torch.randint(0, 256, (MICRO_BATCHES * ROWS, FEATURES))
    results = []
    for mode in (OverlapMode.NoOverlap, OverlapMode.OverlapDeviceIterationLoop):
        model = wrapped(mode)
        beside, transfers = beside_compute(model, pixels)
        print(f"{mode.name}: {beside} of {transfers} transfers beside other products")
        results.append(model(pixels))
        io_tiles = [line for line in model._executable.program_text().splitlines() if "io tiles of ipu" in line]
        print(f"  programs of I/O tiles: {len(io_tiles)}")
    print("the same bits:", torch.equal(*results))


if __name__ == "__main__":
    main()

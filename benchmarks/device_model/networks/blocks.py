"""Which IPU a part of a network runs on."""

import poptorch


class Blocks:
    """Layers of each IPU, in order: `[3, 7, 7, 7]` puts the first three layers on IPU 0.

    Layer 0 begins on the first IPU that has layers; `begin(0)` is the embedding, which stands before it.
    """

    def __init__(self, layers):
        self.first = {}
        at = 0
        for ipu, count in enumerate(layers):
            for layer in range(at, at + count):
                self.first[layer] = ipu
            at += count
        self.is_split = len(layers) > 1
        self.now = None

    def start(self):
        """A forward pass begins, on IPU 0."""
        self.now = None
        self.move(0)

    def layer(self, number):
        self.move(self.first[number])

    def move(self, ipu):
        if self.is_split and ipu != self.now:
            poptorch.Block.start(f"block{ipu}" if self.now is None or ipu > self.now else f"head{ipu}", ipu_id=ipu)
        self.now = ipu


def checkpoint(tensor, is_recomputed):
    """The result of a layer is kept for the backward pass, what is inside is computed again."""
    return poptorch.recomputationCheckpoint(tensor) if is_recomputed else tensor

"""Transforms of graphs: gradients, sums in steps, and transfers that happen at once."""

from popxl.transforms.autodiff import ExpectedConnection, ExpectedConnectionType, GradGraphInfo, autodiff
from popxl.transforms.decompose_sum import decompose_sum
from popxl.transforms.io_tile_exchange import io_tile_exchange
from popxl.transforms.merge_exchange import merge_exchange

__all__ = [
    "autodiff",
    "GradGraphInfo",
    "ExpectedConnection",
    "ExpectedConnectionType",
    "decompose_sum",
    "merge_exchange",
    "io_tile_exchange",
]

"""Transforms of graphs."""

from popart._impl.enums import AutodiffStitchStrategy
from popart._impl.facade.transforms import Autodiff, DecomposeSum, MergeExchange, Prune

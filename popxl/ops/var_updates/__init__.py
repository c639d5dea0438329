"""Updates of variables in place, and what optimizers subtract from weights."""

from popxl.ops.var_updates import functions
from popxl.ops.var_updates.accumulate import accumulate_mean_, accumulator_zero_
from popxl.ops.var_updates.adam_updater import adam_updater, adamax_updater, lamb_updater
from popxl.ops.var_updates.functions import *

__all__ = [
    "accumulate_mean_",
    "accumulator_zero_",
    "adam_updater",
    "adamax_updater",
    "lamb_updater",
    *functions.__all__,
]

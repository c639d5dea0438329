"""What random numbers of a device depend on."""

from __future__ import annotations

import operator

from ipu_tensorflow import core, system


def reset_ipu_seed(
    seed: int, device: str = "/device:IPU:0", cpu_device: str = "cpu", experimental_identical_replicas: bool = False
) -> None:
    """From the next run on, the random operations and the random rounding of a device depend on this seed and on the runs after it
    alone. Without a call each device starts from a seed nobody knows.

    Args:
        seed: an integer.
        device: which IPUs.
        cpu_device: has no effect.
        experimental_identical_replicas: all replicas draw the same; it comes with replicas.
    """
    if experimental_identical_replicas:
        raise NotImplementedError(
            "reset_ipu_seed: experimental_identical_replicas is not in this version of tensorflow-ipu: it comes with replicas"
        )
    core.set_seed(operator.index(seed), system.ordinal_of(device))

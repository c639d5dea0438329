"""Seeds for random ops."""

import numpy as np

MAX_UINT64 = 2**64 - 1


def create_seeds(
    seed: int, offset: int = 0, batches_per_step: int = 1, gradient_accumulation_factor: int = 1, replicas: int = 1
) -> np.ndarray:
    """Seeds for the random ops of a run.

    Args:
        seed, offset: their sum decides about all values.
        batches_per_step, gradient_accumulation_factor, replicas: how many there are.

    Returns:
        uint32 array of shape (batches_per_step, gradient_accumulation_factor, replicas, 2), without axes of size 1.

    Example:
        >>> popxl.create_seeds(42, replicas=4).shape
        (4, 2)
    """
    shape = (batches_per_step, gradient_accumulation_factor, replicas)
    words = np.random.default_rng(seed + offset).integers(
        0, MAX_UINT64, endpoint=True, dtype="uint64", size=int(np.prod(shape))
    )
    halves = np.stack([words >> np.uint64(32), words & np.uint64(2**32 - 1)], axis=-1)
    return halves.astype(np.uint32).reshape(*shape, 2).squeeze()


def uint64_to_two_uint32(num: int) -> tuple[int, int]:
    """High and low 32 bits. Raises ValueError unless 0 <= num < 2**64."""
    if not 0 <= num <= MAX_UINT64:
        raise ValueError(f"{num} has no 64 bits without sign: give a number from 0 to {MAX_UINT64}.")
    return num >> 32, num & (2**32 - 1)


def two_uint32_to_uint64(a: int, b: int) -> int:
    """The number with these high and low 32 bits. Raises ValueError unless both are from 0 to 2**32 - 1."""
    for value in (a, b):
        if not 0 <= value < 2**32:
            raise ValueError(f"{value} has no 32 bits without sign: give numbers from 0 to {2**32 - 1}.")
    return (int(a) << 32) + int(b)

"""Random state of a wrapper: the seed and the number of calls, from which the device derives all else."""

import torch

from poptorch import poptorch_core
from poptorch._impl import errors
from poptorch._impl.log import DEBUG

_WORDS = 2**64


def seed_option(options):
    """`Options.randomSeed` as it was given, or None."""
    return options.random_seed if options.exists("random_seed") else None


def start(executable, options):
    """Gives a fresh executable its seed: `Options.randomSeed`, else the one torch started with (read, not drawn)."""
    seed = seed_option(options)
    if seed is None:
        seed = torch.initial_seed()
    executable.set_random_state(seed % _WORDS, 0)


def log_writing(executable):
    """Says in the log what a fresh device is given."""
    seed, calls = executable.random_state()
    poptorch_core.log(DEBUG, f"Setting random seed to {seed}")
    if calls > 0:
        poptorch_core.log(DEBUG, "Setting RNG state")


def log_reading(executable):
    """Says in the log what is read of a device that will be released, or for a file."""
    poptorch_core.log(DEBUG, "Reading random seed")
    if executable.random_state()[1] > 0:
        poptorch_core.log(DEBUG, "Reading RNG state")


def state(executable, options):
    """`[seed, calls]`; `[seed]` or None before the first call."""
    seed, calls = executable.random_state()
    if calls > 0:
        return [seed, calls]
    seed = seed_option(options)
    return None if seed is None else [seed]


def restore(executable, words):
    """The next call draws what a call at the time of `words = wrapper.rng_state` would have drawn."""
    is_list = isinstance(words, (list, tuple)) and 1 <= len(words) <= 2
    if not is_list or not all(isinstance(word, int) and not isinstance(word, bool) for word in words):
        raise errors.create_error(
            f"rng_state must be a list [seed] or [seed, calls] of integers, as reading it gives, not {words!r}."
        )
    seed, calls = words if len(words) == 2 else (words[0], 0)
    if not 0 <= calls < _WORDS:
        raise errors.create_error(f"rng_state: the number of calls must be in [0, 2**64), not {calls}.")
    executable.set_random_state(seed % _WORDS, calls)

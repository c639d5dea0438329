"""The host's generator while a model is captured.

The device draws numbers of its own, by the place of each random operation. A forward that puts a state back, or seeds
with the same number again, wants those of before once more, as checkpoints and reversible nets do for their dropout:
its random operations take the places of before.
"""

from __future__ import annotations

import torch

from poptorch._impl.capture import state as capture_state


def _remembering(original, capture, kept):
    def get_rng_state():
        state = original()
        if capture_state.active() is capture:
            kept.append((state, capture.core.random_operations()))
        return state

    return get_rng_state


def _returning(original, capture, kept):
    def set_rng_state(new_state):
        original(new_state)
        if capture_state.active() is capture:
            for state, place in kept:
                if state is new_state:
                    capture.core.return_to_random_operation(place)

    return set_rng_state


def _seeding(original, capture):
    places: dict[int, int] = {}  # of the first random operation behind each seed

    def manual_seed(seed):
        if capture_state.active() is capture:
            place = places.setdefault(int(seed), capture.core.random_operations())
            capture.core.return_to_random_operation(place)
        return original(seed)

    return manual_seed


def install(capture, changes):
    """Watches reads and writes of the generator for as long as `changes` lasts."""
    kept: list[tuple[torch.Tensor, int]] = []  # (state, random operations captured when it was read)
    changes.replace(torch, "get_rng_state", _remembering(torch.get_rng_state, capture, kept))
    changes.replace(torch, "set_rng_state", _returning(torch.set_rng_state, capture, kept))
    seeding = _seeding(torch.manual_seed, capture)
    for module in (torch, torch.random):
        changes.replace(module, "manual_seed", seeding)

"""Which elements of a map-style data set each process of a job loads."""

from __future__ import annotations

import collections.abc

import torch
import torch.utils.data

from poptorch._impl import errors


class PartSampler(torch.utils.data.Sampler):
    """The indices of one process's part; processes never overlap within an epoch.

    Args:
        elements: elements of the whole data set.
        combined: rows of one item.
        processes, process: of the job.
        drop_last: every process gets the same number of whole items; else elements are shared out evenly, the first
            processes taking one more of the rest.
        seed: shuffle with one permutation of all indices, the same in all processes, drawn anew each epoch; None keeps
            the order. When shuffling drops elements, every other epoch takes the ones the epoch before left out.
    """

    def __init__(self, elements, combined, processes, process, drop_last, seed):
        self._elements = elements
        self._seed = seed
        self._epoch = 0
        self._generator: torch.Generator | None = None
        if drop_last:
            self._count = combined * (elements // (combined * processes))
            if self._count == 0:
                raise errors.create_error(
                    f"The dataset is too small: {elements} elements are not one item of {combined} rows for each of "
                    f"{processes} processes. Use drop_last=False or a smaller combined batch size."
                )
            self._offset = process * self._count
        else:
            share, rest = divmod(elements, processes)
            self._count = share + (1 if process < rest else 0)
            self._offset = process * share + min(process, rest)
        self.dropped = elements - processes * self._count if drop_last else 0  # in the whole job, each epoch

    def __len__(self):
        return self._count

    def __iter__(self):
        offset = self._offset
        if self._seed is None:
            order: collections.abc.Sequence[int] = range(self._elements)
        else:
            if self._generator is None:
                self._generator = torch.Generator().manual_seed(self._seed)
            order = torch.randperm(self._elements, generator=self._generator).tolist()
            offset += self.dropped * (self._epoch % 2)
        self._epoch += 1
        return iter(order[offset : offset + self._count])

    def __getstate__(self):
        state = dict(self.__dict__)
        state["_generator"] = None if self._generator is None else self._generator.get_state()
        return state

    def __setstate__(self, state):
        generator = state["_generator"]
        self.__dict__.update(state)
        if generator is not None:
            self._generator = torch.Generator()
            self._generator.set_state(generator)

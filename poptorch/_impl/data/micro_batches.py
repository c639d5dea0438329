"""Micro-batches of a user's batch sampler: each is fetched and collated by itself, then those of a call are joined.

torch collates once for each entry of its batch sampler. Here an entry is a list of `MicroBatch`es, `MicroBatches` (what
torch takes for the data set) gives the samples of each, and `CollatedApart` (what torch takes for `collate_fn`) collates
them one by one. A program sees its own data set and its own `collate_fn`.
"""

from __future__ import annotations

import collections.abc
import mmap
import typing

import torch
import torch.utils.data

from poptorch._impl import errors
from poptorch._impl.log import logger
from poptorch._impl.structures import parser_of


class MicroBatch(list):
    """Indices of the samples of one micro-batch."""


def length(sampler: object) -> int | None:
    """How many micro-batches a sampler yields; None when it does not say."""
    try:
        return len(typing.cast(collections.abc.Sized, sampler))
    except (TypeError, NotImplementedError):
        return None


def rows(sampler: object) -> int:
    """Rows of one micro-batch as the sampler states them, or 1."""
    size = getattr(sampler, "batch_size", None)
    return size if isinstance(size, int) and size > 0 else 1


class GroupSampler(torch.utils.data.Sampler):
    """Lists of the `count` micro-batches of one call, from a user's batch sampler."""

    def __init__(self, batch_sampler, count, drop_last):
        self._inner = batch_sampler
        self._count = count
        self._drop_last = drop_last

    def __iter__(self):
        group = []
        for indices in self._inner:
            group.append(MicroBatch(indices))
            if len(group) == self._count:
                yield group
                group = []
        if group and not self._drop_last:
            yield group

    def __len__(self):
        whole, rest = divmod(len(self._inner), self._count)
        return whole + (1 if rest and not self._drop_last else 0)


class MicroBatches(torch.utils.data.Dataset):
    """A map-style data set that also gives the samples of a whole `MicroBatch`; everything else is that of the user's."""

    def __init__(self, dataset):
        self.__dict__["_of_user"] = dataset

    def __getitem__(self, index):
        dataset = self._of_user
        if not isinstance(index, MicroBatch):
            return dataset[index]
        if getattr(dataset, "__getitems__", None):  # torch asks for many samples at once in the same way
            return dataset.__getitems__(list(index))
        return [dataset[i] for i in index]

    def __len__(self):
        return len(self._of_user)

    def __getattr__(self, name):
        if name == "__getitems__" or name == "_of_user":
            raise AttributeError(name)
        return getattr(self._of_user, name)

    def __setattr__(self, name, value):
        setattr(self._of_user, name, value)

    def __reduce__(self):
        return MicroBatches, (self._of_user,)


class Once:
    """True the first time it is called, in this process and those forked from it. A pickled one begins anew."""

    def __init__(self) -> None:
        self._was_called = mmap.mmap(-1, 1)

    def __call__(self) -> bool:
        first = not self._was_called[0]
        self._was_called[0] = 1
        return first

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return Once, ()


class CollatedApart:
    """The `collate_fn` of a call: the user's for each micro-batch, then one item of them all.

    Args:
        collate: the user's.
        is_first: whether element types that differ are met for the first time; a warning says so then.
    """

    def __init__(self, collate: collections.abc.Callable[[typing.Any], typing.Any], is_first: Once) -> None:
        self._collate = collate
        self._is_first = is_first

    def __call__(self, micro_batches: list[typing.Any]) -> typing.Any:
        return joined([self._collate(samples) for samples in micro_batches], self._warn_of_types)

    def _warn_of_types(self, where: str, dtypes: list[torch.dtype], result: torch.dtype) -> None:
        if not self._is_first():
            return
        name = getattr(self._collate, "__qualname__", type(self._collate).__name__)
        logger.warning(
            "The micro-batches of one call differ in their element types: %s is of %s. They are joined as torch.cat does, to "
            "%s. Let collate_fn (%s.%s) give all of them one type.",
            where,
            " and ".join(map(str, dtypes)),
            result,
            getattr(self._collate, "__module__", type(self._collate).__module__),
            name,
        )


_WarnOfTypes = collections.abc.Callable[[str, list[torch.dtype], torch.dtype], None]


def joined(parts: list[typing.Any], warn_of_types: _WarnOfTypes, where: str = "item") -> typing.Any:
    """Collated micro-batches as one item: tensors are concatenated along dimension 0, the structure stays.

    Args:
        parts: structures of one form.
        warn_of_types: called with `where`, the element types in order, and that of the result, when they are joined by
            promotion.
        where: what errors call it.

    Raises:
        poptorch.Error: forms that differ, shapes that differ behind dimension 0, or leaves that are no tensors.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    if any(type(part) is not type(first) for part in parts):
        kinds = sorted({type(part).__name__ for part in parts})
        raise _error(f"{where} is of types {', '.join(kinds)}", "Let collate_fn give all of them one form")
    if isinstance(first, torch.Tensor):
        return _concatenated(parts, warn_of_types, where)
    parser = parser_of(first)
    if parser is not None:
        tensors = _same_length([list(parser.yieldTensors(part)) for part in parts], where)
        return parser.reconstruct(
            first, iter([joined(list(t), warn_of_types, f"{where}[{i}]") for i, t in enumerate(tensors)])
        )
    if isinstance(first, dict):
        if any(part.keys() != first.keys() for part in parts):
            raise _error(f"the keys of {where} differ", "Let collate_fn give all of them the same keys")
        values = {key: joined([part[key] for part in parts], warn_of_types, f"{where}[{key!r}]") for key in first}
        return values if type(first) is dict else _like(first, values)
    if isinstance(first, (list, tuple)):
        members = [joined(list(m), warn_of_types, f"{where}[{i}]") for i, m in enumerate(_same_length(parts, where))]
        return type(first)(*members) if hasattr(first, "_fields") else type(first)(members)
    if first is None:
        return None
    raise _error(f"{where} is of type {type(first).__name__}", "Only tensors can be joined: leave it out in collate_fn")


def _like(first, values):
    twin = first.copy()
    twin.update(values)
    return twin


def _same_length(parts, where):
    lengths = [len(part) for part in parts]
    if len(set(lengths)) > 1:
        raise _error(f"{where} has {lengths} members", "Let collate_fn give all of them one form")
    return list(zip(*parts))


def _concatenated(tensors, warn_of_types, where):
    shapes = [list(tensor.shape) for tensor in tensors]
    if not shapes[0]:
        raise _error(f"{where} is a tensor without dimensions", "Let collate_fn give it a first dimension of rows")
    if any(shape[1:] != shapes[0][1:] for shape in shapes):
        said = ", ".join(f"{shape} {tensor.dtype}" for shape, tensor in zip(shapes, tensors))
        raise _error(f"{where} is {said}", "Let collate_fn pad all of them to one shape behind dimension 0")
    result = torch.cat(tensors)
    dtypes = list(dict.fromkeys(tensor.dtype for tensor in tensors))
    if len(dtypes) > 1:
        warn_of_types(where, dtypes, result.dtype)
    return result


def _error(what, cure):
    return errors.create_error(f"The micro-batches of one call do not fit together: {what}. {cure}.")

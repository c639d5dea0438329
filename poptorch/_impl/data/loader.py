"""poptorch.DataLoader: a torch DataLoader whose items are exactly one call's worth of rows."""

from __future__ import annotations

import collections.abc
import contextlib
import copy
import gc
import typing

import torch
import torch.utils.data

from poptorch import enums
from poptorch._impl import errors
from poptorch._impl.data import micro_batches, shared_files
from poptorch._impl.data.accessor import AsynchronousDataAccessor
from poptorch._impl.log import logger
from poptorch._impl.data.partition import PartSampler
from poptorch.options import Options


@contextlib.contextmanager
def _ready_to_fork():
    """Workers that are forked inside have what they would import, and begin with all objects of this process frozen: their
    garbage collections, which all would begin with at once, neither visit nor copy what they share with it."""
    import numpy.random  # noqa: F401  (torch's workers seed it; numpy imports it when it is first used)

    if gc.get_freeze_count():  # by the program, or by the loading process, which owns what it has
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class DataLoader(torch.utils.data.DataLoader):
    """Yields tensors whose dimension 0 is the combined batch size, so that one item is one call.

    Args:
        options: `poptorch.Options`, frozen from now on: source of device iterations, accumulation and replicas.
        dataset: map-style or iterable data set.
        batch_size: rows of one micro-batch (int), or None when the data set yields call-sized items itself.
        shuffle, num_workers, persistent_workers: as torch (persistent by default when there are workers).
        drop_last: drop an incomplete combined batch; True by default, unlike torch.
        auto_distributed_partitioning: give each process of a job (`Options.Distributed`) its own part.
        mode: `DataLoaderMode`: Sync loads here, Async in another process, AsyncRebatched re-packs rows there.
        async_options: dict for the asynchronous modes; must not contain "rebatched_size".
        rebatched_worker_size: rows per worker fetch in rebatched mode.
        batch_sampler: yields index lists of micro-batches. Each is fetched and collated by itself; as many as a call needs
            are joined along dimension 0, tensor by tensor; element types that differ by promotion, with one warning. It may
            lack a length.
        kwargs: passed to torch.

    Raises:
        AssertionError: options of another type, contradictory sizes, or a data set that cannot be partitioned.
        poptorch.Error: a batch sampler together with batch_size or shuffle, too few elements for all processes, or, in
            the asynchronous modes, a data set that is empty or fails at its first item (when iterated: micro-batches of
            a call that differ in more than their rows).

    Example:
        >>> for images, labels in poptorch.DataLoader(options, dataset, batch_size=4, shuffle=True):
        ...     loss = trainer(images, labels)
    """

    def __init__(
        self,
        options: Options,
        dataset: typing.Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        num_workers: int = 0,
        drop_last: bool = True,
        persistent_workers: bool | None = None,
        auto_distributed_partitioning: bool = True,
        mode: enums.DataLoaderMode = enums.DataLoaderMode.Sync,
        async_options: dict[str, typing.Any] | None = None,
        rebatched_worker_size: int | None = None,
        batch_sampler: collections.abc.Iterable[list[int]] | None = None,
        **kwargs: typing.Any,
    ) -> None:
        assert isinstance(options, Options), f"options must be a poptorch.Options, got {type(options).__name__}"
        options._freeze()
        assert "rebatched_size" not in (async_options or {}), (
            "async_options must not contain 'rebatched_size': use mode=DataLoaderMode.AsyncRebatched"
        )
        processes = options.Distributed.numProcesses if auto_distributed_partitioning else 1
        count = (
            options.device_iterations
            * (options.replication_factor // options.input_group_size)
            * options.Training.gradient_accumulation
        )
        arguments = dict(num_workers=num_workers, **kwargs)
        arguments["persistent_workers"] = num_workers > 0 if persistent_workers is None else persistent_workers
        iterable = isinstance(dataset, torch.utils.data.IterableDataset)
        if iterable and num_workers > 1 and kwargs.get("worker_init_fn") is None:
            logger.warning(
                "An iterable dataset with %d workers and no worker_init_fn delivers every element once per worker.",
                num_workers,
            )
        if processes > 1:
            self._check_partition(options, iterable, batch_size, shuffle, batch_sampler, kwargs)
        combined, part = None, None
        if batch_sampler is not None:
            if batch_size not in (1, None) or shuffle:
                raise errors.create_error(
                    "batch_sampler cannot be combined with batch_size or shuffle: it decides both."
                )
            combined = micro_batches.rows(batch_sampler) * count
            self._check_micro_batches(micro_batches.length(batch_sampler), count, drop_last)
            arguments["batch_sampler"] = micro_batches.GroupSampler(batch_sampler, count, drop_last)
        elif batch_size is None:
            arguments["batch_size"] = None
        else:
            assert isinstance(batch_size, int) and batch_size > 0, (
                f"batch_size must be a positive int, got {batch_size!r}"
            )
            combined = batch_size * count
            arguments.update(batch_size=combined, drop_last=drop_last)
            if processes > 1:
                seed = options.random_seed if shuffle else None
                part = PartSampler(len(dataset), combined, processes, options.Distributed.processId, drop_last, seed)
                arguments["sampler"] = part
                self._check_remainder(len(part), combined, drop_last)
            elif not iterable:
                arguments["shuffle"] = bool(shuffle)
                self._check_remainder(len(dataset), combined, drop_last)
            elif shuffle:
                arguments["shuffle"] = shuffle  # torch refuses it with its own message
        if rebatched_worker_size is not None:
            assert combined is None or rebatched_worker_size <= combined, (
                f"rebatched_worker_size ({rebatched_worker_size}) must not exceed the combined batch size ({combined})"
            )
        asynchronous = mode != enums.DataLoaderMode.Sync
        packs_rows = mode == enums.DataLoaderMode.AsyncRebatched or not drop_last
        packs_rows = packs_rows and batch_sampler is None  # whose items are what it says in all modes
        rebatched = combined if asynchronous and packs_rows and combined is not None and combined > 1 else None
        if rebatched is not None:
            arguments.update(batch_size=rebatched_worker_size or combined, drop_last=False)
        self._poptorch_options = options
        self._combined_batch_size = combined
        self._drop_rest = drop_last
        self._rows = part  # of this process, when it loads a part
        self._items_may_vary = batch_sampler is not None
        self._first_mixed_types = micro_batches.Once()
        self._accessor: AsynchronousDataAccessor | None = None
        super().__init__(dataset, **arguments)
        if num_workers > 0:
            shared_files.make_folder_of_sockets()
        if asynchronous:
            # A copy: without a circle of references the loading process ends with the last user of the loader.
            plain = copy.copy(self)
            self._accessor = AsynchronousDataAccessor(plain, **{**(async_options or {}), "rebatched_size": rebatched})

    @staticmethod
    def _check_partition(options, iterable, batch_size, shuffle, batch_sampler, arguments):
        """What cannot be shared out among the processes of a job."""
        cure = "Share it out yourself and pass auto_distributed_partitioning=False."
        assert not iterable, f"An iterable dataset cannot be partitioned among processes automatically. {cure}"
        if batch_sampler is not None or "sampler" in arguments:
            raise errors.create_error(f"A sampler cannot be partitioned among processes automatically. {cure}")
        assert batch_size is not None, (
            f"batch_size=None (a dataset that yields whole items) cannot be partitioned among processes automatically. "
            f"{cure}"
        )
        assert not shuffle or options.exists("random_seed"), (
            "Shuffling in a job of several processes needs Options.randomSeed: all processes must draw the same order."
        )

    @staticmethod
    def _check_remainder(rows, combined, drop_last):
        if rows % combined and not drop_last:
            logger.warning(
                "The last item of an epoch has %d rows instead of the combined batch size %d; a compiled program "
                "refuses it. Use drop_last=True or a second wrapper.",
                rows % combined,
                combined,
            )

    @staticmethod
    def _check_micro_batches(total, count, drop_last):
        if total is None or total % count == 0:
            return
        if drop_last:
            logger.warning(
                "%d of %d micro-batches are dropped in each epoch: a call takes %d. drop_last=False keeps them.",
                total % count,
                total,
                count,
            )
        else:
            logger.warning(
                "The last item of an epoch has %d micro-batches and a call takes %d; a compiled program refuses it. Use "
                "drop_last=True or a second wrapper.",
                total % count,
                count,
            )

    @property
    def combinedBatchSize(self) -> int | None:
        """Rows of one item (int), or None when `batch_size=None`."""
        return self._combined_batch_size

    @property
    def options(self) -> Options:
        """The options this loader was made with."""
        if self._combined_batch_size is None:
            raise AttributeError("options are not available with batch_size=None")
        return self._poptorch_options

    def _check_accessor(self, rebatched_size: int | None) -> None:
        """Can an `AsynchronousDataAccessor` load this? It asks before it does."""
        if self._accessor is not None:
            raise errors.create_error("The DataLoader is asynchronous already: use mode=DataLoaderMode.Sync.")
        whole = self.drop_last or self._items_may_vary or (self.combinedBatchSize or 1) == 1
        assert whole or rebatched_size is not None, (
            "A DataLoader with drop_last=False has a shorter last item, which the ring cannot hold: pass rebatched_size "
            "or use DataLoaderMode.AsyncRebatched."
        )

    def __getstate__(self) -> dict[str, typing.Any]:
        state = dict(self.__dict__)
        state["_accessor"] = None  # the copy in the loading process loads by itself
        state["_iterator"] = None
        return state

    def _get_iterator(self) -> typing.Any:
        with _ready_to_fork() if self.num_workers > 0 else contextlib.nullcontext():
            return self._new_iterator()

    def _new_iterator(self) -> typing.Any:
        if not self._items_may_vary:
            return super()._get_iterator()
        # torch's iterators load from a loader that has the micro-batches apart; this one keeps what the user gave.
        apart = copy.copy(self)
        apart.__dict__["dataset"] = micro_batches.MicroBatches(self.dataset)  # torch lets nobody set it
        apart.collate_fn = micro_batches.CollatedApart(self.collate_fn, self._first_mixed_types)
        return super(DataLoader, apart)._get_iterator()

    def __iter__(self) -> typing.Any:
        return super().__iter__() if self._accessor is None else iter(self._accessor)

    def __len__(self) -> int:
        if self._accessor is None or self._accessor._rebatched_size is None:
            return super().__len__()
        rows = len(typing.cast(collections.abc.Sized, self.dataset) if self._rows is None else self._rows)
        whole, rest = divmod(rows, self._accessor._rebatched_size)
        return whole + (1 if rest and not self._drop_rest else 0)

    def terminate(self) -> None:
        """Stops the loading process of the asynchronous modes; nothing to stop in Sync mode."""
        if self._accessor is not None:
            self._accessor.terminate()

"""`ipu_outfeed_queue`: tensors of a unit that the host takes while it runs, or afterwards."""

from __future__ import annotations

import ctypes
import enum
import itertools
from typing import Any

import tensorflow as tf

from ipu_tensorflow import flags, host, library

_numbers = itertools.count()


class IPUOutfeedMode(enum.Enum):
    """Which of the enqueued elements are kept until somebody dequeues them."""

    ALL = "all"
    LAST = "get_last"


class IPUOutfeedQueue:
    """Elements that a unit enqueues and the host dequeues.

    Args:
        outfeed_mode: None: ALL.
        device_ordinal: which IPU device writes the queue.
        feed_name, replication_factor, io_batch_size: have no effect.
    """

    def __init__(
        self,
        feed_name: str | None = None,
        outfeed_mode: IPUOutfeedMode | None = None,
        device_ordinal: int = 0,
        replication_factor: int | None = None,
        io_batch_size: int = 1,
    ) -> None:
        if outfeed_mode is not None and not isinstance(outfeed_mode, IPUOutfeedMode):
            raise ValueError(f"outfeed_mode is {outfeed_mode!r}: it must be an IPUOutfeedMode, or None")
        if not isinstance(device_ordinal, int) or device_ordinal < 0:
            raise ValueError(f"device_ordinal is {device_ordinal!r}: it must be a number from 0 on")
        self._mode = outfeed_mode or IPUOutfeedMode.ALL
        self._device_ordinal = device_ordinal
        self._name = f"outfeed_{next(_numbers)}"
        self._structure: Any = None
        self._types: list[tf.DType] | None = None

    @property
    def enqueued(self) -> bool:
        """Whether a unit enqueues."""
        return self._types is not None

    def enqueue(self, tensors: Any) -> host.Operation:
        """Enqueues a tensor, or a structure of tensors, each time the operation runs."""
        if self._types is not None:
            raise ValueError("the outfeed queue is enqueued already: make a queue for each place that enqueues")
        graph = tf.compat.v1.get_default_graph()
        if not host.is_traced(graph):
            raise ValueError("an outfeed is written only inside ipu_compiler.compile")
        leaves = [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(tensors)]
        if not leaves:
            raise ValueError("nothing is enqueued: the structure has no tensors")
        for index, leaf in enumerate(leaves):
            if not leaf.shape.is_fully_defined():
                raise ValueError(
                    f"component {index} of the outfeed has the shape {leaf.shape}: it must be fully defined"
                )
        types = [leaf.dtype for leaf in leaves]
        library.load()
        self._declare(leaves)
        self._structure, self._types = tensors, types
        if flags.current().is_synthetic(flags.SyntheticDataCategory.Outfeed):
            return tf.no_op("outfeed_enqueue")  # nothing arrives
        mode = "all" if self._mode is IPUOutfeedMode.ALL else "last"
        return library.operation(
            "IpuOutfeedEnqueue", leaves, [], name="outfeed_enqueue", queue=self._name, mode=mode, T=types
        )

    @property
    def outfeed_mode(self) -> IPUOutfeedMode:
        return self._mode

    def dequeue(self, wait_for_completion: bool = False) -> Any:
        """What has arrived, in the structure that is enqueued; it is taken out of the queue.

        Args:
            wait_for_completion: first waits for a run that is on.
        """
        if self._types is None:
            raise ValueError("dequeue before enqueue: build the unit that enqueues first")
        with tf.compat.v1.get_default_graph().device(None):
            given = {"queue": self._name, "waits": int(bool(wait_for_completion)), "T": self._types}
            op = library.operation("IpuOutfeedDequeue", [], self._types, name="outfeed_dequeue", **given)
        return tf.nest.pack_sequence_as(self._structure, list(op.outputs))

    @property
    def deleter(self) -> host.Operation:
        """Frees the queue."""
        with tf.compat.v1.get_default_graph().device(None):
            return library.operation("IpuOutfeedDelete", [], [], queue=self._name)

    def _declare(self, leaves: list[Any]) -> None:
        ranks = [leaf.shape.rank for leaf in leaves]
        dims = [size for leaf in leaves for size in leaf.shape.as_list()]
        count = len(leaves)
        library.load().ipu_declare_outfeed(
            self._name.encode(),
            int(self._mode is IPUOutfeedMode.LAST),
            count,
            (ctypes.c_int * count)(*[leaf.dtype.as_datatype_enum for leaf in leaves]),
            (ctypes.c_int * count)(*ranks),
            (ctypes.c_int64 * max(len(dims), 1))(*dims),
        )

"""`ipu_infeed_queue.IPUInfeedQueue`: elements of a dataset for loops on the IPU.

The dataset is copied into a graph and a session of its own, where a loop of TensorFlow pushes one element after the other into a
native queue. The loop begins when a run wants the first element. A dataset that reads variables or placeholders of the user's session
stays where it is: a thread pulls its elements through that session, the one that runs the initializer.

A feeder ends with its queue: when the queue is deleted or made anew, with its graph or its session, and with the process.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import threading
import weakref
from typing import Any

import tensorflow as tf

from ipu_tensorflow import flags, host, library, sharding

_TYPES = (tf.float32, tf.float16, tf.int32, tf.bool, tf.int8, tf.uint8)
# What the copy of a dataset cannot have.
_VARIABLES = {"VarHandleOp", "VariableV2", "MutableHashTableV2", "MutableDenseHashTableV2"}
_PLACEHOLDERS = {"Placeholder", "PlaceholderV2"}
_numbers = itertools.count()
_queues: weakref.WeakValueDictionary[str, IPUInfeedQueue] = weakref.WeakValueDictionary()


class IPUInfeedQueue:
    """Elements of a dataset, which `ipu.loops` hand to the bodies of their loops.

    Args:
        dataset: with all shuffling, batching and repeating applied, and shapes that are fully defined.
        device_ordinal: which IPU device reads the queue.
        prefetch_depth: how many elements may wait beyond the one that is wanted; None: one.
        feed_name, replication_factor, data_to_prefetch: have no effect.
    """

    def __init__(
        self,
        dataset: tf.data.Dataset,
        feed_name: str | None = None,
        device_ordinal: int = 0,
        replication_factor: int = 1,
        data_to_prefetch: int = 1,
        prefetch_depth: int | None = None,
    ) -> None:
        if prefetch_depth is not None and not 0 < prefetch_depth <= 255:
            raise ValueError(f"prefetch_depth is {prefetch_depth}: it must be from 1 to 255")
        self._spec = dataset.element_spec
        self._leaves = tf.nest.flatten(self._spec)
        _check_spec(self._spec, self._leaves)
        self._dataset = dataset
        self._graph = tf.compat.v1.get_default_graph()
        self._depth = prefetch_depth or 1
        self._device_ordinal = device_ordinal
        self._name = f"infeed_{next(_numbers)}"
        self._dequeued = False
        self._has_initializer = False
        self._lock = threading.Lock()
        self._feeding: _Feeding | _Pulling | None = None
        self._numbers: list[int] = []  # of the native queues
        types = {op.type for op in sharding.dependencies([host.dataset_variant(dataset)])}
        self._read = types & (_VARIABLES | _PLACEHOLDERS)  # of the session
        if self._read:
            host.watch_sessions()
        _queues[self._name] = self
        host.keep(self._graph, self)
        weakref.finalize(self, _delete, self._numbers)

    # --- the host

    @property
    def initializer(self) -> host.Operation:
        """Makes the queue; to be run once before the first use."""
        if self._has_initializer:
            raise ValueError("the initializer of an infeed queue can be taken once: keep the operation")
        self._has_initializer = True
        _set_starter()
        before = self._pull_from_session()
        given = {"queue": self._name, "components": len(self._leaves), "depth": self._depth, "refused": self._refused()}
        return _on_host("IpuInfeedCreate", before, **given)

    @property
    def deleter(self) -> host.Operation:
        """Frees the queue; NotFoundError before the initializer has run."""
        return _on_host("IpuInfeedDelete", queue=self._name)

    @property
    def dequeued(self) -> bool:
        """Whether a loop takes elements of the queue."""
        return self._dequeued

    @property
    def number_of_tuple_elements(self) -> int:
        """How many arguments, positional and keyword, a body of a loop gets from the queue."""
        positional, keywords = self.argument_form
        return positional + len(keywords)

    def get_next(self) -> None:
        """Obsolete."""
        raise ValueError(
            "IPUInfeedQueue.get_next is obsolete: give the queue to ipu.loops.repeat or while_loop as infeed_queue"
        )

    # --- the device

    @property
    def argument_form(self) -> tuple[int, list[str]]:
        """Number of positional arguments and names of keyword arguments of an element."""
        if isinstance(self._spec, dict):
            return 0, list(self._spec)
        if isinstance(self._spec, tuple):
            if len(self._spec) == 1 and isinstance(self._spec[0], dict):
                return 0, list(self._spec[0])
            return len(self._spec), []
        return 1, []

    def dequeue(self) -> tuple[list[Any], dict[str, Any]]:
        """The next element in the graph of a unit: positional and keyword arguments."""
        element = self._dequeue()
        positional, keywords = self.argument_form
        if keywords:
            return [], element if isinstance(element, dict) else element[0]
        return (list(element) if isinstance(element, tuple) else [element]), {}

    def _dequeue(self) -> Any:
        """The next element, in its structure."""
        if not host.is_traced(tf.compat.v1.get_default_graph()):
            raise ValueError("an infeed is read only inside ipu_compiler.compile")
        self._dequeued = True
        types = [leaf.dtype for leaf in self._leaves]
        shapes = [leaf.shape for leaf in self._leaves]
        op = library.operation(
            "IpuInfeedDequeue", [], types, name="infeed_dequeue", queue=self._name, dtypes=types, shapes=shapes
        )
        for tensor, shape in zip(op.outputs, shapes):
            tensor.set_shape(shape)
        return tf.nest.pack_sequence_as(self._spec, list(op.outputs))

    # --- feeding

    def _refused(self) -> str:
        """Why the IPU cannot take the elements; "" if it can."""
        for index, leaf in enumerate(self._leaves):
            if leaf.dtype not in _TYPES:
                return (
                    f"component {index} of infeed '{self._name}' has the type {leaf.dtype.name}, which cannot be fed to an IPU. "
                    "Cast it in the dataset: dataset.map(lambda x: tf.cast(x, tf.int32))"
                )
        return ""

    def _pull_from_session(self) -> list[host.Operation]:
        """Builds what pulls a dataset of the session, and returns what the initializer runs of it."""
        if not self._read or flags.current().is_synthetic(flags.SyntheticDataCategory.Infeed):
            return []
        with self._graph.as_default():
            self._feeding = _Pulling(self._dataset, begins_early=bool(self._read & _PLACEHOLDERS))
        return self._feeding.early

    def feeding(self) -> _Feeding | _Pulling:
        with self._lock:
            if self._feeding is None:
                self._feeding = _Feeding(self._graph, self._dataset)
            return self._feeding

    def starts(self, number: int) -> weakref.ref | None:
        """A native queue of the infeed is there. Returns the session to pull from; None: the dataset has been copied."""
        self._numbers.append(number)
        if not isinstance(self._feeding, _Pulling):
            return None
        sessions = host.running_sessions(self._graph)
        if len(sessions) != 1:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                f"its dataset reads variables or placeholders, and {len(sessions)} sessions of its graph run: "
                "initialise it by session.run while no other session of the graph runs",
            )
        return weakref.ref(sessions[0], lambda _: _delete([number]))


def _check_spec(spec: Any, leaves: list[Any]) -> None:
    for index, leaf in enumerate(leaves):
        if not isinstance(leaf, tf.TensorSpec):
            raise ValueError(f"component {index} of the dataset is {leaf}: an infeed takes tensors")
        if not leaf.shape.is_fully_defined():
            raise ValueError(
                f"component {index} of the dataset has the shape {leaf.shape}: an infeed needs shapes that are fully defined. "
                "Batch with drop_remainder=True"
            )
    if isinstance(spec, tuple) and any(isinstance(item, (list, tuple)) for item in spec):
        raise ValueError(
            "an element of the dataset has a list or a tuple in it: an infeed takes tensors, flat tuples and dictionaries"
        )


def _synthetic(spec: Any) -> tf.data.Dataset:
    """Made-up elements in place of a dataset: one number everywhere (--synthetic_data_initializer), zero otherwise."""
    number = flags.current().synthetic_data_initializer
    value = float(number) if number and number != "random" else 0.0

    def made_up(leaf: Any) -> Any:
        if number == "random" and leaf.dtype.is_floating:
            return tf.cast(tf.random.stateless_uniform(leaf.shape, [0, 1]), leaf.dtype)
        return tf.cast(tf.fill(leaf.shape, value), leaf.dtype)

    return tf.data.Dataset.from_tensors(tf.nest.map_structure(made_up, spec)).repeat()


def _on_host(kind: str, before: list[host.Operation] | None = None, **attributes: Any) -> host.Operation:
    with tf.compat.v1.get_default_graph().device(None), tf.control_dependencies(None):
        with tf.control_dependencies(before or []):
            return library.operation(kind, [], [], **attributes)


def _delete(numbers: list[int]) -> None:
    """Nobody can use these native queues any more: their feeders end."""
    for number in numbers:
        library.load().ipu_delete_infeed(ctypes.c_int64(number))


def _without_prefetching(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The depth of the queue is the only one."""
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return dataset.with_options(options)


def _copied(
    graph: host.Graph, dataset: tf.data.Dataset, to: host.Graph
) -> tuple[tf.data.Dataset, list[host.Operation]]:
    """A copy of a dataset in another graph, and what initialises the tables that it reads."""
    variant = host.dataset_variant(dataset)
    definition = graph.as_graph_def()
    wanted = tf.compat.v1.graph_util.extract_sub_graph(definition, [variant.op.name])
    handles = {node.name for node in wanted.node if "HashTable" in node.op}
    by_name = {node.name: node for node in definition.node}
    tables = [op.name for op in graph.get_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS)]
    tables = [table for table in tables if handles.intersection(by_name[table].input)]
    copied = tf.compat.v1.graph_util.extract_sub_graph(definition, [variant.op.name, *tables])
    with to.as_default():
        tf.import_graph_def(copied, name="")
        ours = host.dataset_of(to.get_tensor_by_name(variant.name), dataset.element_spec)
    return ours, [to.get_operation_by_name(table) for table in tables]


class _Feeding:
    """A copy of a dataset in a graph of its own, with the loop that pushes its elements."""

    def __init__(self, graph: host.Graph, dataset: tf.data.Dataset) -> None:
        self._graph = tf.Graph()
        if flags.current().is_synthetic(flags.SyntheticDataCategory.Infeed):
            with self._graph.as_default():
                ours = _synthetic(dataset.element_spec)
            tables: list[host.Operation] = []
        else:
            ours, tables = _copied(graph, dataset, self._graph)
        with self._graph.as_default():
            ours = _without_prefetching(ours)
            self._number = tf.compat.v1.placeholder(tf.int64, [])
            self._is_wanted = library.operation("IpuInfeedWanted", [self._number], [tf.bool]).outputs[0]
            iterator = tf.compat.v1.data.make_initializable_iterator(ours)
            self._begin = [*tables, iterator.initializer]
            types = [leaf.dtype for leaf in tf.nest.flatten(dataset.element_spec)]

            def push(_: Any, count: Any) -> tuple[Any, Any]:
                element = tf.nest.flatten(iterator.get_next())
                goes_on = _push(self._number, element, types, waits=True)
                goes_on.set_shape([])
                return goes_on, count + 1

            self._loop = tf.while_loop(
                lambda go, _: go, push, [tf.constant(True), tf.constant(0)], parallel_iterations=1
            )

    def run(self, number: int, session: weakref.ref | None) -> None:
        config = tf.compat.v1.ConfigProto(
            use_per_session_threads=True, inter_op_parallelism_threads=2, intra_op_parallelism_threads=2
        )
        with tf.compat.v1.Session(graph=self._graph, config=config) as own:
            fed = {self._number: number}
            if own.run(self._is_wanted, fed):
                own.run(self._begin)
                own.run(self._loop, fed)


class _Pulling:
    """What pulls a dataset through the session of the user: in the default graph, known by names only, so that it keeps nothing alive.

    Args:
        begins_early: the dataset reads placeholders, which are fed when the initializer of the queue runs.
    """

    def __init__(self, dataset: tf.data.Dataset, begins_early: bool) -> None:
        graph = tf.compat.v1.get_default_graph()
        with graph.device(None), tf.control_dependencies(None), tf.name_scope("infeed"):
            iterator = tf.compat.v1.data.make_initializable_iterator(_without_prefetching(dataset))
            number = tf.compat.v1.placeholder(tf.int64, [])
            element = tf.nest.flatten(iterator.get_next())
            push = _push(number, element, [tensor.dtype for tensor in element], waits=False)
        self.early = [iterator.initializer] if begins_early else []
        self._begin = None if begins_early else iterator.initializer.name
        self._number, self._push = number.name, push.op.name

    def run(self, number: int, session: weakref.ref | None) -> None:
        wait = library.load().ipu_wait_infeed
        begin = self._begin
        while wait(ctypes.c_int64(number)):
            theirs = session() if session is not None else None
            if theirs is None:
                return  # the queue is closed
            if begin is not None:
                host.run_aside(theirs, begin)
                begin = None
            host.run_aside(theirs, self._push, {self._number: number})
            del theirs


def _push(number: Any, element: list[Any], types: list[tf.DType], waits: bool) -> Any:
    return library.operation("IpuInfeedPush", [number, *element], [tf.bool], T=types, waits=int(waits)).outputs[0]


def _feed(name: str, number: int, session: weakref.ref | None) -> None:
    """The thread of a feeder: ends with the queue, or with the dataset."""
    queue = _queues.get(name)
    code, text = int(tf.errors.INTERNAL), f"infeed '{name}': its graph is gone"
    try:
        feeding = queue.feeding() if queue is not None else None
        del queue  # which may end before this thread
        if feeding is not None:
            feeding.run(number, session)
            return
    except tf.errors.OutOfRangeError:
        code = int(tf.errors.OUT_OF_RANGE)
        text = f"infeed '{name}': the dataset has ended, and a run wanted a further element. Repeat the dataset, or run fewer steps"
    except tf.errors.OpError as error:
        code, text = int(error.error_code), f"infeed '{name}': the dataset failed: {error.message}"
    except Exception as error:
        text = f"infeed '{name}': {type(error).__name__}: {error}"
    library.load().ipu_end_infeed(ctypes.c_int64(number), code, text.encode())


_threads: list[threading.Thread] = []


@ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64)
def _start(name: bytes, number: int) -> None:
    queue = _queues.get(name.decode())
    try:
        session = queue.starts(number) if queue is not None else None
    except tf.errors.OpError as error:
        text = f"infeed '{name.decode()}': {error.message}"
        library.load().ipu_end_infeed(ctypes.c_int64(number), int(error.error_code), text.encode())
        return
    thread = threading.Thread(
        target=_feed, args=(name.decode(), number, session), name=f"feeder of {name.decode()}", daemon=True
    )
    _threads[:] = [other for other in _threads if other.is_alive()] + [thread]
    thread.start()


@functools.cache
def _set_starter() -> None:
    functions = library.load()
    functions.ipu_set_feeder_starter(_start)
    atexit.register(_stop)


def _stop() -> None:
    """Feeders end before TensorFlow does."""
    library.load().ipu_delete_infeeds()
    for thread in _threads:
        thread.join(5)

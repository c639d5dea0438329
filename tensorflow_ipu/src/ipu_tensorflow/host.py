"""What we take from TensorFlow beyond its documented names; no other module of the package does.

Every name here means the same in TensorFlow 2.15 to 2.21, which `tests/tensorflow/test_host.py` holds on to.
"""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import os
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.eager import context, execute, lift_to_graph
from tensorflow.python.framework import dtypes, func_graph, function_def_to_graph, ops, tensor_util
from tensorflow.python.ops import control_flow_ops, gen_resource_variable_ops, handle_data_util
from tensorflow.python.util.lazy_loader import KerasLazyLoader as KerasLazyLoader

if TYPE_CHECKING:  # where TensorFlow is not installed its classes are no types
    AttrValue: TypeAlias = Any
    Graph: TypeAlias = Any
    Operation: TypeAlias = Any
    Tensor: TypeAlias = Any
else:
    AttrValue = attr_value_pb2.AttrValue
    Graph = ops.Graph
    Operation = ops.Operation
    Tensor = tf.Tensor

CALLS = {"PartitionedCall", "StatefulPartitionedCall"}
# Collections that hold tensors and operations: those of a traced graph are no use outside it.
_OWN_COLLECTIONS = {
    ops.GraphKeys.UPDATE_OPS,
    ops.GraphKeys.LOSSES,
    ops.GraphKeys.REGULARIZATION_LOSSES,
    ops.GraphKeys.SUMMARIES,
    ops.GraphKeys.ACTIVATIONS,
    ops.GraphKeys.TRAIN_OP,
    ops.GraphKeys.COND_CONTEXT,
    ops.GraphKeys.WHILE_CONTEXT,
}


class _Collections(collections.abc.MutableMapping):
    """Collections of a traced graph: variables and scopes are those of the graph around it."""

    def __init__(self, outer: collections.abc.MutableMapping) -> None:
        self._outer = outer
        self._own: dict[Any, list] = {}

    def _home(self, name: Any) -> collections.abc.MutableMapping:
        return self._own if name in _OWN_COLLECTIONS else self._outer

    def __getitem__(self, name: Any) -> list:
        return self._home(name)[name]

    def __setitem__(self, name: Any, items: list) -> None:
        self._home(name)[name] = items

    def __delitem__(self, name: Any) -> None:
        del self._home(name)[name]

    def __iter__(self) -> Iterator:
        yield from (name for name in self._outer if name not in _OWN_COLLECTIONS)
        yield from self._own

    def __len__(self) -> int:
        return sum(1 for _ in self)


# Gradients of ours in place of TensorFlow's, by type (gradients.py).
_GRADIENTS: dict[str, str] = {}


def override_gradient(kind: str) -> Callable:
    """Decorates the gradient function that operations of the type have in traced graphs."""
    _GRADIENTS[kind] = "Ipu" + kind
    return tf.RegisterGradient("Ipu" + kind)


class TracedGraph(func_graph.FuncGraph):
    """A graph for the IPU inside the default graph. Nothing of it runs but what is asked for, as in any graph of version 1."""

    def __init__(self, name: str, without: Sequence[str] = ()) -> None:
        """`without`: attributes of open scopes that operations do not carry."""
        outer = ops.get_default_graph()
        super().__init__(name, collections=_Collections(outer._collections))
        self.updates: list[Any] | None = (
            None  # what sums over iterations (accumulation.py), where this is the body of a loop
        )
        self._gradient_override_map = dict(_GRADIENTS)
        self._attr_scope_map = {key: value for key, value in outer._attr_scope_map.items() if key not in without}

    @contextlib.contextmanager
    def tracing(self) -> Iterator[None]:
        """What is built goes here, under the name scope that is open outside."""
        scope = ops.get_default_graph().get_name_scope()
        with self.as_default():
            # Loops, conditions and their gradients are then built with the shapes that a compiler needs.
            compiled = control_flow_ops.XLAControlFlowContext()
            compiled.Enter()
            try:
                with self.name_scope(scope + "/" if scope else None), tf.variable_creator_scope(_make_variable):
                    yield
            finally:
                compiled.Exit()

    @property
    def captured_operations(self) -> list[Operation]:
        """Operations outside that control what is inside."""
        return [item if isinstance(item, ops.Operation) else item.op for item in self._function_captures.control]


def _make_variable(make: Callable, **given: Any) -> Any:
    """Makes a variable in the graph around all traced ones, on the CPU. A tensor of a traced graph as initial value is copied there."""
    with ops.init_scope():
        outer = ops.get_default_graph()
    given["caching_device"] = None  # a copy outside has no gradient inside
    value = given.get("initial_value")
    with outer._attr_scope(dict.fromkeys(outer._attr_scope_map)):
        if isinstance(value, tf.Tensor) and isinstance(value.graph, func_graph.FuncGraph):
            captured = {inside.name: outside for outside, inside in captures_of(value.graph)}
            if value.name in captured:
                given["initial_value"] = captured[value.name]
            else:
                given["initial_value"] = lift_to_graph.lift_to_graph(
                    [value], outer, add_sources=True, handle_captures=True
                )[value]
        return make(**given)


def updates_of(graph: Graph) -> list[Any] | None:
    return graph.updates if isinstance(graph, TracedGraph) else None


def is_traced(graph: Graph) -> bool:
    """Whether the graph, or one around it, is traced for the IPU."""
    while isinstance(graph, func_graph.FuncGraph):
        if isinstance(graph, TracedGraph):
            return True
        graph = graph.outer_graph
    return False


def captures_of(graph: Graph) -> list[tuple[Tensor, Tensor]]:
    """Tensors outside the graph, each with the placeholder that stands for it inside."""
    return list(graph.captures) if isinstance(graph, func_graph.FuncGraph) else []


def called_function(op: Operation) -> str | None:
    """The function that an operation calls; the type of the operation names it in functions of the kind before FuncGraph."""
    if op.type in CALLS:
        return op.get_attr("f").name
    return op.type if op.graph._get_function(op.type) is not None else None


def function_graph(graph: Graph, name: str, given: Sequence[Tensor]) -> func_graph.FuncGraph:
    """The graph of a function that an operation of `graph` calls with the tensors `given`."""
    while True:
        function = graph._get_function(name)
        if function is not None:
            if hasattr(function, "graph"):
                return function.graph
            with graph.as_default():  # of the kind before FuncGraph, which TensorFlow's own CTC loss is made of
                return function_def_to_graph.function_def_to_graph(
                    function.definition, input_shapes=[t.shape for t in given]
                )
        if not isinstance(graph, func_graph.FuncGraph):
            raise ValueError(f"there is no graph of function '{name}': it was not built in this process")
        graph = graph.outer_graph


def control_outputs_of(graph: Graph) -> list[Operation]:
    return list(getattr(graph, "control_outputs", ()))


def create_operation(
    kind: str, inputs: Sequence[Any], results: Sequence[tf.DType], name: str, given: dict[str, AttrValue]
) -> Operation:
    """An operation of the default graph."""
    return ops.get_default_graph()._create_op_internal(kind, list(inputs), list(results), name=name, attrs=given)


def keep_body(op: Operation, body: TracedGraph) -> None:
    """`body` is what the operation repeats: functions of ours are graphs only, TensorFlow never runs them."""
    graph: Any = op.graph
    if not hasattr(graph, "ipu_bodies"):
        graph.ipu_bodies = {}
    graph.ipu_bodies[op.name] = body


def body_of(op: Operation) -> TracedGraph:
    graph: Any = op.graph
    return graph.ipu_bodies[op.name]


# --- attributes


def set_attribute(op: Operation, name: str, value: AttrValue) -> None:
    op._set_attr(name, value)


def move_to_cpu(op: Operation, attributes: Sequence[str]) -> None:
    """Places an operation on the CPU, without these attributes."""
    op._set_device_from_string("/device:CPU:0")
    for name in attributes:
        if name in op.node_def.attr:
            op._clear_attr(name)


def attribute_scope(graph: Graph, attributes: dict[str, AttrValue | None]) -> contextlib.AbstractContextManager:
    """Operations built in the scope carry the attributes; None takes one away."""
    return graph._attr_scope(attributes)


def scoped_attribute(graph: Graph, name: str) -> AttrValue | None:
    return graph._attr_scope_map.get(name)


def leave_attribute(graph: Graph, name: str, value: AttrValue) -> None:
    """What is built from now on carries the attribute."""
    graph._attr_scope_map[name] = value


# --- variables


def read_variable(handle: Tensor, dtype: Any) -> Tensor:
    return gen_resource_variable_ops.read_variable_op(handle, dtype)


def assign_variable(handle: Tensor, value: Tensor) -> Operation:
    return gen_resource_variable_ops.assign_variable_op(handle, value)


# --- devices


def wrap_device(make: Callable[[Graph, Any, Callable], contextlib.AbstractContextManager]) -> None:
    """From now on `graph.device(x)` is make(graph, x, device), where device(x) is TensorFlow's own."""
    device = ops.Graph.device
    if hasattr(device, "__wrapped_for_ipu__"):
        return

    @functools.wraps(device)
    def wrapped(graph: Graph, device_name_or_function: Any) -> contextlib.AbstractContextManager:
        return make(graph, device_name_or_function, lambda name: device(graph, name))

    wrapped.__wrapped_for_ipu__ = True  # type: ignore[attr-defined]
    ops.Graph.device = wrapped


# --- datasets


def dataset_variant(dataset: Any) -> Tensor:
    """The tensor that holds a dataset."""
    return dataset._variant_tensor


def dataset_of(variant: Tensor, element_spec: Any) -> Any:
    """The dataset that a tensor holds."""
    return dataset_ops._VariantDataset(variant, element_spec)


# --- sessions

_running: list[tf.compat.v1.Session] = []  # one for each session.run of the user that is on


@functools.cache
def watch_sessions() -> None:
    """From now on `running_sessions` knows."""
    for kind in (tf.compat.v1.Session, tf.compat.v1.InteractiveSession):
        kind.run = _watched(kind.run)


def _watched(run: Callable) -> Callable:
    @functools.wraps(run)
    def watched(session: Any, *given: Any, **named: Any) -> Any:
        _running.append(session)
        try:
            return run(session, *given, **named)
        finally:
            _running.remove(session)

    return watched


def run_aside(session: Any, fetches: Any, feed: Any = None) -> Any:
    """A session.run of ours, which `running_sessions` does not count."""
    run: Any = type(session).run
    return getattr(run, "__wrapped__", run)(session, fetches, feed)


def running_sessions(graph: Graph) -> list[Any]:
    """Sessions of the graph of which a run is on."""
    return list({id(session): session for session in list(_running) if session.graph is graph}.values())


def keep(graph: Graph, thing: Any) -> None:
    """`thing` lives as long as the graph does."""
    known: Any = graph
    if not hasattr(known, "ipu_kept"):
        known.ipu_kept = []
    known.ipu_kept.append(thing)


# --- values


def constant_value(tensor: Tensor) -> Any:
    """The array of a tensor whose value is known while the graph is built, else None."""
    return tensor_util.constant_value(tensor)


def evaluate(op: Operation, inputs: Sequence[Any]) -> list[Any]:
    """The results of an operation on arrays, by TensorFlow."""
    attributes: list[Any] = []
    definition = op.op_def
    for attribute in definition.attr:
        attributes += [attribute.name, _eager_attribute(op.get_attr(attribute.name))]
    with context.eager_mode(), tf.device("/device:CPU:0"):
        given = [tf.convert_to_tensor(value) for value in inputs]
        results = execute.execute(op.type, len(op.outputs), given, tuple(attributes), context.context())
        return [np.asarray(result.numpy()) for result in results]


def _eager_attribute(value: Any) -> Any:
    if isinstance(value, tf.DType):
        return value.as_datatype_enum
    if isinstance(value, list):
        return [_eager_attribute(item) for item in value]
    return value


def handle_shape_and_type(handle: Tensor) -> tuple[tf.TensorShape, tf.DType]:
    """Shape and type of the variable behind a resource."""
    data = handle_data_util.get_resource_handle_data(handle)
    if not data.is_set or not data.shape_and_type:
        raise ValueError(f"the type of the variable behind {handle.name} is unknown")
    return tf.TensorShape(data.shape_and_type[0].shape), dtypes.as_dtype(data.shape_and_type[0].dtype)


# --- shapes


def _is_unknown(tensor: Tensor) -> bool:
    return tensor.dtype not in (dtypes.variant, dtypes.resource) and not tensor.shape.is_fully_defined()


def loses_shape(op: Operation) -> bool:
    """Whether a result has no shape that is known while the graph is built, and all that the operation reads has."""
    return any(map(_is_unknown, op.outputs)) and not any(map(_is_unknown, op.inputs))


def first_unknown_shape(tensor: Tensor) -> Operation:
    """The operation at which the shape of a tensor is lost, on the way of first operands."""
    seen = set()
    while tensor.op.name not in seen:
        seen.add(tensor.op.name)
        before = next(filter(_is_unknown, tensor.op.inputs), None)
        if before is None:
            break
        tensor = before
    return tensor.op


# --- lines of the user


def _folder_of(module: Any) -> str:
    return os.path.dirname(os.path.abspath(module.__file__)) + os.sep


@functools.cache
def _is_foreign(file: str) -> bool:
    """Whether a file is not the user's: TensorFlow's, Keras's, Python's own, ours."""
    if any(
        part in file for part in ("/site-packages/tensorflow/", "/site-packages/tf_keras/", "/site-packages/keras/")
    ):
        return True
    if os.path.abspath(file).startswith((_folder_of(tf), os.path.dirname(os.path.abspath(__file__)) + os.sep)):
        return True
    standard = sysconfig.get_paths()["stdlib"] + os.sep
    return file.startswith("<") or (file.startswith(standard) and "-packages" not in file)


def user_line(op: Operation) -> tuple[str, int] | None:
    """File and line of the user's code that built the operation."""
    trace = op.traceback
    if trace is None:
        return None
    for frame in reversed(trace):
        if not _is_foreign(frame.filename):
            return frame.filename, frame.lineno
    return None

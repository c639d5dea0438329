"""Graphs of a program."""

from typing import Any, Callable

from popxl._impl import facade
from popxl._impl.errors import popart_error
from popxl.context import _contexts
from popxl.tensor import Constant, Tensor, Variable, _of_number


class Graph:
    """A data-flow graph with inputs and outputs in order, made by an `Ir`. `with graph:` makes it current: ops are
    added to it, at any time.

    Raises:
        TypeError: on construction.

    Example:
        >>> g = ir.create_graph(lambda x: x + 1, popxl.TensorSpec((2,), popxl.float32))
        >>> g.name, [t.name for t in g.inputs]
        ('<lambda>_subgraph(0)', ['x'])
    """

    __slots__ = ("_ir", "_number", "_id", "_by_ref_inputs", "__dict__", "__weakref__")

    _ir: Any
    _number: int
    _id: str
    _by_ref_inputs: set[Tensor]

    def __init__(self) -> None:
        raise TypeError("popxl.Graph cannot be made: use Ir.main_graph, Ir.create_graph or Ir.create_empty_graph.")

    @classmethod
    def _make(cls, ir: Any, number: int) -> "Graph":
        """Not cached: `Ir._graph` does that."""
        self = object.__new__(cls)
        self._ir, self._number = ir, number
        self._id = ir._program.graph_id(number)
        self._by_ref_inputs = {_of_number(ir, t) for t in ir._program.by_reference(number)}
        return self

    @classmethod
    def _from_pb(cls, pb_graph: Any) -> "Graph":
        """The graph of popart._internal.ir; always the same object."""
        from popxl.ir import Ir

        return Ir._from_pb(pb_graph._ir)._graph(pb_graph._number)

    @property
    def _pb_graph(self) -> Any:
        return facade.graph(self._ir._pb_ir, self._number)

    @property
    def ir(self) -> Any:
        """The Ir it belongs to."""
        return self._ir

    @property
    def main_graph(self) -> "Graph":
        """Main graph of its Ir."""
        return self._ir.main_graph

    @property
    def id(self) -> str:
        """Unique name in the Ir; "" for the main graph."""
        return self._id

    @property
    def name(self) -> str:
        """What stands before the names of its tensors in their ids; "" for the main graph."""
        return self._id

    def _tensors(self, numbers: Any) -> tuple[Any, ...]:
        ir = self._ir
        return tuple([_of_number(ir, t) for t in numbers])

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Inputs in order."""
        return self._tensors(self._ir._program.inputs(self._number))

    @property
    def inputs_by_name(self) -> dict[str, Tensor]:
        """Inputs by name, without the scope of the graph."""
        return {t.name: t for t in self.inputs}

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Outputs in order; `autodiff` may append some."""
        return self._tensors(self._ir._program.outputs(self._number))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, by id; in the main graph those of streams too."""
        return self._tensors(self._ir._program.tensors(self._number))

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Variables by id; only the main graph has some."""
        return tuple([t for t in self.tensors if isinstance(t, Variable)])

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Constants by id."""
        return tuple([t for t in self.tensors if isinstance(t, Constant)])

    @property
    def called_graphs(self) -> tuple["Graph", ...]:
        """Graphs that ops of this one call, each once."""
        return tuple([self._ir._graph(g) for g in self._ir._program.called(self._number)])

    def get_tensor(self, tensor_id: str) -> Tensor:
        """The tensor of that full id. Raises popart.popart_exception when the graph has none."""
        number = self._ir._program.find_tensor(self._number, tensor_id)
        if number < 0:
            raise popart_error(f"{self!r} has no tensor {tensor_id!r}.")
        return _of_number(self._ir, number)

    def register_op_created_hook(self, fn: Callable[[Any], Any]) -> int:
        """Calls `fn(op)` with the op of popart._internal.ir after each op that is made in this graph.

        Returns:
            A handle for `remove_op_created_hook`.
        """
        return _contexts.here.register_op_created_hook(self, fn)

    def remove_op_created_hook(self, handle: int) -> None:
        """Ends a hook. Raises ValueError for an unknown handle."""
        _contexts.here.remove_op_created_hook(handle)

    def _create_tensor_id(self, name: str) -> str:
        """A full id that no tensor of the graph has: its scope, the name scopes and the name."""
        return self._ir._program.unique_id(self._number, _contexts.here._prefix + name)

    def __contains__(self, value: Tensor) -> bool:
        if not isinstance(value, Tensor):
            raise TypeError(f"Only a popxl.Tensor can be in a graph, not a {type(value).__name__}.")
        return value._ir is self._ir and value._graph_number == self._number

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Graph):
            raise TypeError(f"A popxl.Graph is compared with a {type(other).__name__}.")
        return self._number == other._number and self._ir is other._ir

    def __hash__(self) -> int:
        return hash((self._ir._id, self._number))

    def __enter__(self) -> "Graph":
        _contexts.here.push_graph(self)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        _contexts.here.pop_graph()

    def __repr__(self) -> str:
        return f"Graph[id={self._id} name={self._id}]"

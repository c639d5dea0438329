"""Calls of graphs."""

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from popxl._impl import facade
from popxl._impl.call_inputs import not_an_input, wire, writes_input
from popxl._impl.call_ops import create_call_op
from popxl.context import _contexts
from popxl.tensor import Tensor, _of_number


class CallSiteInfo:
    """How the tensors of a call (or of a `repeat`) belong to those of the graph it calls.

    Args:
        subgraph_op: op of popart._internal.ir that calls a graph.

    Example:
        >>> info = ops.call_with_info(g, x)
        >>> info.graph_to_parent(g.inputs[0]) == x
        True
    """

    __slots__ = ("_ir", "_number", "__dict__")

    def __init__(self, subgraph_op: Any) -> None:
        from popxl.ir import Ir

        self._ir: Any = Ir._from_pb(subgraph_op.getIr())
        self._number: int = subgraph_op.id

    @classmethod
    def _make(cls, ir: Any, op: int) -> Any:
        self = object.__new__(cls)
        self._ir, self._number = ir, op
        return self

    @property
    def _op(self) -> Any:
        return facade.op(self._ir._pb_ir, self._number)

    def _callee(self, branch: int = 0) -> Any:
        return self._ir._graph(self._ir._program.callees(self._number)[branch])

    @property
    def called_graph(self) -> Any:
        """The graph that is called; of a `repeat`, the wrapper around the user's."""
        return self._callee()

    def _sorted(self, tensors: dict[int, int]) -> tuple[Tensor, ...]:
        return tuple([_of_number(self._ir, tensors[i]) for i in sorted(tensors)])

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Inputs of the op in order."""
        return self._sorted(self._ir._program.op_inputs(self._number))

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Outputs of the op in order."""
        return self._sorted(self._ir._program.op_outputs(self._number))

    def _tensor(self, tensors: dict[int, int], idx: int, what: str) -> Tensor:
        if idx not in tensors:
            raise IndexError(f"The op has no {what} {idx}; it has {sorted(tensors)}.")
        return _of_number(self._ir, tensors[idx])

    def parent_input(self, idx: int) -> Tensor:
        """Input `idx` of the op. Raises IndexError when there is none."""
        return self._tensor(self._ir._program.op_inputs(self._number), idx, "input")

    def parent_output(self, idx: int) -> Tensor:
        """Output `idx` of the op. Raises IndexError when there is none."""
        return self._tensor(self._ir._program.op_outputs(self._number), idx, "output")

    # --- indices
    @property
    def _output_offset(self) -> int:
        """Output 0 of a wrapper is the condition of the loop."""
        return 1 if self._ir._program.op_type(self._number) == "Loop" else 0

    def graph_to_parent_input_index(self, idx: int) -> int:
        """Input of the op that feeds input `idx` of the called graph: the same number."""
        return idx

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Input of the called graph that input `idx` of the op feeds: the same number."""
        return idx

    def graph_to_parent_output_index(self, idx: int) -> int:
        """Output of the op that is output `idx` of the called graph; of a `repeat`, one less."""
        return idx - self._output_offset

    def parent_to_graph_output_index(self, idx: int) -> int:
        """Output of the called graph that output `idx` of the op is; of a `repeat`, one more."""
        return idx + self._output_offset

    # --- tensors
    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """The tensor at the op for an input or output of the called graph; an input goes first.

        Raises:
            ValueError: it is neither, or nothing is connected there.
        """
        return self._parents_of([graph_tensor])[0]

    def _parents_of(self, graph_tensors: Iterable[Tensor]) -> list[Tensor]:
        """`graph_to_parent` of many, in one walk over the inputs and outputs of the call."""
        program, callee = self._ir._program, self.called_graph
        parents: dict[int, int] = {}
        op_inputs, op_outputs = program.op_inputs(self._number), program.op_outputs(self._number)
        for i, number in enumerate(program.inputs(callee._number)):
            if i in op_inputs:
                parents.setdefault(number, op_inputs[i])
        offset = self._output_offset
        for i, number in enumerate(program.outputs(callee._number)):
            if i - offset in op_outputs:
                parents.setdefault(number, op_outputs[i - offset])
        found = []
        for t in graph_tensors:
            if not isinstance(t, Tensor) or t._ir is not self._ir or t._number not in parents:
                raise ValueError(f"{t!r} is neither an input nor an output of {callee!r} with a tensor at the call.")
            found.append(_of_number(self._ir, parents[t._number]))
        return found

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """Input of the called graph that a tensor at the op feeds; the first, where it feeds several.

        Raises:
            ValueError: it feeds none.
        """
        program, callee = self._ir._program, self.called_graph
        if isinstance(parent_tensor, Tensor) and parent_tensor._ir is self._ir:
            takes = program.inputs(callee._number)
            for i, number in sorted(program.op_inputs(self._number).items()):
                index = self.parent_to_graph_input_index(i)
                if number == parent_tensor._number and 0 <= index < len(takes):
                    return _of_number(self._ir, takes[index])
        raise ValueError(f"{parent_tensor!r} is no input of the call of {callee!r}; those are {list(self.inputs)}.")

    def set_parent_input_modified(self, parent_tensor: Tensor, infer_modified_regions: bool = False) -> None:
        """The call leaves in an input what the called graph left in its own.

        Args:
            parent_tensor: input of the op.
            infer_modified_regions: only what ops of the called graph write goes back; nothing, where none does.

        Raises:
            popart.popart_exception: it is no input of the op.
        """
        program = self._ir._program
        found = False
        for i, number in program.op_inputs(self._number).items():
            if number != getattr(parent_tensor, "_number", None) or parent_tensor._ir is not self._ir:
                continue
            found = True
            callee = self.called_graph._number
            takes = program.inputs(callee)[self.parent_to_graph_input_index(i)]
            if not infer_modified_regions or writes_input(program, callee, takes):
                program.set_modified(self._number, i)
        if not found:
            raise not_an_input(parent_tensor, self.inputs)


def call(graph: Any, *inputs: Any, inputs_dict: Optional[Mapping[Tensor, Any]] = None) -> tuple[Tensor, ...]:
    """Calls a graph: its inputs are copies of the tensors given, unless it takes them by reference.

    Args:
        graph: to call.
        *inputs: values of its inputs from the first on; lists, tuples and other iterables count as their elements. What is
            no tensor becomes a constant of the input's dtype.
        inputs_dict: values of the other inputs, by tensor of `graph`.

    Returns:
        The outputs.

    Raises:
        TypeError: a value can be no tensor.
        ValueError: values are missing, too many, given twice or of another graph.
        popart.popart_exception: a value has another dtype or shape than the input.

    Example:
        >>> (y,) = ops.call(g, x, inputs_dict={layer.w: w})
    """
    return call_with_info(graph, *inputs, inputs_dict=inputs_dict).outputs


def call_with_info(
    graph: Any, *inputs: Any, inputs_dict: Optional[Mapping[Tensor, Any]] = None, check_inputs: bool = True
) -> CallSiteInfo:
    """As `call`; returns how tensors of the call and of the graph belong together.

    Args:
        check_inputs: False: inputs may be missing, and are connected later.
    """
    parent = _contexts.here.graph
    wired = wire(parent, graph, inputs, inputs_dict, check_inputs)
    op = _create(parent, graph, wired)
    return CallSiteInfo._make(parent._ir, op)


def _create(parent: Any, callee: Any, wired: dict[int, Tensor]) -> int:
    program = parent._ir._program
    prefix = _contexts.here._prefix
    names = [t.name for t in callee.outputs]
    taken = [program.unique_id(parent._number, prefix + name) for name in dict.fromkeys(names)]
    ids = dict(zip(dict.fromkeys(names), taken))
    output_ids = []
    for i, name in enumerate(names):  # an output twice: the second is another tensor
        first = names.index(name) == i
        output_ids.append(ids[name] if first else program.intermediate_id(_scoped(parent, prefix + name)))
    op = create_call_op(parent, "Call", f"{parent.name}--call--{callee.name}", [callee], wired, output_ids)
    by_ref = callee._by_ref_inputs
    if by_ref:
        for i, tensor in enumerate(callee.inputs):
            if tensor in by_ref and i in wired:
                program.set_modified(op, i)
    return op


def _scoped(graph: Any, name: str) -> str:
    return f"{graph._id}/{name}" if graph._id else name

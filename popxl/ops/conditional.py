"""Branches that a value on the device chooses."""

from collections.abc import Iterable, Mapping
from typing import Any, Optional

from popxl._impl.call_inputs import wire
from popxl._impl.call_ops import create_call_op
from popxl.context import _contexts
from popxl.ops.call import CallSiteInfo
from popxl.ops.utils import check_in_graph
from popxl.tensor import Tensor, _of_number


def _is(tensor: Any, number: Optional[int], ir: Any) -> bool:
    return isinstance(tensor, Tensor) and tensor._ir is ir and tensor._number == number


class ConditionalSiteInfo(CallSiteInfo):
    """How the tensors of a `conditional` belong to those of its branches."""

    __slots__ = ()

    @property
    def called_graph(self) -> Any:
        """The graphs of both branches: (then, else)."""
        return self._callee(0), self._callee(1)

    def _index(self, inputs: bool, branch: int, idx: int) -> int:
        table = self._ir._program.callee_maps(self._number)[0 if inputs else 1][branch]
        if idx not in table:
            what = "input" if inputs else "output"
            raise IndexError(f"Branch {branch} (0: then, 1: else) has no {what} {idx}; it has {sorted(table)}.")
        return table[idx]

    def _index_of_graph(self, inputs: bool, branch: int, idx: int) -> int:
        for own, at_op in self._ir._program.callee_maps(self._number)[0 if inputs else 1][branch].items():
            if at_op == idx:
                return own
        raise IndexError(
            f"{'Input' if inputs else 'Output'} {idx} of the op does not belong to branch {branch} (0: then)."
        )

    def graph_to_parent_input_index(self, idx: int, then_branch: bool = True) -> int:
        """Input of the op that feeds input `idx` of a branch. Raises IndexError when there is none."""
        return self._index(True, 0 if then_branch else 1, idx)

    def graph_to_parent_output_index(self, idx: int, then_branch: bool = True) -> int:
        """Output of the op that output `idx` of a branch is. Raises IndexError when there is none."""
        return self._index(False, 0 if then_branch else 1, idx)

    def parent_to_graph_input_index(self, idx: int) -> int:
        """Input of the branch that input `idx` of the op feeds. Raises IndexError for the condition and beyond."""
        return self._index_of_graph(True, 0 if self.is_parent_index_in_then_branch(idx) else 1, idx)

    def parent_to_graph_output_index(self, idx: int, then_branch: bool = True) -> int:
        """Output of a branch that output `idx` of the op is. Raises IndexError when there is none."""
        return self._index_of_graph(False, 0 if then_branch else 1, idx)

    def is_parent_index_in_then_branch(self, idx: int) -> bool:
        """Whether input `idx` of the op feeds the then-branch. Raises IndexError when the op has no such input."""
        inputs = self._ir._program.op_inputs(self._number)
        if idx not in inputs:
            raise IndexError(f"The op has no input {idx}; it has {sorted(inputs)}.")
        return idx in self._ir._program.callee_maps(self._number)[0][0].values()

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """The tensor at the op for an input or output of a branch. Raises ValueError when there is none."""
        program = self._ir._program
        at_op = (program.op_inputs(self._number), program.op_outputs(self._number))
        maps = program.callee_maps(self._number)
        for kind, numbers in enumerate((program.inputs, program.outputs)):
            for branch, graph in enumerate(self.called_graph):
                for i, number in enumerate(numbers(graph._number)):
                    index = maps[kind][branch].get(i)
                    if _is(graph_tensor, number, self._ir) and index in at_op[kind]:
                        return _of_number(self._ir, at_op[kind][index])
        raise ValueError(
            f"{graph_tensor!r} is neither an input nor an output of {self.called_graph} with a tensor at the op."
        )

    def parent_to_graph(self, parent_tensor: Tensor) -> Tensor:
        """Input of a branch that a tensor at the op feeds; of the then-branch, where it feeds both. Raises ValueError
        when it feeds none."""
        program = self._ir._program
        at_op = program.op_inputs(self._number)
        maps = program.callee_maps(self._number)[0]
        for branch, graph in enumerate(self.called_graph):
            takes = program.inputs(graph._number)
            for own, index in sorted(maps[branch].items()):
                if _is(parent_tensor, at_op.get(index), self._ir):
                    return _of_number(self._ir, takes[own])
        raise ValueError(f"{parent_tensor!r} feeds no input of {self.called_graph}.")

    def set_parent_input_modified(self, parent_tensor: Tensor, infer_modified_regions: bool = False) -> None:
        """Raises NotImplementedError: branches work on copies."""
        raise NotImplementedError("Branches of a conditional work on copies: return the new value as an output.")


def conditional(
    cond: Tensor,
    then_branch: Any,
    else_branch: Any,
    then_inputs: Optional[Iterable[Any]] = None,
    else_inputs: Optional[Iterable[Any]] = None,
    then_inputs_dict: Optional[Mapping[Tensor, Any]] = None,
    else_inputs_dict: Optional[Mapping[Tensor, Any]] = None,
) -> tuple[Tensor, ...]:
    """Calls one of two graphs, as a value on the device says.

    Args:
        cond: one bool, of shape () or (1,).
        then_branch, else_branch: graphs with outputs of the same dtypes and shapes.
        then_inputs, else_inputs, then_inputs_dict, else_inputs_dict: inputs of each, as those of `call`.

    Returns:
        The outputs.

    Raises:
        TypeError: a value can be no tensor.
        ValueError: the branches have different numbers of outputs; those of `call`.
        NotImplementedError: a branch takes an input by reference.
        popart.popart_exception: the branches, or values and inputs, differ in dtype or shape; `cond` is no single bool.

    Example:
        >>> (y,) = ops.conditional(flag, up, down, then_inputs=[x], else_inputs=[x])
    """
    return conditional_with_info(
        cond, then_branch, else_branch, then_inputs, else_inputs, then_inputs_dict, else_inputs_dict
    ).outputs


def conditional_with_info(
    cond: Tensor,
    then_branch: Any,
    else_branch: Any,
    then_inputs: Optional[Iterable[Any]] = None,
    else_inputs: Optional[Iterable[Any]] = None,
    then_inputs_dict: Optional[Mapping[Tensor, Any]] = None,
    else_inputs_dict: Optional[Mapping[Tensor, Any]] = None,
    check_inputs: bool = True,
) -> ConditionalSiteInfo:
    """As `conditional`; returns how tensors of the op and of the branches belong together.

    Args:
        check_inputs: False: inputs may be missing, and are connected later.
    """
    parent = _contexts.here.graph
    check_in_graph(parent, cond=cond)
    branches = (then_branch, else_branch)
    for graph in branches:
        if graph._by_ref_inputs:
            raise NotImplementedError(
                f"{graph!r} takes {sorted(t.name for t in graph._by_ref_inputs)} by reference: a branch cannot; return the new value."
            )
    counts = [len(graph.outputs) for graph in branches]
    if counts[0] != counts[1]:
        raise ValueError(
            f"{then_branch!r} has {counts[0]} outputs and {else_branch!r} {counts[1]}: both branches need the same number."
        )
    inputs = {0: cond}
    maps = []
    first = 1
    given: Any
    for graph, given, by_tensor in zip(branches, (then_inputs, else_inputs), (then_inputs_dict, else_inputs_dict)):
        values = () if given is None else (given,) if isinstance(given, Tensor) else given
        wired = wire(parent, graph, values, by_tensor, check_inputs)
        takes = len(graph.inputs)
        inputs.update({first + i: t for i, t in wired.items()})
        maps.append({i: first + i for i in range(takes)})
        first += takes
    program = parent._ir._program
    output_ids = [
        program.unique_id(parent._number, f"{_contexts.here._prefix}{a.name}_or_{b.name}")
        for a, b in zip(then_branch.outputs, else_branch.outputs)
    ]
    same = {i: i for i in range(counts[0])}
    name = f"{parent.name}--conditional--{then_branch.name}--{else_branch.name}"
    op = create_call_op(parent, "If", name, branches, inputs, output_ids, None, (maps, [same, same]))
    return ConditionalSiteInfo._make(parent._ir, op)

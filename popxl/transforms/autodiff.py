"""Gradient graphs."""

import enum
from typing import Any, Optional, Union
from collections.abc import Iterable, Mapping

from popxl._impl import facade
from popxl._impl.errors import core_errors, popart_error
from popxl.graph import Graph
from popxl.tensor import Tensor


class ExpectedConnectionType(enum.Enum):
    """What an input or output of a gradient graph is to the forward graph."""

    Fwd = "Fwd"
    """A tensor of it."""
    FwdGrad = "FwdGrad"
    """The gradient of a tensor of it."""

    @classmethod
    def _from_pb(cls, pb_type: Any) -> "ExpectedConnectionType":
        return cls[pb_type.name]


class ExpectedConnection:
    """One input or output of a gradient graph.

    Raises:
        TypeError: on construction.
    """

    _pb_ec: Any
    _fwd_graph: Graph

    def __init__(self) -> None:
        raise TypeError("popxl.transforms.ExpectedConnection cannot be made: autodiff gives them.")

    @classmethod
    def _from_pb(cls, pb_fwd_graph: Any, pb_connection: Any) -> "ExpectedConnection":
        self = object.__new__(cls)
        self._pb_ec, self._fwd_graph = pb_connection, Graph._from_pb(pb_fwd_graph)
        return self

    @property
    def connection_type(self) -> ExpectedConnectionType:
        """Whether it is the tensor or its gradient."""
        return ExpectedConnectionType._from_pb(self._pb_ec.type)

    @property
    def fwd_tensor(self) -> Tensor:
        """The tensor of the forward graph."""
        return self._fwd_graph.get_tensor(self._pb_ec.fwdId)

    def __repr__(self) -> str:
        return f"({self.connection_type}, {self.fwd_tensor})"


class GradGraphInfo:
    """A gradient graph, and what its inputs and outputs are to the forward graph.

    Raises:
        TypeError: on construction.
    """

    _pb_bwd_info: Any
    _forward_graph: Graph
    _graph: Graph
    _expected_inputs: tuple[ExpectedConnection, ...]
    _expected_outputs: tuple[ExpectedConnection, ...]

    def __init__(self) -> None:
        raise TypeError("popxl.transforms.GradGraphInfo cannot be made: autodiff gives them.")

    @classmethod
    def _from_pb(cls, pb_ir: Any, pb_fwd_graph: Any, pb_bwd_info: Any) -> "GradGraphInfo":
        self = object.__new__(cls)
        self._pb_bwd_info = pb_bwd_info
        self._forward_graph = Graph._from_pb(pb_fwd_graph)
        self._graph = Graph._from_pb(pb_ir.getGraph(pb_bwd_info.bwdGraphId))
        sides = (pb_bwd_info.expectedInputs, pb_bwd_info.expectedOutputs)
        self._expected_inputs, self._expected_outputs = (
            tuple(ExpectedConnection._from_pb(pb_fwd_graph, connection) for connection in side) for side in sides
        )
        return self

    @property
    def graph(self) -> Graph:
        """The gradient graph."""
        return self._graph

    @property
    def forward_graph(self) -> Graph:
        """The graph that was differentiated."""
        return self._forward_graph

    @property
    def expected_inputs(self) -> tuple[ExpectedConnection, ...]:
        """The i-th says what input i of the gradient graph is: provided gradients first, then forward tensors."""
        return self._expected_inputs

    @property
    def expected_outputs(self) -> tuple[ExpectedConnection, ...]:
        """Names for each output i the forward tensor whose gradient it is."""
        return self._expected_outputs

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Forward tensors of `expected_inputs`."""
        return tuple(connection.fwd_tensor for connection in self._expected_inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Forward tensors of `expected_outputs`."""
        return tuple(connection.fwd_tensor for connection in self._expected_outputs)

    def inputs_dict(self, fwd_call_info: Any) -> dict[Tensor, Tensor]:
        """What the gradient graph needs of a call of the forward graph.

        Args:
            fwd_call_info: of `ops.call_with_info` on the forward graph.

        Returns:
            Input of the gradient graph → tensor around the forward call: for `inputs_dict` of the gradient call.

        Raises:
            TypeError: the call is of another graph.

        Example:
            >>> bwd = ops.call_with_info(grad.graph, dy, inputs_dict=grad.inputs_dict(fwd))
        """
        self._check_call(fwd_call_info)
        pairs = [
            (graph_input, connection.fwd_tensor)
            for graph_input, connection in zip(self.graph.inputs, self._expected_inputs)
            if connection.connection_type is ExpectedConnectionType.Fwd
        ]
        parents = fwd_call_info._parents_of(tensor for _, tensor in pairs)
        return {graph_input: parent for (graph_input, _), parent in zip(pairs, parents)}

    def _check_call(self, fwd_call_info: Any) -> None:
        called = fwd_call_info.called_graph
        if not isinstance(called, Graph) or called != self._forward_graph:
            raise TypeError(f"The call is of {called!r}, and this gradient graph is of {self._forward_graph!r}.")

    def fwd_graph_ins_to_grad_parent_outs(self, grad_call_info: Any) -> dict[Tensor, Tensor]:
        """Forward tensor → its gradient around a call of the gradient graph."""
        gradients = grad_call_info.outputs
        return {
            connection.fwd_tensor: gradient for connection, gradient in zip(self._expected_outputs, gradients)
        }

    def fwd_parent_ins_to_grad_parent_outs(self, fwd_call_info: Any, grad_call_info: Any) -> dict[Tensor, Tensor]:
        """Tensor that went into the forward call → its gradient around the gradient call.

        Raises:
            TypeError: the forward call is of another graph.
        """
        self._check_call(fwd_call_info)
        gradients = self.fwd_graph_ins_to_grad_parent_outs(grad_call_info)
        return dict(zip(fwd_call_info._parents_of(gradients), gradients.values()))

    def __repr__(self) -> str:
        inputs = "".join(f"\n    {connection}," for connection in self._expected_inputs)
        outputs = "".join(f"\n    {connection}," for connection in self._expected_outputs)
        return (
            f"GradGraphInfo[\n  graph={self._graph}\n  expected_inputs=[{inputs}\n  ]\n  expected_outputs=[{outputs}\n  ]\n]"
        )


def autodiff(
    graph: Graph,
    grads_provided: Optional[Iterable[Tensor]] = None,
    grads_required: Optional[Iterable[Tensor]] = None,
    called_graphs_grad_info: Optional[Mapping[Graph, GradGraphInfo]] = None,
    return_all_grad_graphs: bool = False,
) -> Union[GradGraphInfo, dict[Graph, GradGraphInfo]]:
    """Makes the gradient graph of a graph. Values that it needs and that the graph does not return become further outputs of the
    graph and of the calls of it that there are.

    Args:
        graph: the forward graph.
        grads_provided: tensors of it whose gradients the caller has; all outputs there are now if None. Their gradients are the
            first inputs of the gradient graph, in this order, of the same shapes and dtypes.
        grads_required: tensors of it whose gradients are the outputs, in this order; all inputs if None.
        called_graphs_grad_info: gradient graphs of graphs that it calls, to be used instead of new ones.
        return_all_grad_graphs: True: those of called graphs are returned too.

    Returns:
        What the gradient graph is to the forward graph; with `return_all_grad_graphs` by forward graph.

    Raises:
        popart.popart_exception: the graph or one that it calls overwrites a tensor; a required gradient does not arise; an op on
            the way has none; nothing is required; a tensor is of another graph.

    Example:
        >>> fwd = ops.call_with_info(g, x, w)
        >>> grad = popxl.transforms.autodiff(g, grads_required=[g.inputs[1]])
        >>> bwd = ops.call_with_info(grad.graph, dy, inputs_dict=grad.inputs_dict(fwd))
        >>> dw = grad.fwd_parent_ins_to_grad_parent_outs(fwd, bwd)[w]
    """
    ir = graph.ir
    provided = _ids(graph, graph.outputs if grads_provided is None else grads_provided, "grads_provided")
    required = None if grads_required is None else _ids(graph, grads_required, "grads_required")
    if required == []:
        raise popart_error(f"grads_required is empty: the gradient graph of {graph!r} would have no output.")
    known = {g.id: info._pb_bwd_info.plain() for g, info in (called_graphs_grad_info or {}).items()}
    with core_errors():
        made = ir._program.differentiate(graph._number, provided, required, known)
    core, pb_ir = facade.core(), ir._pb_ir
    infos = {}
    for forward_id, plain in made.items():
        pb_graph = pb_ir.getGraph(forward_id)
        infos[Graph._from_pb(pb_graph)] = GradGraphInfo._from_pb(pb_ir, pb_graph, core.BwdGraphInfo.of_plain(plain))
    return infos if return_all_grad_graphs else infos[graph]


def _ids(graph: Graph, tensors: Iterable[Tensor], argument: str) -> list[str]:
    ids = []
    for tensor in tensors:
        if tensor not in graph:
            raise popart_error(f"{argument} has {tensor!r}, which is no tensor of {graph!r}.")
        ids.append(tensor.id)
    return ids

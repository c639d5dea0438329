"""Gradient ops of one op, and what they are to it. Whole graphs are differentiated by transforms.Autodiff.

The op is cloned into a graph of its own, which is differentiated; the gradient ops are cloned, unconnected, into a graph
that the Ir neither lists nor compiles. Graphs made on the way are removed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from popart._impl.core_errors import reason_of
from popart._impl.enums import GradOpInType
from popart._impl.exceptions import popart_exception
from popart._impl.tensor_info import native_number

_HOLDER = "#gradient_ops"
_FLOATING = ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")


@dataclasses.dataclass(frozen=True)
class GradInOutMapper:
    """Input `iGrad` of a gradient op is input or output `iNonGrad` of the forward op, or the gradient of that output."""

    iGrad: int
    iNonGrad: int
    type: GradOpInType


def gradient_ops(op: Any) -> list[Any]:
    """The ops that Autodiff makes for `op` when the gradients of all its outputs arrive and those of all its inputs are
    wanted, in the order of their ids: unconnected, in a graph that is not listed. None of an op without a gradient, and of
    one that calls graphs.

    Raises:
        popart_exception: the op refuses to be differentiated; it says why.
    """
    ir, core = op.getIr(), op.core
    kind = ir.kinds.get(op.kind)
    if op.id in ir.unlisted_ops or kind is None or not kind.gradients or core.callees(op.id):
        return []
    wanted, provided = _floating(op.getInputIndexMap()), _floating(op.getOutputIndexMap())
    if not wanted or not provided:
        return []
    forward = ir.create_scratch_graph("#forward_op")
    try:
        inputs, outputs = _clone_alone(op, forward)
        required = [inputs[index] for index in wanted if _arises(core, forward, inputs[index], outputs, provided)]
        if not required:
            return []
        made, graph = _differentiate(core, forward, [outputs[index] for index in provided], required)
        holder = ir.scratch_graph(_HOLDER)
        clones = [_clone(ir, gradient, holder) for gradient in made]
        core.erase_graph(graph)
        return clones
    finally:
        ir.erase_scratch_graph(forward)


def _floating(tensors: dict[int, Any]) -> list[int]:
    return [index for index, tensor in tensors.items() if tensor.info.dataType().name in _FLOATING]


def _clone_alone(op: Any, graph: int) -> tuple[dict[int, str], dict[int, str]]:
    """A clone of the op in a graph of its own, each input a tensor. Ids of these and of the outputs, by index."""
    core = op.core
    clone = core.clone_op(op.id, graph)
    scope = core.graph_id(graph)
    inputs, outputs = {}, {}
    for index, tensor in op.getInputIndexMap().items():
        inputs[index] = f"{scope}/in{index}"
        dtype, info = native_number(tensor.info.dataType()), tensor.info
        if tensor.tensorType().name == "Const":
            number = core.add_constant(graph, inputs[index], dtype, tensor.host_array())
        else:
            number = core.add_input(graph, inputs[index], dtype, info.shape(), info.metaShape())
        core.connect_input(clone, index, number)
    for index in op.getOutputIndexMap():
        outputs[index] = f"{scope}/out{index}"
        core.create_output(clone, index, outputs[index])
    core.setup(clone)
    for index in sorted(outputs):
        core.mark_output(graph, core.find_tensor(graph, outputs[index]))
    return inputs, outputs


def _differentiate(core: Any, graph: int, provided: list[str], required: list[str]) -> tuple[list[int], int]:
    """Ids of the gradient ops, and the graph that has them. Sums of contributions, one for each output of the graph, belong to
    tensors and are left out."""
    info = core.differentiate(graph, provided, required, {}, "AddFwdOutputs")[core.graph_id(graph)]
    made = core.find_graph(info[0])
    sums = {core.producer(tensor) for tensor in core.outputs(made)}
    return [op for op in core.ops(made) if op not in sums], made


def _arises(core: Any, graph: int, input: str, outputs: dict[int, str], provided: list[int]) -> bool:
    """Has this one input a gradient? Others of the op may have one. Raises popart_exception where the op refuses."""
    try:
        _, made = _differentiate(core, graph, [outputs[index] for index in provided], [input])
    except popart_exception as error:
        if reason_of(error) == "no_gradient_arises":
            return False
        raise
    core.erase_graph(made)
    return True


def _clone(ir: Any, op: int, graph: int) -> Any:
    return ir.wrap_op(ir.checked.clone_op(op, graph))


def _forward(op: Any) -> tuple[Any, ...]:
    found = op.core.forward(op.id)
    if found is None:
        raise popart_exception(f"{op} is no gradient op")
    return tuple(found)


def input_info(op: Any) -> list[GradInOutMapper]:
    """What each input of a gradient op is. Raises popart_exception for another op."""
    consumed = _forward(op)[2]
    return [GradInOutMapper(i, index, GradOpInType[what]) for i, (what, index) in sorted(consumed.items())]


def outputs_to_inputs(op: Any) -> dict[int, int]:
    """Output of a gradient op → input of the forward op that it is the gradient of. Raises popart_exception for another op."""
    return dict(enumerate(_forward(op)[4]))

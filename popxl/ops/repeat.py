"""Loops of a fixed number of iterations."""

import operator
from collections.abc import Mapping
from typing import Any, Optional

from popxl import dtypes
from popxl._impl.call_inputs import wire, writes_input
from popxl._impl.call_ops import create_call_op
from popxl._impl.errors import core_errors
from popxl.context import _contexts
from popxl.ops.call import CallSiteInfo, _create, _scoped
from popxl.tensor import Tensor


def repeat(
    graph: Any, repeat_count: int, *inputs: Any, inputs_dict: Optional[Mapping[Tensor, Any]] = None
) -> tuple[Tensor, ...]:
    """Calls a graph `repeat_count` times. Before each iteration but the first, the outputs of the one before go to the
    inputs of the same number; the other inputs stay as they are.

    Args:
        graph: with at least as many inputs as outputs.
        repeat_count: number of iterations; 0 gives the first values of the inputs that are carried.
        *inputs, inputs_dict: of `call`.

    Returns:
        The outputs of the last iteration.

    Raises:
        TypeError: a value can be no tensor.
        ValueError: `repeat_count` is negative; the graph has more outputs than inputs; those of `call`.
        popart.popart_exception: a value, or an output and the input it goes to, differ in dtype or shape.

    Example:
        >>> g = ir.create_graph(lambda total, step: total + step, total, step)
        >>> (total,) = ops.repeat(g, 5, total, step)
    """
    return repeat_with_info(graph, repeat_count, *inputs, inputs_dict=inputs_dict).outputs


def repeat_with_info(
    graph: Any,
    repeat_count: int,
    *inputs: Any,
    inputs_dict: Optional[Mapping[Tensor, Any]] = None,
    check_inputs: bool = True,
) -> CallSiteInfo:
    """As `repeat`; returns how tensors of the loop and of the wrapper around the graph belong together.

    Args:
        check_inputs: False: inputs may be missing, and are connected later.
    """
    parent = _contexts.here.graph
    count = operator.index(repeat_count)
    if count < 0:
        raise ValueError(f"repeat_count is {count}: a graph cannot be repeated less than 0 times.")
    takes, gives = graph.inputs, graph.outputs
    if len(gives) > len(takes):
        raise ValueError(
            f"{graph!r} has {len(gives)} outputs and {len(takes)} inputs: each output goes to an input in the next iteration."
        )
    wired = wire(parent, graph, inputs, inputs_dict, check_inputs)
    ir = parent._ir
    program = ir._program
    wrapper = _wrapper(ir, graph, takes, gives)
    prefix = _contexts.here._prefix
    output_ids = [program.intermediate_id(_scoped(parent, prefix + t.name)) for t in gives]
    try:
        op = create_call_op(
            parent,
            "Loop",
            f"{parent.name}--repeat--{graph.name}",
            [wrapper],
            {i + 2: t for i, t in wired.items()},
            output_ids,
            {"trip": count},
        )
    except Exception:
        _forget(ir, wrapper)
        raise
    for i, tensor in enumerate(takes):
        is_by_ref = tensor in graph._by_ref_inputs and i in wired
        if is_by_ref and (i < len(gives) or writes_input(program, graph._number, tensor._number)):
            program.set_modified(op, i + 2)
    return CallSiteInfo._make(ir, op)


def _wrapper(ir: Any, graph: Any, takes: Any, gives: Any) -> Any:
    """A graph (iterator, condition, inputs) -> (condition, outputs) that calls the user's once."""
    program = ir._program
    with core_errors():
        wrapper = ir._graph(program.create_graph(program.unique_subgraph_id(f"{graph.id}__loop_wrapper")))
        number = wrapper._number
        program.add_input(number, program.unique_id(number, "Iterator___"), dtypes.int32._number, ())
        condition = program.add_input(number, program.unique_id(number, "LoopCond___"), dtypes.bool._number, ())
        program.mark_output(number, condition)
        inner = {}
        for i, t in enumerate(takes):
            dtype, shape, meta_shape = t._info
            made = program.add_input(number, program.unique_id(number, t.name), dtype, shape, meta_shape)
            tensor = wrapper._tensors((made,))[0]
            inner[i] = tensor
            if t in graph._by_ref_inputs:
                wrapper._by_ref_inputs.add(tensor)
                program.set_by_reference(number, made)
        call = _create(wrapper, graph, inner)
        outputs = program.op_outputs(call)
        for i in range(len(gives)):
            program.mark_output(number, outputs[i])
    return wrapper


def _forget(ir: Any, wrapper: Any) -> None:
    """Removes a wrapper that nothing calls."""
    ir._graph_cache.pop(wrapper._number, None)
    ir._program.erase_graph(wrapper._number)

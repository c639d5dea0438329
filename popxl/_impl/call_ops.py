"""Makes ops that call graphs. Hooks see them before their inputs are connected, as published."""

from collections.abc import Sequence
from typing import Any, Optional

from ipu_common.debug_contexts import recording
from ipu_core._native import Error as CoreError

from popxl._impl.build import settings
from popxl._impl.debug_records import record_op
from popxl._impl.errors import popart_error
from popxl.context import _contexts
from popxl.tensor import Tensor


def create_call_op(
    graph: Any,
    op_type: str,
    name: str,
    callees: Sequence[Any],
    inputs: dict[int, Tensor],
    output_ids: list[str],
    attributes: Optional[dict[str, Any]] = None,
    maps: Any = None,
) -> int:
    """One op in `graph`; its id. Nothing of it is left when its inputs do not fit: popart.popart_exception."""
    ir = graph._ir
    program = ir._program
    op = program.create_bare_op(graph._number, op_type, attributes or {}, settings(name))
    made: list[int] = []
    try:
        program.set_callees(op, [callee._number for callee in callees])
        if maps is not None:
            program.set_callee_maps(op, *maps)
        if _contexts.here._mode is not None or _contexts.here._hooks:
            _contexts.here._created(ir, graph._number, op)
        for index, tensor in inputs.items():
            program.connect_input(op, index, tensor._number)
        for index, tensor_id in enumerate(output_ids):
            made.append(program.create_output(op, index, tensor_id))
        program.setup(op)
        if recording.path is not None:
            record_op(ir, op, list(inputs.values()), made)
    except CoreError as error:
        program.erase_op(op)
        for number in made:
            program.erase_tensor(number)
        raise popart_error(error) from error
    return op

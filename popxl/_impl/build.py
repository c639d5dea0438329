"""Makes ops: what all functions of `popxl.ops` end with."""

from collections.abc import Sequence
from typing import Any, Optional, Union

from ipu_common.debug_contexts import recording
from ipu_core._native import Error as CoreError

from popxl._impl.debug_records import record_op
from popxl._impl.errors import popart_error
from popxl._impl.source import user_location
from popxl.context import _contexts
from popxl.tensor import Tensor, _of_number


def settings(name: str) -> tuple[Any, ...]:
    """What a new op gets from the context, as the native program takes it."""
    context = _contexts.here
    file, line = user_location(context._skip)
    return context._prefix + name, context._ipu, context._execution_context, context._tile_set, file, line


def create(
    op_type: str,
    inputs: dict[int, Tensor],
    stems: Union[Sequence[str], dict[int, str]],
    attributes: Optional[dict[str, Any]] = None,
    *,
    name: Optional[str] = None,
    identifier: Optional[tuple[str, str, int]] = None,
) -> tuple[Tensor, ...]:
    """Makes one op in the current graph, with what the context says, its order and hooks.

    Args:
        op_type: of a row of csrc/frontends/popxl/kinds.
        inputs: tensors of the current graph, by input of the op; absent ones are left out.
        stems: names of the outputs, or by output; they get the name scopes, and are made unique.
        attributes: those the row reads.
        name: of the op, for messages; the type in small letters if None.
        identifier: (domain, type, version), if not that of the row.

    Returns:
        The outputs in order.

    Raises:
        RuntimeError: there is no current graph.
        popart.popart_exception: the types of the inputs do not fit.
    """
    return create_op(op_type, inputs, stems, attributes, name, identifier)[1]


def create_op(
    op_type: str,
    inputs: dict[int, Tensor],
    stems: Union[Sequence[str], dict[int, str]],
    attributes: Optional[dict[str, Any]] = None,
    name: Optional[str] = None,
    identifier: Optional[tuple[str, str, int]] = None,
) -> tuple[int, tuple[Tensor, ...]]:
    """As `create`; gives the id of the op too."""
    context = _contexts.here
    graph = context.graph
    ir, number = graph._ir, graph._number
    prefix = context._prefix
    if isinstance(stems, dict):
        names = {i: prefix + stem for i, stem in stems.items()} if prefix else stems
    elif len(stems) == 1:
        names = {0: prefix + stems[0]}
    else:
        names = {i: prefix + stem for i, stem in enumerate(stems)}
    file, line = user_location(context._skip)
    try:
        op, made = ir._program.create_op(
            number,
            op_type,
            {i: t._number for i, t in inputs.items()},
            names,
            attributes or {},
            (
                prefix + (name or op_type.lower()),
                context._ipu,
                context._execution_context,
                context._tile_set,
                file,
                line,
            ),
            (),
            identifier,
        )
    except CoreError as error:
        raise popart_error(error) from error
    if context._mode is not None or context._hooks:
        context._created(ir, number, op)
    if recording.path is not None:
        record_op(ir, op, list(inputs.values()), made.values())
    if len(made) == 1:
        (t,) = made.values()
        return op, (_of_number(ir, t, Tensor, number),)
    return op, tuple([_of_number(ir, t, Tensor, number) for t in made.values()])

"""One step of a session with arrays: what of a PyStepIO's goes to the streams of the program, and back."""

from __future__ import annotations

from typing import Any

import numpy

import ipu_core
from popart._impl.enums import AnchorReturnTypeId, SyntheticDataMode
from popart._impl.exceptions import popart_exception, popart_runtime_error
from popart._impl.logs import getLogger
from popart._impl.core_errors import as_popart
from popart._impl.sessions.step_callbacks import give_scalars, run_callbacks
from popart._impl.sessions.transfers import ANCHOR, Transfers, transfers_of
from popart._impl.sessions.typed import check_type
from popart._impl.step_io import PyStepIO, PyStepIOCallback


def program_and_arrays(*arguments: Any, **named: Any) -> tuple[str | None, Any]:
    """The handle of a program, None for that of the step, and the StepIO, of the arguments of `run`.

    Raises:
        TypeError: there are others.
    """
    has_program = "programHandle" in named or bool(arguments) and isinstance(arguments[0], str)
    names = ["programHandle"] * has_program + ["stepio", "debugName"]
    given = dict(zip(names, arguments))
    if len(arguments) > len(names) or given.keys() & named.keys() or named.keys() - set(names):
        raise TypeError(
            f"incompatible arguments: run takes {', '.join(names)}, not {len(arguments)} values and {sorted(named)}"
        )
    given |= named
    return given.get("programHandle"), given.get("stepio")


def run_step(session: Any, native: Any, stepio: Any, entry: str = "main") -> None:
    """One run of the step, or of another program of the session.

    Raises popart_runtime_error for arrays that do not fit, and the errors of the device.
    """
    try:
        if session._options.syntheticDataMode is not SyntheticDataMode["Off"]:
            native.run({}, entry)  # inputs are bound for good, and nobody sees the outputs
        elif isinstance(stepio, PyStepIOCallback):
            run_callbacks(transfers_of(session, native, entry), native, stepio, entry)
            give_scalars(_scalar_anchors(session), session._anchor_shape, session._host_dtype, stepio)
        elif isinstance(stepio, PyStepIO):
            _run_arrays(transfers_of(session, native, entry), native, stepio, entry)
            _fill_scalars(session, stepio)
        else:
            raise TypeError(
                f"incompatible arguments: run takes a PyStepIO or a PyStepIOCallback, not {type(stepio).__name__}"
            )
    except ipu_core.Error as error:
        if isinstance(error.__cause__, popart_exception):  # raised inside a callback
            raise error.__cause__ from None
        if error.__cause__ is not None:
            cause = error.__cause__
            raise popart_runtime_error(f"a callback of the run raised {type(cause).__name__}: {cause}") from cause
        raise as_popart(error, of_run=True) from error


def _scalar_anchors(session: Any) -> dict[str, float]:
    """Runtime scalars of the optimizer are the host's; each element of a run is the value of now, over micro-batches their sum
    where a sum is asked for."""
    flow, values = session.dataFlow, {}
    for id in flow.anchors():
        if id in session._scalars:
            is_sum = flow.art(id).id() is AnchorReturnTypeId["Sum"]
            values[id] = session._scalars[id] * (flow.batchesPerStep() * session.accumulationFactor if is_sum else 1)
    return values


def _fill_scalars(session: Any, stepio: PyStepIO) -> None:
    for id, value in _scalar_anchors(session).items():
        if id not in stepio.outputs:
            raise popart_runtime_error(
                f"no tensor '{id}' was provided in PyStepIO's outputs; there are {sorted(stepio.outputs)}"
            )
        check_type(id, stepio.outputs[id], session._host_dtype(id), session._host_dtype(id))
        stepio.outputs[id][...] = value


def _run_arrays(transfers: Transfers, native: Any, stepio: PyStepIO, entry: str) -> None:
    for what, wanted, given in (
        ("inputs", transfers.inputs, stepio.inputs),
        ("outputs", transfers.outputs, stepio.outputs),
    ):
        for id in wanted:
            if id not in given:
                raise popart_runtime_error(
                    f"no tensor '{id}' was provided in PyStepIO's {what}; there are {sorted(given)}"
                )
    if stepio.runtime_asserts:
        _check_inputs(transfers, stepio)
        _check_outputs(transfers, stepio)
    inputs, outputs = {}, {}
    for id, (dtype, _) in transfers.inputs.items():
        _check_array(id, transfers, stepio.inputs[id], dtype)
        repeats = transfers.replicas if id in transfers.broadcast else 1
        inputs[id] = (stepio.inputs[id], stepio.input_offsets.get(id, 0), repeats)
    for id, (dtype, _) in transfers.outputs.items():
        _check_array(id, transfers, stepio.outputs[id], dtype)
        if not stepio.outputs[id].flags.writeable:
            raise popart_exception(f"the output '{id}' is an array that cannot be written; give a copy of it")
        outputs[ANCHOR + id] = (stepio.outputs[id], stepio.output_offsets.get(id, 0))
    native.run_parts(inputs, entry, outputs)
    for id, (array, _, repeats) in inputs.items():
        _advance(stepio.input_offsets, id, _count(transfers.inputs[id][1]) // repeats, array.size)
    for id, (_, shape) in transfers.outputs.items():
        _advance(stepio.output_offsets, id, _count(shape), stepio.outputs[id].size)


def _count(shape: tuple[int, ...]) -> int:
    return int(numpy.prod(shape, dtype=numpy.int64))


def _advance(offsets: dict[str, int], id: str, count: int, size: int) -> None:
    offsets[id] = (offsets.get(id, 0) + count) % size if size else 0


# --- checks
def _check_inputs(transfers: Transfers, stepio: PyStepIO) -> None:
    for id, array in stepio.inputs.items():
        if id in transfers.inputs:
            count = _count(transfers.inputs[id][1]) // (transfers.replicas if id in transfers.broadcast else 1)
        elif id in transfers.initialisers:  # given and not read
            count = transfers.initialisers[id] * transfers.micro_batches * transfers.replicas
        elif id in transfers.model_inputs:
            getLogger("devicex").warn(f"the input '{id}' is given, and the program does not use it")
            continue
        else:
            raise popart_runtime_error(
                f"'{id}' in PyStepIO's inputs is no input of the model; there are {sorted(transfers.inputs)}"
            )
        if array.size != count:
            raise popart_runtime_error(
                f"unexpected number of input elements for '{id}': expected {count} for a step, received {array.size} in an "
                f"array of shape {array.shape}"
            )


def _check_outputs(transfers: Transfers, stepio: PyStepIO) -> None:
    for id, array in stepio.outputs.items():
        if id in transfers.others:
            continue
        if id not in transfers.outputs:
            raise popart_runtime_error(
                f"'{id}' in PyStepIO's outputs is no anchor; there are {sorted(transfers.outputs)}"
            )
        count = _count(transfers.outputs[id][1])
        if array.size != count:
            raise popart_runtime_error(
                f"unexpected number of output elements for '{id}': expected {count} for a step, received {array.size} in an "
                f"array of shape {array.shape}"
            )


def _check_array(id: str, transfers: Transfers, array: numpy.ndarray, dtype: numpy.dtype) -> None:
    check_type(id, array, transfers.types[id], dtype)
    element = _count(transfers.shapes[id])
    if element and (array.size == 0 or array.size % element):
        raise popart_runtime_error(
            f"unexpected number of elements for '{id}': micro-batches of {element} elements do not fill an array of "
            f"{array.size}"
        )

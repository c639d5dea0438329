"""One step of a session with arrays: a PyStepIO's go to the streams of the program, and back, in place where they can."""

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
from popart._impl.sessions.typed import typed, typed_place
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
        typed_place(id, stepio.outputs[id], session._host_dtype(id), session._host_dtype(id))
        stepio.outputs[id][...] = value


def _run_arrays(transfers: Transfers, native: Any, stepio: PyStepIO, entry: str) -> None:
    for id in transfers.inputs:
        if id not in stepio.inputs:
            raise popart_runtime_error(
                f"no tensor '{id}' was provided in PyStepIO's inputs; there are {sorted(stepio.inputs)}"
            )
    for id in transfers.outputs:
        if id not in stepio.outputs:
            raise popart_runtime_error(
                f"no tensor '{id}' was provided in PyStepIO's outputs; there are {sorted(stepio.outputs)}"
            )
    if stepio.runtime_asserts:
        _check_inputs(transfers, stepio)
        _check_outputs(transfers, stepio)
    inputs = {id: _take(id, transfers, stepio) for id in transfers.inputs}
    places = {id: _place(id, transfers, stepio) for id in transfers.outputs}
    direct = {ANCHOR + id: place for id, place in places.items() if place is not None}
    got = native.run(inputs, entry, direct)
    for id, (_, shape) in transfers.inputs.items():
        count = _count(shape) // (transfers.replicas if id in transfers.broadcast else 1)
        _advance(stepio.input_offsets, id, count, stepio.inputs[id].size)
    for id, (_, shape) in transfers.outputs.items():
        if places[id] is None:
            _put(got[ANCHOR + id].reshape(-1), stepio.outputs[id], stepio.output_offsets.get(id, 0))
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


# --- arrays
def _check_element(id: str, transfers: Transfers, array: numpy.ndarray) -> None:
    element = _count(transfers.shapes[id])
    if element and (array.size == 0 or array.size % element):
        raise popart_runtime_error(
            f"unexpected number of elements for '{id}': micro-batches of {element} elements do not fill an array of "
            f"{array.size}"
        )


def _take(id: str, transfers: Transfers, stepio: PyStepIO) -> numpy.ndarray:
    """What a step takes of an input, from the offset on and around again: a view where it lies in one piece."""
    dtype, shape = transfers.inputs[id]
    array = stepio.inputs[id]
    _check_element(id, transfers, array)
    is_broadcast = id in transfers.broadcast and transfers.replicas > 1
    count = _count(shape) // (transfers.replicas if is_broadcast else 1)
    begin = stepio.input_offsets.get(id, 0)
    flat = array.reshape(-1)
    if begin + count <= flat.size:
        taken = flat[begin : begin + count]
    else:
        taken = flat[numpy.arange(begin, begin + count) % flat.size]
    taken = typed(id, taken, transfers.types[id], dtype)
    if is_broadcast:
        rows = taken.reshape(transfers.micro_batches, 1, -1)
        taken = numpy.repeat(rows, transfers.replicas, axis=1)
    return taken.reshape(shape)


def _place(id: str, transfers: Transfers, stepio: PyStepIO) -> numpy.ndarray | None:
    """The part of an output's array that the device can fill itself; None where it is filled afterwards."""
    dtype, shape = transfers.outputs[id]
    array = stepio.outputs[id]
    typed_place(id, array, transfers.types[id], dtype)
    _check_element(id, transfers, array)
    if not array.flags.writeable:
        raise popart_exception(f"the output '{id}' is an array that cannot be written; give a copy of it")
    begin, count = stepio.output_offsets.get(id, 0), _count(shape)
    if array.dtype != dtype or begin + count > array.size:
        return None
    return array.reshape(-1)[begin : begin + count].reshape(shape)


def _put(values: numpy.ndarray, out: numpy.ndarray, begin: int) -> None:
    """From the offset on and around again: later values replace earlier ones."""
    flat = out.reshape(-1)
    kept = values[-flat.size :]
    begin += values.size - kept.size
    flat[numpy.arange(begin, begin + kept.size) % flat.size] = kept

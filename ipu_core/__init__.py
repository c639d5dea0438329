"""The compiler and the emulated device without torch: IR text in, arrays in and out.

The front ends stand on this. A program is written in the text form of the IR (docs/ir.md):

    >>> import numpy, ipu_core
    >>> session = ipu_core.compile('''
    ...     variable @w: f32[2] {initial=dense<f32[2]: [1.0, 2.0]>}
    ...     stream @x: f32[2]
    ...     stream @y: f32[2] {direction="device_to_host"}
    ...     entry main = @main
    ...     graph @main() -> () {
    ...       %x = host_load() {stream=@x} : f32[2]
    ...       %w = variable.read() {variable=@w} : f32[2]
    ...       %y = mul(%x, %w) : f32[2]
    ...       host_store(%y) {stream=@y}
    ...       return
    ...     }''')
    >>> session.run({"x": numpy.float32([3, 4])})["y"]
    array([3., 8.], dtype=float32)

or given as the nodes of a model, which `read_onnx` takes from an ONNX file:

    >>> session = ipu_core.compile_model(ipu_core.read_onnx("network.onnx"))

or as the nodes of a unit of TensorFlow, which native code runs by its number (`Unit`). Its records are those of `compile_model` with
the dialect "tensorflow": nodes run in the order they stand in, and read of variables what nodes before them assigned. "initialisers"
are the variables, `{name: (NumPy type, shape)}`; "output_types" says what integers are outside. `configure` gives the devices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from ipu_common import one_core

one_core.check()
from ipu_core._native import Error as Error, FeedQueue as FeedQueue, Session as Session, Unit as Unit
from ipu_core import _native
from ipu_core.onnx_records import read_onnx as read_onnx

# What an optimizer has beside its learning rate, unless the program says otherwise.
_HYPER_PARAMETERS: dict[str, dict[str, float]] = {
    "sgd": {"weight_decay": 0.0, "momentum": 0.0, "dampening": 0.0, "velocity_scaling": 1.0},
    "adam": {"weight_decay": 0.0, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
    "adamw": {"weight_decay": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8},
    "rmsprop": {"weight_decay": 0.0, "alpha": 0.99, "eps": 1e-8, "momentum": 0.0},
    "lamb": {"weight_decay": 0.0, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "max_weight_norm": float("inf")},
}


def compile(text: str, *, source: str = "<text>", replicas: int = 1, processes: int = 1) -> Session:
    """Compiles all entry points of a module for the attached system.

    Args:
        text: a module in the text form of the IR.
        source: what messages call the text, a file name for instance.
        replicas: copies of the program that run side by side in this process; a positive number.
        processes: that run the program as one job, each with so many replicas; `Session.set_job` connects them.

    Raises:
        Error: the text cannot be read, is no legal module, or cannot be compiled.
    """
    if replicas < 1:
        raise Error(f"replicas is {replicas}: it must be at least 1")
    if processes < 1:
        raise Error(f"processes is {processes}: it must be at least 1")
    return _native.compile(text, source, replicas, processes)


@dataclasses.dataclass(frozen=True)
class Program:
    """What one run of a model does.

    Args:
        loss: name of the value of the graph to minimise; None: inference.
        optimizer: of training: `{"kind": "sgd", "lr": 0.1, ...}`; also adam, adamw, lamb, rmsprop. Or the native form
            of an optimizer of popart.
        device_iterations: weight updates, or passes in inference, of one run.
        accumulation: micro-batches of one weight update; their gradients are averaged.
        replicas: copies of the program that run side by side.
    """

    loss: str | None = None
    optimizer: Mapping[str, Any] | None = None
    device_iterations: int = 1
    accumulation: int = 1
    replicas: int = 1


def compile_model(model: Mapping[str, Any], program: Program = Program()) -> Session:
    """Compiles a model that is given as records. Streams of the session have the names of its inputs and outputs,
    variables those of its trained initialisers; all inputs of a run have as many elements as it has micro-batches.

    Args:
        model: `{"source": text, "dialect": "onnx" or "popart", "versions": {domain: number}, "graph": graph}`. A
            graph is `{"inputs": [(name, NumPy type, shape)], "initialisers": {name: array}, "trained": [names of initialisers], "nodes": [node],
            "outputs": [names]}`; a node is `{"domain": text, "type": text, "name": text, "operands": [names],
            "results": [names], "attributes": {name: number, text, array, or list of numbers or texts}}`, with ""
            for an operand or result that is absent. Nodes stand after those whose results they read. A
            node may have "subgraphs" `{name: graph}`, whose inputs are names alone.
        program: what one run does; one pass of inference unless it says otherwise.

    Raises:
        Error: the model has operators that cannot be imported (all are listed), records that do not fit together,
            or cannot be compiled; or the program is none for it.
    """
    return _native.compile_model(dict(model), _complete(program))


def model_text(model: Mapping[str, Any], program: Program = Program()) -> str:
    """The IR of a model before any pass, as text; arguments and errors of `compile_model`."""
    return _native.model_text(dict(model), _complete(program))


def importers(domain: str = "ai.onnx") -> list[tuple[str, int, int]]:
    """Which operators of a domain `compile_model` takes: (type, first version, last version)."""
    return _native.importers(domain)


def configure(*, devices: Sequence[Mapping[str, Any]] = ({"ipus": 1},), seed: int | None = None) -> None:
    """Gives the devices on which units (`Unit`) run, by ordinal. Units that are compiled are compiled anew.

    Args:
        devices: `{"ipus": IPUs of the lease, "ipu_id": number of a group of IPUs, "ipu_model": bool, "small_model": bool,
            "wait_for_ipu": bool, "wait_seconds": number (negative: as long as it takes), "compiles_only": bool,
            "check_floating_point": bool, "stochastic_rounding": bool}`; all but the first may be left out.
        seed: what random numbers of all units depend on; None: another one for each device.

    Raises:
        Error: a device has no IPU, or a name is unknown.
    """
    _native.configure_devices([dict(device) for device in devices])
    if seed is not None:
        _native.seed_devices(seed)


def reset() -> None:
    """One device of one IPU again, as when nothing was configured."""
    _native.configure_devices([])


def attach_devices() -> None:
    """Takes the IPUs of all devices of units now, which otherwise the first run does.

    Raises:
        Error: there are too few free ones.
    """
    _native.attach_devices()


def devices() -> list[dict[str, Any]]:
    """The devices of units by ordinal, as `configure` takes them."""
    return _native.devices()


def seed_devices(seed: int, device: int = -1) -> None:
    """What random numbers of the runs to come depend on, of units on that device, or on all of them (-1)."""
    _native.seed_devices(seed, device)


def _complete(program: Program) -> dict[str, Any]:
    """The program with all that its optimizer has, without what it does not use."""
    complete = dataclasses.asdict(program)
    loss, optimizer = complete.pop("loss"), complete.pop("optimizer")
    if (loss is None) != (optimizer is None):
        raise Error("training takes both a loss and an optimizer; inference takes neither")
    if loss is None:
        if program.accumulation != 1:
            raise Error(f"accumulation is {program.accumulation}: it is for training, and there is no loss")
        return complete
    if "groups" in optimizer:
        return complete | {"loss": loss, "optimizer": dict(optimizer)}
    kind = optimizer.get("kind", "sgd")
    known = _HYPER_PARAMETERS.get(kind)
    beside = {"kind", "lr", "nesterov"} if kind == "sgd" else {"kind", "lr"}
    unknown = sorted(optimizer.keys() - beside - (known or optimizer).keys())
    if unknown:
        raise Error(f"unknown value of the optimizer: '{unknown[0]}'; {kind} has lr, {', '.join(known or ())}")
    return complete | {"loss": loss, "optimizer": {"kind": kind, **(known or {}), **optimizer}}


def interpret(
    text: str,
    inputs: Mapping[str, Sequence[numpy.ndarray]] | None = None,
    *,
    source: str = "<text>",
    passes: Sequence[str] = (),
) -> tuple[dict[str, list[numpy.ndarray]], dict[str, numpy.ndarray]]:
    """What a module means: runs its entry point `main` once in the interpreter, single-threaded, in float64
    rounded to the types of the program. No device, no compiler.

    Args:
        text: a module in the text form of the IR, in authored or functional form.
        inputs: elements of the input streams, in order.
        source: what messages call the text.
        passes: run on the module before, by name (`ipu-opt --list`).

    Returns:
        The elements that each output stream got, and the values of all variables at the end.
    """
    return _native.interpret(text, dict(inputs or {}), source, list(passes))


def run_passes(text: str, passes: Sequence[str], *, source: str = "<text>") -> str:
    """The text of a module after passes, each result verified. Raises Error where a pass refuses the module."""
    return _native.run_passes(text, source, list(passes))

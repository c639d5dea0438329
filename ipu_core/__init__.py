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
"""

from collections.abc import Mapping, Sequence

import numpy

from ipu_core._native import Error as Error, Session as Session
from ipu_core import _native


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

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

from ipu_core._native import Error as Error, Session as Session
from ipu_core import _native


def compile(text: str, *, source: str = "<text>", replicas: int = 1) -> Session:
    """Compiles all entry points of a module for the attached system.

    Args:
        text: a module in the text form of the IR.
        source: what messages call the text, a file name for instance.
        replicas: copies of the program that run side by side; a positive number.

    Raises:
        Error: the text cannot be read, is no legal module, or cannot be compiled.
    """
    if replicas < 1:
        raise Error(f"replicas is {replicas}: it must be at least 1")
    return _native.compile(text, source, replicas)

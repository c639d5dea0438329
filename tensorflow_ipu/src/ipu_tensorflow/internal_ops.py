"""`ipu.internal_ops`: printing, and identities that say something of memory."""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf

from ipu_tensorflow import host, library


def print_tensor(input: Any, name: str = "") -> host.Operation:
    """Prints the name and the tensor on stderr each time it runs: return it from the computation, or let something depend on it.

    Args:
        input: of float16, float32 or int32.
    """
    x = tf.convert_to_tensor(input)
    if x.dtype not in (tf.float16, tf.float32, tf.int32):
        raise TypeError(f"print_tensor takes float16, float32 and int32: {x.name} has type {x.dtype.name}")
    if host.is_traced(x.graph):
        return library.operation("IpuPrint", [x], [], name="print_tensor", title=name, T=[x.dtype])
    return tf.print(f"{name}:", x, output_stream=sys.stderr)


def remap(x: Any, name: str | None = None) -> tf.Tensor:
    """x. Where elements lie is the compiler's business."""
    return tf.identity(x, name or "remap")


def remap_deduce(x: Any, name: str | None = None) -> tf.Tensor:
    """As `remap`."""
    return tf.identity(x, name or "remap_deduce")


def recompute(x: Any, name: str | None = None) -> tf.Tensor:
    """x. Nothing is computed again that this could ask for."""
    return tf.identity(x, name or "recompute")


def block_recompute(x: Any, name: str | None = None) -> tf.Tensor:
    """As `recompute`."""
    return tf.identity(x, name or "block_recompute")

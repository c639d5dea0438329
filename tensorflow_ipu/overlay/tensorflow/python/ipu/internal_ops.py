"""`ipu.internal_ops`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "internal_ops": [
            "print_tensor", "remap", "remap_deduce", "recompute", "block_recompute",
        ],
        "later": [
            "get_current_iteration_counter", "fifo",
        ],
    },
)

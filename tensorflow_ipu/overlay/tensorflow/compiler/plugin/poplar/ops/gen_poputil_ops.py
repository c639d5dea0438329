"""`tensorflow.compiler.plugin.poplar.ops.gen_poputil_ops`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "later": [
            "ipu_replication_normalise", "ipu_stateful_gradient_accumulate",
        ],
    },
)

"""`ipu.ops.summary_ops`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "later": [
            "ipu_compile_summary",
        ],
        "tensorflow.python.summary.summary": [
            "tensor_summary",
        ],
    },
)

"""`ipu.normalization_ops`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "normalization_ops": [
            "group_norm", "instance_norm", "layer_norm",
        ],
    },
)

"""`ipu.slicing_ops`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "later": [
            "sequence_slice", "sequence_slice_pack", "sequence_slice_unpack",
        ],
    },
)

"""`ipu.sharding`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "sharding": [
            "dependencies", "get_shard_from_colocation", "has_attr", "propagate_sharding",
        ],
    },
)

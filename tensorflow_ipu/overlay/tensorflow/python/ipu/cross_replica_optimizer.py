"""`ipu.cross_replica_optimizer`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "optimizers": [
            "CrossReplicaOptimizer",
        ],
    },
)

"""`ipu.optimizers`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "optimizers": [
            "IpuOptimizer", "MapGradientOptimizer", "CrossReplicaOptimizer", "ShardedOptimizer",
        ],
        "accumulation": [
            "CrossReplicaGradientAccumulationOptimizer", "CrossReplicaGradientAccumulationOptimizerV2",
            "GradientAccumulationOptimizer", "GradientAccumulationOptimizerV2",
        ],
    },
    submodules=[
        "cross_replica_optimizer", "gradient_accumulation_optimizer", "map_gradient_optimizer", "sharded_optimizer",
    ],
)

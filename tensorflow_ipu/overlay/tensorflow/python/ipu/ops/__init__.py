"""`ipu.ops`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
    },
    submodules=[
        "all_to_all_op", "application_compile_op", "cross_replica_ops", "custom_ops", "embedding_ops", "experimental",
        "functional_ops", "image_ops", "internal_ops", "math_ops", "nn_ops", "normalization_ops", "pipelining_ops",
        "rand_ops", "reduce_scatter_op", "replication_ops", "rnn_ops", "slicing_ops", "statistics_ops", "summary_ops",
    ],
)

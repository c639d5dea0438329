"""`ipu.horovod`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "later": [
            "allgather", "allreduce", "broadcast", "init", "shutdown", "size", "local_size", "rank", "local_rank",
            "Average", "Sum", "Adasum", "is_homogeneous", "mpi_threads_supported", "mpi_enabled", "mpi_built",
            "gloo_enabled", "gloo_built", "nccl_built", "ddl_built",
        ],
    },
    submodules=[
        "ipu_horovod_strategy", "ipu_multi_replica_strategy",
    ],
)

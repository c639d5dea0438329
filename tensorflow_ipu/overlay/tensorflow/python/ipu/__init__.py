"""The API for IPUs: `from tensorflow.python import ipu`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

import ipu_tensorflow.start  # noqa: F401
from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "functional_ops": [
            "outlined_function",
        ],
    },
    submodules=[
        "all_to_all_op", "application_compile_op", "config", "cross_replica_ops", "cross_replica_optimizer",
        "custom_ops", "data", "dataset_benchmark", "dataset_extractor", "embedding_ops", "functional_ops",
        "gradient_accumulation_optimizer", "image_ops", "internal_ops", "ipu_compiler", "ipu_estimator",
        "ipu_infeed_queue", "ipu_multi_worker_strategy", "ipu_outfeed_queue", "ipu_pipeline_estimator",
        "ipu_run_config", "ipu_session_run_hooks", "keras", "layers", "loops", "map_gradient_optimizer", "math_ops",
        "nn_ops", "normalization_ops", "ops", "optimizers", "pipelining_ops", "rand_ops", "reduce_scatter_op",
        "replication_ops", "rnn_ops", "scopes", "sharded_optimizer", "sharding", "slicing_ops", "statistics_ops",
        "summary_ops", "utils", "vertex_edsl",
    ],
)

"""`ipu.ops.pipelining_ops`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "pipelining": [
            "OptimizerFunctionOutput", "PipelineSchedule", "PipelineStageOptions", "RecomputationMode",
            "recomputation_checkpoint",
        ],
        "pipeline": [
            "pipeline",
        ],
    },
)

"""`ipu.scopes`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "scopes": [
            "frontend_attribute", "ipu_jit_scope", "ipu_scope", "ipu_shard", "outside_compilation_scope",
            "partials_type", "stochastic_rounding",
        ],
    },
)

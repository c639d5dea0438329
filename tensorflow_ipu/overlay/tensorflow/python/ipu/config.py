"""`ipu.config`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "config_tree": [
            "AttributeMetadata",
        ],
        "enums": [
            "DeviceConnectionType", "ExecutionProfileType", "MergeRemoteBuffersBehaviour", "SchedulingAlgorithm",
            "SelectionOrder",
        ],
        "config": [
            "IPUConfig",
        ],
        "verification": [
            "KeyId", "VerificationOptions",
        ],
        "system": [
            "configure_ipu_system", "get_ipu_config", "reset_ipu_configuration",
        ],
    },
)

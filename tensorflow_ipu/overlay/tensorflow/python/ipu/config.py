"""`ipu.config`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "config": [
            "IPUConfig", "AttributeMetadata", "DeviceConnectionType", "ExecutionProfileType",
            "MergeRemoteBuffersBehaviour", "SchedulingAlgorithm", "SelectionOrder",
        ],
        "verification": [
            "KeyId", "VerificationOptions",
        ],
        "system": [
            "configure_ipu_system", "get_ipu_config", "reset_ipu_configuration",
        ],
    },
)

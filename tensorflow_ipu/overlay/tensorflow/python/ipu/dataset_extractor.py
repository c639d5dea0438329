"""`ipu.dataset_extractor`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "dataset_files": [
            "export_dataset_to_file", "export_inputs_to_file",
        ],
    },
)

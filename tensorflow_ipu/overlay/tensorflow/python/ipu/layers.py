"""`ipu.layers`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "layers": [
            "Dropout", "Embedding", "RecomputationCheckpoint",
        ],
        "norm_layers": [
            "GroupNormalization", "InstanceNormalization", "LayerNormalization", "GroupNorm=GroupNormalization",
            "InstanceNorm=InstanceNormalization", "LayerNorm=LayerNormalization",
        ],
        "recurrent_layers": [
            "PopnnGRU", "PopnnLSTM", "GRU=PopnnGRU", "LSTM=PopnnLSTM",
        ],
        "later": [
            "AssumeEqualAcrossReplicas",
        ],
    },
)

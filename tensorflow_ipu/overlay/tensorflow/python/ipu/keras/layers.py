"""`ipu.keras.layers`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "layers": [
            "Dropout", "Embedding", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "PopnnGRU",
            "PopnnLSTM", "RecomputationCheckpoint", "GRU=PopnnGRU", "LSTM=PopnnLSTM", "GroupNorm=GroupNormalization",
            "InstanceNorm=InstanceNormalization", "LayerNorm=LayerNormalization",
        ],
        "later": [
            "AssumeEqualAcrossReplicas",
        ],
    },
)

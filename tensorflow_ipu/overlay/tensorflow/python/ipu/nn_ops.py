"""`ipu.nn_ops`. Written by scripts/tensorflow_overlay.py from tensorflow_ipu/modules.txt."""

from ipu_tensorflow.forwarding import forwarder

__getattr__, __dir__, __all__ = forwarder(
    __name__,
    {
        "nn_ops": [
            "gelu", "hard_sigmoid", "swish",
        ],
        "later": [
            "ctc_beam_search_decoder", "ctc_beam_search_decoder_with_log_probs", "ctc_loss", "ctc_loss_v2",
            "ctc_loss_with_log_probs", "ctc_loss_with_logits", "multi_conv", "nce_loss", "sampled_softmax_loss",
        ],
    },
)

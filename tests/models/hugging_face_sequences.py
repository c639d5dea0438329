"""Models of two sequences, of sound, and of images with text (hugging_face.py has them all)."""

import torch
import transformers

import poptorch

from hugging_face_inputs import (
    ATTENTIONS,
    SIZES,
    TEXT,
    TEXT_NAMES,
    WORDS,
    ByPosition,
    Model,
    filled_in,
    images,
    padding,
    words,
)

ENCODER_DECODER = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "dropout": 0.0,
    "use_cache": False,
}


def t5(**how):
    config = transformers.T5Config(
        vocab_size=WORDS,
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=2,
        num_heads=2,
        dropout_rate=0.0,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=16,
        decoder_start_token_id=0,
        use_cache=False,
        **how,
    )
    return ByPosition(transformers.T5ForConditionalGeneration(config), TEXT_NAMES)


def bart(**how):
    config = transformers.BartConfig(**TEXT, **ENCODER_DECODER, forced_eos_token_id=2, decoder_start_token_id=2, **how)
    return ByPosition(transformers.BartForConditionalGeneration(config), TEXT_NAMES)


def whisper(**how):
    config = transformers.WhisperConfig(
        vocab_size=WORDS,
        num_mel_bins=8,
        max_source_positions=12,
        max_target_positions=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        begin_suppress_tokens=None,
        **ENCODER_DECODER,
        **how,
    )
    return ByPosition(transformers.WhisperForConditionalGeneration(config), ("input_features", "labels"))


def spoken(rows, generator):
    """Mel spectra f32 [rows, 8, 24] and the words said."""
    return torch.randn(rows, 8, 24, generator=generator), words(rows, generator)


class Recognizer(torch.nn.Module):
    """The loss of Wav2Vec2ForCTC beside the model, which looks at the labels in Python if it is given them."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, sound, mask, said):
        scores = self.model(sound, attention_mask=mask).logits
        heard = self.model._get_feat_extract_output_lengths(mask.sum(-1))
        loss = torch.nn.functional.ctc_loss(
            scores.log_softmax(-1).transpose(0, 1), said.clamp(min=0), heard, (said >= 0).sum(-1), reduction="sum"
        )
        return scores, loss


def wav2vec2(**how):
    config = transformers.Wav2Vec2Config(
        vocab_size=WORDS,
        **SIZES,
        hidden_dropout=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
        final_dropout=0.0,
        layerdrop=0.0,
        feat_extract_norm="layer",
        conv_dim=(16, 16),
        conv_stride=(4, 2),
        conv_kernel=(8, 3),
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=2,
        apply_spec_augment=False,
        **how,
    )
    return Recognizer(transformers.Wav2Vec2ForCTC(config))


def heard(rows, generator):
    """Samples f32 [rows, 320], what of them is sound, and the sounds said, -100 behind the last."""
    length = torch.tensor([320, 240]).repeat(rows)[:rows, None]
    said = torch.randint(1, WORDS, (rows, 6), generator=generator)
    said[1::2, 4:] = -100
    return torch.randn(rows, 320, generator=generator), (torch.arange(320) < length).long(), said


class Contrastive(ByPosition):
    """The loss is the mean of two losses, which is to be said."""

    def forward(self, *inputs):
        scores, loss = super().forward(*inputs)
        return scores, poptorch.identity_loss(loss, reduction="none")


def clip(**how):
    config = transformers.CLIPConfig(
        text_config={**TEXT, **SIZES, "projection_dim": 32},
        vision_config={**SIZES, "image_size": 16, "patch_size": 4, "projection_dim": 32},
        projection_dim=32,
        **how,
    )
    return Contrastive(
        transformers.CLIPModel(config), ("input_ids", "attention_mask", "pixel_values"), return_loss=True
    )


def captioned(rows, generator):
    text = words(rows, generator)
    text[:, -1] = 2
    return text, padding(rows), images(rows, generator)[0]


SEQUENCES = {
    "T5ForConditionalGeneration": Model(t5, filled_in, "model.decoder.block.0"),
    "BartForConditionalGeneration": Model(bart, filled_in, "model.model.decoder.layers.0"),
    "WhisperForConditionalGeneration": Model(whisper, spoken, "model.model.decoder.layers.0"),
    "Wav2Vec2ForCTC": Model(
        wav2vec2,
        heard,
        "model.wav2vec2.encoder.layers.1",
        ATTENTIONS,
        "`layerdrop=0`, `apply_spec_augment=False`; the labels go to a `ctc_loss` beside the model, which looks at their values",
    ),
    "CLIPModel": Model(clip, captioned, "model.vision_model", ATTENTIONS, "`poptorch.identity_loss` around the loss"),
}

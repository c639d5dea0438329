"""Encoders and decoders of text (hugging_face.py has them all)."""

import transformers

from hugging_face_inputs import (
    CLASSES,
    SIZES,
    TEXT,
    TEXT_NAMES,
    UNDROPPED,
    WORDS,
    ByPosition,
    Model,
    classified,
    continued,
    filled_in,
)

DECODER = {**TEXT, **SIZES, "num_attention_heads": 4, "num_key_value_heads": 2, "use_cache": False}


def bert(**how):
    config = transformers.BertConfig(**TEXT, **SIZES, **UNDROPPED, num_labels=CLASSES, **how)
    return ByPosition(transformers.BertForSequenceClassification(config), TEXT_NAMES)


def roberta(**how):
    config = transformers.RobertaConfig(**TEXT, **SIZES, **UNDROPPED, **how)
    return ByPosition(transformers.RobertaForMaskedLM(config), TEXT_NAMES)


def distilbert(**how):
    config = transformers.DistilBertConfig(
        vocab_size=WORDS,
        max_position_embeddings=64,
        dim=32,
        n_layers=2,
        n_heads=2,
        hidden_dim=64,
        dropout=0.0,
        attention_dropout=0.0,
        seq_classif_dropout=0.0,
        num_labels=CLASSES,
        **how,
    )
    return ByPosition(transformers.DistilBertForSequenceClassification(config), TEXT_NAMES)


def albert(**how):
    config = transformers.AlbertConfig(
        **TEXT, **SIZES, **UNDROPPED, embedding_size=16, classifier_dropout_prob=0.0, num_labels=CLASSES, **how
    )
    return ByPosition(transformers.AlbertForSequenceClassification(config), TEXT_NAMES)


def electra(**how):
    config = transformers.ElectraConfig(**TEXT, **SIZES, **UNDROPPED, embedding_size=16, num_labels=CLASSES, **how)
    return ByPosition(transformers.ElectraForSequenceClassification(config), TEXT_NAMES)


def deberta(**how):
    config = transformers.DebertaV2Config(
        **TEXT,
        **SIZES,
        **UNDROPPED,
        relative_attention=True,
        position_buckets=8,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        conv_kernel_size=3,
        num_labels=CLASSES,
        problem_type="single_label_classification",
        **how,
    )
    return ByPosition(transformers.DebertaV2ForSequenceClassification(config), TEXT_NAMES)


def gpt2(**how):
    config = transformers.GPT2Config(
        vocab_size=WORDS,
        n_positions=64,
        n_embd=32,
        n_layer=2,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=1,
        eos_token_id=2,
        use_cache=False,
        **how,
    )
    return ByPosition(transformers.GPT2LMHeadModel(config), TEXT_NAMES)


def gpt_neo(**how):
    config = transformers.GPTNeoConfig(
        **TEXT,
        hidden_size=32,
        num_layers=2,
        num_heads=2,
        intermediate_size=64,
        attention_types=[[["global", "local"], 1]],
        window_size=8,  # reaches a word that is no padding: what is said of none differs with the precision
        use_cache=False,
        **how,
    )
    return ByPosition(transformers.GPTNeoForCausalLM(config), TEXT_NAMES)


def opt(**how):
    config = transformers.OPTConfig(
        **TEXT,
        hidden_size=32,
        word_embed_proj_dim=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        ffn_dim=64,
        dropout=0.0,
        use_cache=False,
        **how,
    )
    return ByPosition(transformers.OPTForCausalLM(config), TEXT_NAMES)


def llama(**how):
    return ByPosition(transformers.LlamaForCausalLM(transformers.LlamaConfig(**DECODER, **how)), TEXT_NAMES)


def mistral(**how):
    config = transformers.MistralConfig(**DECODER, sliding_window=8, **how)
    return ByPosition(transformers.MistralForCausalLM(config), TEXT_NAMES)


def qwen2(**how):
    config = transformers.Qwen2Config(**DECODER, use_sliding_window=True, sliding_window=8, max_window_layers=1, **how)
    return ByPosition(transformers.Qwen2ForCausalLM(config), TEXT_NAMES)


def gemma2(**how):
    config = transformers.Gemma2Config(**DECODER, head_dim=8, query_pre_attn_scalar=8, sliding_window=8, **how)
    return ByPosition(transformers.Gemma2ForCausalLM(config), TEXT_NAMES)


def phi3(**how):
    return ByPosition(transformers.Phi3ForCausalLM(transformers.Phi3Config(**DECODER, **how)), TEXT_NAMES)


def mixtral(**how):
    config = transformers.MixtralConfig(
        **DECODER, num_local_experts=4, num_experts_per_tok=2, experts_implementation="batched_mm", **how
    )
    return ByPosition(transformers.MixtralForCausalLM(config), TEXT_NAMES)


def modern_bert(**how):
    """Each window reaches a word that is no padding: eager attention of none is NaN."""
    config = transformers.ModernBertConfig(
        **TEXT,
        **SIZES,
        cls_token_id=1,
        sep_token_id=2,
        num_labels=CLASSES,
        global_attn_every_n_layers=2,
        local_attention=12,
        **how,
    )
    return ByPosition(transformers.ModernBertForSequenceClassification(config), TEXT_NAMES)


def mamba(**how):
    config = transformers.MambaConfig(
        vocab_size=WORDS, hidden_size=32, state_size=8, num_hidden_layers=2, use_cache=False, **how
    )
    return ByPosition(transformers.MambaForCausalLM(config), TEXT_NAMES)


TEXTS = {
    "BertForSequenceClassification": Model(bert, classified, "model.bert.encoder.layer.1"),
    "RobertaForMaskedLM": Model(roberta, filled_in, "model.roberta.encoder.layer.1"),
    "DistilBertForSequenceClassification": Model(distilbert, classified, "model.distilbert.transformer.layer.1"),
    "AlbertForSequenceClassification": Model(albert, classified, "model.albert.pooler"),
    "ElectraForSequenceClassification": Model(electra, classified, "model.electra.encoder.layer.1"),
    "DebertaV2ForSequenceClassification": Model(
        deberta, classified, "model.deberta.encoder.layer.1", ("eager",), '`problem_type="single_label_classification"`'
    ),
    "ModernBertForSequenceClassification": Model(modern_bert, classified, "model.model.layers.1"),
    "GPT2LMHeadModel": Model(gpt2, continued, "model.transformer.h.1"),
    "GPTNeoForCausalLM": Model(gpt_neo, continued, "model.transformer.h.1", ("eager",)),
    "OPTForCausalLM": Model(opt, continued, "model.model.decoder.layers.1"),
    "LlamaForCausalLM": Model(llama, continued, "model.model.layers.1"),
    "MistralForCausalLM": Model(mistral, continued, "model.model.layers.1"),
    "Qwen2ForCausalLM": Model(qwen2, continued, "model.model.layers.1"),
    "Gemma2ForCausalLM": Model(gemma2, continued, "model.model.layers.1", ("eager",)),
    "Phi3ForCausalLM": Model(phi3, continued, "model.model.layers.1"),
    "MixtralForCausalLM": Model(
        mixtral,
        continued,
        "model.model.layers.1",
        switches='`experts_implementation="batched_mm"`: the others ask which words an expert has',
    ),
    "MambaForCausalLM": Model(mamba, continued, "model.backbone.layers.1", ("none",)),
}

"""Models of Hugging Face's transformers, small ones, built from their configurations: nothing is downloaded.

`MODELS` has a row for each: how the model is made with an implementation of attention, and inputs for a number of rows. Models take
inputs by position and give (scores, loss). Nothing is dropped out: torch draws other numbers.
"""

import torch
import transformers

WORDS, LENGTH, CLASSES = 128, 16, 3
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
TEXT = {"vocab_size": WORDS, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


class ByPosition(torch.nn.Module):
    """A model of transformers that is called with the inputs of these names, the last of them the labels."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs):
        out = self.model(**dict(zip(self.names, inputs)), return_dict=False)
        return out[1], out[0]


def words(rows, generator):
    """Word numbers int64 [rows, LENGTH]."""
    return torch.randint(3, WORDS, (rows, LENGTH), generator=generator)


def padding(rows):
    """1 where a word is, int64 [rows, LENGTH]: every other row is shorter."""
    return (torch.arange(LENGTH) < torch.tensor([LENGTH, LENGTH - 5]).repeat(rows)[:rows, None]).long()


def classified(rows, generator):
    return words(rows, generator), padding(rows), torch.randint(CLASSES, (rows,), generator=generator)


def filled_in(rows, generator):
    return words(rows, generator), padding(rows), words(rows, generator)


def continued(rows, generator):
    text = words(rows, generator)
    return text, text.clone()


def images(rows, generator):
    return torch.randn(rows, 3, 16, 16, generator=generator), torch.randint(CLASSES, (rows,), generator=generator)


TEXT_NAMES, CONTINUED_NAMES = ("input_ids", "attention_mask", "labels"), ("input_ids", "labels")


def bert(**how):
    config = transformers.BertConfig(**TEXT, **SIZES, num_labels=CLASSES, **how)
    return ByPosition(transformers.BertForSequenceClassification(config), TEXT_NAMES)


def roberta(**how):
    config = transformers.RobertaConfig(**TEXT, **SIZES, **how)
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
    return ByPosition(transformers.GPT2LMHeadModel(config), CONTINUED_NAMES)


def vit(**how):
    config = transformers.ViTConfig(**SIZES, image_size=16, patch_size=4, num_labels=CLASSES, **how)
    return ByPosition(transformers.ViTForImageClassification(config), ("pixel_values", "labels"))


MODELS = {
    "BertForSequenceClassification": (bert, classified),
    "RobertaForMaskedLM": (roberta, filled_in),
    "DistilBertForSequenceClassification": (distilbert, classified),
    "GPT2LMHeadModel": (gpt2, continued),
    "ViTForImageClassification": (vit, images),
}

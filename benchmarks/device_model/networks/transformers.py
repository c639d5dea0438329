"""Encoders and decoders: BERT and its kin, GPT-2, the text encoder of CLIP, ViT."""

import dataclasses

import torch
import torch.nn.functional as F
from networks.blocks import Blocks, checkpoint
import poptorch
from torch import nn


@dataclasses.dataclass(frozen=True)
class Transformer:
    layers: int
    width: int
    heads: int
    vocabulary: int = 30522
    positions: int = 512
    embedding: int = 0  # ALBERT: its width, 0: that of the layers
    shared: bool = False  # ALBERT: one layer's weights
    attention: str = "plain"  # rotary: RoFormer, relative: DeBERTa
    before: bool = False  # norms before attention and feed-forward: GPT-2, ViT, CLIP
    causal: bool = False
    split_qkv: bool = False  # three products
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation: str = "gelu"


BERT_BASE = Transformer(12, 768, 12, dropout=0.1)
BERT_LARGE = Transformer(24, 1024, 16, dropout=0.1)
ALBERT_BASE = Transformer(12, 768, 12, vocabulary=30000, embedding=128, shared=True)
DEBERTA_BASE = Transformer(12, 768, 12, vocabulary=50265, attention="relative")
ROFORMER_BASE = Transformer(12, 768, 12, vocabulary=50000, positions=1536, attention="rotary")
GPT2_SMALL = Transformer(12, 768, 12, vocabulary=50257, positions=1024, before=True, causal=True, dropout=0.1)
GPT2_MEDIUM = dataclasses.replace(GPT2_SMALL, layers=24, width=1024, heads=16)
CLIP_TEXT = Transformer(12, 768, 12, vocabulary=49408, positions=77, before=True, causal=True, activation="quick_gelu")
VIT_BASE = Transformer(12, 768, 12, positions=197, before=True)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        width = config.width
        if config.split_qkv:
            self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        else:
            self.qkv = nn.Linear(width, 3 * width)
        if config.attention == "relative":
            self.position_key, self.position_query = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def split(self, x):
        batch, length, width = x.shape
        return x.reshape(batch, length, self.config.heads, width // self.config.heads).transpose(1, 2)

    def rotate(self, x, angles):
        sine, cosine = angles
        halves = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).reshape(x.shape)
        return x * cosine + halves * sine

    def relative_scores(self, query, key, positions):
        """Content to position and position to content, each gathered by distance (DeBERTa, section 3)."""
        table, forward, backward = positions
        position_key = self.split(self.position_key(table)[None])
        position_query = self.split(self.position_query(table)[None])
        scale = (3 * query.shape[-1]) ** -0.5
        to_position = query @ position_key.transpose(-1, -2) * scale
        to_content = key @ position_query.transpose(-1, -2) * scale
        shape = (*query.shape[:3], query.shape[2])
        return to_position.gather(-1, forward.expand(shape)) + to_content.gather(-1, backward.expand(shape)).transpose(
            -1, -2
        )

    def forward(self, x, mask, positions):
        if self.config.split_qkv:
            query, key, value = self.query(x), self.key(x), self.value(x)
        else:
            query, key, value = self.qkv(x).chunk(3, dim=-1)
        query, key, value = self.split(query), self.split(key), self.split(value)
        if self.config.attention == "rotary":
            query, key = self.rotate(query, positions), self.rotate(key, positions)
        scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        if self.config.attention == "relative":
            scores = scores + self.relative_scores(query, key, positions)
        if mask is not None:
            scores = scores + mask
        weights = F.dropout(scores.softmax(-1), self.config.attention_dropout, self.training)
        context = (weights @ value).transpose(1, 2).reshape(x.shape)
        return self.out(context)


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.up, self.down = nn.Linear(config.width, 4 * config.width), nn.Linear(4 * config.width, config.width)
        self.activation = config.activation

    def forward(self, x):
        x = self.up(x)
        return self.down(x * torch.sigmoid(1.702 * x) if self.activation == "quick_gelu" else F.gelu(x))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.attention, self.feed_forward = Attention(config), FeedForward(config)
        self.norms = nn.ModuleList(nn.LayerNorm(config.width) for _ in range(2))

    def forward(self, x, mask, positions):
        def drop(y):
            return F.dropout(y, self.config.dropout, self.training)

        if self.config.before:
            x = x + drop(self.attention(self.norms[0](x), mask, positions))
            return x + drop(self.feed_forward(self.norms[1](x)))
        x = self.norms[0](x + drop(self.attention(x, mask, positions)))
        return self.norms[1](x + drop(self.feed_forward(x)))


class Embedding(nn.Module):
    def __init__(self, config, kinds):
        super().__init__()
        self.config = config
        width = config.embedding or config.width
        self.word = nn.Embedding(config.vocabulary, width)
        self.position = nn.Embedding(config.positions, width) if config.attention == "plain" else None
        self.kind = nn.Embedding(2, width) if kinds else None
        self.norm = None if config.before else nn.LayerNorm(width)
        self.up = nn.Linear(width, config.width) if config.embedding else None

    def forward(self, words, positions, kinds):
        x = self.word(words)
        if self.position is not None:
            x = x + self.position(positions)
        if self.kind is not None:
            x = x + self.kind(kinds)
        if self.norm is not None:
            x = self.norm(x)
        x = F.dropout(x, self.config.dropout, self.training)
        return x if self.up is None else self.up(x)


class Stack(nn.Module):
    """The layers, each on its IPU."""

    def __init__(self, config, blocks, is_recomputed):
        super().__init__()
        self.blocks, self.is_recomputed = blocks, is_recomputed
        shared = Layer(config) if config.shared else None
        self.layers = nn.ModuleList(shared or Layer(config) for _ in range(config.layers))

    def forward(self, x, mask, positions):
        for number, layer in enumerate(self.layers):
            self.blocks.layer(number)
            x = checkpoint(layer(x, mask, positions), self.is_recomputed)
        return x


class Encoder(nn.Module):
    """BERT and its kin up to the last layer. Words, positions, kinds and sequences are [batch, length] numbers; several sequences
    may be packed into a row."""

    def __init__(self, config, layers, is_recomputed=False):
        super().__init__()
        self.config, self.blocks = config, Blocks(layers)
        self.embedding = Embedding(config, kinds=True)
        self.stack = Stack(config, self.blocks, is_recomputed)
        if config.attention == "relative":
            self.distances = nn.Embedding(2 * config.positions, config.width)

    def positions_of(self, extra):
        if self.config.attention == "relative":
            return (self.distances.weight, *extra)
        return extra

    def forward(self, words, positions, kinds, sequences, *extra):
        self.blocks.start()
        x = self.embedding(words, positions, kinds)
        is_other = sequences.unsqueeze(1) != sequences.unsqueeze(2)
        mask = is_other.unsqueeze(1).to(x.dtype) * -10000
        return self.stack(x, mask, self.positions_of(extra))


class Pretraining(nn.Module):
    """Masked words, whose decoder has the weights of the embedding, and next sentences; both on the IPU of the embedding."""

    def __init__(self, config, layers, masked):
        super().__init__()
        self.encoder = Encoder(config, layers, is_recomputed=True)
        self.masked = masked
        width = config.width
        self.transform, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        self.pooler, self.next = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, words, positions, kinds, sequences, masked_positions, masked_words, next_sentence):
        x = self.encoder(words, positions, kinds, sequences)
        self.encoder.blocks.move(0)
        where = masked_positions.unsqueeze(-1).expand(*masked_positions.shape, x.shape[-1])
        picked = self.norm(F.gelu(self.transform(x.gather(1, where))))
        scores = F.linear(picked, self.encoder.embedding.word.weight, self.bias)
        loss = F.cross_entropy(scores.flatten(0, 1).float(), masked_words.flatten())
        sentence = self.next(torch.tanh(self.pooler(x[:, 0])))
        loss = loss + F.cross_entropy(sentence.float(), next_sentence)
        return poptorch.identity_loss(loss, reduction="none")


class Answers(nn.Module):
    """Begin and end of an answer (SQuAD): scores, or their loss if they are given."""

    def __init__(self, config, layers, is_recomputed=False):
        super().__init__()
        self.encoder = Encoder(config, layers, is_recomputed)
        self.head = nn.Linear(config.width, 2)

    def forward(self, words, positions, kinds, sequences, *extra_and_answers):
        count = 0 if not self.training else 2
        extra = extra_and_answers[: len(extra_and_answers) - count]
        scores = self.head(self.encoder(words, positions, kinds, sequences, *extra))
        if not self.training:
            return scores
        begin, end = scores.float().unbind(-1)
        first, last = extra_and_answers[-2:]
        loss = 0.5 * (F.cross_entropy(begin, first) + F.cross_entropy(end, last))
        return poptorch.identity_loss(loss, reduction="none")


class Decoder(nn.Module):
    """GPT-2: the next word at each position, or its loss; the head has the weights of the embedding and stands on its IPU."""

    def __init__(self, config, layers, is_recomputed=False):
        super().__init__()
        self.blocks = Blocks(layers)
        self.embedding = Embedding(config, kinds=False)
        self.stack = Stack(config, self.blocks, is_recomputed)
        self.norm = nn.LayerNorm(config.width)

    def forward(self, words, positions, mask, following=None):
        self.blocks.start()
        x = self.norm(self.stack(self.embedding(words, positions, None), mask, ()))
        self.blocks.move(0)
        scores = F.linear(x, self.embedding.word.weight)
        if following is None:
            return scores
        loss = F.cross_entropy(scores.flatten(0, 1).float(), following.flatten())
        return poptorch.identity_loss(loss, reduction="none")


class FlashDecoder(Decoder):
    """As Decoder, whose scores are made once more for their gradients; everything else is kept. How many chunks the scores are made
    in is not said here: those of a layer live at once."""

    def __init__(self, config, layers):
        super().__init__(config, layers)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.LayerNorm)):
                module.register_forward_pre_hook(lambda _, arguments: tuple(checkpoint(x, True) for x in arguments))
                module.register_forward_hook(lambda _, arguments, result: checkpoint(result, True))


class TextEncoder(nn.Module):
    """The text side of CLIP: the state at the end of the text, projected."""

    def __init__(self, config, layers):
        super().__init__()
        self.blocks = Blocks(layers)
        self.embedding = Embedding(config, kinds=False)
        self.stack = Stack(config, self.blocks, False)
        self.norm = nn.LayerNorm(config.width)
        self.out = nn.Linear(config.width, 512, bias=False)

    def forward(self, words, positions, mask):
        self.blocks.start()
        x = self.norm(self.stack(self.embedding(words, positions, None), mask, ()))
        return self.out(x[:, -1])


class VisionTransformer(nn.Module):
    """ViT: patches of 16 x 16 of an image, a token of the class, and a head of 1,000 classes."""

    def __init__(self, config, layers, is_recomputed=False):
        super().__init__()
        self.blocks = Blocks(layers)
        self.patches = nn.Conv2d(3, config.width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.position = nn.Parameter(torch.zeros(1, config.positions, config.width))
        self.stack = Stack(config, self.blocks, is_recomputed)
        self.norm, self.head = nn.LayerNorm(config.width), nn.Linear(config.width, 1000)

    def forward(self, images, classes=None):
        self.blocks.start()
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        scores = self.head(self.norm(self.stack(x, None, ()))[:, 0])
        if classes is None:
            return scores
        return poptorch.identity_loss(F.cross_entropy(scores.float(), classes), reduction="none")

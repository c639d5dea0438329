"""Conformer: convolution and attention over speech."""

import dataclasses

import torch
import torch.nn.functional as F
from networks.blocks import Blocks, checkpoint
from networks.transformers import Attention, Transformer
import poptorch
from torch import nn


@dataclasses.dataclass(frozen=True)
class Speech:
    layers: int = 12
    decoders: int = 6
    width: int = 256
    heads: int = 4
    hidden: int = 2048
    kernel: int = 15
    features: int = 80
    vocabulary: int = 4233
    dropout: float = 0.1


MEDIUM = Speech()


class Feed(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.up, self.down = nn.Linear(config.width, config.hidden), nn.Linear(config.hidden, config.width)
        self.dropout = config.dropout

    def forward(self, x):
        x = F.dropout(F.silu(self.up(self.norm(x))), self.dropout, self.training)
        return F.dropout(self.down(x), self.dropout, self.training)


class RelativeAttention(nn.Module):
    """Scores by content and by distance, which are shifted so that distances become places (Transformer-XL)."""

    def __init__(self, config):
        super().__init__()
        self.heads, self.norm = config.heads, nn.LayerNorm(config.width)
        self.qkv, self.out = nn.Linear(config.width, 3 * config.width), nn.Linear(config.width, config.width)
        self.distance = nn.Linear(config.width, config.width, bias=False)
        self.content, self.place = (nn.Parameter(torch.zeros(config.width)) for _ in range(2))

    def split(self, x):
        batch, length, width = x.shape
        return x.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def shifted(self, scores):
        batch, heads, rows, columns = scores.shape
        padded = F.pad(scores, (1, 0)).reshape(batch, heads, columns + 1, rows)
        return padded[:, :, 1:].reshape(scores.shape)

    def forward(self, x, distances):
        query, key, value = self.qkv(self.norm(x)).chunk(3, dim=-1)
        key, value = self.split(key), self.split(value)
        by_content = self.split(query + self.content) @ key.transpose(-1, -2)
        by_place = self.split(query + self.place) @ self.split(self.distance(distances)).transpose(-1, -2)
        scores = (by_content + self.shifted(by_place)) * key.shape[-1] ** -0.5
        return self.out((scores.softmax(-1) @ value).transpose(1, 2).reshape(x.shape))


class Convolution(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config.width
        self.norm = nn.LayerNorm(width)
        self.up = nn.Conv1d(width, 2 * width, 1)
        self.depth = nn.Conv1d(width, width, config.kernel, padding=config.kernel // 2, groups=width)
        self.middle, self.down = nn.LayerNorm(width), nn.Conv1d(width, width, 1)

    def forward(self, x):
        x = F.glu(self.up(self.norm(x).transpose(1, 2)), dim=1)
        x = F.silu(self.middle(self.depth(x).transpose(1, 2)))
        return self.down(x.transpose(1, 2)).transpose(1, 2)


class ConformerLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dropout = config.dropout
        self.first, self.last = Feed(config), Feed(config)
        self.attention, self.convolution = RelativeAttention(config), Convolution(config)
        self.norm = nn.LayerNorm(config.width)

    def forward(self, x, distances):
        x = x + 0.5 * self.first(x)
        x = x + F.dropout(self.attention(x, distances), self.dropout, self.training)
        x = x + F.dropout(self.convolution(x), self.dropout, self.training)
        return self.norm(x + 0.5 * self.last(x))


class Subsampling(nn.Module):
    """Two convolutions with a stride of two over [batch, channels, frames, features]: a quarter of the frames."""

    def __init__(self, config, channels=1):
        super().__init__()
        width = config.width
        self.path = nn.Sequential(nn.Conv2d(channels, width, 3, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 2), nn.ReLU())
        self.out = nn.Linear(width * (((config.features - 1) // 2 - 1) // 2), width)

    def forward(self, x):
        x = self.path(x)
        return self.out(x.transpose(1, 2).flatten(2))


class ConformerEncoder(nn.Module):
    def __init__(self, config, layers, is_recomputed=False, channels=1):
        super().__init__()
        self.blocks, self.is_recomputed = Blocks(layers), is_recomputed
        self.subsampling = Subsampling(config, channels)
        self.layers = nn.ModuleList(ConformerLayer(config) for _ in range(config.layers))

    def forward(self, speech, distances):
        self.blocks.start()
        x = self.subsampling(speech)
        for number, layer in enumerate(self.layers):
            self.blocks.layer(number)
            x = checkpoint(layer(x, distances), self.is_recomputed)
        return x


class CrossLayer(nn.Module):
    """A layer of the decoder: over the words so far, and over the speech."""

    def __init__(self, config):
        super().__init__()
        shape = Transformer(1, config.width, config.heads, before=True)
        self.words, self.feed = Attention(shape), Feed(config)
        self.query, self.memory = nn.Linear(config.width, config.width), nn.Linear(config.width, 2 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.norms = nn.ModuleList(nn.LayerNorm(config.width) for _ in range(2))

    def forward(self, x, memory, mask):
        x = x + self.words(self.norms[0](x), mask, ())
        query = self.words.split(self.query(self.norms[1](x)))
        key, value = (self.words.split(part) for part in self.memory(memory).chunk(2, dim=-1))
        scores = (query @ key.transpose(-1, -2) * key.shape[-1] ** -0.5).softmax(-1)
        x = x + self.out((scores @ value).transpose(1, 2).reshape(x.shape))
        return x + self.feed(x)


class ConformerTraining(nn.Module):
    """CTC over the encoder and the next word from the decoder, both on the last IPU."""

    def __init__(self, config, layers):
        super().__init__()
        self.encoder = ConformerEncoder(config, layers, is_recomputed=True)
        self.words = nn.Embedding(config.vocabulary, config.width)
        self.decoders = nn.ModuleList(CrossLayer(config) for _ in range(config.decoders))
        self.ctc, self.out = nn.Linear(config.width, config.vocabulary), nn.Linear(config.width, config.vocabulary)

    def forward(self, speech, distances, words, mask, following, frames, lengths):
        memory = self.encoder(speech.unsqueeze(1), distances)
        x = self.words(words)
        for layer in self.decoders:
            x = layer(x, memory, mask)
        scores = self.out(x).flatten(0, 1).float()
        loss = F.cross_entropy(scores, following.flatten())
        likely = F.log_softmax(self.ctc(memory).float(), dim=-1).transpose(0, 1)
        loss = 0.7 * loss + 0.3 * F.ctc_loss(likely, following, frames, lengths)
        return poptorch.identity_loss(loss, reduction="none")

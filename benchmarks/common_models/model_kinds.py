"""Two dozen small models of kinds that users bring: mobile and grouped convolutions, U-Nets, generators, recurrent cells, transformers."""

import torch
import torch.nn.functional as F
from torch import nn


def convolution(before, after, kernel=3, stride=1, groups=1, activation=nn.ReLU):
    """A convolution that keeps the size but for the stride, a batch norm and an activation."""
    return nn.Sequential(
        nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after),
        *([activation()] if activation else []),
    )


def inverted(before, after, stride, activation):
    wide = 4 * before
    return nn.Sequential(
        convolution(before, wide, 1, activation=activation),
        convolution(wide, wide, 3, stride, groups=wide, activation=activation),
        convolution(wide, after, 1, activation=None),
    )


class Classifier(nn.Module):
    """Features [B, C, ...], their mean over all positions, a linear layer to 10 classes."""

    def __init__(self, features, channels):
        super().__init__()
        self.features, self.head = features, nn.Linear(channels, 10)

    def forward(self, x):
        return self.head(self.features(x).flatten(2).mean(2))


def mobile(activation=nn.ReLU6):
    """Inverted residuals (Sandler et al., 2018), without the residuals."""
    stem = convolution(3, 16, 3, 2, activation=activation)
    blocks = [inverted(16, 24, 2, activation), inverted(24, 32, 1, activation), inverted(32, 64, 2, activation)]
    return Classifier(nn.Sequential(stem, *blocks, inverted(64, 96, 1, activation)), 96)


class Residual(nn.Module):
    def __init__(self, inner, activation=None):
        super().__init__()
        self.inner, self.activation = inner, activation or nn.Identity()

    def forward(self, x):
        return self.activation(x + self.inner(x))


def resnext(groups):
    """Grouped convolutions (Xie et al., 2017)."""
    block = [convolution(128, 128, 1), convolution(128, 128, 3, groups=groups), convolution(128, 128, 1, activation=None)]
    blocks = [Residual(nn.Sequential(*block), nn.ReLU()) for _ in range(2)]
    return Classifier(nn.Sequential(nn.Conv2d(3, 128, 3, 2, 1), *blocks), 128)


def multiplier():
    """Two output channels for each input channel of a depthwise convolution."""
    layers = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1, groups=32), nn.ReLU()]
    return Classifier(nn.Sequential(*layers, nn.Conv2d(64, 32, 1)), 32)


class LayerNormOfChannels(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1))


def convnext(channels=64):
    """Depthwise 7x7, layer norm, two linear layers over channels last (Liu et al., 2022)."""

    class Back(nn.Module):
        def forward(self, x):
            return x.permute(0, 3, 1, 2)

    def block():
        depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        layers = [nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)]
        return Residual(nn.Sequential(depthwise, LayerNormOfChannels(channels), *layers, Back()))

    return Classifier(nn.Sequential(nn.Conv2d(3, channels, 4, 4), *(block() for _ in range(3))), channels)


def vgg():
    layers, before = [], 3
    for after in (32, None, 64, None, 128, 128, None):
        layers += [nn.MaxPool2d(2)] if after is None else [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
        before = after or before
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, 10))


class UNet(nn.Module):
    def __init__(self, channels=16):
        super().__init__()

        def double(before, after):
            return nn.Sequential(convolution(before, after), convolution(after, after))

        self.first, self.second = double(3, channels), double(channels, 2 * channels)
        self.middle = double(2 * channels, 4 * channels)
        self.up_second = nn.ConvTranspose2d(4 * channels, 2 * channels, 2, 2)
        self.up_first = nn.ConvTranspose2d(2 * channels, channels, 2, 2)
        self.after_second, self.after_first = double(4 * channels, 2 * channels), double(2 * channels, channels)
        self.head = nn.Conv2d(channels, 2, 1)

    def forward(self, x):
        first = self.first(x)
        second = self.second(F.max_pool2d(first, 2))
        y = self.up_second(self.middle(F.max_pool2d(second, 2)))
        y = self.up_first(self.after_second(torch.cat([y, second], 1)))
        return self.head(self.after_first(torch.cat([y, first], 1)))


class Dense(nn.Module):
    """Each layer reads all before it (Huang et al., 2017)."""

    def __init__(self, growth=16, layers=6):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        widths = [32 + growth * i for i in range(layers)]
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(w), nn.ReLU(), nn.Conv2d(w, growth, 3, padding=1, bias=False)) for w in widths
        )
        self.head = nn.Linear(32 + growth * layers, 10)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.head(F.avg_pool2d(x, 2).mean((2, 3)))


class SqueezeAndExcite(nn.Module):
    def __init__(self, channels=64, layers=3):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, 2, 1)
        self.convolutions = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(layers))
        self.gates = nn.ModuleList(
            nn.Sequential(nn.Linear(channels, channels // 4), nn.ReLU(), nn.Linear(channels // 4, channels), nn.Sigmoid())
            for _ in range(layers)
        )
        self.head = nn.Linear(channels, 10)

    def forward(self, x):
        x = F.hardswish(self.stem(x))
        for convolve, gate in zip(self.convolutions, self.gates):
            y = F.hardswish(convolve(x))
            x = x + y * gate(y.mean((2, 3)))[:, :, None, None]
        return self.head(x.mean((2, 3)))


def group_norms(channels=64):
    blocks = [
        Residual(nn.Sequential(nn.GroupNorm(8, channels), nn.SiLU(), nn.Conv2d(channels, channels, 3, padding=1)))
        for _ in range(4)
    ]
    return nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), *blocks, nn.Conv2d(channels, 3, 3, padding=1))


def instance_norms(channels=32):
    def layer(before):
        return [
            nn.ReflectionPad2d(1),
            nn.Conv2d(before, channels, 3),
            nn.InstanceNorm2d(channels, affine=True),
            nn.LeakyReLU(0.2),
        ]

    return nn.Sequential(*layer(3), nn.Upsample(scale_factor=2), *layer(channels), nn.Conv2d(channels, 3, 1))


def generator(latent=64, channels=32):
    """Images of 32x32 from a vector by transposed convolutions (Radford et al., 2015)."""
    layers, before = [], latent
    for after, stride, padding in ((4 * channels, 1, 0), (2 * channels, 2, 1), (channels, 2, 1)):
        layers += [nn.ConvTranspose2d(before, after, 4, stride, padding, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        before = after
    return nn.Sequential(*layers, nn.ConvTranspose2d(before, 3, 4, 2, 1), nn.Tanh())


def convolutions_of_signals():
    layers = [nn.Conv1d(8, 32, 7, padding=3), nn.GELU(), nn.Conv1d(32, 64, 5, 2, 2), nn.GELU()]
    return Classifier(nn.Sequential(*layers, nn.Conv1d(64, 64, 3, dilation=2, padding=2), nn.GELU()), 64)


def eeg():
    """Temporal, spatial and separable convolutions of 22 channels over 256 samples (Lawhern et al., 2018)."""
    return nn.Sequential(
        nn.Conv2d(1, 8, (1, 64), padding=(0, 32), bias=False),
        nn.BatchNorm2d(8),
        nn.Conv2d(8, 16, (22, 1), groups=8, bias=False),
        nn.BatchNorm2d(16),
        nn.ELU(),
        nn.AvgPool2d((1, 4)),
        nn.Conv2d(16, 16, (1, 16), padding=(0, 8), groups=16, bias=False),
        nn.Conv2d(16, 16, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ELU(),
        nn.AvgPool2d((1, 8)),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def volumes():
    layers = [nn.Conv3d(1, 16, 3, padding=1), nn.BatchNorm3d(16), nn.ReLU(), nn.MaxPool3d(2)]
    return Classifier(nn.Sequential(*layers, nn.Conv3d(16, 32, 3, padding=1), nn.ReLU()), 32)


def autoencoder():
    widths = (784, 256, 64, 16, 64, 256, 784)
    layers = [layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1], nn.Sigmoid())


def wide_mlp():
    return nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))


class BidirectionalGru(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.gru = nn.GRU(64, 128, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.gru(self.embedding(x))[0].mean(1))


class LstmCell(nn.Module):
    """Sixteen steps [T, B, 32] of a cell in a loop of Python."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(32, 64), nn.Linear(64, 10)

    def forward(self, x):
        state = (torch.zeros(x.shape[1], 64), torch.zeros(x.shape[1], 64))
        for step in range(x.shape[0]):
            state = self.cell(x[step], state)
        return self.head(state[0])


def encoder(width, heads, layers, **settings):
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, batch_first=True, **settings)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


class VisionTransformer(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.positions = nn.Parameter(torch.zeros(1, 64, width))
        self.encoder = encoder(width, 4, 4, activation="gelu", norm_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.encoder(tokens).mean(1))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.encoder, self.head = nn.Embedding(1000, 128), encoder(128, 2, 2), nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.encoder(self.embedding(x)).mean(1))


class Decoder(nn.Module):
    """Causal and cross attention; [B, T] tokens and [B, S, 128] of an encoder to [B * T, 2000]."""

    def __init__(self, vocabulary=2000, width=128):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(nn.TransformerDecoderLayer(width, 4, 256, 0.0, batch_first=True) for _ in range(2))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x, memory):
        mask = torch.triu(torch.full((x.shape[1], x.shape[1]), -torch.inf), 1)
        y = self.embedding(x)
        for layer in self.layers:
            y = layer(y, memory, tgt_mask=mask)
        return self.head(y).flatten(0, 1)


class Mixer(nn.Module):
    """Linear layers over tokens and over channels in turns (Tolstikhin et al., 2021)."""

    def __init__(self, width=128, tokens=64, layers=4):
        super().__init__()

        def mlp(size, hidden):
            return nn.Sequential(nn.Linear(size, hidden), nn.GELU(), nn.Linear(hidden, size))

        self.patches = nn.Conv2d(3, width, 4, 4)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.tokens = nn.ModuleList(mlp(tokens, 64) for _ in range(layers))
        self.channels = nn.ModuleList(mlp(width, 256) for _ in range(layers))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        for i, (tokens, channels) in enumerate(zip(self.tokens, self.channels)):
            x = x + tokens(self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * i + 1](x))
        return self.head(x.mean(1))


class Recommender(nn.Module):
    """Bags of embeddings and their products in pairs (Naumov et al., 2019); [B, 13] and [B, 8, 4] to [B, 2]."""

    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(5000, 32, mode="sum") for _ in range(8))
        self.below = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.above = nn.Sequential(nn.Linear(32 + 36, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, numbers, categories):
        features = [self.below(numbers), *(bag(categories[:, i]) for i, bag in enumerate(self.bags))]
        vectors = torch.stack(features, 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        rows, columns = torch.tril_indices(9, 9, -1)
        return self.above(torch.cat([vectors[:, 0], products[:, rows, columns]], 1))

"""Kinds of models of torch, and how they are exported: by opset, with constants folded or not, with axes open or fixed."""

import io
import logging
import math
import warnings

import onnx
import torch
import torch.nn.functional as F
from torch import nn


class Perceptron(nn.Sequential):
    shape = (2, 6)

    def __init__(self):
        super().__init__(
            nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.1), nn.Linear(8, 3), nn.LogSoftmax(-1)
        )


class Convolutions(nn.Module):
    shape = (2, 3, 8, 8)

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(16, 5)
        self.mean, self.padded = nn.AvgPool2d(2), nn.AvgPool2d(3, 1, 1)

    def forward(self, x):
        x = self.padded(self.mean(F.relu(self.norm(self.conv(x)))))
        return self.out(torch.flatten(F.max_pool2d(x, 2), 1))


class Residual(nn.Module):
    shape = (2, 4, 9, 9)

    def __init__(self):
        super().__init__()
        self.conv, self.skip = nn.Conv2d(4, 8, 3, 2, 1, groups=2), nn.Conv2d(4, 8, 1, 2)
        self.groups, self.instances = nn.GroupNorm(2, 8), nn.InstanceNorm2d(8, affine=True)
        self.pool = nn.AvgPool2d(3, 2, 1, ceil_mode=True)

    def forward(self, x):
        y = F.silu(self.groups(self.conv(x))) + self.instances(self.skip(x))
        return F.adaptive_avg_pool2d(self.pool(y), 1).view(x.size(0), -1)


class Encoder(nn.Module):
    """Attention with the sizes of its input, in layers that come after each other."""

    shape = (2, 5, 8)

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.norm, self.inner = nn.LayerNorm(8), nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (part.view(b, n, 2, d // 2).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(d // 2)
        x = self.norm(x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)))
        return x + self.inner(x)


class LongMemory(nn.Module):
    shape = (2, 5, 4)

    def __init__(self):
        super().__init__()
        self.layers, self.out = nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True), nn.Linear(12, 3)

    def forward(self, x):
        y, (h, _) = self.layers(x)
        return self.out(y[:, -1]), h


class Words(nn.Module):
    shape, words = (5, 2), 11

    def __init__(self):
        super().__init__()
        self.table, self.gru, self.rnn = nn.Embedding(11, 4), nn.GRU(4, 6), nn.RNN(6, 3)

    def forward(self, x):
        return self.rnn(self.gru(self.table(x))[0])[0]


class Decoder(nn.Module):
    """Positions by arange, and a mask that is cut to the sequence."""

    shape, words = (2, 6), 13

    def __init__(self):
        super().__init__()
        self.table, self.positions = nn.Embedding(13, 8), nn.Embedding(16, 8)
        self.qkv, self.norm = nn.Linear(8, 24), nn.LayerNorm(8)
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).bool().view(1, 1, 16, 16))

    def forward(self, x):
        b, n = x.size()
        z = self.table(x) + self.positions(torch.arange(0, n).unsqueeze(0))
        q, k, v = (u.view(b, n, 2, u.size(-1) // 2).transpose(1, 2) for u in self.qkv(self.norm(z)).chunk(3, -1))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        scores = torch.where(self.mask[:, :, :n, :n], scores, torch.full([], torch.finfo(scores.dtype).min))
        return z + (scores.softmax(-1) @ v).transpose(1, 2).contiguous().view(b, n, -1)


class DownAndUp(nn.Module):
    shape = (1, 2, 7, 8)

    def __init__(self):
        super().__init__()
        self.down, self.up, self.out = nn.Conv2d(2, 4, 3, 2, 1), nn.ConvTranspose2d(4, 4, 2, 2), nn.Conv2d(6, 2, 1)

    def forward(self, x):
        y = self.up(F.leaky_relu(self.down(x)))[:, :, : x.shape[2], : x.shape[3]]
        z = self.out(torch.cat([x, y], 1))
        return F.interpolate(z, scale_factor=2.0), F.interpolate(z, size=(x.shape[2] * 2, x.shape[3]))


class Mixer(nn.Module):
    shape = (2, 3, 8, 8)

    def __init__(self):
        super().__init__()
        self.patches, self.tokens, self.channels = nn.Conv2d(3, 6, 4, 4), nn.Linear(4, 4), nn.Linear(6, 6)
        self.norm, self.first = nn.LayerNorm(6), nn.Parameter(torch.randn(1, 1, 6))

    def forward(self, x):
        z = self.patches(x).flatten(2).transpose(1, 2)
        z = z + self.tokens(self.norm(z).transpose(1, 2)).transpose(1, 2)
        z = torch.cat([self.first.expand(z.size(0), -1, -1), z + F.hardswish(self.channels(z))], 1)
        return z.mean(1), z[:, 0]


class Mobile(nn.Module):
    """Convolutions by channel, gates, channels that change places."""

    shape = (2, 4, 6, 6)

    def __init__(self):
        super().__init__()
        self.wide, self.deep = nn.Conv2d(4, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm, self.squeeze, self.gate = nn.BatchNorm2d(8), nn.Conv2d(8, 2, 1), nn.Conv2d(2, 8, 1)

    def forward(self, x):
        z = F.relu6(self.norm(self.deep(F.hardsigmoid(self.wide(x)))))
        z = z * torch.sigmoid(self.gate(F.relu(self.squeeze(F.adaptive_avg_pool2d(z, 1)))))
        b, c, h, w = z.size()
        z = z.view(b, 2, c // 2, h, w).transpose(1, 2).contiguous().view(b, -1, h, w)
        return F.pixel_shuffle(z, 2), F.pad(z, (1, 2, 0, 1)).mean([2, 3])


class Autoencoder(nn.Module):
    shape = (2, 3, 4)

    def __init__(self):
        super().__init__()
        self.narrow, self.wide = nn.Linear(12, 5), nn.Linear(5, 12)

    def forward(self, x):
        z = torch.tanh(self.narrow(x.reshape(x.shape[0], -1)))
        y = torch.clamp(self.wide(z).reshape(x.shape), min=-1, max=2)
        return y, (y - x).pow(2).sum(dim=(1, 2)).sqrt(), F.softplus(z)


class Ranks(nn.Module):
    shape = (2, 3, 4)

    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(4, 4)

    def forward(self, x):
        y = self.scores(x)
        values, places = y.topk(4, -1)
        last = (y.argmax(-1, keepdim=True) == torch.arange(y.size(-1))).float()
        return values, y.gather(2, places.flip(-1)), last, y[:, -1], y[..., [0, -1]], y.sum(-1) + x.new_zeros(2, 3)


class Windows(nn.Module):
    """Windows that are moved and masked, and sums of many kinds."""

    shape = (2, 4, 4, 4)

    def __init__(self):
        super().__init__()
        self.keys = nn.Linear(4, 4)

    def forward(self, x):
        b, h, w, c = x.shape
        y = torch.roll(x, (-1, -1), (1, 2)).view(b, h // 2, 2, w // 2, 2, c)
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
        scores = (self.keys(y) @ y.transpose(1, 2)).masked_fill(torch.triu(torch.ones(4, 4), 1).bool(), -1e9)
        y = (scores.softmax(-1) @ y).view(b, h // 2, w // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return y, x.repeat(1, 1, 2, 1), x.std(-1), torch.norm(x, dim=-1), x.prod(1), torch.stack([x, y]).amax(0)


KINDS = {
    kind.__name__: kind
    for kind in (
        Perceptron,
        Convolutions,
        Residual,
        Encoder,
        LongMemory,
        Words,
        Decoder,
        DownAndUp,
        Mixer,
        Mobile,
        Autoencoder,
        Ranks,
        Windows,
    )
}


def made(kind):
    """A model in evaluation, an input for it and what it gives."""
    torch.manual_seed(0)
    module = KINDS[kind]().eval()
    words = getattr(module, "words", None)
    x = torch.randn(module.shape) if words is None else torch.randint(0, words, module.shape)
    with torch.no_grad():
        y = module(x)
    return module, x, [value.numpy() for value in (y if isinstance(y, tuple) else (y,))]


def exported(module, x, opset, folds, is_dynamic):
    """The model as torch writes it. Open axes are those of the input everywhere inside; at the input they get its sizes."""
    file = io.BytesIO()
    axes = {"dynamic_axes": {"x": {d: f"d{d}" for d in range(x.dim())}}} if is_dynamic else {}
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (x,), file, opset_version=opset, do_constant_folding=folds, dynamo=False, input_names=["x"], **axes
        )
    model = onnx.load_from_string(file.getvalue())
    for dim, size in zip(model.graph.input[0].type.tensor_type.shape.dim, x.shape):
        dim.dim_value = size
    return model

"""Convolutional networks: ResNet, ResNeXt, EfficientNet, EfficientDet."""

import dataclasses
import math

import torch
import torch.nn.functional as F
from networks.blocks import Blocks, checkpoint
import poptorch
from torch import nn

CLASSES = 1000


def convolution(inputs, outputs, kernel, stride=1, groups=1, norm=None):
    """A convolution that keeps the size but for its stride. `norm`: "batch", "group", or None: folded into weights and bias."""
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=norm is None)]
    if norm == "batch":
        layers.append(nn.BatchNorm2d(outputs))
    if norm == "group":
        layers.append(nn.GroupNorm(math.gcd(outputs, 4), outputs))
    return nn.Sequential(*layers)


def loss_of(scores, classes):
    if classes is None:
        return scores
    return poptorch.identity_loss(F.cross_entropy(scores.float(), classes), reduction="none")


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, outputs, stride, groups, norm):
        super().__init__()
        self.path = nn.Sequential(
            convolution(inputs, width, 1, norm=norm),
            nn.ReLU(),
            convolution(width, width, 3, stride, groups, norm),
            nn.ReLU(),
            convolution(width, outputs, 1, norm=norm),
        )
        is_same = stride == 1 and inputs == outputs
        self.short = nn.Identity() if is_same else convolution(inputs, outputs, 1, stride, norm=norm)

    def forward(self, x):
        return F.relu(self.path(x) + self.short(x))


class ResNet(nn.Module):
    """v1.5, with the stride in the 3 x 3 convolution. `cuts`: numbers of the residual blocks with which an IPU begins."""

    def __init__(self, depths=(3, 4, 6, 3), width=64, groups=1, norm="batch", cuts=(), is_recomputed=False):
        super().__init__()
        self.is_recomputed = is_recomputed
        self.stem = nn.Sequential(convolution(3, 64, 7, 2, norm=norm), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks, inputs = [], 64
        for stage, depth in enumerate(depths):
            for number in range(depth):
                stride = 2 if stage > 0 and number == 0 else 1
                outputs = 256 << stage
                blocks.append(Bottleneck(inputs, width << stage, outputs, stride, groups, norm))
                inputs = outputs
        self.blocks = nn.ModuleList(blocks)
        bounds = [0, *cuts, len(blocks)]
        self.places = Blocks([end - begin for begin, end in zip(bounds, bounds[1:], strict=False)])
        self.head = nn.Linear(inputs, CLASSES)

    def forward(self, images, classes=None):
        self.places.start()
        x = self.stem(images)
        for number, block in enumerate(self.blocks):
            self.places.layer(number)
            x = checkpoint(block(x), self.is_recomputed)
        return loss_of(self.head(x.mean((2, 3))), classes)


def resnext101(norm="group", **options):
    """32 groups of 4 channels."""
    return ResNet((3, 4, 23, 3), width=128, groups=32, norm=norm, **options)


class SqueezeExcite(nn.Module):
    def __init__(self, channels, squeezed):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride, expansion, group_channels, norm):
        super().__init__()
        width = inputs * expansion
        layers = [convolution(inputs, width, 1, norm=norm), nn.SiLU()] if expansion > 1 else []
        groups = width // group_channels
        layers += [convolution(width, width, kernel, stride, groups, norm), nn.SiLU()]
        layers += [SqueezeExcite(width, max(inputs // 4, 1)), convolution(width, outputs, 1, norm=norm)]
        self.path = nn.Sequential(*layers)
        self.has_short = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.path(x) if self.has_short else self.path(x)


@dataclasses.dataclass(frozen=True)
class Scaling:
    """Of EfficientNet-B0's widths and depths, rounded as there."""

    width: float = 1.0
    depth: float = 1.0
    expansion: int = 6
    group_channels: int = 1

    def channels(self, count):
        rounded = max(8, int(count * self.width + 4) // 8 * 8)
        if rounded < 0.9 * count * self.width:
            rounded += 8
        return max(rounded, self.group_channels)


B0 = Scaling()
B4_GROUP_16 = Scaling(1.4, 1.8, expansion=4, group_channels=16)
B4_GROUP_1 = Scaling(1.4, 1.8)
# Kernel, channels, depth, stride and expansion of the stages; the first one does not expand.
STAGES = ((3, 16, 1, 1), (3, 24, 2, 2), (5, 40, 2, 2), (3, 80, 3, 2), (5, 112, 3, 1), (5, 192, 4, 2), (3, 320, 1, 1))


class EfficientNet(nn.Module):
    """`cuts`: stage and number of the block in it with which an IPU begins, ("2c" is the third block of the second stage: (1, 2))."""

    def __init__(self, scaling=B0, norm="batch", cuts=(), is_recomputed=False):
        super().__init__()
        self.is_recomputed = is_recomputed
        inputs = scaling.channels(32)
        self.stem = nn.Sequential(convolution(3, inputs, 3, 2, norm=norm), nn.SiLU())
        blocks, self.ends, starts = [], [], [0]
        for stage, (kernel, channels, depth, stride) in enumerate(STAGES):
            outputs = scaling.channels(channels)
            for number in range(math.ceil(depth * scaling.depth)):
                if (stage, number) in cuts:
                    starts.append(len(blocks))
                expansion = 1 if stage == 0 else scaling.expansion
                step = stride if number == 0 else 1
                blocks.append(InvertedResidual(inputs, outputs, kernel, step, expansion, scaling.group_channels, norm))
                inputs = outputs
            self.ends.append(len(blocks) - 1)
        self.blocks = nn.ModuleList(blocks)
        bounds = [*starts, len(blocks)]
        self.places = Blocks([end - begin for begin, end in zip(bounds, bounds[1:], strict=False)])
        last = scaling.channels(1280)
        self.top = nn.Sequential(convolution(inputs, last, 1, norm=norm), nn.SiLU())
        self.head = nn.Linear(last, CLASSES)

    def features(self, images):
        """The results of all blocks."""
        self.places.start()
        x, results = self.stem(images), []
        for number, block in enumerate(self.blocks):
            self.places.layer(number)
            x = checkpoint(block(x), self.is_recomputed)
            results.append(x)
        return results

    def forward(self, images, classes=None):
        return loss_of(self.head(self.top(self.features(images)[-1]).mean((2, 3))), classes)


class Separable(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs, bias=False), nn.Conv2d(inputs, outputs, 1)
        )

    def forward(self, x):
        return self.path(x)


class FeaturePyramid(nn.Module):
    """One pass over five sizes, down and up (BiFPN), with weights that are normalised by their sum."""

    def __init__(self, channels):
        super().__init__()
        self.down = nn.ModuleList(Separable(channels, channels) for _ in range(4))
        self.up = nn.ModuleList(Separable(channels, channels) for _ in range(4))
        self.weights = nn.Parameter(torch.ones(8, 3))

    def join(self, number, parts):
        weights = F.relu(self.weights[number, : len(parts)])
        weights = weights / (weights.sum() + 1e-4)
        return F.silu(sum(part * weights[i] for i, part in enumerate(parts)))

    def forward(self, levels):
        middle = list(levels)
        for i in range(3, -1, -1):
            larger = F.interpolate(middle[i + 1], scale_factor=2.0)
            middle[i] = self.down[i](self.join(i, [levels[i], larger]))
        results = [middle[0]]
        for i in range(1, 5):
            smaller = F.max_pool2d(results[-1], 3, 2, 1)
            results.append(self.up[i - 1](self.join(3 + i, [levels[i], middle[i], smaller])))
        return results


class EfficientDet(nn.Module):
    """D0: EfficientNet-B0, three passes of a pyramid with 64 channels, heads of three layers, nine boxes of 90 classes a place."""

    CHANNELS = 64

    def __init__(self):
        super().__init__()
        self.backbone = EfficientNet(B0, norm=None)
        self.sizes = (self.backbone.ends[2], self.backbone.ends[4], self.backbone.ends[6])
        self.inputs = nn.ModuleList(nn.Conv2d(count, self.CHANNELS, 1) for count in (40, 112, 320))
        self.coarser = nn.Conv2d(320, self.CHANNELS, 1)
        self.pyramids = nn.ModuleList(FeaturePyramid(self.CHANNELS) for _ in range(3))
        self.classes = nn.ModuleList(Separable(self.CHANNELS, self.CHANNELS) for _ in range(3))
        self.boxes = nn.ModuleList(Separable(self.CHANNELS, self.CHANNELS) for _ in range(3))
        self.class_scores, self.box_places = Separable(self.CHANNELS, 9 * 90), Separable(self.CHANNELS, 9 * 4)

    def forward(self, images):
        features = self.backbone.features(images)
        levels = [layer(features[at]) for layer, at in zip(self.inputs, self.sizes, strict=True)]
        levels.append(F.max_pool2d(self.coarser(features[self.sizes[-1]]), 3, 2, 1))
        levels.append(F.max_pool2d(levels[-1], 3, 2, 1))
        for pyramid in self.pyramids:
            levels = pyramid(levels)
        results = []
        for level in levels:
            scores = boxes = level
            for one, other in zip(self.classes, self.boxes, strict=True):
                scores, boxes = F.silu(one(scores)), F.silu(other(boxes))
            results += [self.class_scores(scores), self.box_places(boxes)]
        return tuple(results)

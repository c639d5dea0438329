"""The ten models of the comparison. With targets they return (output, loss), without them the output."""

import torch
import torch.nn.functional as F


def with_loss(out, y):
    return out if y is None else (out, F.cross_entropy(out.float(), y))


class Mlp(torch.nn.Module):
    """784-512-512-10."""

    def __init__(self):
        super().__init__()
        sizes = (784, 512, 512)
        hidden = [layer for pair in zip(sizes, sizes[1:]) for layer in (torch.nn.Linear(*pair), torch.nn.ReLU())]
        self.layers = torch.nn.Sequential(*hidden, torch.nn.Linear(512, 10))

    def forward(self, x, y=None):
        return with_loss(self.layers(x), y)


class LeNet(torch.nn.Module):
    """LeNet-5 on 28x28 images, ReLU and max pooling."""

    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 6, 5, padding=2),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(6, 16, 5),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
        )
        self.classifier = torch.nn.Sequential(
            torch.nn.Linear(400, 120),
            torch.nn.ReLU(),
            torch.nn.Linear(120, 84),
            torch.nn.ReLU(),
            torch.nn.Linear(84, 10),
        )

    def forward(self, x, y=None):
        return with_loss(self.classifier(self.features(x).flatten(1)), y)


class ResidualBlock(torch.nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(channels)
        self.conv2 = torch.nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(channels)
        self.shortcut = torch.nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = torch.nn.Sequential(
                torch.nn.Conv2d(channels_in, channels, 1, stride, bias=False), torch.nn.BatchNorm2d(channels)
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class ResNet18(torch.nn.Module):
    """ResNet-18 for 32x32 images: a 3x3 stem, no pooling before the stages."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Sequential(
            torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False), torch.nn.BatchNorm2d(64), torch.nn.ReLU()
        )
        stages, channels_in = [], 64
        for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            stages += [ResidualBlock(channels_in, channels, stride), ResidualBlock(channels, channels, 1)]
            channels_in = channels
        self.stages = torch.nn.Sequential(*stages)
        self.head = torch.nn.Linear(512, 10)

    def forward(self, x, y=None):
        return with_loss(self.head(self.stages(self.stem(x)).mean((2, 3))), y)


class TransformerLayer(torch.nn.Module):
    def __init__(self, size, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = torch.nn.LayerNorm(size), torch.nn.LayerNorm(size)
        self.qkv, self.out = torch.nn.Linear(size, 3 * size), torch.nn.Linear(size, size)
        self.wide, self.narrow = torch.nn.Linear(size, 4 * size), torch.nn.Linear(4 * size, size)

    def attention(self, x):
        batch, steps, size = x.shape
        split = [t.view(batch, steps, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)]
        out = F.scaled_dot_product_attention(*split, is_causal=self.causal)
        return self.out(out.transpose(1, 2).reshape(batch, steps, size))

    def feed_forward(self, x):
        return self.narrow(F.gelu(self.wide(x)))

    def forward(self, x):
        if self.causal:  # GPT-2 normalises before, BERT after
            x = x + self.attention(self.norm1(x))
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.feed_forward(x))


class Transformer(torch.nn.Module):
    """Layers of BERT (a class of the first token) or, causal, of GPT-2 (the next token, with the embedding as head)."""

    def __init__(self, size, layers, heads, vocabulary, steps=128, causal=False):
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(vocabulary, size), torch.nn.Embedding(steps, size)
        self.norm = torch.nn.LayerNorm(size)
        self.layers = torch.nn.Sequential(*(TransformerLayer(size, heads, causal) for _ in range(layers)))
        self.head = torch.nn.Linear(size, vocabulary if causal else 2, bias=not causal)
        self.causal = causal
        torch.nn.init.normal_(self.tokens.weight, std=0.02)
        if causal:
            self.head.weight = self.tokens.weight

    def forward(self, ids, y=None):
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        if self.causal:
            out = self.head(self.norm(self.layers(x)))
            return out if y is None else with_loss(out.flatten(0, 1), y.flatten())
        return with_loss(self.head(self.layers(self.norm(x))[:, 0]), y)


class Sequence(torch.nn.Module):
    """A recurrent net of 2 layers of 256 over 32 steps, classified by its last output."""

    def __init__(self, kind):
        super().__init__()
        self.layers = kind(256, 256, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(256, 10)

    def forward(self, x, y=None):
        return with_loss(self.head(self.layers(x)[0][:, -1]), y)


class WideAndDeep(torch.nn.Module):
    """26 categories of 1,000 values and 13 numbers: a linear part beside embeddings of 16 and layers of 256, 128 and 64."""

    def __init__(self):
        super().__init__()
        self.register_buffer("first", torch.arange(26) * 1000)
        self.wide, self.deep = torch.nn.Embedding(26 * 1000, 2), torch.nn.Embedding(26 * 1000, 16)
        sizes = (26 * 16 + 13, 256, 128, 64)
        hidden = [layer for pair in zip(sizes, sizes[1:]) for layer in (torch.nn.Linear(*pair), torch.nn.ReLU())]
        self.layers = torch.nn.Sequential(*hidden, torch.nn.Linear(64, 2))

    def forward(self, categories, numbers, y=None):
        ids = categories + self.first
        deep = self.layers(torch.cat([self.deep(ids).flatten(1), numbers], 1))
        return with_loss(deep + self.wide(ids).sum(1), y)


class Pointwise(torch.nn.Module):
    """A chain of 24 pointwise operations on 64 rows of 1,024 numbers."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.linspace(0.5, 1.5, 1024))

    def forward(self, x, y=None):
        for _ in range(6):
            x = torch.tanh(x * self.scale + 0.1).sigmoid()
        return x if y is None else (x, F.mse_loss(x.float(), y))


class HuggingFaceBert(torch.nn.Module):
    """BertForSequenceClassification of transformers: 2 layers of 128 with 2 heads."""

    def __init__(self):
        from transformers import BertConfig, BertForSequenceClassification

        super().__init__()
        sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
        self.bert = BertForSequenceClassification(
            BertConfig(**sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        )

    def forward(self, ids, y=None):
        return with_loss(self.bert(input_ids=ids).logits, y)

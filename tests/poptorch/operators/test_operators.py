"""Operators of torch through the whole compiler: values of an inference model equal those of the CPU."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from models import Call

import poptorch


def r(*shape):
    return torch.randn(*shape)


CASES = {
    "linear": (lambda: nn.Linear(8, 4), lambda: [r(2, 3, 8)]),
    "conv2d same": (lambda: nn.Conv2d(4, 8, 3, groups=2, padding="same"), lambda: [r(2, 4, 7, 7)]),
    "conv1d dilated": (lambda: nn.Conv1d(3, 4, 3, stride=2, padding=1, dilation=2), lambda: [r(2, 3, 11)]),
    "conv transpose": (
        lambda: nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1),
        lambda: [r(2, 4, 5, 5)],
    ),
    "max pool": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2)), lambda: [r(2, 3, 8, 8)]),
    "average pool, ceil mode": (
        lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda: [r(2, 3, 8, 8)],
    ),
    "adaptive pool": (lambda: nn.AdaptiveAvgPool2d((2, 4)), lambda: [r(2, 3, 8, 8)]),
    "batch norm": (lambda: nn.BatchNorm2d(3), lambda: [r(2, 3, 4, 4)]),
    "layer norm": (lambda: nn.LayerNorm(8), lambda: [r(2, 3, 8)]),
    "group norm": (lambda: nn.GroupNorm(2, 4), lambda: [r(2, 4, 5, 5)]),
    "embedding": (lambda: nn.Embedding(10, 4), lambda: [torch.randint(0, 10, (2, 3))]),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), lambda: [r(2, 5, 8)]),
    "prelu": (nn.PReLU, lambda: [r(2, 6)]),
    "glu": (nn.GLU, lambda: [r(2, 6)]),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), lambda: [r(1, 8, 3, 3)]),
    "bilinear": (lambda: nn.Bilinear(3, 4, 5), lambda: [r(2, 3), r(2, 4)]),
    "cosine similarity": (nn.CosineSimilarity, lambda: [r(3, 4), r(3, 4)]),
}
FUNCTIONS = {
    "softmax": (lambda a: a.softmax(1), (2, 3, 4)),
    "log_softmax": (lambda a: a.log_softmax(0), (2, 3)),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), (2, 2, 6, 4)),
    "matmul, broadcast batch": (lambda a, b: a @ b, (2, 1, 3, 4), (3, 4, 5)),
    "transposed matmul": (lambda a, b: a.t() @ b.t(), (4, 3), (5, 4)),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), (2, 3, 4), (2, 5, 4)),
    "tensordot": (lambda a, b: torch.tensordot(a, b, 1), (3, 4), (4, 5)),
    "std": (lambda a: a.std(1), (3, 4)),
    "var": (lambda a: a.var(0, unbiased=False), (3, 4)),
    "norm": (lambda a: a.norm(dim=1), (3, 4)),
    "logsumexp": (lambda a: a.logsumexp(1), (3, 4)),
    "cumsum": (lambda a: a.cumsum(1), (3, 4)),
    "max with index": (lambda a: tuple(a.max(1)), (3, 4)),
    "argmax": (lambda a: a.argmax(1), (3, 4)),
    "prod": (lambda a: a.prod(1), (3, 4)),
    "any": (lambda a: (a > 1).any(1), (3, 4)),
    "index": (lambda a: a[:, torch.tensor([0, -1])], (3, 4)),
    "gather": (lambda a: a.gather(1, torch.tensor([[3, 0], [1, 1]])), (2, 4)),
    "one_hot": (lambda a: F.one_hot((a > 0).long(), 3), (3, 4)),
    "select_scatter": (lambda a: torch.select_scatter(a, a[0] * 2, 0, 1), (3, 4)),
    "chunk and cat": (lambda a: torch.cat(a.chunk(2, 1)[::-1], 1), (3, 4)),
    "stack": (lambda a: torch.stack([a, a + 1], 1), (3, 4)),
    "roll": (lambda a: a.roll((1, -1), (0, 1)), (3, 4)),
    "flip": (lambda a: a.flip(0), (3, 4)),
    "repeat": (lambda a: a.repeat(2, 3), (3, 4)),
    "a slice of nothing, joined": (lambda a: torch.cat([a.sin(), a[:, 5:].cos()], 1), (3, 5)),
    "a slice of nothing, alone": (lambda a: (a + a[2:1].sum(), a[3:] * 2, a[:, 5:].transpose(0, 1)), (3, 5)),
    "product over nothing": (lambda a: a[:, :0] @ a[:0], (4, 4)),
    "strided slice": (lambda a: a[1:, ::2], (3, 5)),
    "reflection pad": (lambda a: F.pad(a, (1, 2), mode="reflect"), (1, 3, 5)),
    "constant pad": (lambda a: F.pad(a, (1, -1, 0, 2), value=0.5), (3, 5)),
    "tril": (lambda a: a.tril(-1), (4, 4)),
    "diagonal": (lambda a: a.diagonal(1), (4, 4)),
    "movedim": (lambda a: a.movedim(0, -1), (2, 3, 4)),
    "unbind": (lambda a: tuple(a.unbind(1)), (3, 2)),
    "connectionist loss, batch first": (
        lambda a: F.ctc_loss(
            a.log_softmax(2).transpose(0, 1),
            torch.tensor([[1, 2], [3, 3]]),
            (a.sum((1, 2)) < 9).long() + 5,
            torch.tensor([2, 1]),
        ),
        (2, 6, 4),
    ),
    "counts of every other": (lambda a: torch.bincount((a > 0).long().flatten()[::2], minlength=3), (3, 4)),
    "one_hot, transposed": (lambda a: F.one_hot((a > 0).long().t(), 3), (3, 4)),
    "distances of columns": (lambda a, b: torch.cdist(a.t(), b.t()), (3, 30), (3, 28)),
    "huber loss": (lambda a, b: F.huber_loss(a, b), (3, 4), (3, 4)),
    "kl_div": (lambda a, b: F.kl_div(a, b.softmax(1), reduction="batchmean"), (3, 4), (3, 4)),
    "binary cross-entropy": (lambda a, b: F.binary_cross_entropy_with_logits(a, b.sigmoid()), (3, 4), (3, 4)),
}


def run(model, inputs):
    model.eval()
    with torch.no_grad():
        expected = model(*inputs)
    actual = poptorch.inferenceModel(model)(*inputs)
    if not isinstance(expected, tuple):
        expected, actual = (expected,), (actual,)
    for e, a in zip(expected, actual, strict=True):
        assert a.shape == e.shape
        torch.testing.assert_close(a.to(e.dtype), e, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_layer_equals_torch(name):
    torch.manual_seed(0)
    make, inputs = CASES[name]
    run(make(), inputs())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_equals_torch(name):
    torch.manual_seed(0)
    function, *shapes = FUNCTIONS[name]
    run(Call(function), [r(*shape) for shape in shapes])


class Loss(nn.Module):
    def __init__(self, layer, loss):
        super().__init__()
        self.layer, self.loss = layer, loss

    def forward(self, x, target):
        out = self.layer(x)
        return out, self.loss(out, target)


LOSSES = {
    "mse": (nn.MSELoss(), lambda: r(4, 3)),
    "l1": (nn.L1Loss(reduction="sum"), lambda: r(4, 3)),
    "smooth l1": (nn.SmoothL1Loss(), lambda: r(4, 3)),
    "cross-entropy": (nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=1), lambda: torch.tensor([0, 2, 1, 2])),
    "binary cross-entropy": (nn.BCEWithLogitsLoss(), lambda: torch.rand(4, 3)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_training_step_with_this_loss_equals_torch(name):
    torch.manual_seed(0)
    loss, target = LOSSES[name]
    layer = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 3))
    model, x, y = Loss(layer, loss), r(4, 5), target()
    reference = Loss(nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.Tanh(), nn.Linear(6, 3)), loss)
    reference.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    poptorch_model = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(3):
        _, expected = reference(x, y)
        optimizer.zero_grad()
        expected.backward()
        optimizer.step()
        _, actual = poptorch_model(x, y)
        torch.testing.assert_close(actual, expected.detach(), rtol=1e-5, atol=1e-6)
    poptorch_model.copyWeightsToHost()
    for key, value in reference.state_dict().items():
        torch.testing.assert_close(model.state_dict()[key], value, rtol=1e-5, atol=1e-6)

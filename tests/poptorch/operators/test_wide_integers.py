"""64-bit integers meet a device with 32 bits: values of tensors, numbers in the program, sizes and places."""

import re
import warnings

import pytest
import torch
import torch.nn.functional as F
from models import Call
from torch import nn

import poptorch

TABLE = torch.arange(12.0).view(4, 3)
BOUNDS = "outside of [-2147483648, 2147483647]; the IPU has 32-bit integers, so bring the values in range on the host"


def test_an_index_that_would_wrap_is_an_error_with_its_line():
    run = poptorch.inferenceModel(Call(lambda k: F.embedding(k, TABLE.to(k.device))))
    k = torch.tensor([[3, 1], [0, 2]])
    assert torch.equal(run(k), F.embedding(k, TABLE))
    k[1, 0] = 2**32 + 1
    with pytest.raises(poptorch.Error) as raised:
        run(k)
    first, where = raised.value.message.splitlines()
    assert re.fullmatch(
        rf"integer does not fit \[IPU-E407\]: element \[1,0\] of input '.*' is 4294967297, {re.escape(BOUNDS)}", first
    )
    assert "kernel embedding" in where and "test_wide_integers.py:" in where
    k[1, 0] = 1
    assert torch.equal(run(k), F.embedding(k, TABLE))


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**63 - 1, -(2**63)])
def test_any_integer_input_beyond_32_bits_is_an_error(value):
    run = poptorch.inferenceModel(Call(lambda a, b: a + b))
    a = torch.tensor([1, 2**31 - 1, -(2**31)])
    assert run(a, torch.zeros(3, dtype=torch.int64)).tolist() == a.tolist()
    a[2] = value
    with pytest.raises(poptorch.Error, match=rf"element \[2\] of input '.*' is {value}, outside"):
        run(a, torch.zeros(3, dtype=torch.int64))
    assert run(torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.int64)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("replicas, iterations", [(2, 1), (1, 3), (2, 2)])
def test_the_place_is_that_in_the_tensor_of_the_whole_call(replicas, iterations):
    options = poptorch.Options().replicationFactor(replicas).deviceIterations(iterations)
    run = poptorch.inferenceModel(Call(lambda k: k * 2), options)
    k = torch.arange(4 * replicas * iterations * 2).view(-1, 2)
    assert torch.equal(run(k), k * 2)
    last = k.shape[0] - 1
    k[last, 1] = 2**40
    with pytest.raises(poptorch.Error, match=rf"element \[{last},1\] of input '.*' is 1099511627776, outside"):
        run(k)


def test_pipelined_targets_are_checked():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 5)

        def forward(self, x, target):
            poptorch.Block.start("a", ipu_id=0)
            x = self.first(x)
            poptorch.Block.start("b", ipu_id=1)
            return poptorch.identity_loss(F.cross_entropy(self.second(x), target), "mean")

    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    trainer = poptorch.trainingModel(Net(), options)
    x, target = torch.randn(8, 3), torch.arange(8) % 5
    trainer(x, target)
    target[7] += 2**32
    with pytest.raises(poptorch.Error, match=r"element \[7\] of input 'target' is 4294967298, outside"):
        trainer(x, target)
    trainer(x, target % 5)
    trainer.destroy()


class Counting(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.register_buffer("count", torch.tensor([value, 1]))

    def forward(self, x):
        self.count.add_(1)
        return x + self.count


def test_a_buffer_beyond_32_bits_is_an_error():
    with pytest.raises(poptorch.Error, match=f"integer does not fit .*: 'count' holds 4294967299, {re.escape(BOUNDS)}"):
        poptorch.inferenceModel(Counting(2**32 + 3))(torch.zeros(2))
    assert poptorch.inferenceModel(Counting(2**31 - 2))(torch.zeros(2)).tolist() == [2.0**31, 2.0]


def test_float64_that_becomes_infinite_is_warned_of_once(capfd):
    run = poptorch.inferenceModel(Call(lambda x: x * 1))
    x = torch.tensor([1.0, 0.1, float("inf")], dtype=torch.float64)
    run(x)
    assert "beyond float32" not in capfd.readouterr().err
    x[0] = -1e39
    assert run(x).tolist()[0] == float("-inf")
    run(x)
    text = capfd.readouterr().err
    assert text.count("holds 1 value beyond float32, the type the device computes in: infinite there") == 1


NUMBERS = {
    "add": lambda k: k + 2**40,
    "fill": lambda k: torch.zeros_like(k).fill_(-(2**40)),
    "mask": lambda k: k.masked_fill(k > 1, torch.iinfo(torch.int64).min),
    "full": lambda k: torch.full_like(k, 2**40),
    "arange": lambda k: k + torch.arange(2**31 - 2, 2**31 + 1, device=k.device),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_among_integers_are_clamped_with_a_warning(name):
    k = torch.tensor([0, 0, 3])
    with pytest.warns(UserWarning, match="do not fit 32 bits"):
        result = poptorch.inferenceModel(Call(NUMBERS[name]))(k)
    assert result.tolist()[:2] == NUMBERS[name](k).clamp(-(2**31), 2**31 - 1).tolist()[:2]


def test_numbers_among_floats_and_ends_of_slices_are_as_wide_as_they_come():
    x = torch.tensor([1.0, -(2.0**45)])
    functions = (
        lambda x: x + 2**40,
        lambda x: x > 2**40,
        lambda x: x[-(2**40) : 2**62 : 2**40],
        lambda x: x.expand(2, 2).tril(2**40),
        lambda x: x.expand(2, 2).triu(-(2**40)),
        lambda x: x.roll(2**40 + 1),
        lambda x: torch.randint(0, 2**31, (2,), device=x.device) >= 0,
    )
    for function in functions:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*32 bits.*")
            result = poptorch.inferenceModel(Call(function))(x)
        assert torch.equal(result, function(x))


IMAGE = torch.linspace(-2, 2, 16).reshape(1, 1, 4, 4)
ROW = torch.linspace(-1, 1, 8)
WIDE = 2**40
ATEN = r"argument out of range .*: '{}' of aten::{} is \d+; the IPU has 32-bit integers"
SIZES = {
    "max_pool2d": (lambda x: F.max_pool2d(x, 2, stride=WIDE), IMAGE, ATEN.format("stride", "max_pool2d.*")),
    "max_pool2d, padded": (
        lambda x: F.max_pool2d(x, 65536, padding=32768),
        IMAGE,
        "more elements than 32 bits can count",
    ),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2, stride=2**31), IMAGE, ATEN.format("stride", "avg_pool2d")),
    "avg_pool2d, padded": (
        lambda x: F.avg_pool2d(x, 65536, padding=32768),
        IMAGE,
        "more elements than 32 bits can count",
    ),
    "convolution": (lambda x: F.conv2d(x, x[:, :, :2, :2], stride=WIDE), IMAGE, ATEN.format("stride", "conv.*")),
    "padded convolution": (
        lambda x: F.conv2d(x, x[:, :, :2, :2], padding=2**30, stride=2**30),
        IMAGE,
        r"places have 32 bits, up to 2147483647",
    ),
    "unfold": (lambda x: F.unfold(x, 2, stride=WIDE), IMAGE, ATEN.format("stride", "im2col")),
    "unfold, padded": (lambda x: F.unfold(x, 65536, padding=32768), IMAGE, "more places than 32 bits can number"),
    "Tensor.unfold": (lambda x: x.unfold(0, 2, WIDE), ROW, ATEN.format("step", "unfold")),
    "repeat": (lambda x: x.repeat(WIDE), ROW, ATEN.format("repeats", "repeat")),
    "repeat_interleave": (lambda x: x.repeat_interleave(WIDE), ROW, ATEN.format("repeats", "repeat_interleave.*")),
    "pad": (lambda x: F.pad(x, (0, WIDE)), ROW, ATEN.format("pad", "(pad|constant_pad_nd)")),
    "one_hot": (lambda x: F.one_hot(x.int().long(), WIDE), ROW, ATEN.format("num_classes", "one_hot")),
    "interpolate": (
        lambda x: F.interpolate(x, size=(WIDE, 1)),
        IMAGE,
        ATEN.format("output_size", "upsample_nearest2d"),
    ),
    "expand": (lambda x: x.expand(WIDE, 8).sum(), ROW, "attribute out of range .*: 'shape' of expand is 1099511627776"),
    "full": (lambda x: x.sum() + torch.full((WIDE,), 1.0, device=x.device).sum(), ROW, "can't allocate|out of range"),
    "ignore_index": (
        lambda x: F.cross_entropy(x[0, 0], torch.tensor([0, 1, 2, 3]), ignore_index=2**32),
        IMAGE,
        ATEN.format("ignore_index", "cross_entropy_loss"),
    ),
    "randint": (lambda x: x + torch.randint(0, WIDE, (8,), device=x.device), ROW, ATEN.format("high", "randint.*")),
    "kernel of 2^31": (lambda x: F.max_pool2d(x, 2**31), IMAGE, "Output size is too small|overflow"),
    "topk": (lambda x: x.topk(WIDE)[0], ROW, "k not in range for dimension"),
    "narrow": (lambda x: x.narrow(0, 0, WIDE), ROW, "exceeds dimension size"),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_beyond_32_bits_are_refused_with_the_line(name):
    function, x, what = SIZES[name]
    with pytest.raises((poptorch.Error, RuntimeError)) as raised:  # torch's own where torch refuses
        poptorch.inferenceModel(Call(function))(x)
    assert re.search(what, str(raised.value)), str(raised.value)
    if isinstance(raised.value, poptorch.Error):
        assert "test_wide_integers.py" in str(raised.value)

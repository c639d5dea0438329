"""Half precision and the other element types, in inference and training.

Half models are compared with the same model in float32 on the same rounded inputs and weights: 2e-3 of the largest value.
"""

import copy
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from torch import nn

import poptorch

BOUND = 2e-3


class Apply(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def infer(model, *args):
    return poptorch.inferenceModel(model if isinstance(model, nn.Module) else Apply(model))(*args)


def assert_close(half, wide, bound=BOUND):
    half, wide = half.detach().float(), wide.detach().float()
    assert half.shape == wide.shape
    error = (half - wide).abs().max() / wide.abs().max().clamp_min(1e-6)
    assert error <= bound, f"{error:.2e} is more than {bound:.0e}"


def rounded(model):
    """The model with float32 weights that are float16 values."""
    model = copy.deepcopy(model)
    for tensor in [*model.parameters(), *model.buffers()]:
        if tensor.is_floating_point():
            tensor.data = tensor.data.half().float()
    return model


def assert_half_matches(model, *args, bound=BOUND):
    """`model.half()` on half inputs, against float32; returns the half result."""
    wide = rounded(model)
    half = copy.deepcopy(wide).half()
    arguments = [a.half() if a.is_floating_point() else a for a in args]
    expected = wide(*[a.float() if a.is_floating_point() else a for a in arguments])
    result = infer(half, *arguments)
    assert result.dtype == torch.float16
    assert_close(result, expected, bound)
    return result


LAYERS = {
    "linear": (lambda: nn.Linear(40, 24), (6, 40)),
    "linear of one row": (lambda: nn.Linear(300, 70), (1, 300)),
    "linear without bias": (lambda: nn.Linear(33, 5, bias=False), (2, 7, 33)),
    "conv1d": (lambda: nn.Conv1d(6, 9, 3, padding=1, stride=2), (2, 6, 21)),
    "conv2d": (lambda: nn.Conv2d(5, 12, 3, padding=1), (2, 5, 9, 8)),
    "conv2d in groups": (lambda: nn.Conv2d(8, 12, 3, groups=4, dilation=2), (2, 8, 11, 10)),
    "depthwise conv2d": (lambda: nn.Conv2d(24, 24, 3, groups=24, padding=1), (2, 24, 9, 9)),
    "transposed conv2d": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1), (2, 4, 7, 7)),
    "batch norm": (lambda: nn.BatchNorm2d(6), (4, 6, 5, 5)),
    "batch norm, evaluated": (lambda: nn.BatchNorm2d(6).eval(), (4, 6, 5, 5)),
    "layer norm": (lambda: nn.LayerNorm(32), (3, 5, 32)),
    "group norm": (lambda: nn.GroupNorm(3, 12), (2, 12, 6, 6)),
    "instance norm": (lambda: nn.InstanceNorm2d(4, affine=True), (2, 4, 6, 6)),
    "RMS norm": (lambda: nn.RMSNorm(32), (3, 32)),
    "max pool": (lambda: nn.MaxPool2d(3, 2, 1), (2, 5, 9, 9)),
    "average pool": (lambda: nn.AvgPool2d(2), (2, 5, 8, 8)),
    "adaptive pool": (lambda: nn.AdaptiveAvgPool2d(2), (2, 5, 8, 8)),
    "PReLU": (lambda: nn.PReLU(6), (3, 6, 4)),
    "softmax": (lambda: nn.Softmax(-1), (4, 50)),
    "log softmax": (lambda: nn.LogSoftmax(1), (4, 11, 3)),
    "GELU": (lambda: nn.GELU(), (4, 50)),
    "SiLU": (lambda: nn.SiLU(), (4, 50)),
    "attention": (lambda: nn.MultiheadAttention(32, 4, batch_first=True), None),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_half_layer_matches_float32(name):
    torch.manual_seed(0)
    make, shape = LAYERS[name]
    if shape is None:
        x = torch.randn(2, 7, 32)
        layer = make()

        class SelfAttention(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = layer

            def forward(self, x):
                return self.layer(x, x, x, need_weights=False)[0]

        assert_half_matches(SelfAttention().eval(), x)
        return
    assert_half_matches(make(), torch.randn(*shape))


with torch.device("meta"):  # where nothing is drawn
    WITH_WEIGHTS = [n for n, (make, _) in LAYERS.items() if any(True for _ in make().parameters()) and n != "attention"]


@pytest.mark.parametrize("name", WITH_WEIGHTS)
@pytest.mark.parametrize(("layer_type", "input_type"), [("float", "half"), ("half", "float")])
def test_a_layer_computes_in_the_type_of_its_input(name, layer_type, input_type):
    torch.manual_seed(1)
    make, shape = LAYERS[name]
    layer, x = rounded(make()), torch.randn(*shape).half()
    expected = copy.deepcopy(layer)(x.float())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that it cannot fuse a mixed RMS norm
        result = infer(getattr(copy.deepcopy(layer), layer_type)(), getattr(x, input_type)())
    assert result.dtype == getattr(torch, input_type)
    assert_close(result, expected, BOUND if input_type == "half" else 1e-5)


def test_norms_of_large_halves_do_not_overflow():
    x = (torch.randn(8, 6, 5, 5) * 2000).clamp(-30000, 30000)
    for layer in (nn.BatchNorm2d(6), nn.LayerNorm(5), nn.GroupNorm(2, 6), nn.InstanceNorm2d(6), nn.RMSNorm(5)):
        result = assert_half_matches(layer, x)
        assert torch.isfinite(result).all()


def test_moments_and_norms_of_large_halves_do_not_overflow():
    x = (torch.randn(4, 300) * 100).half()
    for function in (
        lambda x: x.std(1),
        lambda x: torch.std_mean(x, 1)[1],
        lambda x: x.norm(dim=1),
        lambda x: torch.linalg.vector_norm(x, 3, dim=1),
        lambda x: torch.logsumexp(x, 1),
        lambda x: x.mean(1),
    ):
        result = infer(function, x)
        assert result.dtype == torch.float16
        assert_close(result, function(x.float()))


PRODUCTS = {
    "matmul": (lambda a, b: a @ b, (3, 4), (4, 5)),
    "matmul of batches": (lambda a, b: a @ b, (2, 3, 4), (2, 4, 5)),
    "matmul with a vector": (lambda a, b: a @ b, (3, 4), (4,)),
    "mm": (torch.mm, (3, 4), (4, 5)),
    "bmm": (torch.bmm, (2, 3, 4), (2, 4, 5)),
    "mv": (torch.mv, (3, 4), (4,)),
    "dot": (torch.dot, (4,), (4,)),
    "addmm": (lambda a, b: torch.addmm(torch.ones_like(b[0]), a, b), (3, 4), (4, 5)),
    "einsum": (lambda a, b: torch.einsum("ij,jk->ki", a, b), (3, 4), (4, 5)),
    "add": (torch.add, (3, 4), (4,)),
    "where": (lambda a, b: torch.where(a > 0, a, b), (3, 4), (3, 4)),
    "cat": (lambda a, b: torch.cat([a, b]), (3, 4), (2, 4)),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("half_first", [True, False])
def test_float16_with_float32_is_computed_in_float32(name, half_first):
    torch.manual_seed(2)
    function, *shapes = PRODUCTS[name]
    a, b = (torch.randn(*shape).half() for shape in shapes)
    mixed = (a, b.float()) if half_first else (a.float(), b)
    result = infer(function, *mixed)
    assert result.dtype == torch.float32
    assert_close(result, function(a.float(), b.float()), 1e-6)


@pytest.mark.parametrize("mask", [None, torch.float32, torch.bool])
def test_attention_takes_the_type_of_its_query_whatever_the_mask(mask):
    torch.manual_seed(3)
    q, k, v = (torch.randn(2, 3, 9, 16).half() for _ in range(3))
    allowed = torch.ones(9, 9).tril().bool()
    bias = None if mask is None else allowed if mask == torch.bool else torch.where(allowed, 0.0, -1e4)
    attention = nn.functional.scaled_dot_product_attention
    result = infer(lambda q, k, v: attention(q, k, v, attn_mask=bias), q, k, v)
    assert result.dtype == torch.float16
    assert_close(result, attention(q.float(), k.float(), v.float(), attn_mask=bias))


def test_casts_work_in_and_out_of_forward():
    x = torch.randn(3, 4)

    def forward(x):
        half = x.half()
        return half, half.float(), x.to(torch.float16) + half, x.type(torch.half), half.to(torch.float32), half.int()

    results = infer(forward, x)
    assert [r.dtype for r in results] == [getattr(torch, t) for t in ["half", "float", "half", "half", "float", "int"]]
    for result, expected in zip(results, forward(x), strict=True):
        assert torch.equal(result, expected)
    assert torch.equal(infer(lambda x: x.float() * 2, x.half()), x.half().float() * 2)


def test_elementwise_halves_round_after_every_operation():
    x, y = torch.randn(1000).half(), torch.randn(1000).half()

    def forward(x, y):
        return (x * y + x) * 0.375 - y / 3

    assert torch.equal(infer(forward, x, y), forward(x, y))


@settings(max_examples=examples(25))
@given(st.integers(1, 70), st.integers(1, 90), st.integers(1, 600), st.booleans(), st.booleans())
def test_products_of_any_shape_match_float32(m, n, k, transposed, relu):
    torch.manual_seed(m * n + k)
    x, w = torch.randn(m, k).half(), torch.randn(n, k).half()

    def forward(x, w):
        y = nn.functional.linear(x, w) if transposed else x @ w.t().contiguous()
        return torch.relu(y) if relu else y

    assert_close(infer(forward, x, w), forward(x.float(), w.float()).half())


@settings(max_examples=examples(25))
@given(
    st.integers(1, 3), st.sampled_from([(1, 1, 1), (3, 8, 1), (8, 8, 8), (6, 9, 3), (64, 70, 1)]), st.integers(1, 3),
    st.integers(1, 2), st.integers(0, 2), st.integers(7, 12),
)  # fmt: skip
def test_convolutions_of_any_shape_match_float32(batch, channels, kernel, stride, padding, size):
    torch.manual_seed(size)
    inputs, outputs, groups = channels
    layer = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, groups=groups)
    assert_half_matches(layer, torch.randn(batch, inputs, size, size + 1))


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.BatchNorm2d(6), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.conv1(x))), 2)
        x = nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


def transformer():
    block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    return nn.Sequential(block, nn.Flatten(), nn.Linear(7 * 32, 10))


MODELS = {"LeNet": (LeNet, (8, 1, 28, 28)), "transformer": (transformer, (8, 7, 32))}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("batch", [1, 8])
def test_a_half_model_matches_float32_in_inference(name, batch):
    torch.manual_seed(4)
    make, shape = MODELS[name]
    assert_half_matches(make().eval(), torch.randn(batch, *shape[1:]), bound=4e-3)


class WithLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, target):
        out = self.model(x)
        return out, self.loss(out, target)


OPTIMIZERS = {
    "SGD": lambda p, **k: poptorch.optim.SGD(p, lr=0.02, **k),
    "SGD with momentum": lambda p, **k: poptorch.optim.SGD(p, lr=0.02, momentum=0.9, **k),
    "SGD, half state": lambda p, **k: poptorch.optim.SGD(
        p, lr=0.02, momentum=0.9, accum_type=torch.half, velocity_accum_type=torch.half, use_combined_accum=False, **k
    ),
    "Adam": lambda p, **k: poptorch.optim.Adam(p, lr=1e-3, eps=1e-5, **k),
    "AdamW, half momentum": lambda p, **k: poptorch.optim.AdamW(
        p, lr=1e-3, eps=1e-5, accum_type=torch.half, first_order_momentum_accum_type=torch.half, **k
    ),
}


def losses_of(model, x, target, make_optimizer, steps, options=None):
    wrapped = WithLoss(model)
    optimizer = make_optimizer(wrapped.parameters())
    training = poptorch.trainingModel(wrapped, options=options, optimizer=optimizer)
    losses = [training(x, target)[1].float().mean() for _ in range(steps)]
    training.copyWeightsToHost()
    return torch.stack(losses)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_half_training_follows_float32(name, optimizer):
    torch.manual_seed(5)
    make, shape = MODELS[name]
    model, x, target = rounded(make()), torch.randn(*shape).half(), torch.randint(0, 10, (shape[0],))
    wide, half = copy.deepcopy(model), copy.deepcopy(model).half()
    expected = losses_of(wide, x.float(), target, OPTIMIZERS[optimizer], 20)
    losses = losses_of(half, x, target, lambda p: OPTIMIZERS[optimizer](p, loss_scaling=128.0), 20)
    assert losses[-1] < 0.9 * losses[0]
    assert_close(losses[:1], expected[:1])
    assert_close(losses, expected, 2e-2)
    assert {p.dtype for p in half.parameters()} == {torch.float16}


def test_one_step_of_half_training_gives_the_gradients_of_float32_to_a_rounding():
    torch.manual_seed(6)
    # Without maxima: a rounding makes ties, and another element of a window takes the gradient.
    features = (nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5, stride=2), nn.Tanh())
    model = rounded(nn.Sequential(*features, nn.Flatten(), nn.Linear(400, 84), nn.GELU(), nn.Linear(84, 10)))
    x, target = torch.randn(8, 1, 28, 28).half(), torch.randint(0, 10, (8,))
    half, wide = WithLoss(copy.deepcopy(model).half()), WithLoss(copy.deepcopy(model))
    wide(x.float(), target)[1].backward()
    optimizer = poptorch.optim.SGD(half.parameters(), lr=1.0, loss_scaling=64.0)
    training = poptorch.trainingModel(half, optimizer=optimizer)
    training(x, target)
    training.copyWeightsToHost()
    for (name, after), before, reference in zip(
        half.named_parameters(), model.parameters(), wide.parameters(), strict=True
    ):
        step = before.detach() - after.detach().float()
        error = (step - reference.grad).abs().max()
        assert error <= 5e-3 * reference.grad.abs().max() + 2**-11 * before.abs().max(), name


@pytest.mark.parametrize("inside", [False, True])
def test_float32_weights_under_half_inputs_are_trained_in_float32(inside):
    """The weights are rounded for each product; their updates are not: a thousandth of a step is not lost."""
    torch.manual_seed(7)
    layer = nn.Linear(16, 10)

    class Cast(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x.half() if inside else x)

    before = layer.weight.detach().clone()
    x, target = torch.randn(8, 16), torch.randint(0, 10, (8,))
    losses_of(Cast(), x if inside else x.half(), target, lambda p: poptorch.optim.SGD(p, lr=1e-5), 1)
    step = layer.weight.detach() - before
    assert layer.weight.dtype == torch.float32
    reference = rounded(nn.Linear(16, 10))
    reference.load_state_dict({"weight": before.half().float(), "bias": layer.bias.detach().half().float()})
    nn.functional.cross_entropy(reference(x.half().float()), target).backward()
    assert_close(step, -1e-5 * reference.weight.grad, 2e-2)


@pytest.mark.parametrize("float_statistics", [False, True])
def test_running_statistics_follow_the_module(float_statistics):
    torch.manual_seed(8)

    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.bn, self.fc = nn.BatchNorm1d(8), nn.Linear(8, 10)

        def forward(self, x):
            return self.fc(self.bn(x))

    model, reference = Normed().half(), nn.BatchNorm1d(8)
    if float_statistics:
        model.bn.running_mean, model.bn.running_var = model.bn.running_mean.float(), model.bn.running_var.float()
    x, target = (torch.randn(16, 8) * (800 if float_statistics else 30)).half(), torch.randint(0, 10, (16,))
    losses_of(model, x, target, lambda p: poptorch.optim.SGD(p, lr=0.0), 3)
    for _ in range(3):
        reference(x.float())
    kind = torch.float32 if float_statistics else torch.float16
    assert model.bn.running_var.dtype == model.bn.running_mean.dtype == kind
    assert_close(model.bn.running_var, reference.running_var, 1e-6 if float_statistics else BOUND)
    assert_close(model.bn.running_mean, reference.running_mean, 1e-5 if float_statistics else BOUND)
    if float_statistics:
        assert model.bn.running_var.max() > 65504


class TwoStages(nn.Module):
    def __init__(self, ipus=2):
        super().__init__()
        self.last_ipu = ipus - 1
        self.first, self.second, self.loss = nn.Linear(16, 32), nn.Linear(32, 10), nn.CrossEntropyLoss()

    def forward(self, x, target=None):
        with poptorch.Block("first", ipu_id=0):
            x = torch.relu(self.first(x))
        with poptorch.Block("second", ipu_id=self.last_ipu):
            x = self.second(x)
            return x if target is None else (x, self.loss(x, target))


@pytest.mark.parametrize("strategy", ["ShardedExecution", "PipelinedExecution"])
def test_half_models_train_alike_on_one_and_on_two_ipus(strategy):
    torch.manual_seed(9)
    model, x, target = TwoStages().half(), torch.randn(16, 16).half(), torch.randint(0, 10, (16,))

    def run(ipus):
        options = poptorch.Options()
        options.Training.gradientAccumulation(4)
        options.setExecutionStrategy(getattr(poptorch, strategy)())
        trained = TwoStages(ipus).half()
        trained.load_state_dict(model.state_dict())
        optimizer = poptorch.optim.SGD(trained.parameters(), lr=0.1, momentum=0.9, loss_scaling=32.0)
        training = poptorch.trainingModel(trained, options=options, optimizer=optimizer)
        losses = [training(x, target)[1] for _ in range(4)]
        assert training._executable.ipus_reserved == ipus
        training.copyWeightsToHost()
        return losses, [p.detach() for p in trained.parameters()]

    losses, weights = run(1)
    other_losses, other_weights = run(2)
    assert all(torch.equal(a, b) for a, b in zip(losses, other_losses, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(weights, other_weights, strict=True))
    assert losses[0].dtype == torch.float16


@pytest.mark.parametrize("loss", ["MSELoss", "L1Loss", "SmoothL1Loss", "BCEWithLogitsLoss", "HuberLoss", "KLDivLoss"])
def test_losses_of_halves_are_computed_in_float32(loss):
    torch.manual_seed(10)
    x, target = torch.randn(40, 30).half(), torch.rand(40, 30).half()
    if loss in ("MSELoss", "L1Loss"):
        x = x * 300  # squares beyond 65504, their mean is not
    function = getattr(nn, loss)()
    expected = function(x.float(), target.float())
    if expected > 65504:
        expected = torch.tensor(float("inf"))
    result = infer(lambda x, t: function(x, t), x, target)
    assert result.dtype == torch.float16
    assert result == expected if expected.isinf() else (result.float() - expected).abs() <= BOUND * expected.abs()


def test_embeddings_of_halves_are_trained():
    torch.manual_seed(11)
    model = nn.Sequential(nn.Embedding(20, 8), nn.Flatten(), nn.Linear(40, 10))
    index, target = torch.randint(0, 20, (6, 5)), torch.randint(0, 10, (6,))
    wide = rounded(model)
    expected = losses_of(copy.deepcopy(wide), index, target, OPTIMIZERS["SGD"], 10)
    assert_close(losses_of(wide.half(), index, target, OPTIMIZERS["SGD"], 10), expected, 5e-3)


# --- other types


def test_bfloat16_and_float64_are_float32_at_the_edges():
    x = torch.randn(3, 4)
    for kind in (torch.bfloat16, torch.float64):
        result = infer(lambda x: x * 2 + 1, x.to(kind))
        assert result.dtype == torch.float32
        assert torch.equal(result, x.to(kind).float() * 2 + 1)
    layer = nn.Linear(4, 2)
    double = copy.deepcopy(layer).double()
    assert_close(infer(double, x.double()), layer(x), 1e-6)
    assert double.weight.dtype == torch.float64
    assert infer(copy.deepcopy(layer).bfloat16(), x.bfloat16()).dtype == torch.float32


@pytest.mark.edge("22.3")
def test_bool_arithmetic_is_logic_and_sums_are_int32():
    a, b = torch.tensor([True, False, True, False]), torch.tensor([True, True, False, False])
    added, multiplied, total, product = infer(lambda a, b: (a + b, a * b, a.sum(), b[:2].prod()), a, b)
    assert torch.equal(added, a | b)
    assert torch.equal(multiplied, a & b)
    assert total.dtype == product.dtype == torch.int32
    assert (total, product) == (2, 1)


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_integer_division_floors_and_truncates(kind):
    a = torch.tensor([7, 3, 120, 5] if kind == torch.uint8 else [-7, 3, -120, 5]).to(kind)
    results = infer(lambda a: (a // 2, torch.div(a, 2, rounding_mode="trunc"), a % 4, torch.fmod(a, 4), a / 4), a)
    expected = (a // 2, torch.div(a, 2, rounding_mode="trunc"), a % 4, torch.fmod(a, 4), a / 4)
    for result, reference in zip(results, expected, strict=True):
        assert result.dtype == reference.dtype
        assert torch.equal(result, reference)


def test_constants_beyond_int32_are_clamped_with_a_warning():
    with pytest.warns(UserWarning, match="do not fit 32 bits"):
        result = infer(lambda x: x + torch.tensor([2**63 - 1, -(2**40), 5]), torch.tensor([0, 0, 1]))
    assert result.dtype == torch.int32
    assert result.tolist() == [2**31 - 1, -(2**31), 6]


def test_constants_that_are_returned_are_clamped_too():
    with pytest.warns(UserWarning, match="do not fit 32 bits"):
        result = infer(lambda x: (torch.full((2,), 2**63 - 1), x + 1), torch.zeros(1))[0]
    assert result.dtype == torch.int32
    assert result.tolist() == [2**31 - 1] * 2


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8])
@pytest.mark.parametrize("operator", ["__and__", "__or__", "__xor__", "__invert__"])
@pytest.mark.edge("22.4")
def test_bitwise_operations_on_bytes_are_refused(kind, operator):
    a = torch.tensor([1, 2, 3]).to(kind)
    arguments = () if operator == "__invert__" else (a,)
    with pytest.raises(poptorch.Error, match="bitwise ops on int8 and uint8; cast to int32 first"):
        infer(lambda a: getattr(a, operator)(*arguments), a)


def test_bitwise_operations_on_floats_are_refused():
    with pytest.raises(
        poptorch.Error, match=r"operand 'a' of bitwise_and is f32; allowed are i32, u32, i16, u16, bool"
    ):
        infer(lambda a: a & a, torch.randn(3))


def test_complex_values_are_refused():
    with pytest.raises(poptorch.Error, match="complex inputs are not supported: pass real and imaginary parts"):
        infer(lambda x: x * 2, torch.randn(3).to(torch.complex64))
    with pytest.raises(poptorch.Error, match="ComplexFloat does not exist on the IPU"):
        infer(lambda x: x.to(torch.complex64), torch.randn(3))
    with pytest.raises(poptorch.Error, match="a constant of type ComplexDouble cannot be used on the IPU"):
        infer(lambda x: x * 1j, torch.randn(3))

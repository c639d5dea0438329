"""poptorch.for_loop and poptorch.cond against plain Python loops and branches."""

import re

import pytest
import torch

import poptorch


class Model(torch.nn.Module):
    """A module from a function of (module, *inputs) and members."""

    def __init__(self, function, **members):
        super().__init__()
        self.function = function
        for name, member in members.items():
            if isinstance(member, torch.Tensor) and not isinstance(member, torch.nn.Parameter):
                self.register_buffer(name, member)
            else:
                setattr(self, name, member)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def infer(function, *inputs, options=None, **members):
    return poptorch.inferenceModel(Model(function, **members), options)(*inputs)


def agree(function, *inputs, **members):
    """The device computes what the CPU does; returns that."""
    torch.manual_seed(3)
    model = Model(function, **members)
    with torch.no_grad():
        wanted = model(*[x.clone() for x in inputs])
    given = poptorch.inferenceModel(model)(*inputs)
    single = isinstance(wanted, torch.Tensor)
    wanted, given = ([wanted], [given]) if single else (wanted, given)
    assert len(given) == len(wanted)
    for g, w in zip(given, wanted):
        assert g.shape == w.shape
        torch.testing.assert_close(g, w.to(g.dtype), rtol=1e-5, atol=1e-6)
    return wanted[0] if single else wanted


X = torch.arange(6.0).reshape(2, 3) / 4 - 0.5


# --- loops


@pytest.mark.shows("for_loop")
def test_a_loop_computes_what_a_python_loop_does():
    def plain(m, x):
        total = torch.zeros_like(x)
        for _ in range(4):
            total, x = total + x, x * 2
        return total, x

    def looped(m, x):
        return tuple(poptorch.for_loop(4, lambda total, x: (total + x, x * 2), [torch.zeros_like(x), x]))

    wanted = plain(None, X)
    given = agree(looped, X)
    assert all(torch.equal(g, w) for g, w in zip(given, wanted))


def test_the_program_has_a_loop_and_its_body_once():
    executor = poptorch.inferenceModel(Model(lambda m, x: poptorch.for_loop(50, torch.sin, [x])[0]))
    executor.compile(X)
    text = executor._executable.ir_text()
    assert text.count("sin(") == 1 and "trip=50" in text


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_a_for_loop_runs_its_body_as_often_as_asked(count):
    agree(lambda m, x: poptorch.for_loop(count, lambda x: [x * 1.5 + 1], [x])[0], X)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int64, torch.bool, torch.uint8])
def test_dtypes_of_carried_tensors(dtype):
    x = torch.tensor([1, 0, 3, 1]).to(dtype)
    result = agree(lambda m, x: poptorch.for_loop(3, lambda a, b: (b, a), [x, torch.zeros_like(x)]), x)
    assert result[1].dtype == dtype


def test_bodies_read_outer_tensors_parameters_and_constants():
    torch.manual_seed(0)

    def function(m, x, shift):
        scale = x.mean()
        return poptorch.for_loop(3, lambda h: torch.tanh(m.layer(h)) * scale + shift[0] + m.offset, [x])[0]

    agree(function, X, torch.ones(2, 3), layer=torch.nn.Linear(3, 3), offset=torch.tensor([1.0, 2.0, 3.0]))


def test_views_made_outside_are_read_inside_and_after():
    def function(m, x):
        row = x.transpose(0, 1)[1:]
        out = poptorch.for_loop(3, lambda h: h + row.reshape(-1)[:3] + x[0], [x])[0]
        return out + row.sum(), x.transpose(0, 1)[1:] * 2

    agree(function, X)


def test_arguments_are_copies_that_a_body_may_write():
    def function(m, x):
        def body(h):
            h += 1
            h[:, 0] *= 2
            h.narrow(1, 1, 1).add_(h[:, :1])
            return h

        y = x * 1
        return poptorch.for_loop(3, body, [y])[0], y

    wanted = agree(function, X)
    assert torch.equal(wanted[1], X)


def test_a_tensor_made_in_the_body_is_new_in_each_round():
    def body(h):
        scratch = torch.zeros(3)
        scratch += h.sum(0)
        scratch[1] = 5.0
        return h + scratch

    agree(lambda m, x: poptorch.for_loop(3, body, [x])[0], X)


def test_results_keep_their_places():
    def function(m, x, y):
        return tuple(poptorch.for_loop(3, lambda a, b, c: (b, c, a), [x, y, x + y]))

    agree(function, X, X * 3)


def test_loops_nest():
    def function(m, x):
        def outer(total, h):
            (inner,) = poptorch.for_loop(3, lambda t: t * 1.1 + h + m.offset, [total])
            (h,) = poptorch.for_loop(2, lambda t: poptorch.for_loop(2, lambda u: u + 0.5, [t * 1.5])[0], [h])
            return inner, h

        return tuple(poptorch.for_loop(2, outer, [torch.zeros_like(x), x]))

    agree(function, X, offset=torch.tensor(0.25))


def test_a_loop_of_constants_is_a_loop_of_the_program():
    model = Model(lambda m: poptorch.for_loop(4, lambda x: x * 2 + 1, [torch.zeros(3)])[0])
    executor = poptorch.inferenceModel(model)
    assert torch.equal(executor(), torch.full((3,), 15.0))
    assert "loop(" in executor._executable.ir_text()


def test_random_numbers_differ_between_rounds_and_come_again():
    def function(m, x):
        def body(out, round_):
            drawn = torch.rand(2, 3)
            return torch.where(torch.arange(4).view(4, 1, 1) == round_, drawn, out), round_ + 1

        return poptorch.for_loop(4, body, [torch.zeros(4, 2, 3), torch.zeros(1, dtype=torch.int32)])[0] + 0 * x

    options = poptorch.Options().randomSeed(7)
    rows = infer(function, X, options=options)
    assert len({tuple(row.flatten().tolist()) for row in rows}) == 4
    assert torch.equal(infer(function, X, options=poptorch.Options().randomSeed(7)), rows)
    assert not torch.equal(infer(function, X, options=poptorch.Options().randomSeed(8)), rows)


def test_random_numbers_of_nested_loops_all_differ():
    def function(m, x):
        def inner(out, at):
            drawn = torch.rand(3)
            return torch.where(torch.arange(6).view(6, 1) == at, drawn, out), at + 1

        def outer(out, at):
            return poptorch.for_loop(3, inner, [out, at])

        return poptorch.for_loop(2, outer, [torch.zeros(6, 3), torch.zeros(1, dtype=torch.int32)])[0] + 0 * x

    rows = infer(function, torch.zeros(6, 3))
    assert len({tuple(row.tolist()) for row in rows}) == 6


def test_loops_in_every_micro_batch_and_replica():
    options = poptorch.Options().deviceIterations(3).replicationFactor(2)
    x = torch.randn(12, 5)
    result = infer(lambda m, x: poptorch.for_loop(3, lambda h: h * h + 0.1, [x])[0], x, options=options)
    wanted = x
    for _ in range(3):
        wanted = wanted * wanted + 0.1
    torch.testing.assert_close(result, wanted)


def test_loops_in_the_stages_of_a_pipeline():
    def function(m, x):
        with poptorch.Block("a", ipu_id=0):
            (h,) = poptorch.for_loop(3, lambda h: torch.tanh(m.first(h)), [x])
        with poptorch.Block("b", ipu_id=1):
            (h,) = poptorch.for_loop(2, lambda t: m.second(t) + h, [h])
        return h

    torch.manual_seed(1)
    model = Model(function, first=torch.nn.Linear(4, 4), second=torch.nn.Linear(4, 4))
    for strategy in (poptorch.PipelinedExecution("a", "b"), poptorch.ShardedExecution("a", "b")):
        options = poptorch.Options().deviceIterations(4)
        options.setExecutionStrategy(strategy)
        x = torch.randn(8, 4)
        with torch.no_grad():
            wanted = torch.cat([model(part) for part in x.chunk(4)])
        torch.testing.assert_close(poptorch.inferenceModel(model, options)(x), wanted, rtol=1e-5, atol=1e-6)


def test_printing_in_a_body_shows_every_round(capfd):
    def body(h):
        return poptorch.ipu_print_tensor(h + 1, "round")

    infer(lambda m, x: poptorch.for_loop(3, body, [x])[0], torch.zeros(2))
    printed = [line for line in capfd.readouterr().err.splitlines() if line.startswith("round")]
    assert [re.sub(r"\D", "", line.split(":")[1])[:1] for line in printed] == ["1", "2", "3"]


def test_host_functions_run_in_every_round():
    calls = []

    def on_host(h):
        calls.append(h.clone())
        return h * 2

    def function(m, x):
        return poptorch.for_loop(3, lambda h: m.cpu(h) + 1, [x])[0]

    result = infer(function, torch.ones(2), cpu=poptorch.CPU(on_host, "double"))
    assert torch.equal(result, torch.full((2,), 15.0))
    assert [c[0].item() for c in calls[1:]] == [1.0, 3.0, 7.0]  # the first is that of the capture


# --- branches


@pytest.mark.shows("cond")
@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_computes_what_an_if_does(flag):
    def function(m, x, flag):
        (out,) = poptorch.cond(flag, lambda t: t + 1, [x], lambda t: t - 1, [x])
        return out

    wanted = agree(function, X, torch.tensor([flag]))
    assert torch.equal(wanted, X + 1 if flag else X - 1)


@pytest.mark.parametrize("flag", [True, False])
def test_lists_of_different_lengths_and_what_bodies_may_return(flag):
    def function(m, x, y, flag):
        whole = x * 2
        a = poptorch.cond(flag, lambda t: t, [x], lambda t, u: t * u + whole, [x, y])
        b = poptorch.cond(flag, lambda: whole, [], lambda: [m.offset.expand(2, 3)], [])
        same = lambda t: t * 3
        c = poptorch.cond(flag, same, [x], same, [y])
        return (*a, *b, *c)

    agree(function, X, X + 4, torch.tensor([flag]), offset=torch.tensor([1.0, 2.0, 3.0]))


def test_the_condition_is_decided_for_each_micro_batch():
    def function(m, x):
        (out,) = poptorch.cond(x.sum() > 0, lambda t: t * 10, [x], torch.neg, [x])
        return out

    x = torch.tensor([[1.0, 2.0], [-1.0, -2.0], [3.0, 1.0], [-5.0, 1.0]])
    result = infer(function, x, options=poptorch.Options().deviceIterations(4))
    assert torch.equal(result, torch.where(x.sum(1, keepdim=True) > 0, x * 10, -x))


def test_only_the_chosen_branch_runs(capfd):
    def function(m, x):
        shown = lambda title: lambda t: poptorch.ipu_print_tensor(t * 2, title)
        (out,) = poptorch.cond(x.sum() > 0, shown("then"), [x], shown("else"), [x])
        return out

    executor = poptorch.inferenceModel(Model(function))
    executor(torch.ones(2))
    printed = capfd.readouterr().err
    assert "then:" in printed and "else:" not in printed
    executor(-torch.ones(2))
    printed = capfd.readouterr().err
    assert "else:" in printed and "then:" not in printed


@pytest.mark.parametrize("first, second", [(True, True), (True, False), (False, True), (False, False)])
def test_branches_and_loops_nest(first, second):
    def function(m, x, a, b):
        def inner(t):
            return poptorch.cond(b, lambda u: u * 2 + m.offset, [t], lambda u: u - x, [t])

        def outer(t):
            return poptorch.for_loop(3, inner, [t])

        (out,) = poptorch.cond(a, outer, [x], lambda t: inner(t)[0] * 7, [x + 1])
        return out

    agree(function, X, torch.tensor([first]), torch.tensor([second]), offset=torch.tensor(0.5))


def test_a_condition_in_a_loop_depends_on_the_round():
    def body(h, count):
        (h,) = poptorch.cond(count % 2 == 0, lambda t: t + 1, [h], lambda t: t * 3, [h])
        return h, count + 1

    def function(m, x):
        return poptorch.for_loop(5, body, [x, torch.zeros(1, dtype=torch.int32)])[0]

    wanted = agree(function, X)
    assert torch.equal(wanted, ((X + 1) * 3 + 1) * 3 + 1)


def test_another_shape_of_the_else_branch_is_reshaped():
    def function(m, x, flag):
        (out,) = poptorch.cond(flag, lambda t: t + 1, [x], lambda t: t.reshape(6) - 1, [x])
        return out

    assert torch.equal(infer(function, X, torch.tensor([False])), X - 1)
    assert torch.equal(infer(function, X, torch.tensor([True])), X + 1)


def test_cond_takes_a_condition_that_is_constant():
    function = lambda m, x: poptorch.cond(torch.tensor(True), lambda t: t + 1, [x], lambda t: t - 1, [x])[0]
    assert torch.equal(infer(function, X), X + 1)


# --- training


def step(function, x, target, loops, **members):
    """Parameters after a training step on the device, and on the CPU."""
    torch.manual_seed(5)
    model = Model(function, **members)

    class WithLoss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, target):
            out = self.model(x)
            return out, torch.nn.functional.mse_loss(out, target)

    cpu = WithLoss()
    before = {name: p.detach().clone() for name, p in cpu.named_parameters()}
    optimizer = torch.optim.SGD(cpu.parameters(), lr=0.1)
    cpu(x, target)[1].backward()
    optimizer.step()
    wanted = {name: p.detach().clone() for name, p in cpu.named_parameters()}
    cpu.load_state_dict(before)
    trainer = poptorch.trainingModel(cpu, optimizer=poptorch.optim.SGD(cpu.parameters(), lr=0.1))
    trainer(x, target)
    trainer.copyWeightsToHost()
    for name, p in cpu.named_parameters():
        assert not torch.equal(wanted[name], before[name])
        torch.testing.assert_close(p.detach(), wanted[name], rtol=1e-4, atol=1e-6)


def test_a_loop_has_gradients():
    def function(m, x):
        return poptorch.for_loop(4, lambda h: torch.tanh(m.layer(h)) + 0.5 * x, [m.first(x)])[0]

    torch.manual_seed(2)
    step(function, torch.randn(5, 3), torch.randn(5, 3), 4, layer=torch.nn.Linear(3, 3), first=torch.nn.Linear(3, 3))


def test_nested_loops_have_gradients():
    def function(m, x):
        def outer(h, count):
            (h,) = poptorch.for_loop(3, lambda t: torch.sin(m.layer(t)) * m.scale, [h])
            return h + x, count + 1

        return poptorch.for_loop(2, outer, [x, torch.zeros(1, dtype=torch.int32)])[0]

    torch.manual_seed(2)
    scale = torch.nn.Parameter(torch.tensor([0.5, 1.0, 1.5]))
    step(function, torch.randn(5, 3), torch.randn(5, 3), 6, layer=torch.nn.Linear(3, 3), scale=scale)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_branch_has_gradients(sign):
    def function(m, x):
        (out,) = poptorch.cond(x.sum() > 0, lambda t: torch.tanh(m.layer(t)) * 2, [x], lambda t: m.layer(t * t), [x])
        return out

    torch.manual_seed(2)
    step(function, sign * torch.rand(5, 3), torch.randn(5, 3), 1, layer=torch.nn.Linear(3, 3))


def test_a_branch_in_a_loop_has_gradients():
    def function(m, x):
        def body(h, count):
            (h,) = poptorch.cond(count % 2 == 0, lambda t: torch.tanh(m.layer(t)), [h], lambda t: t * m.scale, [h])
            return h, count + 1

        return poptorch.for_loop(5, body, [x, torch.zeros(1, dtype=torch.int32)])[0]

    torch.manual_seed(2)
    scale = torch.nn.Parameter(torch.tensor([0.5, 1.0, 1.5]))
    step(function, torch.randn(5, 3), torch.randn(5, 3), 5, layer=torch.nn.Linear(3, 3), scale=scale)


def test_dropout_in_a_loop_has_the_mask_of_its_round_in_the_backward_pass():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(64))

        def forward(self, x):
            (out,) = poptorch.for_loop(3, lambda h: torch.nn.functional.dropout(h * self.scale, 0.3), [x])
            return out, poptorch.identity_loss(out, "sum")

    model = Net()
    trainer = poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=1.0))
    out, _ = trainer(torch.ones(64))
    trainer.copyWeightsToHost()
    # out = product of masks: where all three are open (1/0.7)^3, and d out / d scale = 3 out.
    assert 5 < (out == 0).sum() < 60
    torch.testing.assert_close(1.0 - model.scale.detach(), 3 * out.flatten())


class Shown(torch.nn.Module):
    """A loop with something between its operations, trained."""

    def __init__(self, between, rounds=3, nested=False):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(0.5))
        self.call, self.rounds, self.nested = {"between": between}, rounds, nested

    def forward(self, x):
        body = lambda h: torch.tanh(self.call["between"](h * self.scale))
        if self.nested:
            outer = lambda h: poptorch.for_loop(self.rounds, body, [h])
            (out,) = poptorch.for_loop(1 + self.rounds, outer, [x])
        else:
            (out,) = poptorch.for_loop(self.rounds, body, [x])
        return out, poptorch.identity_loss(out, "sum")


def trainer_of(model):
    return poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.1))


def test_a_backward_pass_prints_gradients_and_not_the_values_again(capfd):
    model = Shown(lambda h: poptorch.ipu_print_tensor(h, "h"))
    x = torch.tensor([0.25, -0.5])
    model(x)[1].backward()
    wanted = 0.5 - 0.1 * model.scale.grad
    model.scale.grad = None
    trainer = trainer_of(model)
    trainer(x)
    trainer.copyWeightsToHost()
    torch.testing.assert_close(model.scale.detach(), wanted)
    titles = [line.split(":")[0] for line in capfd.readouterr().err.splitlines() if line.startswith("h")]
    assert titles == ["h"] * 3 + ["h_gradient"] * 3


def test_what_the_backward_pass_would_repeat_is_refused():
    x = torch.ones(2)
    called = poptorch.CPU(lambda h: h * 2, "twice")
    for model in (Shown(called), Shown(lambda h: poptorch.ipu_print_tensor(h, "h"), nested=True)):
        with pytest.raises(poptorch.Error, match="not differentiable.*prints or calls the host") as caught:
            trainer_of(model)(x)
        assert "test_control_flow.py" in str(caught.value)


def test_gradients_taken_in_a_body():
    def function(m, x):
        def body(h):
            (slope,) = torch.autograd.grad((h * h * h).sum(), [h])
            return h - 0.1 * slope

        return poptorch.for_loop(3, body, [x])[0]

    result = infer(lambda m, x: function(m, x.requires_grad_()), X)
    wanted = X
    for _ in range(3):
        wanted = wanted - 0.1 * 3 * wanted * wanted
    torch.testing.assert_close(result, wanted)


# --- outside of forward


def test_on_the_cpu_they_are_loops_and_branches_with_gradients():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (y,) = poptorch.for_loop(3, lambda t: t * x, [x])
    assert torch.equal(y, x**4)
    y.sum().backward()
    assert torch.equal(x.grad, 4 * x.detach() ** 3)
    kept = torch.ones(2)
    assert torch.equal(poptorch.for_loop(2, lambda t: t.add_(1), [kept])[0], torch.full((2,), 3.0))
    assert torch.equal(kept, torch.ones(2))
    assert poptorch.cond(torch.tensor(False), lambda: None, [], lambda t: (t, t), [kept])[1] is not None


# --- errors: the same on the CPU and in forward, with the user's line


def raises(function, pattern, error=poptorch.Error, cpu=True, **members):
    if cpu:
        with pytest.raises(error, match=pattern):
            Model(function, **members)(X)
    with pytest.raises(error, match=pattern) as caught:
        infer(function, X, **members)
    return caught.value


def test_inputs_that_are_no_lists_of_tensors():
    raises(lambda m, x: poptorch.for_loop(2, lambda t: t, (x,)), "inputs must be a list of tensors, got tuple", ValueError)
    raises(lambda m, x: poptorch.for_loop(2, lambda t: t, [x, 1]), "got Tensor, int|got .*int", ValueError)
    flag = torch.tensor(True)
    raises(lambda m, x: poptorch.cond(flag, lambda t: t, x, lambda t: t, [x]), "then_inps must be a list", ValueError)
    raises(lambda m, x: poptorch.cond(flag, lambda t: t, [x], lambda t: t, x), "else_inps must be a list", ValueError)


@pytest.mark.parametrize("count", [-1, 2.0, True, torch.tensor(3), 2**31])
def test_counts_that_are_no_numbers_of_rounds(count):
    raises(lambda m, x: poptorch.for_loop(count, lambda t: t, [x]), "count must be an int in 0..2147483647, got")


def test_bodies_that_are_no_functions_or_return_no_tensors():
    flag = torch.tensor(True)
    raises(lambda m, x: poptorch.for_loop(2, 3, [x]), "body must be callable, got int")
    raises(lambda m, x: poptorch.cond(flag, lambda t: t, [x], None, [x]), "else_body must be callable, got NoneType")
    raises(lambda m, x: poptorch.for_loop(2, lambda t: None, [x]), "body must return a tensor.*got NoneType")
    raises(lambda m, x: poptorch.cond(flag, lambda t: (t, 1), [x], lambda t: t, [x]), "then_body must return.*int")


def test_bodies_that_return_another_number_shape_or_dtype():
    raises(lambda m, x: poptorch.for_loop(2, lambda t: (t, t), [x]), "takes 1 tensors and returns 2")
    error = raises(lambda m, x: poptorch.for_loop(2, lambda t: t + x[None], [x]), "loop body changes a type")
    assert "test_control_flow.py" in str(error) and "expand" in str(error)
    raises(lambda m, x: poptorch.for_loop(2, lambda t: t.half(), [x]), "loop body changes a type")


def test_branches_that_do_not_fit_each_other():
    flag = torch.tensor(True)
    raises(lambda m, x: poptorch.cond(flag, lambda t: (t, t), [x], lambda t: t, [x]), "2 tensors and else_body 1", cpu=False)
    for other in (lambda t: t[0], lambda t: t.half(), lambda t: t.sum()):
        raises(lambda m, x: poptorch.cond(flag, lambda t: t, [x], other, [x]), "branches of different types", cpu=False)
    scalar = lambda t: t.sum()
    raises(lambda m, x: poptorch.cond(flag, lambda t: t.sum()[None], [x], scalar, [x]), "of different types", cpu=False)


def test_conditions_that_are_no_condition():
    for condition in (True, torch.tensor(1), torch.tensor([True, False])):
        function = lambda m, x: poptorch.cond(condition, lambda t: t, [x], lambda t: t, [x])
        raises(function, "must be a bool tensor of one element")


def test_writes_to_outer_tensors_are_refused_with_the_line():
    def to_input(m, x):
        return poptorch.for_loop(2, lambda t: t + x.add_(1), [x * 2])

    def to_view_of_outer(m, x):
        row = (x * 1)[0]
        return poptorch.for_loop(2, lambda t: t + row.mul_(2), [x])

    def to_buffer(m, x):
        return poptorch.for_loop(2, lambda t: t + m.count.add_(1) * t.sum(), [x])

    def to_host_tensor(m, x):
        kept = torch.zeros(2, 3)
        return poptorch.for_loop(2, lambda t: kept.add_(t), [x])

    def to_cpu_tensor(m, x):
        kept = torch.zeros(2, 3, device="cpu")
        return poptorch.for_loop(2, lambda t: kept.copy_(t) + t, [x])

    def to_enclosing_body(m, x):
        def outer(t):
            own = t * 2
            return poptorch.for_loop(2, lambda u: u + own.add_(1), [t])

        return poptorch.for_loop(2, outer, [x])

    def in_a_branch(m, x):
        return poptorch.cond(x.sum() > 0, lambda t: m.count.add_(t.sum()) + t, [x], lambda t: t, [x])

    def to_data_of_a_buffer(m, x):
        def body(t):
            m.count.data = t.sum().view(1)
            return t

        return poptorch.for_loop(2, body, [x])

    for function in (to_input, to_view_of_outer, to_host_tensor, to_cpu_tensor, to_enclosing_body):
        error = raises(function, "write to an outer tensor", cpu=False)
        assert "test_control_flow.py" in str(error)
    for function in (to_buffer, in_a_branch, to_data_of_a_buffer):
        assert "buffer 'count'" in str(raises(function, "write to an outer tensor", cpu=False, count=torch.zeros(1)))


def test_tensors_of_a_body_are_not_read_outside():
    def leaks(m, x):
        seen = []
        (out,) = poptorch.for_loop(2, lambda t: seen.append(t * 2) or t + 1, [x])
        return out + seen[0]

    def returns(m, x):
        seen = []
        poptorch.cond(x.sum() > 0, lambda t: seen.append(t) or t, [x], lambda t: t, [x])
        return seen[0]

    for function in (leaks, returns):
        raises(function, "tensor of a body", cpu=False)


def test_values_are_not_known_in_a_body():
    raises(lambda m, x: poptorch.for_loop(2, lambda t: t + t[0, 0].item(), [x]), "value needed", cpu=False)


def test_blocks_and_fused_convolutions_around_bodies():
    def block(m, x):
        def body(t):
            with poptorch.Block("b", ipu_id=0):
                return t + 1

        return poptorch.for_loop(2, body, [x])

    def fused(m, x):
        with poptorch.MultiConv():
            return poptorch.for_loop(2, lambda t: m.conv(t[None])[0], [x])

    raises(block, "block in a body", cpu=False)
    raises(fused, "loop in a MultiConv", cpu=False, conv=torch.nn.Conv1d(2, 2, 1))


def test_unsupported_operations_in_bodies_are_listed():
    error = raises(lambda m, x: poptorch.for_loop(2, lambda t: torch.linalg.inv(t[:, :2]) @ t, [x]), "unsupported", cpu=False)
    assert "linalg" in str(error)


def test_a_body_that_fails_leaves_nothing_behind(capfd):
    def function(m, x):
        def fails(t):
            poptorch.ipu_print_tensor(t, "never")
            raise KeyError("mine")

        for call in (
            lambda: poptorch.for_loop(2, fails, [x]),
            lambda: poptorch.cond(x.sum() > 0, lambda t: t, [x], fails, [x]),
            lambda: poptorch.for_loop(2, lambda t: poptorch.for_loop(2, fails, [t]), [x]),
        ):
            with pytest.raises(KeyError, match="mine"):
                call()
        return poptorch.for_loop(2, lambda t: t + 1, [x])[0]

    assert torch.equal(infer(function, X), X + 2)
    assert "never" not in capfd.readouterr().err


# --- what stands in bodies


def test_a_constant_written_in_a_body():
    def forward(self, x):
        def body(h):
            constant = torch.zeros(3)
            h = h + constant
            constant[1] = 2.0
            return h + constant

        return poptorch.for_loop(2, body, [x])[0]

    agree(forward, X)


def test_a_constant_first_made_in_a_body_may_be_written_after_the_loop():
    def forward(self, x):
        made = []

        def body(h):
            if not made:
                made.append(torch.zeros(3))
            return h + made[0]

        (y,) = poptorch.for_loop(2, body, [x])
        made[0][0:2] = y[0, 0:2]
        return y + made[0]

    agree(forward, X)


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(context, a):
        context.save_for_backward(a)
        return a * a

    @staticmethod
    def backward(context, upstream):
        (a,) = context.saved_tensors
        return upstream * a * 3


def test_a_users_own_gradient_in_a_trained_body():
    class Net(torch.nn.Module):
        def __init__(self, is_rolled):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([0.5, -0.25, 1.0]))
            self.is_rolled = is_rolled

        def forward(self, x):
            def body(h):
                return torch.tanh(Tripled.apply(h * self.weight) + h)

            if self.is_rolled:
                (x,) = poptorch.for_loop(3, body, [x])
            else:
                x = body(body(body(x)))
            return poptorch.identity_loss(x, "sum")

    weights = []
    for is_rolled in (True, False):
        net = Net(is_rolled)
        step = poptorch.trainingModel(net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1))
        for _ in range(3):
            step(X)
        weights.append(net.weight.detach().clone())
        step.destroy()
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-6, atol=1e-7)
    assert not torch.allclose(weights[0], torch.tensor([0.5, -0.25, 1.0]), atol=1e-3)


def test_a_print_that_nobody_reads_does_not_print_in_a_body_either(capfd):
    def forward(self, x):
        def body(h):
            poptorch.ipu_print_tensor(h * 2, "dropped")
            return poptorch.ipu_print_tensor(h + 1, "kept")

        return poptorch.for_loop(2, body, [x])[0]

    infer(forward, X)
    shown = capfd.readouterr().err
    assert shown.count("kept") == 2 and "dropped" not in shown

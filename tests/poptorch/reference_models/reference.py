"""The numerics rule, and the same training run in plain torch.

Per tensor, ||ours - f64|| <= 3 max ||f32 - f64|| + 1e-6 ||f64||: f64 is the model in torch double, f32 the same in float, all from
the same start, step k against step k. One run in float can be right by luck, and says little of what float can do: the rule takes
the worst of `RUNS`, all but the first of them from weights and inputs that are moved by a rounding.
"""

import copy

import torch

RUNS = 4


def assert_follows_rule(ours, floats, exact, what, rounding=0.0):
    """`floats` are this tensor in each run of `samples`; `rounding` is what reading `ours` may add to its error."""
    assert len(floats) == RUNS
    ours, exact, *floats = (t.detach().double().reshape(-1) for t in (ours, exact, *floats))
    error, worst = (ours - exact).norm(), torch.stack([(each - exact).norm() for each in floats]).max()
    assert worst <= 0.01 * exact.norm(), f"{what}: a rounding decides it in torch, so the rule says nothing"
    allowed = 3 * worst + 1e-6 * exact.norm() + rounding
    assert error <= allowed, f"{what}: error {error:.3e}, allowed {allowed:.3e}"


def nudged(tensor, generator):
    """Each number moves at random by one or two units in its last place, or stays; whole ones stay: they may be labels."""
    if not tensor.is_floating_point():
        return tensor
    steps = torch.randint(-1, 2, tensor.shape, generator=generator)
    moved = (tensor * (1 + steps * torch.finfo(tensor.dtype).eps)).to(tensor.dtype)
    return torch.where(tensor == tensor.round(), tensor, moved)


def nudged_model(model, generator):
    model = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(nudged(parameter, generator))
    return model


def samples(model, inputs):
    """`RUNS` models with their inputs: these, and nudged ones."""
    generators = [torch.Generator().manual_seed(seed) for seed in range(1, RUNS)]
    return [(model, inputs), *((nudged_model(model, g), [nudged(tensor, g) for tensor in inputs]) for g in generators)]


def to_double(tensor):
    return tensor.double() if tensor.is_floating_point() else tensor


class TorchRun:
    """Trains a copy of `model` in plain torch, one update of `accumulation` micro-batches at a time.

    `make_optimizer` takes the copy. With `nudge`, a seed, weights and inputs are nudged.
    """

    def __init__(self, model, make_optimizer, accumulation, double=False, reduction="mean", nudge=None):
        self.nudges = None if nudge is None else torch.Generator().manual_seed(nudge)
        self.model = copy.deepcopy(model) if nudge is None else nudged_model(model, self.nudges)
        if double:
            self.model = self.model.double()
        self.double = double
        self.optimizer = make_optimizer(self.model)
        self.accumulation = accumulation
        self.divisor = accumulation if reduction == "mean" else 1

    def update(self, inputs):
        """One weight update on `inputs` (micro-batches concatenated along dimension 0); returns the losses, in order."""
        if self.double:
            inputs = [to_double(tensor) for tensor in inputs]
        if self.nudges is not None:
            inputs = [nudged(tensor, self.nudges) for tensor in inputs]
        self.optimizer.zero_grad()
        losses = []
        for parts in zip(*(tensor.chunk(self.accumulation) for tensor in inputs)):
            result = self.model(*parts)
            loss = result[-1] if isinstance(result, tuple) else result
            (loss / self.divisor).backward()
            losses.append(loss.detach())
        self.optimizer.step()
        return torch.stack(losses)


class TorchRuns:
    """The same training in f64 and `RUNS` times in f32."""

    def __init__(self, model, make_optimizer, accumulation, reduction="mean"):
        self.exact = TorchRun(model, make_optimizer, accumulation, double=True, reduction=reduction)
        self.floats = [
            TorchRun(model, make_optimizer, accumulation, reduction=reduction, nudge=nudge) for nudge in (None, *range(1, RUNS))
        ]

    def optimizers(self):
        return [run.optimizer for run in (self.exact, *self.floats)]

    def check_update(self, losses, inputs, number):
        """One weight update, whose losses must obey the rule."""
        exact, floats = self.exact.update(inputs), [run.update(inputs) for run in self.floats]
        assert_follows_rule(losses, floats, exact, f"losses of update {number}")

    def check_state(self, state, number):
        """Weights and buffers after so many updates obey the rule."""
        floats = [run.model.state_dict() for run in self.floats]
        for name, exact in self.exact.model.state_dict().items():
            assert_follows_rule(state[name], [each[name] for each in floats], exact, f"{name} after update {number}")


def compare_training(make_model, make_inputs, make_trainer, make_optimizer, device_iterations, accumulation, steps=20):
    """Runs at least `steps` updates on the IPUs and in torch (f32 and f64) and applies the rule to losses and weights.

    `make_inputs(rows_factor, generator)` gives the inputs of that many micro-batches; `make_trainer(model, optimizer)`
    a training wrapper with output mode All whose last result is the loss.
    """
    torch.manual_seed(11)
    start = make_model()
    ours = copy.deepcopy(start)
    runs = TorchRuns(start, lambda model: make_optimizer(model.parameters()), accumulation)
    trainer = make_trainer(ours, make_optimizer(ours.parameters()))
    generator = torch.Generator().manual_seed(5)
    done = 0
    while done < steps:
        inputs = make_inputs(device_iterations * accumulation, generator)
        result = trainer(*inputs)
        losses = result[-1] if isinstance(result, tuple) else result
        losses = losses.reshape(device_iterations, accumulation)
        for iteration, parts in enumerate(zip(*(tensor.chunk(device_iterations) for tensor in inputs))):
            runs.check_update(losses[iteration], parts, done + iteration)
        done += device_iterations
        runs.check_state(ours.state_dict(), done)
    trainer.destroy()

"""The numerics rule for training, and the same training run in plain torch.

Per tensor, ||ours - f64|| <= 3 ||torch32 - f64|| + 1e-6 ||f64||: f64 is the model in torch double, torch32 the same in
float, all from the same start, step k against step k.
"""

import copy

import torch


def assert_follows_rule(ours, torch32, f64, what):
    ours, torch32, f64 = (t.detach().double().reshape(-1) for t in (ours, torch32, f64))
    error = (ours - f64).norm()
    allowed = 3 * (torch32 - f64).norm() + 1e-6 * f64.norm()
    assert error <= allowed, f"{what}: error {error:.3e}, allowed {allowed:.3e}"


def farthest(runs, f64):
    """The tensor of several runs in float that lies farthest from f64's."""
    return max(runs, key=lambda tensor: (tensor.detach().double() - f64.detach()).norm())


def nudged(inputs, generator):
    """Inputs of which each number moves at random by 2^-23 of itself (one or two units in its last place), or stays."""

    def moved(tensor):
        steps = torch.randint(-1, 2, tensor.shape, generator=generator)
        return tensor * (1 + steps * 2.0**-23) if tensor.is_floating_point() else tensor

    return [moved(tensor) for tensor in inputs]


def to_double(tensor):
    return tensor.double() if tensor.is_floating_point() else tensor


class TorchRun:
    """Trains a copy of `model` in plain torch, one update of `accumulation` micro-batches at a time (mean reduction).

    With `nudge`, a seed, its inputs are nudged.
    """

    def __init__(self, model, make_optimizer, accumulation, double, reduction="mean", nudge=None):
        self.model = copy.deepcopy(model)
        if double:
            self.model = self.model.double()
        self.double = double
        self.optimizer = make_optimizer(self.model.parameters())
        self.accumulation = accumulation
        self.divisor = accumulation if reduction == "mean" else 1
        self.nudges = None if nudge is None else torch.Generator().manual_seed(nudge)

    def update(self, inputs):
        """One weight update on `inputs` (micro-batches concatenated along dimension 0); returns the losses, in order."""
        if self.double:
            inputs = [to_double(tensor) for tensor in inputs]
        if self.nudges is not None:
            inputs = nudged(inputs, self.nudges)
        self.optimizer.zero_grad()
        losses = []
        for parts in zip(*(tensor.chunk(self.accumulation) for tensor in inputs)):
            result = self.model(*parts)
            loss = result[-1] if isinstance(result, tuple) else result
            (loss / self.divisor).backward()
            losses.append(loss.detach())
        self.optimizer.step()
        return torch.stack(losses)


def compare_training(make_model, make_inputs, make_trainer, make_optimizer, device_iterations, accumulation, steps=20):
    """Runs at least `steps` updates on the IPUs and in torch (f32 and f64) and applies the rule to losses and weights.

    `make_inputs(rows_factor, generator)` gives the inputs of that many micro-batches; `make_trainer(model, optimizer)`
    a training wrapper with output mode All whose last result is the loss.
    """
    torch.manual_seed(11)
    start = make_model()
    ours = copy.deepcopy(start)
    t32 = TorchRun(start, make_optimizer, accumulation, double=False)
    f64 = TorchRun(start, make_optimizer, accumulation, double=True)
    trainer = make_trainer(ours, make_optimizer(ours.parameters()))
    generator = torch.Generator().manual_seed(5)
    done = 0
    while done < steps:
        inputs = make_inputs(device_iterations * accumulation, generator)
        result = trainer(*inputs)
        losses = result[-1] if isinstance(result, tuple) else result
        losses = losses.reshape(device_iterations, accumulation)
        for iteration, parts in enumerate(zip(*(tensor.chunk(device_iterations) for tensor in inputs))):
            l32, l64 = t32.update(parts), f64.update(parts)
            assert_follows_rule(losses[iteration], l32, l64, f"losses of update {done + iteration}")
        done += device_iterations
        state = ours.state_dict()
        for name, w64 in f64.model.state_dict().items():
            assert_follows_rule(state[name], t32.model.state_dict()[name], w64, f"{name} after update {done}")
    trainer.destroy()

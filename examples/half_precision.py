"""Three aids of float16 training on one small problem: loss scaling, automatic loss scaling, stochastic rounding.

A teacher network is learnt by a float16 student with small steps. Each part prints what its aid changes."""

import torch

import poptorch


class Student(torch.nn.Module):
    """Two float16 layers; the loss is taken in float32 and divided by `shrink`, which makes all gradients small."""

    def __init__(self, shrink=1.0):
        super().__init__()
        torch.manual_seed(0)
        self.shrink = shrink
        self.net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).half()

    def forward(self, x, target):
        loss = torch.nn.functional.mse_loss(self.net(x).float(), target)
        return loss, poptorch.identity_loss(loss / self.shrink, reduction="none")


def batches(count, rows=64):
    generator = torch.Generator().manual_seed(1)
    teacher = torch.randn(16, 1, generator=generator)
    for _ in range(count):
        x = torch.randn(rows, 16, generator=generator)
        yield x.half(), torch.sin(x @ teacher)


def train(model, optimizer, options, steps=100):
    """Losses of all steps, and of each step what `anchors` name."""
    trainer = poptorch.trainingModel(model, options, optimizer)
    losses, scales = [], []
    for x, target in batches(steps):
        losses.append(trainer(x, target)[0].item())
        if "scale" in options.anchored_tensors:
            scales.append(trainer.getAnchoredTensor("scale").item())
    trainer.destroy()
    return losses, scales


def loss_scaling():
    """Gradients below 6e-8 are 0 in float16. A loss that is larger by a factor keeps them; the update divides it out."""
    for scaling in (1.0, 65536.0):
        model = Student(shrink=2.0**26)
        before = model.net[0].weight.detach().clone()
        optimizer = poptorch.optim.SGD(model.parameters(), lr=0.2 * 2.0**26, loss_scaling=scaling)
        train(model, optimizer, poptorch.Options(), 20)
        moved = (model.net[0].weight != before).float().mean().item()
        print(f"loss scaling {scaling:7.0f}: {moved:4.0%} of the weights of the first layer moved")


def automatic_loss_scaling():
    """The device looks for the scaling itself: it doubles as long as no gradient comes near the largest float16."""
    model = Student()
    options = poptorch.Options()
    options.Training.setAutomaticLossScaling(True)
    options.anchorTensor("scale", "finalLossScale")
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, loss_scaling=128.0)
    losses, scales = train(model, optimizer, options, 40)
    print(
        f"automatic loss scaling: from {scales[0]:.0f} to {max(scales):.0f}, losses {losses[0]:.2f} to {losses[-1]:.2f}"
    )


def stochastic_rounding():
    """A step below half the distance of two halves is lost, or with stochastic rounding taken now and then."""
    for is_random in (False, True):
        model = Student()
        options = poptorch.Options().randomSeed(42)
        options.Precision.enableStochasticRounding(is_random)
        optimizer = poptorch.optim.Adam(model.parameters(), lr=2e-5, loss_scaling=128.0)
        losses, _ = train(model, optimizer, options, 600)
        first, last = (sum(part) / 20 for part in (losses[:20], losses[-20:]))
        rounding = "at random " if is_random else "to nearest"
        print(f"rounding {rounding}: mean loss {first:.4f} at first, lower by {first - last:.4f} after 600 steps")


if __name__ == "__main__":
    loss_scaling()
    automatic_loss_scaling()
    stochastic_rounding()

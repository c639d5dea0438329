"""A training loop of Hugging Face's Accelerate around poptorch's wrapper: digits on the emulated IPU.

Accelerate keeps what it does on the host: the loader, which it shuffles, and the checkpoint of model, optimizer, schedule and random
states. The wrapper stands where `accelerator.backward(loss)` and `optimizer.step()` did: a call is a whole update on the device.
The program trains in one go, then again in two halves with a checkpoint between them: the same bits.
"""

import os
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from digits import DigitNet, load

import poptorch

MICRO_BATCH, ACCUMULATION, EPOCHS = 16, 4, 6


def train(epochs, save=None, resume=None):
    """Trains for these epochs, from the checkpoint in folder `resume` on, and leaves one in `save`. Returns the model."""
    set_seed(5)
    accelerator = Accelerator(cpu=True)
    model, data = DigitNet(), load()[0]
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.005)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
    loader = torch.utils.data.DataLoader(data, MICRO_BATCH * ACCUMULATION, shuffle=True, drop_last=True)
    model, loader = accelerator.prepare(model, loader)
    accelerator.register_for_checkpointing(optimizer, schedule)  # not prepared: the device takes the steps
    if resume:
        accelerator.load_state(resume)
    options = poptorch.Options().outputMode(poptorch.OutputMode.All).showCompilationProgressBar(False)
    options.Training.gradientAccumulation(ACCUMULATION)
    step = poptorch.trainingModel(model, options, optimizer)
    for epoch in epochs:
        losses = []
        for images, labels in loader:
            losses.append(step(images, labels)[1].mean())
        schedule.step()
        step.setOptimizer(optimizer)
        accelerator.print(f"epoch {epoch + 1}  mean loss {torch.stack(losses).mean():.6f}")
    if save:
        accelerator.save_state(save)  # reads weights and optimizer state back from the device
    step.detachFromDevice()
    return accelerator.unwrap_model(model)


def main():
    with tempfile.TemporaryDirectory() as folder:
        whole = train(range(EPOCHS))
        print("again, in two halves:")
        train(range(EPOCHS // 2), save=os.path.join(folder, "half"))
        halves = train(range(EPOCHS // 2, EPOCHS), resume=os.path.join(folder, "half"))
    pairs = zip(whole.state_dict().values(), halves.state_dict().values())
    print(f"the same weights, to the last bit: {all(torch.equal(one, other) for one, other in pairs)}")
    images, labels = load()[1].tensors
    predictor = poptorch.inferenceModel(halves.eval(), poptorch.Options().deviceIterations(4))
    right = (predictor(images).argmax(1) == labels).sum().item()
    print(f"accuracy: {right}/{len(labels)} = {right / len(labels):.4f}")


if __name__ == "__main__":
    main()

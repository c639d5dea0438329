"""A LightningModule that trains on the emulated IPU: digits, with Lightning's loops, logs and checkpoints.

A call of poptorch's wrapper is a whole training step: forward, backward and update on the device. So the module says that it
optimizes by itself (`automatic_optimization = False`) and calls the wrapper. Prints what Lightning logged after each epoch, and
the accuracy of its checkpoint in plain PyTorch.
"""

import logging
import tempfile
import warnings

import pytorch_lightning as lightning
import torch
from digits import load

import poptorch

MICRO_BATCH, ACCUMULATION, EPOCHS = 16, 2, 6


class Net(torch.nn.Module):
    """Scores of the ten digits; their loss too, if labels are given."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 16, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(16 * 16, 10),
        )

    def forward(self, images, labels=None):
        scores = self.layers(images)
        return scores if labels is None else (scores, torch.nn.functional.cross_entropy(scores, labels))


class Digits(lightning.LightningModule):
    def __init__(self, rate=0.01):
        super().__init__()
        self.save_hyperparameters()
        self.automatic_optimization = False  # the wrapper does it, on the device
        self.net = Net()

    def configure_optimizers(self):
        optimizer = poptorch.optim.AdamW(self.net.parameters(), lr=self.hparams.rate)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)]

    def on_fit_start(self):
        options = poptorch.Options().outputMode(poptorch.OutputMode.All).showCompilationProgressBar(False)
        options.Training.gradientAccumulation(ACCUMULATION)
        self.step = poptorch.trainingModel(self.net, options, self.optimizers().optimizer)
        self.predict = poptorch.inferenceModel(self.net, poptorch.Options().showCompilationProgressBar(False))

    def training_step(self, batch, number):
        _, losses = self.step(*batch)
        self.log("loss", losses.mean(), on_epoch=True, on_step=False, batch_size=len(batch[1]))

    def on_train_epoch_end(self):
        self.lr_schedulers().step()
        self.step.setOptimizer(self.optimizers().optimizer)

    def validation_step(self, batch, number):
        images, labels = batch
        right = (self.predict(images).argmax(1) == labels).float().mean()
        self.log("accuracy", right, batch_size=len(labels))

    def on_fit_end(self):
        self.step.destroy()
        self.predict.destroy()


class Print(lightning.Callback):
    def on_train_epoch_end(self, trainer, module):
        logged = trainer.callback_metrics
        print(f"epoch {trainer.current_epoch + 1}  loss {logged['loss']:.4f}  accuracy {logged['accuracy']:.4f}")


def main():
    warnings.filterwarnings("ignore", module="pytorch_lightning")  # few workers of loaders, no logger
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    lightning.seed_everything(1, verbose=False)
    training, test = load()
    loader = torch.utils.data.DataLoader(training, MICRO_BATCH * ACCUMULATION, shuffle=True, drop_last=True)
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        callbacks=[Print()],
    )
    trainer.fit(Digits(), loader, torch.utils.data.DataLoader(test, batch_size=40))
    with tempfile.TemporaryDirectory() as folder:
        trainer.save_checkpoint(f"{folder}/digits.ckpt")
        plain = Digits.load_from_checkpoint(f"{folder}/digits.ckpt").eval()
    images, labels = test.tensors
    right = (plain.net(images).argmax(1) == labels).sum().item()
    print(f"the checkpoint in plain PyTorch: {right}/{len(labels)} = {right / len(labels):.4f}")


if __name__ == "__main__":
    main()

"""Trains a two-layer LSTM to remember: which of four letters stood where in a sequence of noise is asked at its end.

Prints the loss on the way and the accuracy on sequences it has not seen: on the emulated IPU, and of the same weights in
plain PyTorch.
"""

import torch
import torch.nn.functional as F

import poptorch

LETTERS, STEPS, BATCH, UPDATES = 4, 24, 32, 240


class Recaller(torch.nn.Module):
    """The letter that came with the mark, said after the last step. Letters without a mark do not count."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.LSTM(LETTERS + 1, 48, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(48, LETTERS)

    def forward(self, sequence, letter=None):
        _, (h, _) = self.layers(sequence)
        scores = self.head(h[-1])
        return scores if letter is None else (scores, F.cross_entropy(scores, letter))


def sequences(count, generator):
    """([count, STEPS, LETTERS + 1], [count]): letters one-hot, one of them marked in the last column."""
    letters = torch.randint(0, LETTERS, (count, STEPS), generator=generator)
    marked = torch.randint(0, STEPS, (count,), generator=generator)
    rows = torch.arange(count)
    x = torch.zeros(count, STEPS, LETTERS + 1)
    x[:, :, :LETTERS] = F.one_hot(letters, LETTERS)
    x[rows, marked, LETTERS] = 1.0
    return x, letters[rows, marked]


def main():
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    model = Recaller()
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.01)
    trainer = poptorch.trainingModel(model, None, optimizer)
    for update in range(UPDATES):
        _, loss = trainer(*sequences(BATCH, generator))
        if update % 40 == 39:
            print(f"update {update + 1:3d}  loss {loss.item():.4f}")
    trainer.detachFromDevice()

    x, letter = sequences(512, generator)
    predictor = poptorch.inferenceModel(model.eval())
    on_ipu = (predictor(x).argmax(1) == letter).sum().item()
    in_torch = (model(x).argmax(1) == letter).sum().item()
    print(f"accuracy on the IPU: {on_ipu}/512, in plain PyTorch: {in_torch}/512")


if __name__ == "__main__":
    main()

"""A language model of characters in plain torch.nn, pipelined over four emulated IPUs, learns the project's own documentation.

Prints the loss on the way, which begins at the logarithm of the number of characters, and a text that it writes by itself.
"""

import math
import pathlib

import torch

import poptorch

CONTEXT, WIDTH, HEADS, LAYERS = 32, 64, 4, 4
MICRO_BATCH, ACCUMULATION, UPDATES = 8, 8, 240
DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"


def text():
    """The sentences of the documentation in lower case, without its tables and programs."""
    pages = "\n".join(page.read_text() for page in sorted(DOCS.glob("**/*.md")))
    prose = " ".join(line for line in pages.splitlines() if line[:1].isalpha() and line.count(" ") > 8)
    return "".join(c for c in prose.lower() if " " <= c <= "~")


class LanguageModel(torch.nn.Module):
    """Scores of the next character after each of `text` [rows, CONTEXT]; with `following`, their loss too."""

    def __init__(self, characters):
        super().__init__()
        self.embedding = torch.nn.Embedding(characters, WIDTH)
        self.position = torch.nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(
                WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            for _ in range(LAYERS)
        )
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.scores = torch.nn.Linear(WIDTH, characters)
        self.register_buffer("mask", torch.nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, text, following=None):
        x = self.embedding(text) + self.position
        for number, layer in enumerate(self.layers):
            poptorch.Block.useAutoId()
            with poptorch.Block(f"layer {number}", ipu_id=number):
                x = layer(x, src_mask=self.mask, is_causal=True)
        with poptorch.Block("scores", ipu_id=LAYERS - 1):
            scores = self.scores(self.norm(x))
            if following is None:
                return scores
            return scores, torch.nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())


def train(model, numbers):
    options = poptorch.Options().outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(ACCUMULATION)
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=6e-3)
    trainer = poptorch.trainingModel(model, options, optimizer)
    generator = torch.Generator().manual_seed(1)
    for update in range(UPDATES + 1):
        starts = torch.randint(len(numbers) - CONTEXT, (MICRO_BATCH * ACCUMULATION, 1), generator=generator)
        windows = numbers[starts + torch.arange(CONTEXT + 1)]
        _, losses = trainer(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())
        if update % 40 == 0:
            print(f"update {update:3d}  loss {losses.mean():.4f}")
    trainer.detachFromDevice()


def written(model, characters, start, count):
    """`start` and `count` characters more, each drawn after the CONTEXT before it."""
    options = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())  # one window at a time
    predictor = poptorch.inferenceModel(model.eval(), options)
    generator = torch.Generator().manual_seed(2)
    numbers = [characters.index(c) for c in start]
    for _ in range(count):
        seen = numbers[-CONTEXT:]
        window = torch.tensor([seen + [0] * (CONTEXT - len(seen))])  # what follows is not looked at
        likely = torch.softmax(predictor(window)[0, len(seen) - 1] / 0.7, 0)
        numbers.append(torch.multinomial(likely, 1, generator=generator).item())
    return "".join(characters[number] for number in numbers)


def main():
    torch.manual_seed(0)
    corpus = text()
    characters = sorted(set(corpus))
    print(f"{len(corpus):,} characters, {len(characters)} different: loss of a guess {math.log(len(characters)):.2f}")
    numbers = torch.tensor([characters.index(c) for c in corpus])
    model = LanguageModel(len(characters))
    train(model, numbers)
    print(f"it writes: {written(model, characters, 'the ', 160)}")


if __name__ == "__main__":
    main()

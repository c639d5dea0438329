"""Loads sentences of different lengths in other processes while the device works.

    python examples/async_loading.py

A batch sampler makes micro-batches of as many sentences as fit into 64 words; `collate_fn` pads each of them by itself to one
shape, and the loader joins as many as a call takes. `DataLoaderMode.Async` gives the same items as `Sync`, but reading them (here:
a few milliseconds for each sentence) no longer keeps the device waiting.
"""

import time

import torch

import poptorch

WORDS, ROWS, SENTENCES, ITERATIONS = 64, 16, 240, 4
SECONDS_TO_READ = 0.002


class Sentences(torch.utils.data.Dataset):
    """Word numbers of one sentence, 4 to 16 of them; reading takes a while."""

    def __init__(self):
        generator = torch.Generator().manual_seed(1)
        self.lengths = torch.randint(4, 17, (SENTENCES,), generator=generator).tolist()

    def __len__(self):
        return SENTENCES

    def __getitem__(self, index):
        time.sleep(SECONDS_TO_READ)
        return torch.arange(1, self.lengths[index] + 1) + index


class UpTo:
    """Micro-batches of sentences in their order, each of at most `words` words and `rows` rows."""

    def __init__(self, lengths, words, rows):
        self.lengths, self.words, self.rows = lengths, words, rows

    def __iter__(self):
        batch, words = [], 0
        for index, length in enumerate(self.lengths):
            if batch and (words + length > self.words or len(batch) == self.rows):
                yield batch
                batch, words = [], 0
            batch.append(index)
            words += length
        yield batch


def padded(sentences):
    """One micro-batch as int64 [16, 16]; 0 stands where no word is."""
    out = torch.zeros(ROWS, ROWS, dtype=torch.int64)
    for row, sentence in enumerate(sentences):
        out[row, : len(sentence)] = sentence
    return out


class Scores(torch.nn.Module):
    """A number for each sentence."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.embedding = torch.nn.Embedding(SENTENCES + 17, 32, padding_idx=0)
        self.head = torch.nn.Linear(32, 1)

    def forward(self, words):
        return self.head(self.embedding(words).sum(1)).squeeze(1)


def run(mode, workers):
    """(scores of all sentences, seconds of the second epoch)."""
    options = poptorch.Options().deviceIterations(ITERATIONS).showCompilationProgressBar(False)
    sentences = Sentences()
    loader = poptorch.DataLoader(
        options,
        sentences,
        batch_sampler=UpTo(sentences.lengths, WORDS, ROWS),
        collate_fn=padded,
        num_workers=workers,
        mode=mode,
    )
    model = poptorch.inferenceModel(Scores().eval(), options)
    for _ in range(2):
        began = time.monotonic()
        scores = torch.cat([model(words) for words in loader])
    seconds = time.monotonic() - began
    loader.terminate()
    model.destroy()
    return scores, seconds


def main():
    here, seconds_here = run(poptorch.DataLoaderMode.Sync, 0)
    there, seconds_there = run(poptorch.DataLoaderMode.Async, 2)
    print(f"rows: {len(here)}, the same in both modes: {torch.equal(here, there)}")
    print(f"seconds of an epoch: {seconds_here:.3f} loaded here, {seconds_there:.3f} loaded by other processes")


if __name__ == "__main__":  # processes that load import this file anew
    main()

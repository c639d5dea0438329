"""Fine-tunes a BERT of Hugging Face's transformers, pipelined over two emulated IPUs, to tell praise from blame.

The sentences are made here: "the old play was not bad" is praise, so that single words do not tell. The model is a small one with
random weights (nothing is downloaded); one from a checkpoint is used in the same way. Prints the loss on the way, the share of new
sentences told right on the IPUs, and by the same weights in plain PyTorch.
"""

import itertools
import random

import torch
import transformers

import poptorch

EPOCHS, MICRO_BATCH, ACCUMULATION, ITERATIONS = 12, 8, 8, 2
GOOD, BAD = ("good", "great", "moving", "clever"), ("bad", "poor", "boring", "silly")
NOUNS, ADJECTIVES = ("film", "play", "book", "song", "story", "show"), ("old", "new", "long", "short")
VERBS, DEGREES = ("was", "is", "seemed"), ("", "not", "very", "not very")


def sentences():
    """Every sentence with its label: 1 praise, 0 blame."""
    for noun, adjective, verb, degree in itertools.product(NOUNS, ADJECTIVES, VERBS, DEGREES):
        for word in GOOD + BAD:
            yield f"the {adjective} {noun} {verb} {degree} {word}", int((word in GOOD) != degree.startswith("not"))


def data_sets():
    """(training, test) sets of (word numbers, mask, label), and the number of words; a quarter tests."""
    pairs = list(sentences())
    random.Random(1).shuffle(pairs)
    vocabulary = {
        word: number
        for number, word in enumerate(["[PAD]", "[CLS]", *sorted(set(" ".join(p[0] for p in pairs).split()))])
    }
    texts = [torch.tensor([1] + [vocabulary[word] for word in text.split()]) for text, _ in pairs]
    words = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
    data = words, (words != 0).long(), torch.tensor([label for _, label in pairs])
    split = len(pairs) // 4
    return [
        torch.utils.data.TensorDataset(*(t[part] for t in data)) for part in (slice(split, None), slice(split))
    ], len(vocabulary)


class PipelinedBert(torch.nn.Module):
    """What the wrapper calls: embeddings and the first layer on IPU 0, the second layer, pooler and classifier on IPU 1."""

    def __init__(self, config):
        super().__init__()
        self.bert = transformers.BertForSequenceClassification(config)
        poptorch.BeginBlock(self.bert.bert.encoder.layer[1], "second half", ipu_id=1)

    def forward(self, words, mask, label=None):
        out = self.bert(input_ids=words, attention_mask=mask, labels=label)
        return out.logits if label is None else (out.logits, out.loss)


def train(model, data):
    options = poptorch.Options().deviceIterations(ITERATIONS).randomSeed(3).outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(ACCUMULATION)
    loader = poptorch.DataLoader(options, data, batch_size=MICRO_BATCH, shuffle=True, drop_last=True)
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, len(loader), EPOCHS * len(loader))
    trainer = poptorch.trainingModel(model.train(), options, optimizer)
    for epoch in range(EPOCHS):
        losses = []
        for words, mask, label in loader:
            losses.append(trainer(words, mask, label)[1].mean())
            schedule.step()
            trainer.setOptimizer(optimizer)
        print(f"epoch {epoch + 1:2d}  mean loss {torch.stack(losses).mean():.4f}")
    trainer.detachFromDevice()


def main():
    torch.manual_seed(3)
    (training, test), words = data_sets()
    config = transformers.BertConfig(
        vocab_size=words,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=16,
        num_labels=2,
    )
    model = PipelinedBert(config)
    train(model, training)
    words, mask, label = test.tensors
    predictor = poptorch.inferenceModel(model.eval(), poptorch.Options().deviceIterations(len(label) // MICRO_BATCH))
    told = (predictor(words, mask).argmax(1) == label).sum().item()
    in_torch = (model(words, mask).argmax(1) == label).sum().item()
    print(f"told right on the IPUs: {told}/{len(label)}, in plain PyTorch: {in_torch}/{len(label)}")


if __name__ == "__main__":
    main()

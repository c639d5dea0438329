"""Trains a small network on handwritten digits, pipelined over two emulated IPUs and replicated twice.

Then it is scored and saved.

The saved executable is scored by a fresh process, too, which must get the same bits.

Prints what ran where, the losses, the accuracy over all test images, the time, the seed, and a hash of the weights: a
second run prints the same losses, scores and hash to the last bit.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import time

import torch
from digits import DigitNet, load
from predict_digits import predict, scores_hash
from tqdm import tqdm

import poptorch

SEED = 7
EPOCHS = 16
MICRO_BATCH, ACCUMULATION, REPLICAS, ITERATIONS = 8, 4, 2, 2


def weights_hash(model):
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def train(model, data):
    options = poptorch.Options().deviceIterations(ITERATIONS).randomSeed(SEED)
    options.replicationFactor(REPLICAS)
    options.Training.gradientAccumulation(ACCUMULATION)
    options.outputMode(poptorch.OutputMode.All)
    loader = poptorch.DataLoader(options, data, batch_size=MICRO_BATCH, shuffle=True)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.15, momentum=0.9)
    trainer = poptorch.trainingModel(model.train(), options, optimizer)
    with tqdm(total=EPOCHS * len(loader), desc="training") as bar:
        for epoch in range(EPOCHS):
            total = 0.0
            for images, labels in loader:
                _, loss = trainer(images, labels)
                total += loss.mean().item()
                bar.update(1)
            optimizer.param_groups[0]["lr"] *= 0.85
            trainer.setOptimizer(optimizer)
            bar.set_postfix(loss=f"{total / len(loader):.6f}")
            tqdm.write(f"epoch {epoch + 1:2d}  mean loss {total / len(loader):.9f}")
    return trainer


def make_predictor(model):
    """Inference in calls of 40 images (4 device iterations of 10)."""
    return poptorch.inferenceModel(model.eval(), poptorch.Options().deviceIterations(4))


def score(predictor, data):
    """Hits and the scores of the whole data set."""
    scores = predict(predictor, data)
    assert len(scores) == len(data), f"{len(scores)} of {len(data)} images were scored"
    return (scores.argmax(1) == data.tensors[1]).sum().item(), scores


def predict_elsewhere(predictor, path):
    """Saves the executable and has a fresh process score with it, one that does not know this file."""
    predictor.save(path)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "predict_digits.py")
    result = subprocess.run([sys.executable, script, path], check=True, stdout=subprocess.PIPE, text=True)
    print(result.stdout.strip())
    return result.stdout.split()[-1]


def main():
    started = time.time()
    torch.manual_seed(SEED)
    train_data, test_data = load()
    print(f"{len(train_data)} training images, {len(test_data)} test images, disjoint; seed {SEED}")
    model = DigitNet()
    trainer = train(model, train_data)  # kept: a wrapper that is dropped takes its device weights with it
    for ipu, part in enumerate(trainer._executable.memory()):
        held = sorted(name for name in part["variables"] if name in dict(model.named_parameters()))
        print(f"IPU {ipu} ran forward, backward and updates of {', '.join(held)}")
    predictor = make_predictor(model)
    hits, scores = score(predictor, test_data)
    seen = len(scores)
    print(f"accuracy on the IPUs: {hits}/{seen} = {hits / seen:.2%}  scores {scores_hash(scores)}")
    folder = tempfile.mkdtemp()
    there = predict_elsewhere(predictor, os.path.join(folder, "digits.poptorch"))
    assert there == scores_hash(scores), "the loaded executable gives other scores"
    trainer.destroy()

    path = os.path.join(folder, "digits.pt")
    torch.save(model.state_dict(), path)
    plain = DigitNet()
    plain.load_state_dict(torch.load(path))
    with torch.no_grad():
        images, labels = test_data.tensors
        plain_hits = (plain.eval()(images).argmax(1) == labels).sum().item()
    print(f"accuracy of the checkpoint in plain PyTorch: {plain_hits}/{seen} = {plain_hits / seen:.2%}")
    assert plain_hits == hits, "the checkpoint scores differently in plain PyTorch"
    assert hits / seen >= 0.97, "accuracy below 97 %"
    print(f"weights {weights_hash(model)}  losses above  time {time.time() - started:.1f} s")


if __name__ == "__main__":
    main()

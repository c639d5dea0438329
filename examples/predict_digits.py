"""Scores the test images with an executable that another program saved: `predict_digits.py FILE`.

Knows the model's class (module digits) and nothing of the training. Nothing is compiled here. Prints the accuracy and a
hash of the scores, which are those of the program that saved the file, to the last bit.
"""

import hashlib
import sys

import torch
from digits import load

import poptorch


def predict(predictor, data):
    """Scores of all images (tensor [images, 10]) in calls of as many as one call takes."""
    loader = poptorch.DataLoader(predictor.options, data, batch_size=10)
    return torch.cat([predictor(images) for images, _ in loader])


def scores_hash(scores):
    return hashlib.sha256(scores.contiguous().numpy().tobytes()).hexdigest()[:16]


def main():
    predictor = poptorch.load(sys.argv[1])
    _, test_data = load()
    scores = predict(predictor, test_data)
    hits = (scores.argmax(1) == test_data.tensors[1]).sum().item()
    assert len(scores) == len(test_data), f"{len(scores)} of {len(test_data)} images were scored"
    print(f"accuracy of the loaded executable in a fresh process: {hits}/{len(scores)}  scores {scores_hash(scores)}")


if __name__ == "__main__":
    main()

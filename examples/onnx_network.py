"""A network given as ONNX, trained on emulated IPUs and written back, without torch.

Shows the path from a file to a program: `read_onnx` gives plain records, `compile_model` turns them into a session that
trains the initialisers it is told to, and the new values go back into the file. The reference evaluator of the onnx
package then computes the same from it.

    python examples/onnx_network.py
"""

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import onnx.reference
from sklearn.datasets import load_digits

import ipu_core

BATCH, UPDATES, EPOCHS = 48, 30, 8

NETWORK = f"""
<ir_version: 8, opset_import: ["" : 17]>
digits (float[{BATCH},1,8,8] image, int64[{BATCH}] label) => (float[{BATCH},10] scores, float loss) {{
    maps = Conv<pads = [1, 1, 1, 1]>(image, conv_weight, conv_bias)
    positive = Relu(maps)
    pooled = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(positive)
    flat = Flatten(pooled)
    classes = Gemm<transB = 1>(flat, weight, bias)
    scores = LogSoftmax(classes)
    loss = NegativeLogLikelihoodLoss(scores, label)
}}
"""


def make_network():
    model = onnx.parser.parse_model(NETWORK)
    random = np.random.default_rng(0)
    weights = {
        "conv_weight": random.standard_normal((12, 1, 3, 3)) / 3,
        "conv_bias": np.zeros(12),
        "weight": random.standard_normal((10, 192)) / 14,
        "bias": np.zeros(10),
    }
    for name, value in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value.astype(np.float32), name))
    return model


def load(every=5):
    """(train, test) images [1,8,8] in 0..1 and labels. Every fifth image tests."""
    digits = load_digits()
    images, labels = (digits.images / 16.0).astype(np.float32)[:, None], digits.target.astype(np.int64)
    test = np.arange(len(labels)) % every == 0
    return (images[~test], labels[~test]), (images[test], labels[test])


def train(model, images, labels):
    names = [tensor.name for tensor in model.graph.initializer]
    records = ipu_core.read_onnx(model, trained=names)
    optimizer = {"kind": "sgd", "lr": 0.1, "momentum": 0.9}
    # One run makes UPDATES updates: inputs have a dimension of that size in front.
    session = ipu_core.compile_model(
        records, ipu_core.Program(loss="loss", optimizer=optimizer, device_iterations=UPDATES)
    )
    order = np.random.default_rng(1)
    for epoch in range(EPOCHS):
        chosen = order.permutation(len(labels))[: UPDATES * BATCH]
        chosen = np.concatenate([chosen, order.integers(0, len(labels), UPDATES * BATCH - len(chosen))])
        run = {
            "image": images[chosen].reshape(UPDATES, BATCH, 1, 8, 8),
            "label": labels[chosen].reshape(UPDATES, BATCH),
        }
        losses = session.run(run)["loss"]
        print(f"epoch {epoch + 1}: loss {losses.mean():.4f}")
    trained = onnx.ModelProto.FromString(model.SerializeToString())
    for tensor in trained.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(session.read(tensor.name), tensor.name))
    session.detach()
    return trained


def main():
    (images, labels), (test_images, test_labels) = load()
    trained = train(make_network(), images, labels)
    whole = len(test_labels) // BATCH * BATCH
    batches = [(test_images[i : i + BATCH], test_labels[i : i + BATCH]) for i in range(0, whole, BATCH)]
    session = ipu_core.compile_model(ipu_core.read_onnx(trained))
    reference = onnx.reference.ReferenceEvaluator(trained)
    hits, apart = 0, 0.0
    for image, label in batches:
        scores = session.run({"image": image, "label": label})["scores"]
        expected = reference.run(["scores"], {"image": image, "label": label})[0]
        hits += int((scores.argmax(1) == label).sum())
        apart = max(apart, float(np.abs(scores - expected).max()))
    print(f"accuracy: {hits}/{whole}")
    print(f"apart from the reference by at most 1e-4: {apart <= 1e-4}")


if __name__ == "__main__":
    main()

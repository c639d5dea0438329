"""Trains a small network on handwritten digits with PopART, saves it, and tests the saved model in an inference session.

An epoch is one run of the training session: a batch for each weight update, Adam, a softmax loss. Prints the loss of every
fourth epoch and the accuracy on images it has not seen.
"""

import os
import tempfile

import numpy as np
from sklearn.datasets import load_digits

import popart

BATCH, EPOCHS, RATE = 32, 24, 0.002


def add_network(builder, images, generator):
    """Scores of the ten digits, and probabilities."""
    value = images
    for name, inputs, outputs in (("hidden", 64, 128), ("scores", 128, 10)):
        with builder.nameScope(name):
            bound = 1 / np.sqrt(inputs)
            weight = builder.addInitializedInputTensor(
                generator.uniform(-bound, bound, (inputs, outputs)).astype(np.float32), "weight"
            )
            bias = builder.addInitializedInputTensor(np.zeros(outputs, np.float32), "bias")
            value = builder.aiOnnx.add([builder.aiOnnx.matmul([value, weight]), bias])
            if name == "hidden":
                value = builder.aiGraphcore.gelu([value])
    return builder.aiOnnx.softmax([value], axis=1)


def training_session(device, batches, generator):
    """A session that trains on so many batches in a run, and the ids of images, labels, probabilities and loss."""
    builder = popart.Builder()
    image_input = builder.addInputTensor("FLOAT", [BATCH, 64], "images")
    label_input = builder.addInputTensor("INT32", [BATCH], "labels")
    probabilities = add_network(builder, image_input, generator)
    loss = builder.aiGraphcore.nllloss([probabilities, label_input])
    session = popart.TrainingSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(batches, {loss: popart.AnchorReturnType("Sum")}),
        loss=loss,
        optimizer=popart.Adam({"defaultLearningRate": (RATE, True), "defaultEps": (1e-8, True)}),
        deviceInfo=device,
    )
    session.prepareDevice()
    session.weightsFromHost()
    return session, image_input, label_input, probabilities, loss


def train(device, images, labels, generator, path):
    batches = len(images) // BATCH
    session, image_input, label_input, probabilities, loss = training_session(device, batches, generator)
    anchors = session.initAnchorArrays()
    for epoch in range(EPOCHS):
        order = generator.permutation(len(images))[: batches * BATCH]
        arrays = {image_input: images[order], label_input: labels[order]}
        session.run(popart.PyStepIO(arrays, anchors))
        if epoch % 4 == 3:
            print(f"epoch {epoch + 1:2}: loss {float(anchors[loss]) / batches:.4f}")
    session.modelToHost(path)
    return probabilities


def accuracy(device, images, labels, path, probabilities):
    builder = popart.Builder(path)
    shape = popart.InputShapeInfo()
    images_id, labels_id = builder.getInputTensorIds()[:2]
    shape.add(images_id, popart.TensorInfo("FLOAT", [len(images), 64]))
    shape.add(labels_id, popart.TensorInfo("INT32", [len(images)]))
    flow = popart.DataFlow(1, {probabilities: popart.AnchorReturnType("Final")})
    session = popart.InferenceSession(path, flow, device, inputShapeInfo=shape)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({images_id: images}, anchors))
    return float((anchors[probabilities].argmax(1) == labels).mean())


def main():
    generator = np.random.default_rng(0)
    digits = load_digits()
    images, labels = (digits.data / 16).astype(np.float32), digits.target.astype(np.int32)
    order = generator.permutation(len(images))
    training, testing = order[:1437], order[1437:]
    device = popart.DeviceManager().createIpuModelDevice({})
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "digits.onnx")
        probabilities = train(device, images[training], labels[training], generator, path)
        print(f"accuracy on unseen digits: {accuracy(device, images[testing], labels[testing], path, probabilities):.1%}")


if __name__ == "__main__":
    main()

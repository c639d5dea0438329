"""A network that `torch.onnx` exported, run by PopART for inference. Compares with PyTorch."""

import io

import numpy as np
import torch

import popart


def exported(model, example):
    """The network as bytes of an ONNX model of opset 11, the newest that PopART reads."""
    file = io.BytesIO()
    torch.onnx.export(model, (example,), file, opset_version=11, input_names=["x"], output_names=["y"], dynamo=False)
    return file.getvalue()


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 14 * 14, 10),
        torch.nn.LogSoftmax(dim=1),
    ).eval()
    images = torch.rand(6, 4, 1, 28, 28)
    batches = len(images)

    session = popart.InferenceSession(
        fnModel=exported(model, images[0]),
        dataFlow=popart.DataFlow(batches, {"y": popart.AnchorReturnType("All")}),
        deviceInfo=popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": images.numpy()}, anchors))

    with torch.no_grad():
        expected = np.stack([model(batch).numpy() for batch in images])
    print(f"batches of a run: {batches}, outputs {anchors['y'].shape}")
    print(f"largest difference to PyTorch: {np.abs(anchors['y'] - expected).max():.1e}")


if __name__ == "__main__":
    main()

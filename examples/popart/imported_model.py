"""Runs a classifier that another library exported to ONNX: a scaler and a logistic regression, as scikit-learn's are written down.

The model's first dimension is open ("batch"); the session says what it is. Compares with scikit-learn.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import popart


def exported(scaler, classifier):
    """An ONNX file of both, as bytes."""
    values = {
        "mean": scaler.mean_,
        "scale": scaler.scale_,
        "coefficients": classifier.coef_.T,
        "intercept": classifier.intercept_,
    }
    nodes = [
        helper.make_node("Sub", ["x", "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "scale"], ["scaled"]),
        helper.make_node("Gemm", ["scaled", "coefficients", "intercept"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", scaler.mean_.size])],
        [
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", classifier.coef_.shape[0]]),
            helper.make_tensor_value_info("label", TensorProto.INT64, ["batch"]),
        ],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=4)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def main():
    iris = load_iris()
    scaler = StandardScaler().fit(iris.data)
    classifier = LogisticRegression(max_iter=200).fit(scaler.transform(iris.data), iris.target)

    shapes = popart.InputShapeInfo()
    shapes.add("x", popart.TensorInfo("FLOAT", list(iris.data.shape)))
    session = popart.InferenceSession(
        fnModel=exported(scaler, classifier),
        dataFlow=popart.DataFlow(1, ["probabilities", "label"]),
        deviceInfo=popart.DeviceManager().createCpuDevice(),
        inputShapeInfo=shapes,
    )
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": iris.data.astype(np.float32)}, anchors))

    expected = classifier.predict_proba(scaler.transform(iris.data))
    print(f"largest difference of a probability: {np.abs(anchors['probabilities'] - expected).max():.1e}")
    print(f"equal labels: {(anchors['label'] == expected.argmax(1)).mean():.1%}")


if __name__ == "__main__":
    main()

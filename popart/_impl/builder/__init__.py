"""popart.Builder: ONNX models made op by op. Loading this package imports onnx."""

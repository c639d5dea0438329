"""Sessions: programs of ONNX models and of PopXL on devices."""

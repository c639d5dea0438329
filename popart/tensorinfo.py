"""TensorInfo: element type and shape."""

from popart._impl.tensor_info import TensorInfo, _TensorInfoCore

__all__ = ["TensorInfo", "_TensorInfoCore"]

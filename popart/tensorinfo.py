"""Types of tensors, as `popart.tensorinfo` has them."""

from popart._impl.tensor_info import TensorInfo, _TensorInfoCore

__all__ = ["TensorInfo", "_TensorInfoCore"]

"""`ipu.optimizers`: optimizers of TensorFlow's version 1 that do something more than the one they wrap."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from ipu_tensorflow import sharding


class IpuOptimizer(tf.compat.v1.train.Optimizer):
    """Hands everything on to the optimizer that it wraps; for sub-classes that change some of it."""

    def __init__(self, opt: Any, name: str | None = None) -> None:
        if not isinstance(opt, tf.compat.v1.train.Optimizer):
            raise TypeError(f"{type(self).__name__} wraps an optimizer of tf.compat.v1.train, not {type(opt).__name__}")
        super().__init__(False, name or type(self).__name__)
        self._opt = opt

    def compute_gradients(self, loss: Any, var_list: Any = None, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Pairs of a gradient and its variable."""
        return self._opt.compute_gradients(loss, var_list=var_list, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Any:
        """The operation that updates the variables, and adds 1 to `global_step`."""
        return self._opt.apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def get_name(self) -> str:
        return self._opt.get_name()

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list[Any]:
        return self._opt.variables()


def innermost(optimizer: Any) -> Any:
    """The optimizer of TensorFlow behind its wrappers."""
    while isinstance(optimizer, IpuOptimizer):
        optimizer = optimizer._opt
    return optimizer


class CrossReplicaOptimizer(IpuOptimizer):
    """Applies the mean of each gradient over the replicas: with one of them, the gradient. More are refused when a unit is compiled."""

    def __init__(self, opt: Any, name: str = "CrossReplicaOptimizer") -> None:
        super().__init__(opt, name)


class MapGradientOptimizer(IpuOptimizer):
    """Gives each gradient and the value of its variable to a function, and takes what that gives as the gradient."""

    def __init__(
        self,
        wrapped_optimizer: Any,
        gradient_mapping_function: Callable[[Any, Any], Any],
        name: str = "MapGradientOptimizer",
    ) -> None:
        super().__init__(wrapped_optimizer, name)
        self._map = gradient_mapping_function

    def compute_gradients(self, loss: Any, var_list: Any = None, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Pairs of a mapped gradient and its variable. A variable without a gradient still has none."""
        pairs = super().compute_gradients(loss, var_list, **kwargs)
        return [
            (gradient if gradient is None else self._mapped(gradient, variable), variable)
            for gradient, variable in pairs
        ]

    def _mapped(self, gradient: Any, variable: Any) -> Any:
        return self._map(tf.convert_to_tensor(gradient), tf.convert_to_tensor(variable))


class ShardedOptimizer(IpuOptimizer):
    """Puts gradients and updates on the IPU of the operation or the gradient that they belong to."""

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer, "ShardedOptimizer")

    def compute_gradients(self, loss: Any, var_list: Any = None, **kwargs: Any) -> list[tuple[Any, Any]]:
        """As the wrapped optimizer with colocate_gradients_with_ops=True."""
        kwargs["colocate_gradients_with_ops"] = True
        pairs = super().compute_gradients(loss, var_list, **kwargs)
        sharding.propagate_sharding(tf.compat.v1.get_default_graph())
        return pairs

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Any:
        """As the wrapped optimizer."""
        update = super().apply_gradients(grads_and_vars, global_step, name)
        sharding.propagate_sharding(tf.compat.v1.get_default_graph())
        return update

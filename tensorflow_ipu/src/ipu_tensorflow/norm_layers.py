"""`ipu.keras.layers` that normalise."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tensorflow import normalization_ops

Layer: Any = tf.keras.layers.Layer


class LayerNormalization(Layer):
    """Normalises over some axes jointly, then scales and shifts each of their elements."""

    built: bool

    def __init__(
        self,
        dtype: Any = tf.float32,
        axis: Any = -1,
        epsilon: float = 0.001,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, trainable=trainable, name=name, **kwargs)
        if not isinstance(axis, (int, list, tuple)) or not all(isinstance(a, int) for a in tf.nest.flatten(axis)):
            raise ValueError(f"axis of LayerNormalization is a number or a list of numbers, not {axis!r}")
        self.axis = axis if isinstance(axis, int) else list(axis)
        self.epsilon, self.center, self.scale = epsilon, center, scale
        self.beta_initializer = tf.keras.initializers.get(beta_initializer)
        self.gamma_initializer = tf.keras.initializers.get(gamma_initializer)

    def build(self, input_shape: Any) -> None:
        """Makes `gamma` and `beta`, of one axis."""
        if self.built:
            return
        shape = tf.TensorShape(input_shape)
        if shape.rank is None:
            raise ValueError("LayerNormalization takes inputs of known rank")
        given = tf.nest.flatten(self.axis)
        axes = [a + shape.rank if a < 0 else a for a in given]
        if not axes or any(not 0 <= a < shape.rank for a in axes) or len(set(axes)) != len(axes):
            raise ValueError(
                f"axis={self.axis} of LayerNormalization must be different axes of inputs of shape {shape}"
            )
        self._axes = sorted(axes)
        sizes = [shape[a] for a in self._axes]
        if None in sizes:
            raise ValueError(
                f"LayerNormalization over axis={self.axis} needs known dimensions there: the shape is {shape}"
            )
        self._broadcast = [shape[a] if a in self._axes else 1 for a in range(shape.rank)]
        count = tf.TensorShape(sizes).num_elements()
        self.gamma = self.add_weight("gamma", [count], initializer=self.gamma_initializer) if self.scale else None
        self.beta = self.add_weight("beta", [count], initializer=self.beta_initializer) if self.center else None
        self.built = True

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The same in training and outside of it."""
        inputs = tf.convert_to_tensor(inputs)
        first = self._axes[0]
        if self._axes == list(range(first, inputs.shape.rank)) and first > 0:
            size = self._broadcast[first:]
            gamma, beta = [None if w is None else tf.reshape(w, size) for w in (self.gamma, self.beta)]
            return normalization_ops.over_last(inputs, first, self.epsilon, gamma, beta)
        centred = inputs - tf.reduce_mean(inputs, self._axes, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), self._axes, keepdims=True)
        found = centred * tf.math.rsqrt(variance + self.epsilon)
        if self.gamma is not None:
            found *= tf.reshape(self.gamma, self._broadcast)
        return found if self.beta is None else found + tf.reshape(self.beta, self._broadcast)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "axis": self.axis,
            "epsilon": self.epsilon,
            "center": self.center,
            "scale": self.scale,
            "beta_initializer": tf.keras.initializers.serialize(self.beta_initializer),
            "gamma_initializer": tf.keras.initializers.serialize(self.gamma_initializer),
        }


class GroupNormalization(Layer):
    """`normalization_ops.group_norm`, with weights `beta` and `gamma` of one element for each channel."""

    built: bool

    def __init__(
        self,
        dtype: Any = tf.float32,
        groups: int = 2,
        channels_axis: int = -1,
        center: bool = True,
        scale: bool = True,
        epsilon: float = 0.001,
        beta_initializer: Any = None,
        gamma_initializer: Any = None,
        strided_channel_grouping: bool = True,
        trainable: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(dtype=dtype, trainable=trainable, name=name)
        self._groups: int | None = groups  # None: one for each channel
        self.channels_axis, self.epsilon, self.center, self.scale = channels_axis, epsilon, center, scale
        self.strided_channel_grouping = strided_channel_grouping
        self.beta_initializer = tf.keras.initializers.get("zeros" if beta_initializer is None else beta_initializer)
        self.gamma_initializer = tf.keras.initializers.get("ones" if gamma_initializer is None else gamma_initializer)

    def build(self, input_shape: Any) -> None:
        """Makes `beta` and `gamma`."""
        what = f"inputs of {type(self).__name__}"
        axis, channels = normalization_ops.channels_of(tf.TensorShape(input_shape), self.channels_axis, what)
        if self.built:
            return
        self._axis = axis
        self.groups = channels if self._groups is None else self._groups
        normalization_ops.check_groups(channels, self.groups, what)
        self.beta = self.add_weight("beta", [channels], initializer=self.beta_initializer) if self.center else None
        self.gamma = self.add_weight("gamma", [channels], initializer=self.gamma_initializer) if self.scale else None
        self.built = True

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The same in training and outside of it."""
        return normalization_ops.grouped(
            tf.convert_to_tensor(inputs),
            self.groups,
            self._axis,
            self.epsilon,
            self.strided_channel_grouping,
            self.gamma,
            self.beta,
        )

    def get_config(self) -> dict[str, Any]:
        given = super().get_config()
        return {
            **{name: given[name] for name in ("dtype", "trainable", "name")},
            "groups": self._groups,
            "channels_axis": self.channels_axis,
            "center": self.center,
            "scale": self.scale,
            "epsilon": self.epsilon,
            "beta_initializer": tf.keras.initializers.serialize(self.beta_initializer),
            "gamma_initializer": tf.keras.initializers.serialize(self.gamma_initializer),
            "strided_channel_grouping": self.strided_channel_grouping,
        }


class InstanceNormalization(GroupNormalization):
    """As GroupNormalization, with a group for each channel."""

    def __init__(
        self,
        dtype: Any = tf.float32,
        channels_axis: int = -1,
        center: bool = True,
        scale: bool = True,
        epsilon: float = 0.001,
        beta_initializer: Any = None,
        gamma_initializer: Any = None,
        trainable: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(
            dtype,
            channels_axis=channels_axis,
            center=center,
            scale=scale,
            epsilon=epsilon,
            beta_initializer=beta_initializer,
            gamma_initializer=gamma_initializer,
            trainable=trainable,
            name=name,
        )
        self._groups = None

    def get_config(self) -> dict[str, Any]:
        of_groups = ("groups", "strided_channel_grouping")
        return {name: value for name, value in super().get_config().items() if name not in of_groups}

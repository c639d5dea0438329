"""`ipu.keras.layers`: layers of Keras."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

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


class Embedding(Layer):
    """Rows of a table for numbers of shape [sample, position]."""

    built: bool

    def __init__(self, input_dim: int, output_dim: int, embeddings_initializer: Any = "uniform", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_dim, self.output_dim = input_dim, output_dim
        self.embeddings_initializer = tf.keras.initializers.get(embeddings_initializer)

    def build(self, input_shape: Any) -> None:
        """Makes the table, `embeddings`."""
        shape = tf.TensorShape(input_shape)
        if shape.rank != 2:
            raise ValueError(f"Embedding takes numbers of shape [sample, position], not of shape {shape}")
        if self.built:
            return
        self.embeddings = self.add_weight(
            "embeddings", [self.input_dim, self.output_dim], initializer=self.embeddings_initializer
        )
        self.built = True

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The same in training and outside of it."""
        return tf.nn.embedding_lookup(self.embeddings, inputs)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "embeddings_initializer": tf.keras.initializers.serialize(self.embeddings_initializer),
        }

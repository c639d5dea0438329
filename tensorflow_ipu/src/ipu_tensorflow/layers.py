"""`ipu.keras.layers` without weights, and of rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_tensorflow import pipelining, rand_ops

Layer: Any = tf.keras.layers.Layer


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


class Dropout(Layer):
    """In training `rand_ops.dropout`, else the identity."""

    def __init__(self, rate: float, noise_shape: Sequence[int] | None = None, seed: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        rand_ops.check_rate(rate)
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed

    def build(self, input_shape: Any) -> None:
        """There are no weights."""
        super().build(input_shape)

    def call(self, inputs: Any, training: Any = None) -> Any:
        """`training`: a bool or a tensor; None is the learning phase of Keras."""
        inputs = tf.convert_to_tensor(inputs)

        def dropped() -> Any:
            return rand_ops.dropout(inputs, self.rate, self.noise_shape, self.seed)

        return tf.keras.backend.in_train_phase(dropped, lambda: tf.identity(inputs), training)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate, "noise_shape": self.noise_shape, "seed": self.seed}


class RecomputationCheckpoint(Layer):
    """`pipelining_ops.recomputation_checkpoint`."""

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        return pipelining.recomputation_checkpoint(inputs)

"""`ipu.normalization_ops`: statistics over groups of channels of each sample."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def group_norm(
    inputs: Any,
    groups: int = 2,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-06,
    param_initializers: dict | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
    strided_channel_grouping: bool = True,
) -> tf.Tensor:
    """Normalises each sample over groups of channels and all other dimensions.

    Args:
        inputs: batch first, channels at dimension 1 or last.
        groups: how many groups.
        center, scale: whether variables `beta` and `gamma` are added and multiplied.
        param_initializers: of them, by name; else zeros and ones.
        reuse: of the variables; it needs a scope.
        variables_collections: to which they are added besides; or a dictionary of such by name.
        training: has no effect: statistics are those of the sample in either case.
        scope: of the variables.
        strided_channel_grouping: channel c is in group c mod groups; else groups are of neighbours.
    """
    return _group_norm(
        inputs,
        groups,
        channels_axis,
        {"beta": center, "gamma": scale},
        epsilon,
        param_initializers,
        reuse,
        variables_collections,
        trainable,
        scope,
        strided_channel_grouping,
        "GroupNorm",
    )


def instance_norm(
    inputs: Any,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-06,
    param_initializers: dict | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
) -> tf.Tensor:
    """As `group_norm`, with a group for each channel."""
    return _group_norm(
        inputs,
        None,
        channels_axis,
        {"beta": center, "gamma": scale},
        epsilon,
        param_initializers,
        reuse,
        variables_collections,
        trainable,
        scope,
        True,
        "InstanceNorm",
    )


def layer_norm(
    inputs: Any,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-06,
    param_initializers: dict | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
) -> tf.Tensor:
    """As `group_norm`, with one group."""
    return _group_norm(
        inputs,
        1,
        channels_axis,
        {"beta": center, "gamma": scale},
        epsilon,
        param_initializers,
        reuse,
        variables_collections,
        trainable,
        scope,
        True,
        "LayerNorm",
    )


def _group_norm(
    inputs: Any,
    groups: int | None,
    channels_axis: int,
    wanted: dict[str, bool],
    epsilon: float,
    initializers: dict | None,
    reuse: Any,
    collections: Any,
    trainable: bool,
    scope: Any,
    strided: bool,
    default_scope: str,
) -> tf.Tensor:
    """`groups`: None is one for each channel."""
    x = tf.convert_to_tensor(inputs)
    axis, channels = _channels(x, channels_axis)
    groups = channels if groups is None else groups
    if groups < 1 or groups > channels or channels % groups:
        raise ValueError(f"{channels} channels of {x.name} cannot be split into {groups} groups of one size")
    with v1.variable_scope(scope, default_scope, [inputs], reuse=reuse):
        y = normalised(x, groups, axis, epsilon, strided)
        shape = [channels if i == axis else 1 for i in range(x.shape.rank)]
        parameters = {
            name: tf.cast(
                tf.reshape(_parameter(name, channels, x.dtype, initializers, collections, trainable), shape), y.dtype
            )
            for name, is_wanted in wanted.items()
            if is_wanted
        }
        if "gamma" in parameters:
            y = y * parameters["gamma"]
        if "beta" in parameters:
            y = y + parameters["beta"]
        return tf.cast(y, x.dtype)


def _channels(x: tf.Tensor, axis: int) -> tuple[int, int]:
    """The dimension of channels, counted from 0, and their number."""
    rank = x.shape.rank
    if rank is None:
        raise ValueError(f"the number of dimensions of {x.name} is not known: give it a shape")
    if rank < 2:
        raise ValueError(f"{x.name} of shape {x.shape} has no dimension of channels beside that of the batch")
    if not -rank <= axis < rank:
        raise ValueError(f"channels_axis {axis} is not a dimension of {x.name}, which has shape {x.shape}")
    found = axis % rank
    if found not in (1, rank - 1):
        raise ValueError(f"channels_axis {axis} of {x.name}, which has shape {x.shape}: it is 1 or the last dimension")
    channels = x.shape[found]
    if channels is None:
        raise ValueError(
            f"the number of channels of {x.name}, which has shape {x.shape}, is not known: give it a shape"
        )
    return found, channels


def normalised(x: tf.Tensor, groups: int, axis: int, epsilon: float, strided: bool) -> tf.Tensor:
    """(x - mean) / sqrt(variance + epsilon), in float32 if x is float16."""
    wide = tf.cast(x, tf.float32) if x.dtype == tf.float16 else x
    sizes = x.shape.as_list()
    if None in sizes:
        known = tf.shape(x)
        sizes = [known[i] if size is None else size for i, size in enumerate(sizes)]
    each = x.shape[axis] // groups
    parts = [each, groups] if strided else [groups, each]
    grouped = tf.reshape(wide, [*sizes[:axis], *parts, *sizes[axis + 1 :]])
    reduced = [i for i in range(1, x.shape.rank + 1) if i != axis + strided]
    off = grouped - tf.reduce_mean(grouped, reduced, keepdims=True)
    variance = tf.reduce_mean(tf.square(off), reduced, keepdims=True)
    return tf.reshape(off * tf.math.rsqrt(variance + epsilon), sizes)


def _parameter(
    name: str, channels: int, dtype: tf.DType, initializers: dict | None, collections: Any, trainable: bool
) -> Any:
    default = v1.zeros_initializer() if name == "beta" else v1.ones_initializer()
    more = collections.get(name) if isinstance(collections, dict) else collections
    return v1.get_variable(
        name,
        [channels],
        dtype,
        initializer=(initializers or {}).get(name) or default,
        trainable=trainable,
        collections=[v1.GraphKeys.GLOBAL_VARIABLES, v1.GraphKeys.MODEL_VARIABLES, *(more or [])],
    )

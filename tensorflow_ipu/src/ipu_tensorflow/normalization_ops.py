"""`ipu.normalization_ops`: statistics over groups of channels of each sample."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tensorflow import leaves

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
    axis, channels = channels_of(x.shape, channels_axis, x.name)
    groups = channels if groups is None else groups
    check_groups(channels, groups, x.name)
    with v1.variable_scope(scope, default_scope, [inputs], reuse=reuse):
        parameters = {
            name: _parameter(name, channels, x.dtype, initializers, collections, trainable) if is_wanted else None
            for name, is_wanted in wanted.items()
        }
        return grouped(x, groups, axis, epsilon, strided, parameters["gamma"], parameters["beta"])


def channels_of(shape: tf.TensorShape, axis: int, what: str) -> tuple[int, int]:
    """The dimension of channels, counted from 0, and their number. `what` is named by errors."""
    rank = shape.rank
    if rank is None:
        raise ValueError(f"the number of dimensions of {what} is not known: give it a shape")
    if rank < 2:
        raise ValueError(f"{what} of shape {shape} has no dimension of channels beside that of the batch")
    if not -rank <= axis < rank:
        raise ValueError(f"channels_axis {axis} is not a dimension of {what}, which has shape {shape}")
    found = axis % rank
    if found not in (1, rank - 1):
        raise ValueError(f"channels_axis {axis} of {what}, which has shape {shape}: it is 1 or the last dimension")
    channels = shape[found]
    if channels is None:
        raise ValueError(f"the number of channels of {what}, which has shape {shape}, is not known: give it a shape")
    return found, channels


def check_groups(channels: int, groups: int, what: str) -> None:
    if groups < 1 or groups > channels or channels % groups:
        raise ValueError(f"{channels} channels of {what} cannot be split into {groups} groups of one size")


def grouped(x: tf.Tensor, groups: int, axis: int, epsilon: float, strided: bool, gamma: Any, beta: Any) -> tf.Tensor:
    """Normalised over groups of the channels at `axis`, times gamma, plus beta; each of these may be None."""
    if groups == 1 and axis == x.shape.rank - 1:
        return over_last(x, 1, epsilon, gamma, beta)
    shape = [x.shape[axis] if i == axis else 1 for i in range(x.shape.rank)]
    gamma, beta = [None if weight is None else tf.reshape(weight, shape) for weight in (gamma, beta)]
    return _scaled(normalised(x, groups, axis, epsilon, strided), gamma, beta, x.dtype)


def over_last(x: tf.Tensor, axis: int, epsilon: float, gamma: Any, beta: Any) -> tf.Tensor:
    """Normalised over all dimensions from `axis` on, to the last of which gamma and beta broadcast."""
    weights = [tf.cast(weight, x.dtype) for weight in (gamma, beta) if weight is not None]
    given = {"axis": axis, "epsilon": epsilon, "scales": gamma is not None, "centers": beta is not None}
    return leaves.differentiable("LayerNorm", [x, *weights], **given)


@leaves.body("LayerNorm")
def _layer_norm(x: Any, *weights: Any, axis: int, epsilon: float, scales: bool, centers: bool) -> list[Any]:
    wide = tf.cast(x, tf.float32) if x.dtype == tf.float16 else x
    axes = list(range(axis, x.shape.rank))
    off = wide - tf.reduce_mean(wide, axes, keepdims=True)
    variance = tf.reduce_mean(tf.square(off), axes, keepdims=True)
    gamma, beta = weights[0] if scales else None, weights[-1] if centers else None
    return [_scaled(off * tf.math.rsqrt(variance + epsilon), gamma, beta, x.dtype)]


leaves.register_gradient("LayerNorm")


def _scaled(y: Any, gamma: Any, beta: Any, dtype: tf.DType) -> Any:
    if gamma is not None:
        y = y * tf.cast(gamma, y.dtype)
    if beta is not None:
        y = y + tf.cast(beta, y.dtype)
    return tf.cast(y, dtype)


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

"""`ipu.normalization_ops` (chapter 12.8)."""

import both
import numpy as np
import pytest
import tensorflow as tf
from both import some
from tensorflow.python import ipu

v1 = tf.compat.v1
norms = ipu.normalization_ops


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def normalised(x, groups, axis, strided, epsilon):
    """In float64, channel by channel."""
    x = np.moveaxis(x.astype(np.float64), axis, -1)
    channels = x.shape[-1]
    group_of = [c % groups if strided else c * groups // channels for c in range(channels)]
    y = np.empty_like(x)
    for n in range(x.shape[0]):
        for g in range(groups):
            of_group = [c for c in range(channels) if group_of[c] == g]
            part = x[n][..., of_group]
            y[n][..., of_group] = (part - part.mean()) / np.sqrt(part.var() + epsilon)
    return np.moveaxis(y, -1, axis)


@pytest.mark.shows("ipu.ops.normalization_ops.group_norm")
@pytest.mark.parametrize("strided", [True, False])
@pytest.mark.parametrize("shape, axis", [((3, 4, 5, 6), -1), ((3, 6, 2, 2), 1), ((4, 6), 1), ((2, 7, 6), -1)])
def test_groups(shape, axis, strided):
    x = some(*shape) * 2 + 1

    def net(given):
        y = norms.group_norm(given, 3, axis, epsilon=0.1, strided_channel_grouping=strided)
        return y, *tf.gradients(tf.reduce_sum(tf.sin(y)), [given, *v1.trainable_variables()])

    (got,), state = both.check(net, (x,))
    assert np.allclose(got[0], normalised(x, 3, axis, strided, 0.1), atol=1e-5)
    assert {name: value.shape for name, value in state.items()} == {"GroupNorm/beta": (6,), "GroupNorm/gamma": (6,)}


@pytest.mark.shows("ipu.ops.normalization_ops.instance_norm", "ipu.ops.normalization_ops.layer_norm")
@pytest.mark.parametrize("name, groups, scope", [("instance_norm", 6, "InstanceNorm"), ("layer_norm", 1, "LayerNorm")])
def test_a_group_for_each_channel_and_one_group(name, groups, scope):
    x = some(2, 3, 4, 6) * 2 + 1

    def net(given):
        y = getattr(norms, name)(given)
        return y, *tf.gradients(tf.reduce_sum(tf.sin(y)), [given, *v1.trainable_variables()])

    (got,), state = both.check(net, (x,))
    assert np.allclose(got[0], normalised(x, groups, -1, True, 1e-6), atol=1e-5)
    assert list(state) == [f"{scope}/beta", f"{scope}/gamma"]


def test_statistics_of_float16_are_those_of_float32():
    x = (some(2, 3000, 4) + 20).astype(np.float16)
    (got,), state = both.check(lambda given: norms.group_norm(given), (x,), tolerance=2e-3)
    assert got[0].dtype == np.float16 and state["GroupNorm/gamma"].dtype == np.float16
    assert np.allclose(got[0], normalised(x, 2, -1, True, 1e-6), atol=4e-3)


def test_the_variables_and_how_they_start():
    x = some(2, 4)
    given = {"beta": v1.constant_initializer([1, 2, 3, 4]), "gamma": v1.constant_initializer(2)}

    def net(value):
        return norms.layer_norm(value, param_initializers=given, scope="mine")

    (got,), state = both.check(net, (x,))
    assert state["mine/beta"].tolist() == [1, 2, 3, 4] and state["mine/gamma"].tolist() == [2] * 4
    assert np.allclose(got[0], normalised(x, 1, -1, True, 1e-6) * 2 + [1, 2, 3, 4], atol=1e-5)


def test_variables_that_are_not_wanted_are_not_there():
    assert norms.group_norm(tf.ones([2, 4]), center=False, scale=False).shape == [2, 4]
    assert not v1.global_variables()
    norms.group_norm(
        tf.ones([2, 4]), center=False, trainable=False, scope="a", variables_collections={"gamma": ["some"]}
    )
    norms.group_norm(tf.ones([2, 4]), scale=False, scope="b", variables_collections=["all"])
    assert [variable.op.name for variable in v1.global_variables()] == ["a/gamma", "b/beta"]
    assert [variable.op.name for variable in v1.trainable_variables()] == ["b/beta"]
    assert [variable.op.name for variable in v1.get_collection("some")] == ["a/gamma"]
    assert [variable.op.name for variable in v1.get_collection("all")] == ["b/beta"]


def test_scopes_are_new_unless_they_are_used_again():
    for _ in range(2):
        norms.layer_norm(tf.ones([2, 4]))
    norms.instance_norm(tf.ones([2, 4]), scope="mine")
    norms.instance_norm(tf.ones([2, 4]), scope="mine", reuse=True)
    scopes = [variable.op.name.split("/")[0] for variable in v1.global_variables()]
    assert scopes == ["LayerNorm", "LayerNorm", "LayerNorm_1", "LayerNorm_1", "mine", "mine"]
    with pytest.raises(ValueError, match="reuse=True cannot be used without a name_or_scope"):
        norms.layer_norm(tf.ones([2, 4]), reuse=True)


def test_a_batch_of_a_size_that_is_not_known():
    x = v1.placeholder(tf.float32, [None, None, 4])
    y = norms.group_norm(x)
    data = some(3, 5, 4)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert np.allclose(session.run(y, {x: data}), normalised(data, 2, -1, True, 1e-6), atol=1e-5)


@pytest.mark.parametrize(
    "shape, given, text",
    [
        (None, {}, "number of dimensions of .* is not known"),
        ([4], {}, "has no dimension of channels"),
        ([2, None], {}, "number of channels of .* is not known"),
        ([2, 4], {"channels_axis": 2}, "channels_axis 2 is not a dimension"),
        ([2, 4, 4, 4], {"channels_axis": 2}, "it is 1 or the last dimension"),
        ([2, 4, 4, 4], {"channels_axis": 0}, "it is 1 or the last dimension"),
        ([2, 4], {"groups": 8}, "4 channels of .* cannot be split into 8 groups"),
        ([2, 4], {"groups": 3}, "4 channels of .* cannot be split into 3 groups"),
    ],
)
def test_inputs_that_have_no_groups(shape, given, text):
    with pytest.raises(ValueError, match=text):
        norms.group_norm(v1.placeholder(tf.float32, shape), **given)

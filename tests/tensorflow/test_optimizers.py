"""`ipu.optimizers` (chapter 13): wrappers of TensorFlow's optimizers. tests/tensorflow/test_training.py has those themselves."""

import both
import numpy as np
import pytest
import tensorflow as tf
from both import on_ipu, some
from ipu_tensorflow import attributes, trace
from tensorflow.python import ipu

v1 = tf.compat.v1
train = v1.train
optimizers = ipu.optimizers


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


class Halved(optimizers.IpuOptimizer):
    """A user's wrapper: half of each gradient."""

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        return super().apply_gradients([(g * 0.5, v) for g, v in grads_and_vars], global_step, name)


def step_of(wrap, make=lambda: train.MomentumOptimizer(0.1, 0.9)):
    def net(x):
        w = v1.get_variable("w", [3], initializer=v1.ones_initializer())
        step = v1.train.get_or_create_global_step()
        loss = tf.reduce_sum(tf.square(w * x))
        return loss, wrap(make()).minimize(loss, global_step=step)

    return net


@pytest.mark.shows("ipu.optimizers.IpuOptimizer")
def test_a_wrapper_hands_on_what_it_does_not_change():
    x = some(3)
    _, wrapped = both.check(step_of(optimizers.IpuOptimizer), (x,), (x,))
    _, _, bare = both.plain(step_of(lambda opt: opt), [(x,), (x,)])
    assert list(wrapped) == list(bare) and wrapped["global_step"] == 2
    _, sharded = both.check(step_of(optimizers.ShardedOptimizer), (x,), (x,))
    assert all(np.allclose(wrapped[name], bare[name]) and np.allclose(sharded[name], bare[name]) for name in bare)
    _, halved = both.check(step_of(Halved), (x,))
    assert np.allclose(halved["w"], 1 - 0.1 * 0.5 * 2 * x**2)


def test_what_a_wrapper_says_of_its_optimizer_is_what_that_says():
    inner = train.MomentumOptimizer(0.1, 0.9, name="inner")
    wrapper = optimizers.IpuOptimizer(inner)
    w, other = (v1.get_variable(name, [2], use_resource=True) for name in ("w", "other"))
    wrapper.minimize(tf.reduce_sum(w), var_list=[w])
    assert wrapper.get_name() == "inner" and wrapper.get_slot_names() == ["momentum"]
    assert wrapper.get_slot(w, "momentum") is inner.get_slot(w, "momentum") is not None
    assert wrapper.get_slot(other, "momentum") is None
    assert [v.name for v in wrapper.variables()] == [v.name for v in inner.variables()] == ["w/inner:0"]
    with pytest.raises(ValueError, match="No gradients|No variables"):
        wrapper.apply_gradients([])


@pytest.mark.parametrize("wrong", [None, 0.1, train.Optimizer])
def test_only_optimizers_of_version_1_are_wrapped(wrong):
    with pytest.raises(TypeError, match=r"IpuOptimizer wraps an optimizer of tf.compat.v1.train, not"):
        optimizers.IpuOptimizer(wrong)


@pytest.mark.shows("ipu.optimizers.map_gradient_optimizer.MapGradientOptimizer")
def test_a_function_maps_each_gradient_and_its_variable():
    def net():
        a, b, c, unused = (
            v1.get_variable(name, [], initializer=v1.constant_initializer(value))
            for name, value in (("a", 1), ("b", 2), ("c", 3), ("unused", 4))
        )
        optimizer = optimizers.MapGradientOptimizer(train.GradientDescentOptimizer(1.0), lambda g, v: g + 0.01 * v)
        pairs = optimizer.compute_gradients(a * b + a * c + b * c, [a, b, c, unused])
        assert pairs[3] == (None, unused)
        return *(gradient for gradient, _ in pairs[:3]), optimizer.apply_gradients(pairs)

    (got,), state = both.check(net, ())
    assert np.allclose(got, [5.01, 4.02, 3.03])
    assert np.allclose([state[name] for name in ("a", "b", "c", "unused")], [-4.01, -2.02, -0.03, 4])


def test_a_gradient_of_rows_is_mapped_whole():
    def net(words):
        table = v1.get_variable("table", [4, 2], initializer=v1.ones_initializer())
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, words))
        return optimizers.MapGradientOptimizer(train.GradientDescentOptimizer(1.0), lambda g, v: g + 0.5 * v).minimize(
            loss
        )

    _, state = both.check(net, (np.array([1, 1], np.int32),))
    assert state["table"].tolist() == [[0.5, 0.5], [-1.5, -1.5], [0.5, 0.5], [0.5, 0.5]]


def test_gradients_are_clipped_behind_a_wrapper():
    def net(x):
        w = v1.get_variable("w", [3], initializer=v1.ones_initializer())
        optimizer = optimizers.MapGradientOptimizer(train.AdamOptimizer(0.1), lambda g, v: tf.clip_by_value(g, -1, 1))
        pairs = optimizer.compute_gradients(tf.reduce_sum(tf.exp(w * x)))
        clipped, norm = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 0.5)
        return norm, optimizer.apply_gradients(zip(clipped, [variable for _, variable in pairs]))

    both.check(net, (some(3),), (some(3, seed=1),))


# --- shards


def sharded(wrap):
    def net(x):
        with ipu.scopes.ipu_shard(0):
            w = v1.get_variable("w", [3, 3], initializer=v1.ones_initializer())
            h = tf.tanh(tf.matmul(x, w))
        with ipu.scopes.ipu_shard(1):
            v = v1.get_variable("v", [3, 1], initializer=v1.ones_initializer())
            loss = tf.reduce_sum(tf.square(tf.matmul(h, v)))
        return loss, wrap(train.MomentumOptimizer(0.1, 0.9)).minimize(loss)

    return net


@pytest.mark.shows("ipu.optimizers.sharded_optimizer.ShardedOptimizer")
def test_updates_are_on_the_ipus_of_their_gradients():
    def shards_of_updates(wrap):
        with tf.Graph().as_default(), on_ipu():
            unit = trace.trace(sharded(wrap), [v1.placeholder(tf.float32, [2, 3])])
        updates = [op for op in unit.graph.get_operations() if op.type.startswith("ResourceApply")]
        variable_of = {op.name: op.name.split("/update_")[1].split("/")[0] for op in updates}
        return {variable_of[op.name]: attributes.settings_of(op).get("ipu") for op in updates}

    assert shards_of_updates(lambda opt: opt) == {"w": None, "v": None}
    assert shards_of_updates(optimizers.ShardedOptimizer) == {"w": 0, "v": 1}


@pytest.mark.shows("ipu.sharding.dependencies")
def test_dependencies_are_all_ancestors():
    a, b = tf.constant(1.0, name="a"), tf.constant(2.0, name="b")
    with tf.control_dependencies([b]):
        c = tf.add(a, a, name="c")
    d = tf.exp(c, name="d")
    tf.exp(d, name="e")
    assert ipu.sharding.dependencies([d]) == {a.op, b.op, c.op, d.op} == ipu.sharding.dependencies([d.op, a])


@pytest.mark.shows("ipu.sharding.has_attr", "ipu.sharding.get_shard_from_colocation")
@pytest.mark.shows("ipu.sharding.propagate_sharding")
def test_shards_spread_along_colocation():
    with ipu.scopes.ipu_shard(1):
        a = tf.constant(1.0)
    with v1.colocate_with(a):
        near = tf.constant(2.0)
    with v1.colocate_with(near):
        nearer = tf.constant(2.0)
    free = tf.exp(a)
    with v1.colocate_with(free):
        by_input = tf.exp(a)
    sharding = ipu.sharding
    assert sharding.has_attr(near.op, "_class") and not sharding.has_attr(free.op, "_class")
    found = [sharding.get_shard_from_colocation(x.op) for x in (a, near, nearer, by_input, free)]
    assert found == [1] * 5 and sharding.get_shard_from_colocation(tf.constant(0.0).op) is None
    sharding.propagate_sharding(a.graph)
    settings = [attributes.settings_of(x.op) for x in (a, near, nearer, by_input, free)]
    assert settings == [{"ipu": 1}] * 4 + [{}]

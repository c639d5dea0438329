"""Chapters 3, 14 and 19.2: a program over the IPUs of a device, and programs on two devices."""

import re

import both
import numpy as np
import pytest
import tensorflow as tf
from both import some
from tensorflow.python import ipu

import ipu_core

v1 = tf.compat.v1


@pytest.fixture
def units(monkeypatch):
    """The units that are made."""
    made = []

    class Unit(ipu_core._native.Unit):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(ipu_core._native, "Unit", Unit)
    return made


def classifier(x, labels):
    """A step of training, the first layer on one IPU, the second on another one."""
    with ipu.scopes.ipu_shard(0):
        hidden = tf.nn.relu(x @ v1.get_variable("first", [4, 8]))
    with ipu.scopes.ipu_shard(1):
        logits = hidden @ v1.get_variable("second", [8, 3])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    optimizer = ipu.optimizers.ShardedOptimizer(v1.train.MomentumOptimizer(0.1, 0.9))
    return loss, optimizer.minimize(loss)


FED = [(some(6, 4, seed=i), np.arange(6, dtype=np.int32) % 3) for i in range(3)]


def shards_of(unit, kind):
    return sorted(int(shard) for shard in re.findall(rf" = {kind}\(.*\| ipu=(\d)", unit.text()))


def test_a_program_trains_on_two_ipus(configured, units):
    configured(2)
    both.check(classifier, *FED)
    (unit,) = units
    # Forward, then the gradients of weights and of what is between the layers.
    assert shards_of(unit, "matmul") == [0, 0, 1, 1, 1]
    assert shards_of(unit, "relu") == shards_of(unit, "relu_gradient") == [0]
    assert shards_of(unit, "cross_entropy") == shards_of(unit, "cross_entropy_gradient") == [1]
    assert shards_of(unit, "sub") == [0, 1]  # the updates


def test_a_loop_over_two_ipus(configured, units):
    configured(2)

    def net(x, labels):
        def body(total):
            loss, update = classifier(x, labels)
            return total + loss, update

        return ipu.loops.repeat(4, body, [0.0])

    both.check(net, *FED[:2])
    assert shards_of(units[0], "matmul") == [0, 0, 1, 1, 1]


def test_a_program_of_more_shards_than_its_device_has_ipus(configured):
    configured(1)
    with pytest.raises(tf.errors.InternalError, match="'classifier' uses 2 and device 0 has 1, which is no multiple of it"):
        both.ours(classifier, FED[:1])


def test_programs_on_two_devices(configured, units):
    """They hand a value on, and write one variable in turn."""
    configured(1, 2)

    def first(x):
        w = v1.get_variable("w", [3], initializer=v1.ones_initializer())
        return [x * w, w.assign_add(x)]

    def second(y):
        with ipu.scopes.ipu_shard(1), v1.variable_scope("", reuse=True):
            w = v1.get_variable("w", [3])
            return [y + w, w.assign(2 * w)]

    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [3])
        with both.on_ipu(0):
            a, written = ipu.ipu_compiler.compile(first, [x])
        with both.on_ipu(1), tf.control_dependencies([written]):
            b, last = ipu.ipu_compiler.compile(second, [a])
        session.run(v1.global_variables_initializer())
        ones = np.ones([3], np.float32)
        assert [values.tolist() for values in session.run([a, b, last], {x: ones})] == [[1] * 3, [3] * 3, [4] * 3]
        assert [values.tolist() for values in session.run([a, b, last], {x: ones})] == [[4] * 3, [9] * 3, [10] * 3]
    assert shards_of(units[1], "add") == [1]

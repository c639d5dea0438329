"""Programs of the generation are traced as they stand (chapter 28): records executed by TensorFlow give a session's numbers."""

import numpy as np
import tensorflow as tf
from both import some
from test_records import check, traced, types

v1 = tf.compat.v1
train = v1.train


def test_layers_with_batch_normalisation_and_its_updates():
    def net(x, labels):
        h = v1.layers.conv2d(x, 4, 3, padding="same", kernel_initializer=v1.ones_initializer())
        h = tf.nn.relu(v1.layers.batch_normalization(h, training=True, momentum=0.5))
        h = v1.layers.flatten(v1.layers.max_pooling2d(h, 2, 2))
        logits = v1.layers.dense(h, 3, kernel_initializer=v1.ones_initializer())
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        loss += v1.losses.get_regularization_loss()
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        assert len(updates) == 2
        with tf.control_dependencies(updates):
            return loss, train.MomentumOptimizer(0.01, 0.9).minimize(loss)

    found = check(net, some(2, 6, 6, 3), np.int32([0, 2]))
    assert {"FusedBatchNormV3", "FusedBatchNormGradV3", "ResourceApplyMomentum"} <= set(types(found))


def test_a_recurrent_network_with_lengths_and_its_gradient():
    def net(x, lengths):
        cell = v1.nn.rnn_cell.BasicLSTMCell(3)
        outputs, state = v1.nn.dynamic_rnn(cell, x, sequence_length=lengths, dtype=tf.float32)
        loss = tf.reduce_sum(outputs) + tf.reduce_sum(state.h)
        return loss, train.GradientDescentOptimizer(0.1).minimize(loss)

    check(net, some(2, 4, 5), np.int32([4, 2]))


def test_scan_map_and_tensor_arrays():
    def net(x):
        total = tf.scan(lambda a, row: a * 0.5 + row, x)
        mapped = tf.map_fn(lambda row: row * tf.reduce_sum(row), x)
        array = tf.TensorArray(tf.float32, 3)
        _, array = tf.while_loop(
            lambda i, _: i < 3, lambda i, a: (i + 1, a.write(i, x[i] * 2.0)), [0, array], maximum_iterations=3
        )
        return total, mapped, array.stack(), tf.gradients(tf.reduce_sum(total * mapped), [x])[0]

    check(net, some(3, 4))


def test_variables_that_are_shared_and_got_in_the_users_way():
    def half(getter, name, shape=None, dtype=None, **more):
        return tf.cast(getter(name, shape, dtype=tf.float32, **more), tf.float16)

    def layer(x):
        w = v1.get_variable("w", [3, 3], initializer=v1.constant_initializer(0.25))
        return tf.matmul(x, w)

    def net(x):
        with v1.variable_scope("shared", reuse=v1.AUTO_REUSE):
            y = layer(layer(x))
        with v1.variable_scope("half", custom_getter=half):
            z = tf.cast(layer(tf.cast(x, tf.float16)), tf.float32)
        average = train.ExponentialMovingAverage(0.9)
        loss = tf.reduce_sum(y + z)
        step = train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.control_dependencies([step]):
            update = average.apply(v1.trainable_variables())
        return loss, update

    found = check(net, some(2, 3))
    assert [variable.name for variable in found.variables][:2] == ["shared/w", "half/w"]


def test_partitioned_variables_and_metrics():
    def net(x, labels):
        w = v1.get_variable("w", [4, 2], partitioner=v1.fixed_size_partitioner(2), initializer=v1.ones_initializer())
        y = tf.matmul(x, tf.convert_to_tensor(w))
        value, update = v1.metrics.mean_squared_error(labels, y)
        with tf.control_dependencies([update]):
            return y, tf.identity(value)

    found = traced(net, [(tf.float32, [3, 4]), (tf.float32, [3, 2])])
    names = [variable.name for variable in found.variables]
    assert names[:2] == ["w/part_0", "w/part_1"] and "mean_squared_error/total" in names


def test_a_case_a_nested_condition_and_clipped_gradients():
    def net(x):
        w = v1.get_variable("w", [3, 3], initializer=v1.constant_initializer(0.25))
        y = tf.matmul(x, w)
        s = tf.reduce_sum(y)
        y = tf.case(
            [(s < -1.0, lambda: y * 2.0), (s > 1.0, lambda: tf.cond(s > 2.0, lambda: -y, lambda: tf.exp(y)))],
            default=lambda: y + 1.0,
        )
        optimizer = train.AdamOptimizer(0.1)
        pairs = optimizer.compute_gradients(tf.reduce_sum(y))
        clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 0.5)
        return tf.reduce_sum(y), optimizer.apply_gradients(zip(clipped, [variable for _, variable in pairs]))

    for seed in range(4):
        check(net, some(2, 3) * (seed - 1.5))


def test_an_optimizer_of_the_user():
    class Signed(train.Optimizer):
        def __init__(self, rate):
            super().__init__(False, "Signed")
            self._rate = rate

        def _create_slots(self, variables):
            for variable in variables:
                self._zeros_slot(variable, "sum", self._name)

        def _resource_apply_dense(self, gradient, variable):
            total = self.get_slot(variable, "sum")
            total = total.assign(total * 0.5 + gradient)
            return variable.assign_sub(self._rate * tf.sign(total))

    def net(x):
        w = v1.get_variable("w", [3, 3], initializer=v1.constant_initializer(0.25))
        loss = tf.reduce_sum(tf.square(tf.matmul(x, w)))
        return loss, Signed(0.1).minimize(loss)

    check(net, some(2, 3))


def test_a_rate_that_decays_with_a_global_step_outside():
    def net(x):
        step = train.get_or_create_global_step()
        rate = train.exponential_decay(0.1, step, 10, 0.5)
        w = v1.get_variable("w", [3, 1], initializer=v1.ones_initializer())
        loss = tf.reduce_sum(tf.square(tf.matmul(x, w)))
        return loss, train.GradientDescentOptimizer(rate).minimize(loss, global_step=step)

    check(net, some(2, 3))


def test_a_function_of_tensorflow_is_written_out():
    @tf.function
    def double(x):
        return x * 2.0

    def net(x):
        return [double(x) + double(x + 1.0), tf.gradients(tf.reduce_sum(double(x) * x), [x])[0]]

    assert "PartitionedCall" not in types(check(net, some(3)))

"""`ipu.optimizers`: optimizers that sum the gradients of several loop iterations (chapters 13 and 22)."""

import numpy as np
import pytest
import tensorflow as tf
from both import on_ipu, some
from ipu_tensorflow import accumulation, loops, optimizers, scopes
from ipu_tensorflow.infeed import IPUInfeedQueue
from ipu_tensorflow.outfeed import IPUOutfeedQueue
from ipu_tensorflow.unit import compile

v1 = tf.compat.v1
train = v1.train
Version2 = accumulation.GradientAccumulationOptimizerV2


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def variable(name, value, dtype=tf.float32):
    return v1.get_variable(name, dtype=dtype, initializer=lambda: tf.constant(value, dtype), use_resource=True)


def run(batches, step, feed=None, n=None, inputs=()):
    """Variables after a loop over the batches, of which each is an element; `step(x, *carried)` gives the operation that trains."""
    queue = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(batches))

    def body(*given):
        *carried, x = given
        return [*carried, step(x, *carried)]

    with on_ipu():
        unit = compile(lambda: loops.repeat(len(batches) if n is None else n, body, list(inputs), queue))
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), queue.initializer])
        session.run(unit, feed)
        return {v.op.name: session.run(v) for v in v1.global_variables()}


def steps_on_sums(optimizer, batches, count):
    """Variables of plain TensorFlow after a step on each sum of `count` losses."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [count, *batches.shape[1:]])
        w = variable("w", np.ones(batches.shape[1:], np.float32))
        op = optimizer().minimize(tf.reduce_sum(tf.tanh(w * x)))
        session.run(v1.global_variables_initializer())
        for start in range(0, len(batches), count):
            session.run(op, {x: batches[start : start + count]})
        return {v.op.name: session.run(v) for v in v1.global_variables()}


def check_against_sums(optimizer, wrap, batches, count):
    def step(x):
        w = variable("w", np.ones(batches.shape[1:], np.float32))
        return wrap(optimizer(), count).minimize(tf.reduce_sum(tf.tanh(w * x)))

    mine, plain = run(batches, step), steps_on_sums(optimizer, batches, count)
    assert list(mine) == list(plain)
    for name, value in plain.items():
        np.testing.assert_allclose(mine[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.shows("ipu.optimizers.gradient_accumulation_optimizer.GradientAccumulationOptimizerV2")
def test_the_sum_of_two_gradients_is_applied():
    def step(x):
        return Version2(train.GradientDescentOptimizer(0.1), 2).minimize(variable("w", 1.0) * x)

    assert run(np.float32([3, 5]), step)["w"] == pytest.approx(0.2)


@pytest.mark.parametrize("make", [lambda: train.AdamOptimizer(0.1), lambda: train.RMSPropOptimizer(0.1, momentum=0.5)])
def test_the_state_of_an_optimizer_changes_once_for_each_update(make):
    check_against_sums(make, Version2, some(12, 3), 4)


@pytest.mark.shows("ipu.optimizers.gradient_accumulation_optimizer.GradientAccumulationOptimizer")
def test_version_1_with_momentum_is_momentum_on_sums():
    wrap = accumulation.GradientAccumulationOptimizer
    check_against_sums(lambda: train.MomentumOptimizer(0.1, 0.9), wrap, some(6, 3), 2)
    with pytest.raises(ValueError, match="not AdamOptimizer: take GradientAccumulationOptimizerV2"):
        wrap(train.AdamOptimizer(0.1), 2)
    wrap(train.AdamOptimizer(0.1), 2, verify_usage=False)


@pytest.mark.shows("ipu.optimizers.cross_replica_optimizer.CrossReplicaOptimizer")
def test_one_replica_applies_the_gradients_as_they_are():
    check_against_sums(
        lambda: train.MomentumOptimizer(0.1, 0.9), lambda o, _: optimizers.CrossReplicaOptimizer(o), some(4, 3), 1
    )


@pytest.mark.shows(
    "ipu.optimizers.gradient_accumulation_optimizer.CrossReplicaGradientAccumulationOptimizer",
    "ipu.optimizers.gradient_accumulation_optimizer.CrossReplicaGradientAccumulationOptimizerV2",
)
@pytest.mark.parametrize(
    "wrap",
    [accumulation.CrossReplicaGradientAccumulationOptimizer, accumulation.CrossReplicaGradientAccumulationOptimizerV2],
)
def test_accumulation_over_one_replica(wrap):
    check_against_sums(lambda: train.MomentumOptimizer(0.1, 0.9), wrap, some(6, 3), 2)


def test_what_the_update_reads_of_the_loop_and_of_the_graph_around():
    rate, factor = v1.placeholder(tf.float32, []), v1.placeholder(tf.float32, [])

    def step(x, carried):
        optimizer = train.GradientDescentOptimizer(carried * 2.0 * factor)
        return Version2(optimizer, 2).minimize(variable("w", 1.0) * x)

    # The rate is that of the last iteration of each update.
    state = run(np.float32([3, 5, 1, 2]), step, {rate: 0.1, factor: 0.5}, inputs=[rate])
    assert state["w"] == pytest.approx(1 - 0.1 * 11)


def test_the_global_step_counts_updates():
    def step(x):
        count = train.get_or_create_global_step()
        return Version2(train.GradientDescentOptimizer(0.1), 3).minimize(variable("w", 1.0) * x, global_step=count)

    assert run(np.float32([1, 2, 3, 4, 5, 6]), step)["global_step"] == 2


def test_a_gradient_that_is_none_stays_none():
    def step(x):
        w, other = variable("w", 1.0), variable("other", 2.0)
        optimizer = Version2(train.GradientDescentOptimizer(0.1), 2)
        pairs = optimizer.compute_gradients(w * x, [w, other])
        assert pairs[1][0] is None
        return optimizer.apply_gradients(pairs)

    state = run(np.float32([3, 5]), step)
    assert state["w"] == pytest.approx(0.2) and state["other"] == 2


@pytest.mark.parametrize("dtype", [tf.float32, lambda variable: tf.float32])
def test_sums_of_another_type_reach_the_optimizer(dtype):
    seen = []

    def step(x):
        def cast(gradient, _):
            seen.append(gradient.dtype)
            return tf.cast(gradient, tf.float16)

        class Cast(optimizers.IpuOptimizer):
            def apply_gradients(self, grads_and_vars, global_step=None, name=None):
                return super().apply_gradients([(cast(g, v), v) for g, v in grads_and_vars], global_step, name)

        w = variable("w", 1.0, tf.float16)
        return Version2(Cast(train.GradientDescentOptimizer(2.0**-12)), 4, dtype=dtype).minimize(
            w * tf.cast(x, tf.float16)
        )

    # The sum is 2051, in float16 it would be 2048.
    assert run(np.float32([2048, 1, 1, 1]), step)["w"] == np.float16(1 - np.float16(2051) / 4096)
    assert seen == [tf.float32]


def test_an_update_that_is_not_returned_does_not_run():
    def step(x):
        Version2(train.GradientDescentOptimizer(0.1), 2).minimize(variable("w", 1.0) * x)

    assert run(np.float32([3, 5]), step)["w"] == 1


def test_enqueues_in_gradients_and_in_the_update():
    each, sums = IPUOutfeedQueue(), IPUOutfeedQueue()

    class Enqueue(optimizers.IpuOptimizer):
        def apply_gradients(self, grads_and_vars, global_step=None, name=None):
            pairs = list(grads_and_vars)
            with tf.control_dependencies([sums.enqueue(pairs[0][0])]):
                return super().apply_gradients(pairs, global_step, name)

    def step(x):
        def keep(gradient, _):
            with tf.control_dependencies([each.enqueue(gradient)]):
                return tf.identity(gradient)

        mapped = optimizers.MapGradientOptimizer(Version2(Enqueue(train.GradientDescentOptimizer(0.1)), 2), keep)
        return mapped.minimize(variable("w", 1.0) * x)

    queue = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(np.float32([3, 5, 1, 2])))
    with on_ipu():
        unit = compile(lambda: loops.repeat(4, step, [], queue))
    given = [each.dequeue(), sums.dequeue()]
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), queue.initializer])
        session.run(unit)
        gradients, updates = session.run(given)
    assert gradients.tolist() == [3, 5, 1, 2] and updates.tolist() == [8, 3]


def test_the_number_of_iterations_is_known_when_the_unit_runs():
    n = v1.placeholder(tf.int32, [])

    def step(x):
        return Version2(train.GradientDescentOptimizer(0.1), 2).minimize(variable("w", 1.0) * x)

    assert run(np.float32([3, 5, 1, 2]), step, {n: 4}, n)["w"] == pytest.approx(1 - 1.1)


def test_sums_lie_with_the_variables_of_their_shards(configured):
    def step(x):
        with scopes.ipu_shard(0):
            hidden = tf.tanh(variable("a", 1.0) * x)
        with scopes.ipu_shard(1):
            loss = variable("b", 1.0) * hidden
        return optimizers.ShardedOptimizer(Version2(train.GradientDescentOptimizer(0.1), 2)).minimize(loss)

    configured(2)
    state = run(np.float32([3, 5]), step)
    hidden = np.tanh(np.float32([3, 5]))
    assert state["b"] == pytest.approx(1 - 0.1 * hidden.sum(), rel=1e-5)
    assert state["a"] == pytest.approx(1 - 0.1 * ((1 - hidden**2) * [3, 5]).sum(), rel=1e-4)


@pytest.mark.parametrize(
    "n, counts, text",
    [
        (3, [2], r"sum the gradients of 2 iterations, and it runs 3: repeat\(n, ...\) with a multiple of 2, such as 2"),
        (4, [2, 4], "sums gradients over 2 and over 4 iterations: give its optimizers one num_mini_batches"),
    ],
)
def test_numbers_of_iterations_that_do_not_fit(n, counts, text):
    def step(x):
        loss = variable("w", 1.0) * x
        return tf.group(*[Version2(train.GradientDescentOptimizer(0.1), count).minimize(loss) for count in counts])

    with pytest.raises(tf.errors.FailedPreconditionError, match=text):
        run(np.float32([1, 2, 3, 4]), step, n=n)


def test_what_is_refused():
    def step():
        return Version2(train.GradientDescentOptimizer(0.1), 2).minimize(variable("w", 1.0) * 1.0)

    with on_ipu(), pytest.raises(tf.errors.FailedPreconditionError, match="in the body of an ipu.loops.repeat"):
        compile(step)
    with pytest.raises(ValueError, match="num_mini_batches is 0, and is at least 1"):
        Version2(train.GradientDescentOptimizer(0.1), 0)
    with pytest.raises(NotImplementedError, match="offload_weight_update_variables=True moves the state"):
        Version2(train.GradientDescentOptimizer(0.1), 2, offload_weight_update_variables=True)

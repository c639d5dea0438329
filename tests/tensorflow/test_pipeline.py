"""`ipu.pipelining_ops.pipeline` (chapters 12.6 and 22)."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from both import on_ipu, some
from ipu_tensorflow import accumulation, loops, scopes
from ipu_tensorflow.infeed import IPUInfeedQueue
from ipu_tensorflow.outfeed import IPUOutfeedMode, IPUOutfeedQueue
from ipu_tensorflow.pipeline import pipeline
from ipu_tensorflow.pipelining import OptimizerFunctionOutput, PipelineSchedule, PipelineStageOptions, RecomputationMode
from ipu_tensorflow.unit import compile

v1 = tf.compat.v1
train = v1.train
Grouped, Interleaved, Sequential = PipelineSchedule


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def weight(name, rows, columns):
    return v1.get_variable(
        name, initializer=lambda: tf.constant(some(rows, columns, seed=len(name))), use_resource=True
    )


def first(rate, x, labels):
    return rate, tf.tanh(tf.matmul(x, weight("a", 3, 4))), labels


def middle(rate, x, labels):
    return rate, tf.tanh(tf.matmul(x, weight("bb", 4, 4))), labels


def last(rate, x, labels):
    logits = tf.matmul(x, weight("ccc", 4, 5))
    return rate, tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


STAGES = [first, middle, last]


def momentum(rate, loss):
    return OptimizerFunctionOutput(train.MomentumOptimizer(rate, 0.9), loss)


def elements(count):
    return some(count, 2, 3), np.arange(2 * count, dtype=np.int32).reshape(count, 2) % 5


def reference(count, executions):
    """Losses, and variables after updates by sums of `count` gradients each, in plain TensorFlow."""
    given = elements(count * executions)
    with tf.Graph().as_default(), v1.Session() as session:
        x, labels = v1.placeholder(tf.float32, [2, 3]), v1.placeholder(tf.int32, [2])
        values = 0.1, x, labels
        for stage in STAGES:
            values = stage(*values)
        optimizer = train.MomentumOptimizer(0.1, 0.9)
        pairs = optimizer.compute_gradients(values[1])
        sums = [v1.placeholder(tf.float32, g.shape) for g, _ in pairs]
        update = optimizer.apply_gradients([(total, v) for total, (_, v) in zip(sums, pairs)])
        session.run(v1.global_variables_initializer())
        losses = []
        for start in range(0, count * executions, count):
            rows = [
                session.run([values[1], *(g for g, _ in pairs)], {x: a, labels: b})
                for a, b in zip(given[0][start : start + count], given[1][start : start + count])
            ]
            losses += [row[0] for row in rows]
            session.run(update, {total: sum(row[i + 1] for row in rows) for i, total in enumerate(sums)})
        return losses, {v.op.name: session.run(v) for v in v1.global_variables()}


class Run:
    """One run of a unit with a pipeline in it: `losses`, what the outfeed had, and `state`, the variables."""

    def __init__(self, count, executions, stages=STAGES, **options):
        queue = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(elements(count * executions)))
        outfeed = options.setdefault("outfeed_queue", IPUOutfeedQueue())
        options.setdefault("optimizer_function", momentum)
        rate = v1.placeholder(tf.float32, [])

        def net(rate):
            return pipeline(stages, count, repeat_count=executions, inputs=[rate], infeed_queue=queue, **options)

        with on_ipu():
            unit = compile(net, [rate])
        got = outfeed.dequeue()
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), queue.initializer])
            assert session.run(unit, {rate: 0.1}) is None
            self.got = session.run(got)
            self.state = {v.op.name: session.run(v) for v in v1.global_variables()}


def check(run, count, executions, losses=True):
    expected, state = reference(count, executions)
    if losses:
        np.testing.assert_allclose(run.got, expected, rtol=1e-5)
    assert list(run.state) == list(state)
    for name, value in state.items():
        np.testing.assert_allclose(run.state[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.shows("ipu.ops.pipelining_ops.pipeline")
@pytest.mark.parametrize(
    "schedule, mode, count",
    [
        (Grouped, RecomputationMode.RecomputeThenBackpropagate, 6),
        (Grouped, RecomputationMode.RecomputeAndBackpropagateInterleaved, 18),
        (Interleaved, RecomputationMode.Auto, 3),
        (Interleaved, RecomputationMode.RecomputeThenBackpropagate, 9),
        (Sequential, RecomputationMode.RecomputeAndBackpropagateInterleaved, 1),
        (None, None, 6),
    ],
)
def test_training_equals_updates_by_sums_on_one_device(configured, schedule, mode, count):
    configured(4)
    run = Run(
        count, 2, pipeline_schedule=schedule, recomputation_mode=mode, outfeed_loss=True, device_mapping=[0, 1, 2]
    )
    check(run, count, 2)


def test_options_of_memory_and_products_change_no_value(configured):
    configured(2)
    options = [PipelineStageOptions({"partialsType": "float"})] * 3
    run = Run(
        6,
        1,
        outfeed_loss=True,
        device_mapping=(0, 1, 0),
        forward_propagation_stages_poplar_options=options,
        backward_propagation_stages_poplar_options=options,
        weight_update_poplar_options=options[0],
        offload_weight_update_variables=True,
        replicated_optimizer_state_sharding=True,
        offload_activations=True,
        offload_gradient_accumulation_buffers=True,
        replicated_weight_sharding=True,
        offload_weights=True,
    )
    check(run, 6, 1)


def test_batches_one_after_another_on_one_ipu():
    run = Run(
        2,
        2,
        outfeed_loss=True,
        batch_serialization_iterations=1,
        pipeline_schedule=Sequential,
        device_mapping=[0, 0, 0],
    )
    check(run, 2, 2)


def test_a_count_of_batches_in_series_is_part_of_an_execution():
    queue = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(elements(4)))
    outfeed = IPUOutfeedQueue()
    with on_ipu():
        unit = compile(
            lambda: pipeline(
                STAGES,
                2,
                batch_serialization_iterations=2,
                inputs=[0.1],
                infeed_queue=queue,
                outfeed_queue=outfeed,
                optimizer_function=momentum,
                outfeed_loss=True,
            )
        )
    got = outfeed.dequeue()
    expected, state = reference(4, 1)
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), queue.initializer])
        session.run(unit)
        np.testing.assert_allclose(session.run(got), expected, rtol=1e-5)
        np.testing.assert_allclose(session.run(v1.global_variables()[0]), state["a"], rtol=1e-4, atol=1e-6)


# --- outfeeds


def test_the_outfeed_of_training_takes_all_results_of_the_last_stage(configured):
    configured(4)
    rates, losses = Run(6, 2, device_mapping=[0, 1, 2]).got
    np.testing.assert_allclose(losses, reference(6, 2)[0], rtol=1e-5)
    assert rates.tolist() == [np.float32(0.1)] * 12


def test_a_mask_leaves_results_out(configured):
    configured(4)
    (losses,) = Run(6, 1, outfeed_mask=[True, False], device_mapping=[0, 1, 2]).got
    np.testing.assert_allclose(losses, reference(6, 1)[0], rtol=1e-5)


@pytest.mark.parametrize("dtype", [None, tf.float32, lambda tensor: tensor.dtype])
def test_an_outfeed_of_sums(configured, dtype):
    configured(4)
    got = Run(
        6, 2, outfeed_loss=True, accumulate_outfeed=True, accumulate_outfeed_dtype=dtype, device_mapping=[0, 1, 2]
    ).got
    np.testing.assert_allclose(got, np.reshape(reference(6, 2)[0], [2, 6]).sum(axis=1), rtol=1e-5)


def inference(stages, count, executions, sums=False):
    queue = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(np.arange(count * executions, dtype=np.float32)))
    outfeed = IPUOutfeedQueue()
    with on_ipu():
        unit = compile(
            lambda: pipeline(
                stages,
                count,
                repeat_count=executions,
                infeed_queue=queue,
                outfeed_queue=outfeed,
                accumulate_outfeed=sums,
                device_mapping=[0, 0],
            )
        )
    got = outfeed.dequeue()
    with v1.Session() as session:
        session.run(queue.initializer)
        session.run(unit)
        return session.run(got)


def test_inference_gives_lists_and_dictionaries():
    (doubled,) = inference([lambda x: x + 1, lambda x: x * 2], 2, 2)
    assert doubled.tolist() == [2, 4, 6, 8]
    named = inference([lambda x: x + 1, lambda x: {"twice": x * 2, "same": x}], 4, 1)
    assert named["twice"].tolist() == [2, 4, 6, 8] and named["same"].tolist() == [1, 2, 3, 4]
    (sums,) = inference([lambda x: x + 1, lambda x: x * 2], 2, 2, sums=True)
    assert sums.tolist() == [6, 14]


# --- stages


def test_elements_by_keyword_and_partial_functions_as_stages():
    data = {"x": np.float32([1, 2]), "y": np.float32([10, 20])}
    queue, outfeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(data)), IPUOutfeedQueue()

    def scale(factor, y, x):
        return x * factor, y

    stages = [functools.partial(scale, 2.0), lambda x, y: x + y]
    with on_ipu():
        unit = compile(lambda: pipeline(stages, 2, infeed_queue=queue, outfeed_queue=outfeed, device_mapping=[0, 0]))
    got = outfeed.dequeue()
    with v1.Session() as session:
        session.run(queue.initializer)
        session.run(unit)
        assert session.run(got)[0].tolist() == [12, 24]


def test_functions_of_one_stage_get_the_same_arguments_and_their_results_are_put_together(configured):
    configured(4)
    queue, outfeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(np.float32([1, 2]))), IPUOutfeedQueue()
    stages = [[lambda x: x + 1, lambda x: (x * 2, x)], lambda a, b, c: a * 100 + b * 10 + c]
    with on_ipu():
        unit = compile(
            lambda: pipeline(stages, 2, infeed_queue=queue, outfeed_queue=outfeed, device_mapping=[[0, 1], 2])
        )
    got = outfeed.dequeue()
    with v1.Session() as session:
        session.run(queue.initializer)
        session.run(unit)
        assert session.run(got)[0].tolist() == [221, 342]


def test_a_variable_of_two_stages_on_one_ipu_has_the_sum_of_their_gradients(configured):
    configured(2)
    queue = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(np.float32([1, 2, 3, 4, 5, 6])))

    def w():
        return v1.get_variable("w", initializer=lambda: tf.constant(1.0), use_resource=True)

    with v1.variable_scope("", reuse=v1.AUTO_REUSE), on_ipu():
        unit = compile(
            lambda: pipeline(
                [lambda x: x * w(), lambda x: x + 0.0, lambda x: x * w()],
                6,
                infeed_queue=queue,
                outfeed_queue=IPUOutfeedQueue(),
                optimizer_function=lambda loss: OptimizerFunctionOutput(train.GradientDescentOptimizer(0.01), loss),
                device_mapping=[0, 1, 0],
            )
        )
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), queue.initializer])
        session.run(unit)
        assert session.run(v1.global_variables()) == [pytest.approx(1 - 0.01 * 2 * 21)]


def test_an_enqueue_of_the_users_in_a_stage_and_a_loop_in_another():
    queue, own, outfeed = (
        IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(np.float32([1, 2]))),
        IPUOutfeedQueue(),
        IPUOutfeedQueue(),
    )

    def stage(x):
        with tf.control_dependencies([own.enqueue(x * 3)]):
            return tf.identity(x)

    with on_ipu():
        unit = compile(
            lambda: pipeline(
                [stage, lambda x: loops.repeat(3, lambda a: a * 2, [x])],
                2,
                infeed_queue=queue,
                outfeed_queue=outfeed,
                device_mapping=[0, 0],
            )
        )
    got = [own.dequeue(), outfeed.dequeue()]
    with v1.Session() as session:
        session.run(queue.initializer)
        session.run(unit)
        mine, (results,) = session.run(got)
    assert mine.tolist() == [3, 6] and results.tolist() == [8, 16]


# --- what is refused


def build(stages=STAGES, count=6, **options):
    queue = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(elements(6)))
    options = {
        "inputs": [0.1],
        "infeed_queue": queue,
        "outfeed_queue": IPUOutfeedQueue(),
        "optimizer_function": momentum,
    } | options
    with on_ipu():
        return compile(lambda: pipeline(stages, count, **options))


@pytest.mark.parametrize(
    "options, error, text",
    [
        ({"stages": first}, TypeError, "computational_stages is a list or a tuple, not function"),
        ({"stages": [first]}, ValueError, "has 1 stages; a pipeline has at least 2"),
        ({"count": None}, ValueError, "gradient_accumulation_count is None; state how many"),
        ({"count": 0}, ValueError, "gradient_accumulation_count is 0"),
        ({"infeed_queue": [1]}, TypeError, "infeed_queue is an IPUInfeedQueue, not list"),
        ({"outfeed_queue": 3}, TypeError, "outfeed_queue is an IPUOutfeedQueue, not int"),
        ({"outfeed_queue": None}, ValueError, "the last stage gives tensors, and there is no outfeed_queue"),
        ({"device_mapping": 3}, TypeError, "device_mapping is a list or a tuple, not int"),
        ({"device_mapping": [0, 1]}, ValueError, "device_mapping has 2 entries for 3 stages"),
        (
            {"device_mapping": [0, 1, 0], "pipeline_schedule": Interleaved},
            NotImplementedError,
            "each stage of a training pipeline",
        ),
        ({"pipeline_schedule": 1}, TypeError, "pipeline_schedule is a PipelineSchedule, not int"),
        ({"recomputation_mode": "Auto"}, TypeError, "recomputation_mode is a RecomputationMode, not str"),
        (
            {"recomputation_mode": RecomputationMode.RecomputeThenBackpropagate, "pipeline_schedule": Sequential},
            ValueError,
            "RecomputeThenBackpropagate does not go with the schedule Sequential",
        ),
        ({"forward_propagation_stages_poplar_options": [{}] * 3}, TypeError, "has PipelineStageOptions, not dict"),
        (
            {"backward_propagation_stages_poplar_options": [PipelineStageOptions()]},
            ValueError,
            "has 1 entries for 3 stages",
        ),
        (
            {"batch_serialization_iterations": 2, "device_mapping": [0, 1, 2]},
            NotImplementedError,
            "Sequential on one IPU",
        ),
        ({"continuous_weight_updates": True}, NotImplementedError, "continuous_weight_updates"),
        ({"outfeed_loss": True, "outfeed_mask": [True, False]}, ValueError, "exclude each other"),
        ({"outfeed_loss": True, "optimizer_function": None}, ValueError, "are for training"),
        ({"outfeed_mask": [True]}, ValueError, "outfeed_mask has 1 entries for 2 results"),
        (
            {"outfeed_queue": IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST), "accumulate_outfeed": True},
            ValueError,
            "of the mode ALL",
        ),
        (
            {"count": 4},
            tf.errors.FailedPreconditionError,
            "is 4; with the schedule Grouped and 3 stages it is a multiple of 6, such as 6",
        ),
        (
            {"count": 4, "pipeline_schedule": Interleaved},
            tf.errors.FailedPreconditionError,
            "a multiple of 3, such as 6",
        ),
        ({"stages": [first, lambda a: a, last]}, TypeError, "stage 1 of a pipeline, .* cannot take 3 values"),
        ({"optimizer_function": lambda rate, loss: loss}, TypeError, "returns an OptimizerFunctionOutput, not"),
    ],
)
def test_arguments_that_do_not_fit(options, error, text):
    with pytest.raises(error, match=text):
        build(**options)


def test_a_tensor_that_is_no_argument_of_a_stage_is_named_with_its_line():
    outer = tf.constant(some(4, 4)) * 2.0
    kept = []

    def keeps(rate, x, labels):
        kept.append(x)
        return first(rate, x, labels)

    with pytest.raises(
        ValueError,
        match=r"stage 1 uses the tensor 'mul:0', made at .*test_pipeline.py:\d+, which is none of its arguments",
    ):
        build([first, lambda rate, x, labels: (rate, tf.matmul(x, outer), labels), last])
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="stage 1 uses the tensor .* which is none of its arguments"):
            build([keeps, lambda rate, x, labels: (rate, x + tf.reduce_sum(kept[0]), labels), last])


def test_stages_that_share_a_variable_lie_on_one_ipu():
    with (
        v1.variable_scope("", reuse=v1.AUTO_REUSE),
        pytest.raises(ValueError, match="variable 'bb' is used in stage 1 on IPU 1 and in stage 2 on IPU 2"),
    ):
        build([first, middle, middle, last], 8)


def test_an_optimizer_that_sums_gradients_is_refused():
    def function(rate, loss):
        return OptimizerFunctionOutput(
            accumulation.GradientAccumulationOptimizerV2(train.GradientDescentOptimizer(0.1), 2), loss
        )

    with pytest.raises(ValueError, match="it sums gradients by itself"):
        build(optimizer_function=function)


def test_outside_of_a_unit_a_pipeline_is_refused():
    with scopes.ipu_scope("/device:IPU:0"), pytest.raises(ValueError, match="inside ipu_compiler.compile"):
        pipeline(STAGES, 6)

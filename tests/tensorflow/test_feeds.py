"""Infeeds and outfeeds (chapters 4 and 21)."""

import gc
import threading

import numpy as np
import pytest
import tensorflow as tf
from both import on_ipu, some
from ipu_tensorflow import loops
from ipu_tensorflow.infeed import IPUInfeedQueue
from ipu_tensorflow.outfeed import IPUOutfeedMode, IPUOutfeedQueue
from ipu_tensorflow.unit import compile

v1 = tf.compat.v1
Dataset = tf.data.Dataset


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def numbers(count):
    return Dataset.range(count).map(lambda i: tf.cast(i, tf.float32))


def total(n, queue):
    return loops.repeat(n, lambda a, x: a + x, [0.0], queue)


def built(net, *given):
    with on_ipu():
        return compile(net, list(given))


def started(session, *queues):
    session.run(v1.global_variables_initializer())
    session.run([queue.initializer for queue in queues])


# --- infeeds


@pytest.mark.shows(
    "ipu.ipu_infeed_queue.IPUInfeedQueue",
    "ipu.ipu_infeed_queue.IPUInfeedQueue.dequeued",
    "ipu.ipu_infeed_queue.IPUInfeedQueue.number_of_tuple_elements",
)
def test_a_run_goes_on_where_the_last_one_stopped():
    queue = IPUInfeedQueue(numbers(100))
    result = built(lambda: total(4, queue))
    assert queue.dequeued and queue.number_of_tuple_elements == 1
    with v1.Session() as session:
        started(session, queue)
        assert [session.run(result)[0] for _ in range(3)] == [6, 22, 38]


def test_two_units_and_two_loops_draw_from_one_sequence():
    queue = IPUInfeedQueue(numbers(100))
    first = built(lambda: total(3, queue))
    second = built(lambda: (total(2, queue), total(2, queue)))
    with v1.Session() as session:
        started(session, queue)
        assert session.run(first) == [3]
        assert sum(session.run(second)) == 3 + 4 + 5 + 6
        assert session.run(first) == [7 + 8 + 9]


@pytest.mark.parametrize(
    "element, form",
    [
        (lambda i: i, (1, [])),
        (lambda i: (i, i * 2), (2, [])),
        (lambda i: [i, i * 2], (2, [])),
        (lambda i: {"x": i, "y": i * 2}, (0, ["x", "y"])),
        (lambda i: ({"x": i, "y": i * 2},), (0, ["x", "y"])),
        (lambda i: (i, {"x": i, "y": i * 2}), (2, [])),
    ],
)
def test_how_an_element_becomes_arguments(element, form):
    queue = IPUInfeedQueue(numbers(10).map(element))
    seen = []

    def body(a, *positional, **keywords):
        seen.append((positional, keywords))
        leaves = tf.nest.flatten([positional, keywords])
        return a + tf.add_n(leaves)

    result = built(lambda: loops.repeat(3, body, [0.0], queue))
    (positional, keywords), *_ = seen
    assert (len(positional), list(keywords)) == form == queue.argument_form
    assert queue.number_of_tuple_elements == form[0] + len(form[1])
    weight = {(1, ()): 1, (2, ()): 3, (0, ("x", "y")): 3}[form[0], tuple(form[1])]
    if len(positional) == 2 and isinstance(positional[1], dict):
        weight = 4
    with v1.Session() as session:
        started(session, queue)
        assert session.run(result) == [3 * weight]


def test_all_types_that_the_ipu_takes():
    types = [tf.float32, tf.float16, tf.int32, tf.bool, tf.int8, tf.uint8]
    queue = IPUInfeedQueue(Dataset.range(1, 20).map(lambda i: tuple(tf.cast(i, dtype) for dtype in types)))

    def body(a, *values):
        return a + tf.add_n([tf.cast(value, tf.float32) for value in values])

    result = built(lambda: loops.repeat(2, body, [0.0], queue))
    with v1.Session() as session:
        started(session, queue)
        assert session.run(result) == [5 * 3 + 2]


@pytest.mark.parametrize("dtype", [tf.int64, tf.float64, tf.string])
def test_other_types_are_refused_when_the_queue_is_initialised(dtype):
    data = Dataset.range(3)
    data = data.map(lambda i: (i * 2, tf.strings.as_string(i) if dtype == tf.string else tf.cast(i, dtype)))
    queue = IPUInfeedQueue(data.map(lambda a, b: (tf.cast(a, tf.int32), b)))
    with (
        v1.Session() as session,
        pytest.raises(tf.errors.FailedPreconditionError, match=f"component 1 .* {dtype.name}.*Cast it"),
    ):
        session.run(queue.initializer)


def test_only_what_is_wanted_and_the_depth_is_taken():
    taken = []

    def watched(x):
        taken.append(float(x))
        return x

    data = numbers(100).map(lambda x: tf.ensure_shape(tf.numpy_function(watched, [x], tf.float32), []))
    queue = IPUInfeedQueue(data, prefetch_depth=3)
    result = built(lambda: total(4, queue))
    with v1.Session() as session:
        started(session, queue)
        assert taken == []
        session.run(result)
        session.run(result)
        assert 8 <= len(taken) <= 8 + 3 + 1


def test_the_number_of_elements_may_be_fed():
    queue = IPUInfeedQueue(numbers(100))
    n = v1.placeholder(tf.int32, [])
    result = built(lambda trips: total(trips, queue), n)
    with v1.Session() as session:
        started(session, queue)
        assert [session.run(result, {n: count})[0] for count in (3, 0, 2)] == [3, 0, 7]


def test_a_while_loop_takes_as_many_as_it_runs():
    queue = IPUInfeedQueue(numbers(100))
    result = built(lambda: loops.while_loop(lambda a: a < 10.0, lambda a, x: a + x, [0.0], queue))
    with v1.Session() as session:
        started(session, queue)
        assert session.run(result) == [10] and session.run(result) == [5 + 6]


def test_a_lookup_table_of_the_dataset_may_be_initialised_later():
    keys, values = tf.constant([0, 1, 2], tf.int64), tf.constant([5.0, 6.0, 7.0])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1.0)
    queue = IPUInfeedQueue(Dataset.range(4).map(table.lookup))
    result = built(lambda: total(4, queue))
    with v1.Session() as session:
        started(session, queue)
        session.run(v1.tables_initializer())
        assert session.run(result) == [5 + 6 + 7 - 1]


def test_the_end_of_the_data_is_an_error_of_the_run_and_nothing_is_written():
    queue = IPUInfeedQueue(numbers(5))

    def net():
        count = v1.get_variable("count", [], initializer=v1.zeros_initializer())
        return loops.repeat(4, lambda a, x: (a + x, count.assign_add(1.0).op), [0.0], queue)

    result = built(net)
    initializer, deleter = queue.initializer, queue.deleter
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), initializer])
        assert session.run(result) == [6]
        with pytest.raises(tf.errors.OutOfRangeError, match="the dataset has ended"):
            session.run(result)
        assert session.run(v1.global_variables()) == [4]
        session.run(deleter)
        session.run(initializer)
        assert session.run(result) == [6]


def test_an_error_of_the_dataset_is_the_error_of_the_run():
    checked = numbers(10).map(lambda x: tf.debugging.check_numerics(x / (3.0 - x), "not a number"))
    queue = IPUInfeedQueue(checked)
    result = built(lambda: total(5, queue))
    with v1.Session() as session:
        started(session, queue)
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a number"):
            session.run(result)


def test_a_dataset_reads_variables_of_the_session_when_its_elements_are_wanted():
    v = v1.get_variable("v", [], initializer=v1.ones_initializer(), use_resource=True)
    queue = IPUInfeedQueue(numbers(10).map(lambda x: x + v))
    result = built(lambda: total(2, queue))
    with v1.Session() as session:
        session.run(queue.initializer)
        session.run(v1.global_variables_initializer())
        assert session.run(result) == [0 + 1 + 1 + 1]
        v.load(10.0, session)
        second = session.run(result)[0]  # the first of its elements may have been made ahead of it
        assert second in (2 + 1 + 3 + 10, 2 + 10 + 3 + 10)
        assert session.run(result) == [4 + 10 + 5 + 10]


def test_a_variable_whose_value_is_data():
    v = v1.get_variable("v", initializer=np.arange(6, dtype=np.float32), use_resource=True)
    queue = IPUInfeedQueue(Dataset.from_tensor_slices(v))
    result = built(lambda: total(3, queue))
    with v1.Session() as session:
        session.run(queue.initializer)
        session.run(v1.global_variables_initializer())
        assert session.run(result) == [3] and session.run(result) == [12]
        with pytest.raises(tf.errors.OutOfRangeError, match="the dataset has ended"):
            session.run(result)


def test_placeholders_of_a_dataset_are_fed_to_the_initializer():
    data, scale = v1.placeholder(tf.float32, [4]), v1.placeholder(tf.float32, [])
    queue = IPUInfeedQueue(Dataset.from_tensor_slices(data).map(lambda x: x * scale).repeat())
    result = built(lambda: total(4, queue))
    initializer = queue.initializer
    with v1.Session() as session:
        for factor in (1.0, 3.0):
            session.run(initializer, {data: [1, 2, 3, 4], scale: factor})
            assert session.run(result) == [10 * factor] and session.run(result) == [10 * factor]
        with pytest.raises(tf.errors.InvalidArgumentError, match="feed a value"):
            session.run(initializer)


def test_an_uninitialised_variable_of_a_dataset_is_the_error_of_the_run():
    v = v1.get_variable("v", [], initializer=v1.ones_initializer(), use_resource=True)
    queue = IPUInfeedQueue(numbers(10).map(lambda x: x + v))
    result = built(lambda: total(2, queue))
    with v1.Session() as session:
        session.run(queue.initializer)
        with pytest.raises(tf.errors.FailedPreconditionError, match="the dataset failed"):
            session.run(result)


def test_two_sessions_have_variables_of_their_own():
    v = v1.get_variable("v", [], initializer=v1.zeros_initializer(), use_resource=True)
    queue = IPUInfeedQueue(numbers(10).map(lambda x: x + v))
    result = built(lambda: total(2, queue))
    initializer = queue.initializer
    for value in (5.0, 7.0):
        with v1.Session() as session:
            v.load(value, session)
            session.run(initializer)
            assert session.run(result) == [0 + 1 + 2 * value]


def test_the_session_of_a_dataset_is_found_by_session_run():
    v = v1.get_variable("v", [], initializer=v1.zeros_initializer(), use_resource=True)
    queue = IPUInfeedQueue(numbers(10).map(lambda x: x + v))
    result = built(lambda: total(2, queue))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.make_callable(queue.initializer)()
        with pytest.raises(tf.errors.FailedPreconditionError, match="0 sessions of its graph run: initialise it by"):
            session.run(result)


def feeders():
    return [thread for thread in threading.enumerate() if thread.name.startswith("feeder of")]


@pytest.mark.parametrize("reads_variables", [False, True])
def test_a_feeder_ends_with_its_graph(reads_variables):
    def use():
        with tf.Graph().as_default():
            v = v1.get_variable("v", [], initializer=v1.zeros_initializer(), use_resource=True)
            dataset = numbers(10).map(lambda x: x + v) if reads_variables else numbers(10)
            queue = IPUInfeedQueue(dataset)
            result = built(lambda: total(2, queue))
            with v1.Session() as session:
                started(session, queue)
                assert session.run(result) == [1]
                return [thread for thread in feeders() if thread not in before]

    before = feeders()
    ours = use()
    assert ours
    gc.collect()
    for thread in ours:
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.shows(
    "ipu.ipu_infeed_queue.IPUInfeedQueue.initializer",
    "ipu.ipu_infeed_queue.IPUInfeedQueue.deleter",
    "ipu.ipu_infeed_queue.IPUInfeedQueue.get_next",
)
def test_life_of_a_queue():
    queue = IPUInfeedQueue(numbers(10))
    result = built(lambda: total(2, queue))
    initializer, deleter = queue.initializer, queue.deleter
    with pytest.raises(ValueError, match="taken once"):
        queue.initializer  # noqa: B018
    with pytest.raises(ValueError, match="obsolete"):
        queue.get_next()
    with v1.Session() as session:
        with pytest.raises(tf.errors.NotFoundError, match="does not exist"):
            session.run(deleter)
        with pytest.raises(tf.errors.FailedPreconditionError, match="initializer"):
            session.run(result)
        for _ in range(2):
            session.run(initializer)
            assert session.run(result) == [1] and session.run(result) == [5]
            session.run(deleter)


def test_what_a_queue_refuses():
    with pytest.raises(ValueError, match="fully defined.*drop_remainder"):
        IPUInfeedQueue(numbers(10).batch(3))
    with pytest.raises(ValueError, match="a list or a tuple in it"):
        IPUInfeedQueue(numbers(10).map(lambda x: (x, (x, x))))
    for depth in (0, -1, 256):
        with pytest.raises(ValueError, match="prefetch_depth"):
            IPUInfeedQueue(numbers(10), prefetch_depth=depth)
    queue = IPUInfeedQueue(numbers(10))
    with pytest.raises(TypeError, match="1 of the infeed"):
        built(lambda: loops.repeat(2, lambda a: a, [1.0], queue))
    assert not queue.dequeued


@pytest.mark.parametrize("text, value", [("", 0), (" --synthetic_data_initializer=3", 3)])
def test_made_up_data(monkeypatch, text, value):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_synthetic_data" + text)
    queue = IPUInfeedQueue(numbers(2).map(lambda x: (x + 7.0, {"y": x})))
    every, last = IPUOutfeedQueue(), IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST)

    def net():
        def body(a, x, named):
            return a + x + named["y"], every.enqueue(x), last.enqueue(x)

        return loops.repeat(5, body, [0.0], queue)

    result = built(net)
    fetched, newest = every.dequeue(), last.dequeue()
    with v1.Session() as session:
        started(session, queue)
        assert session.run(result) == [10 * value]
        assert session.run(fetched).shape == (0,)
        with pytest.raises(tf.errors.FailedPreconditionError, match="nothing was enqueued"):
            session.run(newest)


# --- outfeeds


def enqueuing(outfeed, element, n=5):
    """A loop that doubles a vector and enqueues element(vector)."""

    def net():
        def body(a):
            a = a * 2.0
            return a, outfeed.enqueue(element(a))

        return loops.repeat(n, body, [tf.ones([3])])

    return built(net)


@pytest.mark.shows(
    "ipu.ipu_outfeed_queue.IPUOutfeedQueue",
    "ipu.ipu_outfeed_queue.IPUOutfeedQueue.enqueue",
    "ipu.ipu_outfeed_queue.IPUOutfeedQueue.dequeue",
)
def test_all_elements_come_in_their_structure():
    outfeed = IPUOutfeedQueue()
    result = enqueuing(outfeed, lambda a: {"acc": a, "norm": tf.reduce_sum(a)})
    fetched = outfeed.dequeue()
    with v1.Session() as session:
        empty = session.run(fetched)
        assert empty["acc"].shape == (0, 3) and empty["norm"].shape == (0,)
        session.run(result)
        got = session.run(fetched)
        assert got["norm"].tolist() == [6, 12, 24, 48, 96] and got["acc"].shape == (5, 3)
        assert session.run(fetched)["acc"].shape == (0, 3)
        session.run(result), session.run(result)
        assert session.run(fetched)["norm"].tolist() == [6, 12, 24, 48, 96] * 2


@pytest.mark.shows("ipu.ipu_outfeed_queue.IPUOutfeedMode")
def test_only_the_last_element():
    outfeed = IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST)
    result = enqueuing(outfeed, lambda a: (a, tf.reduce_sum(a)))
    fetched = outfeed.dequeue()
    with v1.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="nothing was enqueued"):
            session.run(fetched)
        session.run(result)
        last, norm = session.run(fetched)
        assert last.tolist() == [32, 32, 32] and norm.shape == () and norm == 96
        with pytest.raises(tf.errors.FailedPreconditionError, match="nothing was enqueued"):
            session.run(fetched)


def test_leaves_may_be_numbers_arrays_and_variables():
    outfeed = IPUOutfeedQueue()

    def element(a):
        v = v1.get_variable("v", [2], initializer=v1.ones_initializer())
        return {1: a, 0: 3, 2: [np.float32([1, 2]), v, 2.5]}

    result = enqueuing(outfeed, element, n=2)
    fetched = outfeed.dequeue()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(result)
        got = session.run(fetched)
    assert list(got) == [1, 0, 2] and got[0].tolist() == [3, 3] and got[0].dtype == np.int32
    assert (
        got[2][0].tolist() == [[1, 2]] * 2 and got[2][1].tolist() == [[1, 1]] * 2 and got[2][2].tolist() == [2.5, 2.5]
    )


def test_an_enqueue_outside_of_a_loop_and_in_a_condition():
    once, some_times = IPUOutfeedQueue(), IPUOutfeedQueue()
    x = v1.placeholder(tf.float32, [])

    def net(a):
        def enqueued():
            with tf.control_dependencies([some_times.enqueue(a)]):
                return tf.identity(a)

        return tf.cond(a > 0.0, enqueued, lambda: -a), once.enqueue(a)

    result = built(net, x)
    fetched = once.dequeue(), some_times.dequeue()
    with v1.Session() as session:
        for value in (1.0, -2.0, 3.0):
            session.run(result, {x: value})
        first, second = session.run(fetched)
        assert first.tolist() == [1, -2, 3] and second.tolist() == [1, 3]


def test_an_enqueue_that_is_not_returned_sends_nothing():
    outfeed = IPUOutfeedQueue()

    def net():
        outfeed.enqueue(tf.ones([2]))
        return tf.zeros([])

    result = built(net)
    fetched = outfeed.dequeue()
    with v1.Session() as session:
        session.run(result)
        assert session.run(fetched).shape == (0, 2)


def test_a_thread_dequeues_while_a_run_is_on():
    queue, outfeed = IPUInfeedQueue(numbers(400).repeat()), IPUOutfeedQueue()

    def body(x):
        return outfeed.enqueue(x)

    result = built(lambda: loops.repeat(300, body, [], queue))
    fetched = outfeed.dequeue()
    got = []
    with v1.Session() as session:
        started(session, queue)
        done = threading.Event()

        def take():
            while True:
                is_last = done.is_set()
                got.extend(session.run(fetched).tolist())
                if is_last:
                    return

        thread = threading.Thread(target=take)
        thread.start()
        session.run(result)
        done.set()
        thread.join()
    assert got == list(range(300))


def test_dequeue_waits_for_a_run_to_end():
    outfeed = IPUOutfeedQueue()
    x = v1.placeholder(tf.float32, [2])
    result = built(lambda a: loops.repeat(200, lambda b: (b, outfeed.enqueue(b)), [a]), x)
    fetched = outfeed.dequeue(wait_for_completion=True)
    with v1.Session() as session:
        session.run(result, {x: [1, 2]})
        assert session.run(fetched).shape == (200, 2)


@pytest.mark.shows("ipu.ipu_outfeed_queue.IPUOutfeedQueue.deleter", "ipu.ipu_outfeed_queue.IPUOutfeedQueue.enqueued")
def test_what_an_outfeed_refuses():
    for mode in ("all", 1):
        with pytest.raises(ValueError, match="IPUOutfeedMode"):
            IPUOutfeedQueue(outfeed_mode=mode)
    for ordinal in (-1, "0"):
        with pytest.raises(ValueError, match="device_ordinal"):
            IPUOutfeedQueue(device_ordinal=ordinal)
    outfeed = IPUOutfeedQueue()
    with pytest.raises(ValueError, match="dequeue before enqueue"):
        outfeed.dequeue()
    assert not outfeed.enqueued

    def net():
        return tf.zeros([]), outfeed.enqueue(tf.zeros([])), outfeed.enqueue(tf.zeros([]))

    with pytest.raises(ValueError, match="enqueued already"):
        built(net)
    assert outfeed.enqueued
    deleter, fetched = outfeed.deleter, outfeed.dequeue()
    with v1.Session() as session:
        session.run(deleter)
        with pytest.raises(tf.errors.NotFoundError, match="does not exist"):
            session.run(fetched)


def test_a_program_that_trains_from_an_infeed_into_an_outfeed(graph):
    data = [(some(4, 3, seed=i), some(4, 1, seed=i + 50)) for i in range(5)]

    def step(x, y):
        w = v1.get_variable("w", [3, 1], initializer=v1.constant_initializer(0.3))
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
        return loss, v1.train.GradientDescentOptimizer(0.1).minimize(loss)

    arrays = tuple(np.stack(column) for column in zip(*data))
    queue, outfeed = IPUInfeedQueue(Dataset.from_tensor_slices(arrays).repeat()), IPUOutfeedQueue()

    def body(x, y):
        loss, train = step(x, y)
        return outfeed.enqueue(loss), train

    result = built(lambda: loops.repeat(10, body, [], queue))
    fetched = outfeed.dequeue()
    with v1.Session() as session:
        started(session, queue)
        session.run(result), session.run(result)
        losses, (weight,) = session.run(fetched), session.run(v1.global_variables())
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = v1.placeholder(tf.float32, [4, 3]), v1.placeholder(tf.float32, [4, 1])
        with v1.variable_scope("", use_resource=True):
            results = step(x, y)
        session.run(v1.global_variables_initializer())
        wanted = [session.run(results, {x: data[i % 5][0], y: data[i % 5][1]})[0] for i in range(20)]
        assert np.allclose(losses, wanted, rtol=1e-5) and np.allclose(
            weight, session.run(v1.global_variables())[0], rtol=1e-5
        )

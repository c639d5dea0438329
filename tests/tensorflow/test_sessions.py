"""Units in all kinds of sessions, variables shared with the host, checkpoints (chapters 20 and 30)."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from both import on_ipu, some
from ipu_tensorflow.unit import compile, units_of

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def counting(amount=1.0):
    """A unit that adds to a variable, and the variable."""

    def net():
        count = v1.get_variable("count", [2], initializer=v1.zeros_initializer())
        return count.assign_add([amount, amount]).op

    with on_ipu(), v1.variable_scope("", reuse=tf.compat.v1.AUTO_REUSE):
        op = compile(net)
    return op, v1.global_variables()[0]


def test_a_monitored_session(tmp_path):
    step = v1.train.get_or_create_global_step()
    x = tf.constant(some(4, 3))

    def net(data):
        w = v1.get_variable("w", [3, 1], initializer=v1.ones_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(data, w)))
        return loss, v1.train.GradientDescentOptimizer(0.1).minimize(loss)

    with on_ipu():
        (loss,) = compile(net, [x])
    with tf.control_dependencies([loss]):
        advance = step.assign_add(1)
    hooks = [v1.train.StopAtStepHook(last_step=5)]
    losses = []
    with v1.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path), hooks=hooks, save_checkpoint_steps=2
    ) as session:
        while not session.should_stop():
            losses.append(session.run([loss, advance])[0])
    assert len(losses) == 5 and losses == sorted(losses, reverse=True)
    saved = dict(tf.train.list_variables(str(tmp_path)))
    assert saved == {"global_step": [], "w": [3, 1]}
    assert tf.train.load_variable(str(tmp_path), "global_step") == 5


def test_an_in_process_server():
    op, count = counting()
    server = tf.distribute.Server.create_local_server()
    with v1.Session(server.target) as session:
        session.run(count.initializer)
        session.run(op)
        session.run(op)
        assert session.run(count).tolist() == [2, 2]


def test_one_thread_for_operations_is_enough():
    op, count = counting()
    config = v1.ConfigProto(
        inter_op_parallelism_threads=1, intra_op_parallelism_threads=1, use_per_session_threads=True
    )
    with v1.Session(config=config) as session:
        session.run(count.initializer)
        session.run(op)
        assert session.run(count).tolist() == [1, 1]


def test_several_threads_and_sessions():
    op, count = counting()
    x = v1.placeholder(tf.float32, [2])
    with on_ipu():
        (double,) = compile(lambda a: a * 2.0, [x])
    with v1.Session() as one, v1.Session() as two:
        wrong = []

        def work(session, number):
            for i in range(10):
                got = session.run(double, {x: [number, i]})
                if got.tolist() != [2 * number, 2 * i]:
                    wrong.append(got)

        threads = [threading.Thread(target=work, args=(session, n)) for n, session in enumerate([one, two, one, two])]
        for session, runs in ((one, 3), (two, 1)):
            session.run(count.initializer)
            for _ in range(runs):
                session.run(op)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert one.run(count).tolist() == [3, 3] and two.run(count).tolist() == [1, 1]


def test_two_sessions_have_values_of_their_own():
    op, count = counting()
    with v1.Session() as one, v1.Session() as two:
        one.run(count.initializer), two.run(count.initializer)
        for session, runs in ((one, 1), (two, 2), (one, 2)):
            for _ in range(runs):
                session.run(op)
        assert one.run(count).tolist() == [3, 3] and two.run(count).tolist() == [2, 2]


WRITES = {
    "assign": lambda v: v.assign([5.0, 6.0]),
    "assign_add": lambda v: v.assign_add([4.0, 5.0]),
    "assign_sub": lambda v: v.assign_sub([-4.0, -5.0]),
    "scatter_update": lambda v: v.scatter_update(tf.IndexedSlices([5.0, 6.0], [0, 1])),
    "scatter_add": lambda v: v.scatter_add(tf.IndexedSlices([4.0, 5.0], [0, 1])),
    "slice": lambda v: tf.group(v[0].assign(5.0), v[1].assign(6.0)),
}


@pytest.mark.parametrize("way", [*WRITES, "load", "initializer", "another unit", "restore"])
def test_every_way_in_which_the_host_writes_a_variable(graph, way, tmp_path):
    op, count = counting()
    with v1.Session() as session:
        session.run(count.initializer)
        saver = v1.train.Saver()
        write = WRITES[way](count) if way in WRITES else None
        other = counting(4.0)[0] if way == "another unit" else None
        session.run(op)
        if way == "restore":
            session.run(count.assign([5.0, 6.0]))
            path = saver.save(session, str(tmp_path / "model"))
            session.run(count.assign([1.0, 1.0]))
            session.run(op)
            saver.restore(session, path)
        elif way == "load":
            count.load([5.0, 6.0], session)
        elif way == "initializer":
            session.run(count.initializer)
        elif way == "another unit":
            session.run(other)
        else:
            session.run(write)
        before = session.run(count)
        wanted = {"initializer": [0, 0], "another unit": [5, 5]}.get(way, [5, 6])
        assert before.tolist() == wanted
        for _ in range(3):
            session.run(op)
        assert session.run(count).tolist() == [value + 3 for value in wanted]


def test_a_variable_that_the_host_gathers_from_is_right_all_the_same(graph):
    op, count = counting()
    with v1.Session() as session:
        session.run(count.initializer)
        gathered = count.sparse_read([1, 0, 1])
        for runs in range(1, 4):
            session.run(op)
            assert session.run(gathered).tolist() == [runs] * 3 and session.run(count).tolist() == [runs] * 2


def test_an_untouched_variable_is_not_sent_again_after_reading_and_saving(graph, tmp_path):
    op, count = counting()
    unit = units_of(graph)[0]
    with v1.Session() as session:
        session.run(count.initializer)
        session.run(op)
        saver = v1.train.Saver()
        saver.save(session, str(tmp_path / "model"))
        session.run(count)
        session.run(op)
        assert unit.counts()["uploaded_bytes"] == 0 and unit.counts()["downloaded_bytes"] == 8


def training(x):
    w = v1.get_variable("layer/w", [3, 2], initializer=v1.constant_initializer(0.5))
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0))
    return loss, v1.train.AdamOptimizer(0.1).minimize(loss)


def test_a_checkpoint_goes_from_plain_tensorflow_to_a_unit_and_back(tmp_path):
    data = some(4, 3)

    def session_of(compiled, restored, saved, steps):
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [4, 3])
            if compiled:
                with on_ipu():
                    loss = compile(training, [x])
            else:
                with v1.variable_scope("", use_resource=True):
                    loss = list(training(x))
            session.run(v1.global_variables_initializer())
            saver = v1.train.Saver()
            if restored:
                saver.restore(session, str(tmp_path / restored))
            losses = [session.run(loss, {x: data})[0] for _ in range(steps)]
            saver.save(session, str(tmp_path / saved))
            return losses

    straight = session_of(False, None, "straight", 9)
    mixed = session_of(False, None, "a", 3) + session_of(True, "a", "b", 3) + session_of(False, "b", "c", 3)
    assert np.allclose(straight, mixed, rtol=1e-4)
    names = [dict(tf.train.list_variables(str(tmp_path / name))) for name in ("straight", "b")]
    assert names[0] == names[1]


def test_a_frozen_graph_is_the_body_of_a_unit():
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [2, 3], name="x")
        w = v1.get_variable("w", [3, 2], initializer=v1.constant_initializer(0.5))
        tf.tanh(tf.matmul(x, w), name="y")
        session.run(w.initializer)
        frozen = v1.graph_util.convert_variables_to_constants(session, v1.get_default_graph().as_graph_def(), ["y"])
        data = some(2, 3)
        wanted = session.run("y:0", {x: data})

    def net(a):
        return tf.import_graph_def(frozen, {"x": a}, ["y:0"], name="")

    given = v1.placeholder(tf.float32, [2, 3])
    with on_ipu():
        result = compile(net, [given])
    with v1.Session() as session:
        assert np.allclose(session.run(result, {given: data})[0], wanted, rtol=1e-5)


def test_two_builds_of_one_program_are_compiled_from_equal_text():
    texts = []
    for _ in range(2):
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [4, 3])
            with on_ipu():
                compile(training, [x])
            texts.append(units_of(graph)[0].text())
    assert texts[0] == texts[1]

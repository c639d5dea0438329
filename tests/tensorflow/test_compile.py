"""`ipu_compiler.compile` (chapter 2): what it takes, what it gives back, and when it runs."""

import both
import interpreter
import numpy as np
import pytest
import tensorflow as tf
from both import on_ipu, some
from ipu_tensorflow import host, records, trace
from ipu_tensorflow.unit import compile, units_of

v1 = tf.compat.v1


def linear(x):
    w = v1.get_variable("w", [x.shape[-1], 2], initializer=v1.constant_initializer(0.5))
    return tf.matmul(x, w)


def built(computation, inputs=None):
    with on_ipu():
        return compile(computation, inputs)


def run(fetches, feed=None):
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        return session.run(fetches, feed)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_a_product_with_a_variable():
    both.check(lambda x: [linear(x) + 1.0], (some(3, 4),))


def test_a_variable_that_is_written_has_its_value_afterwards():
    def net(x):
        total = v1.get_variable("total", [2], initializer=v1.zeros_initializer())
        return [total.assign_add(x) * 2.0]

    _, state = both.check(net, (np.float32([1, 2]),), (np.float32([3, 4]),))
    assert state["total"].tolist() == [4, 6]


@pytest.mark.shows("ipu.ipu_compiler.compile")
def test_nothing_returned_gives_an_operation_that_runs_nothing():
    op = built(lambda: None)
    assert isinstance(op, tf.Operation) and op.type == "NoOp" and run(op) is None


@pytest.mark.parametrize("as_list", [False, True])
def test_operations_alone_give_one_operation_that_runs_them(as_list):
    def net():
        count = v1.get_variable("count", [], initializer=v1.zeros_initializer())
        op = count.assign_add(1.0).op
        return [op] if as_list else op

    op = built(net)
    assert isinstance(op, tf.Operation) and op.type == "NoOp"
    count = v1.global_variables()[0]
    with v1.Session() as session:
        session.run(count.initializer)
        assert session.run(op) is None and session.run(op) is None
        assert session.run(count) == 2


def test_one_tensor_gives_a_list_of_it():
    x = v1.placeholder(tf.float32, [2])
    result = built(lambda a: a + 1.0, [x])
    assert isinstance(result, list) and len(result) == 1
    assert run(result[0], {x: [1, 2]}).tolist() == [2, 3]


def test_tensors_then_operations_give_the_tensors_and_run_the_operations():
    def net(a, b):
        seen = v1.get_variable("seen", [], initializer=v1.zeros_initializer())
        return a + b, a * b, seen.assign_add(1.0).op

    x, y = v1.placeholder(tf.float32, []), v1.placeholder(tf.float32, [])
    result = built(net, (x, y))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert session.run(result[0], {x: 2, y: 5}) == 7  # runs the operation too
        assert session.run(v1.global_variables()[0]) == 1
        assert session.run(result, {x: 2, y: 5}) == [7, 10]
        assert session.run(v1.global_variables()[0]) == 2  # one execution however many fetches


def test_a_structure_comes_back_as_it_is():
    x = v1.placeholder(tf.float32, [])
    result = built(lambda a: {"sum": a + 1.0, "more": [a * 2.0, (a * 3.0,)]}, [x])
    assert list(result) == ["sum", "more"]
    assert run(result, {x: 2}) == {"sum": 3, "more": [4, (6,)]}


def test_inputs_may_be_structures_and_numbers():
    x = v1.placeholder(tf.float32, [])
    result = built(
        lambda pair, scalars: pair["a"] + pair["b"][0] + scalars[0] * scalars[1], [{"a": x, "b": [x]}, [2.0, 3.0]]
    )
    assert run(result, {x: 1}) == [8]


def test_tensors_of_the_outer_graph_are_captured():
    x = v1.placeholder(tf.float32, [2])
    doubled = x * 2.0
    result = built(lambda: doubled + x)
    assert run(result, {x: [1, 2]})[0].tolist() == [3, 6]


def test_a_returned_input_and_a_returned_constant():
    x = v1.placeholder(tf.float32, [2])
    result = built(lambda a: (a, tf.constant([5.0]), a), [x])
    got = run(result, {x: [1, 2]})
    assert [value.tolist() for value in got] == [[1, 2], [5], [1, 2]]


def test_names_collections_and_order_are_those_of_a_build_without_compile(graph):
    def net(x):
        with v1.variable_scope("layer"):
            h = linear(x)
        loss = tf.reduce_sum(tf.square(h))
        return loss, v1.train.AdamOptimizer(0.1).minimize(loss)

    def names(build):
        with tf.Graph().as_default() as other, v1.name_scope("outer"), v1.variable_scope("", use_resource=True):
            build(v1.placeholder(tf.float32, [3, 4]))
            keys = [v1.GraphKeys.GLOBAL_VARIABLES, v1.GraphKeys.TRAINABLE_VARIABLES]
            return [[variable.name for variable in other.get_collection(key)] for key in keys]

    def traced(x):
        with on_ipu():
            trace.trace(net, [x])

    assert names(net) == names(traced)


def test_two_units_and_the_host_see_one_variable():
    v = v1.get_variable("v", [], initializer=v1.constant_initializer(2.0), use_resource=True)
    first = built(lambda: v.assign(v * 3.0).op)
    second = built(lambda: [v + 1.0])
    with v1.Session() as session:
        session.run(v.initializer)
        session.run(first)
        assert session.run(second) == [7]
        session.run(v.assign_add(10.0))
        assert session.run(second) == [17] and session.run(v) == 16
        v.load(1.0, session)
        session.run(first)
        assert session.run(v) == 3


def test_a_unit_runs_in_a_callable_and_in_two_sessions():
    x = v1.placeholder(tf.float32, [2])
    result = built(lambda a: a * 2.0, [x])
    for _ in range(2):
        with v1.Session() as session:
            call = session.make_callable(result, [x])
            assert call(np.float32([1, 2]))[0].tolist() == [2, 4]


def test_errors_of_building():
    x = v1.placeholder(tf.float32, [])
    with pytest.raises(Exception, match="nothing of the computation is placed on an IPU"):
        compile(lambda a: a + 1.0, [x])
    with pytest.raises(Exception, match="nothing of the computation"), tf.device("cpu"):
        compile(lambda a: a + 1.0, [x])
    with pytest.raises(TypeError, match="must be a list or a tuple"):
        built(lambda a: a, x)
    with pytest.raises(TypeError, match=r"cannot take 1 inputs"):
        built(lambda a, b: a, [x])
    with pytest.raises(ValueError, match="before the tensor at position 1"):
        built(lambda a: [tf.no_op(), a], [x])
    with pytest.raises(ValueError, match="neither an operation nor a tensor"):
        built(lambda a: [a, object()], [x])
    with pytest.raises(ValueError, match="nested structure with operations"):
        built(lambda a: {"a": a, "op": tf.no_op()}, [x])

    class EstimatorSpec:
        pass

    with pytest.raises(ValueError, match="EstimatorSpec"):
        built(lambda a: EstimatorSpec(), [x])


def test_a_unit_of_no_operations_needs_no_scope():
    assert compile(lambda: tf.no_op()).type == "NoOp"


def test_shapes_that_are_not_static_are_refused():
    x = v1.placeholder(tf.float32, [None, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"shape \(None, 2\); shapes inside a unit are static"):
        built(lambda a: a + 1.0, [x])


def test_an_uninitialised_variable_is_named():
    result = built(lambda: [v1.get_variable("w", [2]) + 1.0])
    with v1.Session() as session, pytest.raises(tf.errors.FailedPreconditionError, match="w"):
        session.run(result)


def test_a_graph_that_is_imported_says_why_it_does_not_run(graph):
    x = v1.placeholder(tf.float32, [2], name="x")
    result = built(lambda a: a * 2.0, [x])
    definition = graph.as_graph_def()
    token = next(node for node in definition.node if node.op == "IpuUnit").attr["token"]
    token.i += 1000
    with tf.Graph().as_default():
        fetched = tf.import_graph_def(definition, return_elements=[result[0].name])
        with (
            v1.Session() as session,
            pytest.raises(tf.errors.FailedPreconditionError, match="not built in this process"),
        ):
            session.run(fetched, {"import/x:0": [1, 2]})


def test_unchanged_variables_stay_on_the_device(graph):
    def net(x):
        w = v1.get_variable("w", [4, 4], initializer=v1.ones_initializer())
        count = v1.get_variable("count", [], initializer=v1.zeros_initializer())
        return tf.matmul(x, w), count.assign_add(1.0).op

    x = v1.placeholder(tf.float32, [1, 4])
    result = built(net, [x])
    w, count = v1.global_variables()
    unit = units_of(graph)[0]
    uploaded = lambda: unit.counts()["uploaded_bytes"]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(result, {x: some(1, 4)})
        assert uploaded() == 17 * 4 and unit.counts()["downloaded_bytes"] == 4
        session.run(result, {x: some(1, 4)})
        assert uploaded() == 0
        session.run(count), session.run(w)
        session.run(result, {x: some(1, 4)})
        assert uploaded() == 0 and session.run(count) == 3
        session.run(w.assign(tf.zeros([4, 4])))
        got = session.run(result, {x: some(1, 4)})
        assert uploaded() == 64 and not np.any(got[0])
        count.load(10.0, session)
        session.run(result, {x: some(1, 4)})
        assert uploaded() == 4 and session.run(count) == 11


def test_the_first_node_that_differs_is_named(monkeypatch):
    def net(x):
        return tf.matmul(linear(x) * 2.0, tf.constant([[1.0], [3.0]])) + 1.0

    with on_ipu():
        traced = trace.trace(net, [v1.placeholder(tf.float32, [3, 4])])
    fed = [inside for outside, inside in host.captures_of(traced.graph) if outside.dtype != tf.resource]
    found = records.of_graph(traced.graph, fed, traced.tensors)
    given = [some(3, 4)], {"w": some(4, 2)}
    assert interpreter.first_difference(found.data, *given) is None
    run_node = interpreter._run_node
    wrong = {"Mul": lambda values: [values[0] * 1.01]}
    monkeypatch.setattr(
        interpreter,
        "_run_node",
        lambda node, *more: wrong.get(node["type"], lambda values: values)(run_node(node, *more)),
    )
    assert interpreter.first_difference(found.data, *given).startswith("mul (Mul) at")

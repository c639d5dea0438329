"""Records say what TensorFlow's graph says: executed one by one they give the numbers of a session."""

import pathlib

import interpreter
import numpy as np
import pytest
import tensorflow as tf
from ipu_tensorflow import host, records, scopes, trace

v1 = tf.compat.v1


def traced(net, shapes):
    """Records of a computation whose inputs are placeholders."""
    with tf.Graph().as_default():
        given = [v1.placeholder(dtype, shape) for dtype, shape in shapes]
        with scopes.ipu_scope("/device:IPU:0"):
            unit = trace.trace(net, given)
        fed = [inside for outside, inside in host.captures_of(unit.graph) if outside.dtype != tf.resource]
        return records.of_graph(unit.graph, fed, unit.tensors, unit.operations)


def check(net, *arrays):
    """One run by a session and by the interpreter of records: outputs and variables."""
    with tf.Graph().as_default(), v1.Session() as session:
        given = [v1.placeholder(array.dtype, array.shape) for array in arrays]
        with v1.variable_scope("", use_resource=True):
            results = net(*given)
        session.run(v1.global_variables_initializer())
        before = {variable.op.name: session.run(variable) for variable in v1.global_variables()}
        theirs = [value for value in session.run(results, dict(zip(given, arrays))) if value is not None]
        after = {variable.op.name: session.run(variable) for variable in v1.global_variables()}
    found = traced(net, [(array.dtype, array.shape) for array in arrays])
    ours, state = interpreter.outputs(found.data, arrays, before)
    assert interpreter.difference(ours, theirs) < 1e-5
    assert all(np.allclose(state[name], after[name], atol=1e-6) for name in state)
    written = {name for name in state if not np.array_equal(before[name], after[name])}
    assert written <= {variable.name for variable in found.variables if variable.is_written}
    return found


def types(found):
    return [node["type"] for node in found.data["graph"]["nodes"]]


def some(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def dense(x, units, name):
    with v1.variable_scope(name):
        weight = v1.get_variable("w", [x.shape[-1], units], initializer=v1.constant_initializer(0.1))
        bias = v1.get_variable("b", [units], initializer=v1.zeros_initializer())
    return tf.matmul(x, weight) + bias


def test_a_folded_scalar_is_an_array():
    found = check(lambda x: [x / (1.0 - tf.constant(0.75))], some(2))
    assert types(found) == ["Const", "RealDiv"]
    value = found.data["graph"]["nodes"][0]["attributes"]["value"]
    assert isinstance(value, np.ndarray) and value.dtype == np.float32 and value == 0.25


def test_a_training_step_of_conditions_loops_and_adam():
    def net(x, y):
        h = tf.nn.relu(dense(x, 4, "layer"))
        h = tf.cond(tf.reduce_sum(h) > 0, lambda: h * 2, lambda: h + 1)
        _, h = tf.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, a * 0.5 + tf.reshape(y, tf.shape(a))), [0, h], maximum_iterations=5
        )
        loss = tf.reduce_mean(tf.square(h - y))
        return loss, v1.train.AdamOptimizer(0.1).minimize(loss)

    found = check(net, some(2, 3), some(2, 4))
    assert not {"Identity", "NoOp", "Shape", "BroadcastGradientArgs", "Placeholder"} & set(types(found))


def test_effects_on_one_variable_keep_their_order():
    def net(x):
        counter = v1.get_variable("counter", [], initializer=v1.zeros_initializer())
        first = counter.assign_add(x)
        with tf.control_dependencies([first]):
            before = tf.identity(counter.read_value())
            second = counter.assign(before * 10.0)
        with tf.control_dependencies([second]):
            return before, counter.read_value() + 1.0

    found = check(net, np.float32(3.0))
    effects = [kind for kind in types(found) if kind != "Const" and kind != "Mul" and kind != "AddV2"]
    assert effects[0] == "AssignAddVariableOp" and effects.index("AssignVariableOp") > effects.index("ReadVariableOp")


def test_an_assign_that_nothing_needs_does_not_run():
    def net(x):
        v1.get_variable("counter", [], initializer=v1.zeros_initializer()).assign_add(x)
        return [x + 1.0]

    assert types(check(net, np.float32(3.0))) == ["Const", "AddV2"]


def test_an_assign_in_a_branch_belongs_to_the_branch():
    def net(x):
        counter = v1.get_variable("counter", [], initializer=v1.zeros_initializer())
        return [tf.cond(x > 0, lambda: counter.assign_add(x), lambda: counter.assign(-x))]

    for value in (2.0, -3.0):
        found = check(net, np.float32(value))
        condition = found.data["graph"]["nodes"][-1]
        assert [node["type"] for node in condition["subgraphs"]["then"]["nodes"]][0] == "AssignAddVariableOp"


def test_what_depends_on_shapes_alone_is_computed():
    def net(x):
        rows = tf.shape(x)[0]
        return [tf.reshape(x, tf.stack([rows * 2, -1])) + tf.cast(rows, tf.float32)]

    found = check(net, some(2, 6))
    assert types(found) == ["Const", "Reshape", "Const", "AddV2"]


def test_a_constant_from_outside_is_a_constant():
    outer = {}

    def net(x):
        return [tf.reshape(x, outer["shape"])]

    with tf.Graph().as_default():
        given = v1.placeholder(tf.float32, [2, 3])
        outer["shape"] = tf.constant([3, 2])
        with scopes.ipu_scope("/device:IPU:0"):
            unit = trace.trace(net, [given])
        found = records.of_graph(unit.graph, [unit.graph.inputs[0]], unit.tensors)
    assert types(found) == ["Const", "Reshape"] and found.folded[0] is outer["shape"]


def test_a_gradient_through_a_function_with_one_of_its_own():
    @tf.custom_gradient
    def clipped(x):
        return tf.nn.relu(x), lambda upstream: tf.clip_by_value(upstream, -0.1, 0.1)

    def net(x):
        loss = tf.reduce_sum(clipped(dense(x, 3, "layer")) * 5.0)
        return loss, v1.train.GradientDescentOptimizer(0.5).minimize(loss)

    check(net, some(2, 3))


def test_two_builds_give_equal_records():
    def net(x):
        loss = tf.reduce_mean(tf.square(dense(dense(x, 3, "one"), 2, "two")))
        return loss, v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)

    first, second = (repr(traced(net, [(tf.float32, [2, 3])]).data) for _ in range(2))
    assert first == second


def test_nodes_carry_the_line_of_the_user():
    def net(x):
        return [tf.nn.relu(x)]  # this line

    node = traced(net, [(tf.float32, [2])]).data["graph"]["nodes"][0]
    file, line = node["location"]
    assert file == __file__ and "# this line" in pathlib.Path(file).read_text().splitlines()[line - 1]


def test_all_operations_that_cannot_be_compiled_are_in_one_error():
    def net(x):
        inner = v1.placeholder(tf.float32, [2])
        with v1.variable_scope("", use_resource=False):
            variable = v1.get_variable("ref", [2], use_resource=False)
        return [x + inner + variable, tf.strings.as_string(x)]

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        traced(net, [(tf.float32, [2])])
    for part in (
        "3 operations cannot be compiled",
        "is a placeholder inside",
        "is a ref variable",
        "has the type string",
        "test_records.py:",
    ):
        assert part in str(caught.value)


def test_a_variable_starts_with_a_tensor_of_the_computation():
    def net(x):
        weight = v1.Variable(tf.fill([3, 2], 0.5) * 2.0, name="weight")
        other = v1.get_variable("other", initializer=tf.constant([1.0, 2.0]))
        return [tf.matmul(x, weight) + other]

    check(net, some(2, 3))

"""Writes tests/tensorflow_records/*.json: units as TensorFlow programs give them, with inputs, first values of variables, and what
TensorFlow computes. Tests of the importers read them where there is no TensorFlow.

    PYTHONPATH=$PWD:$PWD/tensorflow_ipu/src .venv-tf/bin/python scripts/tensorflow_fixtures.py [NAME...]
"""

import json
import os
import pathlib
import sys

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from ipu_tensorflow import records, scopes, trace

FOLDER = pathlib.Path(__file__).parents[1] / "tests" / "tensorflow_records"
v1 = tf.compat.v1
GIVEN = {
    "while_gradient": [(4,)],
    "map_fn_gradient": [(3, 4)],
    "tensor_array_gradient": [(3, 4)],
    "dynamic_rnn_gradient": [(2, 3, 4)],
    "nested_while_gradient": [(4,)],
    "convolution_training": [(2, 6, 6, 3)],
    "attention_half": [(2, 3, 4)],
    "branches": [(3,), ()],
    "growing_array": [(4,)],
}


def with_gradient(y, x):
    return [y, tf.gradients(tf.reduce_sum(y * y), x)[0]]


def while_gradient(x):
    _, y = tf.while_loop(lambda i, _: i < 5, lambda i, v: (i + 1, v * x), [0, x])
    return with_gradient(y, x)


def map_fn_gradient(x):
    return with_gradient(tf.map_fn(lambda row: tf.tanh(row) * row, x), x)


def tensor_array_gradient(x):
    rows = tf.TensorArray(tf.float32, 3, element_shape=[4])
    _, rows = tf.while_loop(lambda i, _: i < 3, lambda i, r: (i + 1, r.write(i, x[i] * x[i])), [0, rows])
    return with_gradient(rows.stack(), x)


def dynamic_rnn_gradient(x):
    outputs, _ = v1.nn.dynamic_rnn(v1.nn.rnn_cell.BasicRNNCell(5), x, dtype=tf.float32)
    y = tf.reduce_sum(outputs * outputs)
    return [y, *tf.gradients(y, v1.trainable_variables())]


def nested_while_gradient(x):
    def outer(i, v):
        return i + 1, tf.while_loop(lambda j, _: j < 3, lambda j, w: (j + 1, w * x), [0, v])[1]

    return with_gradient(tf.while_loop(lambda i, _: i < 2, outer, [0, x])[1], x)


def convolution_training(x):
    weights = v1.get_variable("conv", [3, 3, 3, 4])
    y = tf.nn.conv2d(x, weights, 1, "SAME")
    scale, offset = v1.get_variable("scale", [4]), v1.get_variable("offset", [4])
    y, _, _ = v1.nn.fused_batch_norm(y, scale, offset)
    y = tf.nn.max_pool2d(tf.nn.relu(y), 2, 2, "VALID")
    logits = tf.matmul(tf.reduce_mean(y, [1, 2]), v1.get_variable("dense", [4, 3]))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 2], logits=logits))
    return loss, v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)


def attention_half(x):
    x = tf.cast(x, tf.float16)
    weights = tf.nn.softmax(tf.matmul(x, x, transpose_b=True) * 0.5)
    return [tf.cast(tf.einsum("bij,bjd->bid", weights, x), tf.float32)]


def branches(x, number):
    count = v1.get_variable("count", [], initializer=v1.zeros_initializer())

    def counted():
        with tf.control_dependencies([count.assign_add(2.0)]):
            return x * 3.0

    chosen = tf.switch_case(tf.cast(number, tf.int32), [lambda: x, counted, lambda: x + 1.0])
    return [tf.cond(number > 0.5, lambda: chosen * 2.0, lambda: chosen)]


def growing_array(x):
    rows = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[4])
    _, rows, _ = tf.while_loop(
        lambda i, *_: i < 5, lambda i, r, v: [i + 1, r.write(i, v), v * x], [0, rows, x], maximum_iterations=5
    )
    return [rows.stack()]


def built(name):
    """The fixture of a program."""
    program = globals()[name]
    draw = np.random.default_rng(7)
    inputs = [draw.uniform(0.2, 1.0, shape).astype(np.float32) for shape in GIVEN[name]]
    with tf.Graph().as_default():
        given = [v1.placeholder(tf.float32, shape) for shape in GIVEN[name]]
        with scopes.ipu_scope("/device:IPU:0"):
            traced = trace.trace(program, given)
        captured = [inside for _, inside in traced.graph.captures if inside.dtype != tf.resource]
        found = records.of_graph(traced.graph, captured, traced.tensors, traced.operations, "unit", f"unit '{name}'")
    variables = {
        variable.name: draw.uniform(0.1, 0.5, variable.shape).astype(variable.dtype) for variable in found.variables
    }
    outputs, after = computed(program, inputs, variables)
    first = program.__code__.co_firstlineno
    return {
        "unit": plainly(found.data, first),
        "inputs": [array(value) for value in inputs],
        "variables": {key: array(value) for key, value in variables.items()},
        "outputs": [array(np.asarray(value)) for value in outputs],
        "after": {key: array(value) for key, value in after.items()},
    }


def computed(program, inputs, variables):
    """What TensorFlow gives, and the variables after that."""
    with tf.Graph().as_default(), v1.Session() as session:
        given = [v1.placeholder(value.dtype, value.shape) for value in inputs]
        with v1.variable_scope("", use_resource=True):
            results = program(*given)
        tensors = [item for item in results if not isinstance(item, tf.Operation)]
        session.run(v1.global_variables_initializer())
        known = [variable for variable in v1.global_variables() if variable.op.name in variables]
        for variable in known:
            variable.load(variables[variable.op.name], session)
        operations = [item for item in results if isinstance(item, tf.Operation)]
        outputs, _ = session.run([tensors, operations], dict(zip(given, inputs)))
        return outputs, {variable.op.name: session.run(variable) for variable in known}


def array(value):
    return {"dtype": value.dtype.name, "shape": list(value.shape), "data": value.ravel().tolist()}


def plainly(value, first):
    """The records as JSON has them. Lines are counted from the first of the program."""
    if isinstance(value, dict):
        plain = {key: plainly(item, first) for key, item in value.items() if key not in ("location", "settings")}
        if "location" in value:
            plain["location"] = ["program.py", value["location"][1] - first]
        return {key: item for key, item in plain.items() if item != {} or key == "attributes"}
    if isinstance(value, np.ndarray):
        return array(value)
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, (list, tuple)):
        return [plainly(item, first) for item in value]
    return value


def text_of(fixture):
    """One node of the unit a line."""
    unit = fixture["unit"]
    graph = dict(unit["graph"])
    nodes = ",\n".join(json.dumps(node, separators=(",", ":")) for node in graph.pop("nodes"))
    head = json.dumps({**unit, "graph": graph}, separators=(",", ":"))[:-2]
    rest = json.dumps({key: value for key, value in fixture.items() if key != "unit"}, separators=(",", ":"))[1:]
    return f'{{"unit":{head},"nodes":[\n{nodes}\n]}}}},\n{rest}\n'


def main(names):
    for name in names or GIVEN:
        (FOLDER / f"{name}.json").write_text(text_of(built(name)))


if __name__ == "__main__":
    main(sys.argv[1:])

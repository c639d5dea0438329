"""`ipu.scopes` (chapter 3), devices, and operations outside of units (chapter 20)."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from both import on_ipu, some
from ipu_tensorflow import attributes, host, records, scopes, trace
from ipu_tensorflow.unit import compile

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def ipu_of(tensor):
    attr = tensor.op.node_def.attr
    return attr[attributes.DEVICE].i if attributes.DEVICE in attr else None


@pytest.mark.parametrize(
    "device, number",
    [
        ("/device:IPU:0", 0),
        ("/device:IPU:3", 3),
        ("/IPU:2", 2),
        ("IPU:1", 1),
        ("/ipu:1", 1),
        ("/job:worker/task:0/device:IPU:1", 1),
        ("/job:localhost/replica:0/task:0/device:IPU:0", 0),
        (tf.compat.v1.DeviceSpec(device_type="IPU", device_index=1), 1),
        ("/device:CPU:0", None),
        ("cpu", None),
    ],
)
def test_every_spelling_of_a_device(device, number):
    with tf.device(device):
        x = tf.constant(1.0)
    assert ipu_of(x) == number
    with v1.Session() as session:
        assert session.run(x) == 1  # TensorFlow places it where it can


@pytest.mark.shows("ipu.scopes.ipu_scope")
def test_other_devices_take_operations_out_of_the_scope():
    with scopes.ipu_scope("/device:IPU:1"):
        inside = tf.constant(1.0)
        with tf.device("cpu"):
            on_cpu = tf.constant(1.0)
        with tf.device(None):
            nowhere = tf.constant(1.0)
        with tf.device("/job:worker"):
            elsewhere = tf.constant(1.0)
        with tf.device("/device:IPU:0"):
            other = tf.constant(1.0)
    outside = tf.constant(1.0)
    assert [ipu_of(x) for x in (inside, on_cpu, nowhere, elsewhere, other, outside)] == [1, None, None, 1, 0, None]


def test_the_scope_switches_to_resource_variables():
    with v1.variable_scope("", use_resource=False):
        with scopes.ipu_scope("/device:IPU:0"):
            inside = v1.get_variable("inside", [2])
        outside = v1.get_variable("outside", [2])
    assert inside.handle.dtype == tf.resource and not hasattr(outside, "handle")


def test_the_unit_belongs_to_the_device_of_its_scope():
    def traced(device):
        with scopes.ipu_scope(device):
            return trace.trace(lambda: tf.constant(1.0) + 1.0, []).ipu

    assert traced("/device:IPU:0") == 0 and traced("/device:IPU:1") == 1

    def inner():
        with scopes.ipu_scope("/device:IPU:2"):
            return tf.constant(1.0) + 1.0

    assert trace.trace(inner, []).ipu == 2


def test_operations_outside_of_a_unit_run_by_tensorflow_with_one_warning():
    with pytest.warns(UserWarning, match=r"test_scopes.py:\d+ is built in an ipu_scope and outside of"):
        with scopes.ipu_scope("/device:IPU:0"):
            x = v1.placeholder(tf.float32, [2])
            w = v1.get_variable("w", [2], initializer=v1.ones_initializer())
            loss = tf.reduce_sum(x * w)
            train = v1.train.GradientDescentOptimizer(0.5).minimize(loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with scopes.ipu_scope("/device:IPU:0"):
            more = loss * 2.0
    with v1.Session() as session:
        session.run(w.initializer)
        session.run(train, {x: [1, 2]})
        assert session.run(w).tolist() == [0.5, 0] and session.run(more, {x: [2, 0]}) == 2


def test_a_program_of_units_is_not_warned_of():
    def net(x):
        return x * v1.get_variable("w", [2], initializer=v1.random_normal_initializer())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with scopes.ipu_scope("/device:IPU:0"):
            x = v1.placeholder(tf.float32, [2])
            v1.get_variable("other", [2])
            compile(net, [x])


# --- what operations carry


def nodes_of(net, *shapes):
    given = [v1.placeholder(tf.float32, shape) for shape in shapes]
    with on_ipu():
        unit = trace.trace(net, given)
    fed = [inside for outside, inside in host.captures_of(unit.graph) if outside.dtype != tf.resource]
    return records.of_graph(unit.graph, fed, unit.tensors, unit.operations).data["graph"]["nodes"]


def settings_of(nodes, kind):
    return [node["settings"] for node in nodes if node["type"] == kind]


@pytest.mark.shows("ipu.scopes.ipu_shard")
def test_shards_and_the_gradients_of_their_operations():
    def net(x):
        w = v1.get_variable("w", [3, 3])
        with scopes.ipu_shard(0):
            a = tf.matmul(x, w)
        with scopes.ipu_shard(1):
            b = tf.tanh(tf.matmul(a, w))
            c = tf.cond(tf.reduce_sum(b) > 0, lambda: tf.exp(b), lambda: b)
        return tf.gradients(c, [w])[0]

    nodes = nodes_of(net, [2, 3])
    assert settings_of(nodes, "MatMul") == [{"ipu": 0}, {"ipu": 1}, {"ipu": 1}, {"ipu": 1}, {"ipu": 0}]
    assert settings_of(nodes, "TanhGrad") == [{"ipu": 1}]
    (branches,) = [node["subgraphs"] for node in nodes if node["type"] in ("If", "StatelessIf")][:1]
    assert settings_of(branches["then"]["nodes"], "Exp") == [{"ipu": 1}]


def test_a_shard_may_be_given_as_a_list_and_must_be_a_number():
    def net(x):
        with scopes.ipu_shard([1]):
            return tf.exp(x)

    assert settings_of(nodes_of(net, [2]), "Exp") == [{"ipu": 1}]
    for shard in (-1, []):
        with pytest.raises(ValueError, match="shards are numbers from 0 on"), scopes.ipu_shard(shard):
            pass


@pytest.mark.shows("ipu.scopes.frontend_attribute")
def test_attributes_nest_and_the_inner_one_wins():
    def net(x):
        with scopes.frontend_attribute("A", "1"), scopes.frontend_attribute("B", "2"):
            with scopes.frontend_attribute("A", "3"):
                a = tf.exp(x)
            b = tf.exp(a)
        c = tf.exp(b)
        with scopes.frontend_attribute("C", "4", restore_to="5"):
            d = tf.exp(c)
        return tf.exp(d)

    wanted = [{"A": "3", "B": "2"}, {"A": "1", "B": "2"}, {}, {"C": "4"}, {"C": "5"}]
    assert settings_of(nodes_of(net, [2]), "Exp") == wanted


@pytest.mark.shows("ipu.scopes.partials_type", "ipu.scopes.stochastic_rounding")
def test_hints_of_numbers():
    def net(x):
        with scopes.partials_type(np.float16), scopes.stochastic_rounding(True):
            x = tf.exp(x)
        with scopes.partials_type(np.float32), scopes.stochastic_rounding(False):
            return tf.exp(x)

    first, second = settings_of(nodes_of(net, [2]), "Exp")
    assert first == {"PARTIALS_TYPE": "F16", "STOCHASTIC_ROUNDING": "THREESTATE_ON"}
    assert second == {"PARTIALS_TYPE": "F32", "STOCHASTIC_ROUNDING": "THREESTATE_OFF"}
    for wrong in (np.float64, np.int32, "float16", None):
        with pytest.raises(ValueError, match="only numpy.float16 and numpy.float32"):
            scopes.partials_type(wrong)


@pytest.mark.shows("ipu.scopes.ipu_jit_scope")
def test_a_jit_scope_leaves_its_name():
    def net(x):
        with scopes.ipu_jit_scope("mine"):
            y = tf.exp(x)
        attr = y.op.node_def.attr
        assert attr["_XlaScope"].s == b"jit_scope_ipu_mine" and attr["_XlaCompile"].b
        assert not attr["_XlaSeparateCompiledGradients"].b
        return y

    nodes_of(net, [2])


def test_outside_compilation_comes_later():
    with pytest.raises(ValueError, match="only of use inside"):
        scopes.outside_compilation_scope()

    def net(x):
        with scopes.outside_compilation_scope():
            return x

    with pytest.raises(NotImplementedError, match='comes with "TensorFlow whole"'):
        nodes_of(net, [2])


def test_a_product_of_several_ipu_scopes_gives_the_numbers_of_tensorflow():
    x = v1.placeholder(tf.float32, [2, 3])
    data = some(2, 3)
    with on_ipu():
        result = compile(lambda a: a * 2.0 + 1.0, [x])
    with v1.Session() as session:
        assert np.allclose(session.run(result, {x: data})[0], data * 2 + 1)

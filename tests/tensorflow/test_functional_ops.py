"""`ipu.functional_ops` (chapter 12.2)."""

import both
import numpy as np
import pytest
import tensorflow as tf
from both import some
from tensorflow.python import ipu

v1 = tf.compat.v1
outlined_function = ipu.functional_ops.outlined_function


def dense(x):
    w = v1.get_variable("w", [3, 3], initializer=v1.constant_initializer(0.3))
    return tf.tanh(tf.matmul(x, w))


def trained(layer):
    def net(x):
        with v1.variable_scope("one"):
            y = layer(layer(x))
        with v1.variable_scope("two"):
            y = layer(y)
        loss = tf.reduce_sum(tf.square(y))
        return y, tf.gradients(loss, x)[0], v1.train.GradientDescentOptimizer(0.1).minimize(loss)

    return net


@pytest.mark.shows("ipu.ops.functional_ops.outlined_function")
@pytest.mark.parametrize("decorate", [outlined_function, outlined_function(keep_input_layouts=True, name="mine")])
def test_calls_share_variables_of_a_scope_and_have_gradients(decorate):
    x = some(2, 3)
    (got,), state = both.check(trained(decorate(dense)), (x,))
    assert list(state) == ["one/w", "two/w"]
    a, b = np.full([3, 3], 0.3), np.full([3, 3], 0.3)
    assert np.allclose(got[0], np.tanh(np.tanh(np.tanh(x @ a) @ a) @ b), atol=1e-6)
    assert (state["one/w"] != state["two/w"]).all()  # two calls have changed the one, and one the other


def test_structures_captured_values_and_what_is_no_tensor_yet():
    factor = 3.0

    def net(x):
        outside = x + 1.0

        @outlined_function
        def inner(pair, more):
            assert tf.is_tensor(more) and tf.is_tensor(pair[1])
            return {"sum": pair[0] + pair[1] + outside, "product": pair[0] * factor}, 2.0

        found, two = inner((x, np.float32(1)), x)
        assert inner.__name__ == "inner" and tf.is_tensor(two)
        return found["sum"], found["product"], two

    x = some(4)
    (got,), _ = both.check(net, (x,))
    assert np.allclose(got[0], 2 * x + 2) and np.allclose(got[1], 3 * x) and got[2] == 2


def test_operations_have_the_name_of_the_function():
    with tf.Graph().as_default():
        assert outlined_function(lambda x: tf.exp(x))(1.0).op.name == "function/Exp"
        assert outlined_function(lambda x: tf.exp(x), name="mine")(1.0).op.name == "mine/Exp"


def test_functions_that_are_refused():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="nothing returns no tensor"):

            @outlined_function
            def nothing(x):
                pass

            nothing(1.0)
        with pytest.raises(TypeError, match="argument 0 is .* which is no tensor"):
            outlined_function(lambda x: x)(object())
        with pytest.raises(TypeError, match="takes 'by_name' by name"):
            outlined_function(lambda x, *, by_name: x)
        with pytest.raises(TypeError, match="decorates a function, not int"):
            outlined_function(3)

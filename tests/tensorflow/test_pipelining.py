"""Enumerations and small classes of `ipu.pipelining_ops` (chapter 12.6)."""

import enum

import both
import pytest
import tensorflow as tf
from tensorflow.python import ipu

v1 = tf.compat.v1
ops = ipu.pipelining_ops


@pytest.mark.shows("ipu.ops.pipelining_ops.PipelineSchedule", "ipu.ops.pipelining_ops.RecomputationMode")
def test_schedules_and_modes():
    assert {kind.name: kind for kind in ops.PipelineSchedule} == {"Grouped": 0, "Interleaved": 1, "Sequential": 2}
    names = ["Auto", "RecomputeThenBackpropagate", "RecomputeAndBackpropagateInterleaved"]
    assert [mode.name for mode in ops.RecomputationMode] == names
    assert not issubclass(ops.RecomputationMode, enum.IntEnum)


@pytest.mark.shows("ipu.ops.pipelining_ops.PipelineStageOptions")
def test_options_of_a_stage():
    options = ops.PipelineStageOptions({"a": "b"})
    assert (options.convolution_options, options.matmul_options) == ({"a": "b"}, {})
    assert ops.PipelineStageOptions(matmul_options={"c": "d"}).matmul_options == {"c": "d"}
    for name in ("convolution_options", "matmul_options"):
        with pytest.raises(TypeError, match=f"{name} is a dictionary, not list"):
            ops.PipelineStageOptions(**{name: []})


@pytest.mark.shows("ipu.ops.pipelining_ops.OptimizerFunctionOutput")
def test_what_an_optimizer_function_returns():
    with tf.Graph().as_default():
        loss, optimizer = tf.constant(1.0), v1.train.GradientDescentOptimizer(0.1)
        output = ops.OptimizerFunctionOutput(optimizer, loss, (1,), apply_gradients_kwargs={"name": "x"})
        assert output.opt is optimizer and output.loss is loss
        assert output.compute_gradients_args == (1,) and output.compute_gradients_kwargs == {}
        assert output.apply_gradients_args == () and output.apply_gradients_kwargs == {"name": "x"}
        output.loss = other = tf.constant(2.0)
        assert output.loss is other
        wrong = [("opt", "sgd"), ("loss", 1.0), ("compute_gradients_args", [1]), ("compute_gradients_kwargs", (1,))]
        wrong += [("apply_gradients_args", {}), ("apply_gradients_kwargs", [])]
        for name, value in wrong:
            with pytest.raises(TypeError, match=f"OptimizerFunctionOutput: {name} is a"):
                setattr(output, name, value)
            with pytest.raises(TypeError, match=f"OptimizerFunctionOutput: {name} is a"):
                ops.OptimizerFunctionOutput(**{"opt": optimizer, "loss": loss, name: value})


def test_a_recomputation_checkpoint_is_an_identity():
    def net(x):
        y = ops.recomputation_checkpoint([x, {"x": 2 * x}], name="kept")
        assert y[0].op.name.startswith("kept/") and y[1]["x"].shape == [3]
        return y[0], tf.gradients(y[1]["x"], x)

    both.check(net, (both.some(3),))

"""Images and filters of TensorFlow networks stay where they are from the first convolution to the last."""

import pathlib
import re
import sys

import both
import pytest
import tensorflow as tf
from ipu_tensorflow.unit import compile, units_of

import ipu_core

v1 = tf.compat.v1
# From what an importer makes to what kernels run on, as `ipu-opt --list` names it.
PASSES = ["inline-calls", "fold-constants", "sink-transposes", "simplify", "cse", "dce", "decompose", "fold-constants"]
PASSES += ["simplify", "cse", "dce", "channels-last", "pack-weights", "fuse-into-convolutions"]
VALUE = re.compile(r"(%[^ ,()]+)(?:, %[^ ,()]+)* = (\w[\w.]*)\(([^)]*)\).*? : f32\[([\d,]*)\](?::(\w+))?")


def copies(text):
    """Transposes and conversions of tensors of four dimensions that are more than another name for the same bytes."""
    layouts, found = {}, []
    for line in text.splitlines():
        made = VALUE.search(line)
        if made is None:
            continue
        name, kind, operands, shape, layout = made.groups()
        layouts[name] = layout
        if shape.count(",") != 3 or kind not in ("transpose", "layout.convert"):
            continue
        is_view = kind == "transpose" and (layout is not None or layouts.get(operands.split(",")[0]) is not None)
        if not is_view:
            found.append(line.strip())
    return found


def program(step, shape, labels):
    graph = tf.Graph()
    with graph.as_default(), both.on_ipu(), v1.variable_scope("", use_resource=True):
        compile(step, [v1.placeholder(tf.float32, shape), v1.placeholder(tf.int32, labels)])
    return ipu_core.run_passes(units_of(graph)[0].text(), PASSES)


def block(x, filters, name):
    def convolution(value, kernel, name):
        kernel = v1.get_variable(name, [*kernel, value.shape[-1], filters])
        value = tf.nn.conv2d(value, kernel, strides=1, padding="SAME")
        scale, shift = (v1.get_variable(f"{name}_{part}", [filters]) for part in ("scale", "shift"))
        return v1.nn.fused_batch_norm(value, scale, shift)[0]

    with v1.variable_scope(name):
        inner = convolution(tf.nn.relu(convolution(x, [3, 3], "one")), [3, 3], "two")
        return tf.nn.relu(inner + (x if x.shape[-1] == filters else convolution(x, [1, 1], "short")))


def test_a_training_step_copies_no_image_and_no_filter():
    def step(x, labels):
        x = tf.reduce_mean(block(block(x, 20, "first"), 20, "second"), [1, 2])
        logits = tf.matmul(x, v1.get_variable("head", [20, 5]))
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        return loss, v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)

    text = program(step, [2, 8, 8, 3], [2])
    assert text.count("= conv_weight_gradient(") == 5 and text.count("= transpose(") > 10
    assert copies(text) == []


@pytest.mark.slow
def test_a_training_step_of_resnet_50_copies_no_image_and_no_filter(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(pathlib.Path(__file__).parents[2] / "benchmarks")])
    import tensorflow_networks

    text = program(tensorflow_networks.NETWORKS["resnet50"].step(True), [1, 224, 224, 3], [1])
    assert text.count("= conv_weight_gradient(") == 53
    assert copies(text) == []

"""A small transformer that learns the characters of this file: it computes in float16, and its weights are kept in float32.

Variables are made by a custom getter: the network sees each of them in float16, the optimizer and checkpoints in float32. The loss
is multiplied before gradients are taken, so that small ones are not lost in float16, and they are divided again in float32.

Prints losses, and the largest difference between weights and what the network saw of them.
"""

import pathlib

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

CONTEXT, BATCH, WIDTH, HEADS, LAYERS = 32, 16, 64, 4, 2
STEPS, RUNS, RATE, SCALE, SEED = 50, 8, 2e-3, 256.0, 1


def with_masters(getter, name, shape=None, dtype=None, **given):
    """What tf.get_variable gives: a variable of float32, seen as float16."""
    if dtype != tf.float16:
        return getter(name, shape, dtype, **given)
    return tf.cast(getter(name, shape, tf.float32, **given), tf.float16)


def dense(x, units, name):
    with tf.variable_scope(name):
        weight = tf.get_variable("weight", [x.shape[-1], units], x.dtype, tf.glorot_uniform_initializer())
        bias = tf.get_variable("bias", [units], x.dtype, tf.zeros_initializer())
        return tf.matmul(x, weight) + bias


def attention(x):
    """Of each position to itself and to those before it; x is [sample * position, feature]."""
    parts = tf.reshape(dense(x, 3 * WIDTH, "qkv"), [BATCH, CONTEXT, 3, HEADS, WIDTH // HEADS])
    q, k, v = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
    scores = tf.matmul(q, k, transpose_b=True) / np.sqrt(WIDTH // HEADS).astype(np.float16)
    later = tf.constant(np.triu(np.full([CONTEXT, CONTEXT], -1e4, np.float16), 1))
    found = tf.matmul(tf.nn.softmax(scores + later), v)
    return dense(tf.reshape(tf.transpose(found, [0, 2, 1, 3]), x.shape), WIDTH, "out")


def network(text, characters):
    """Scores, float16, of what follows each of the characters [sample, position]."""
    with tf.variable_scope("embedding"):
        table = tf.get_variable("table", [characters, WIDTH], tf.float16, tf.random_normal_initializer(stddev=0.1))
        places = tf.get_variable("places", [CONTEXT, WIDTH], tf.float16, tf.random_normal_initializer(stddev=0.1))
        x = ipu.embedding_ops.embedding_lookup(table, text) + places
    x = tf.reshape(x, [BATCH * CONTEXT, WIDTH])
    for number in range(LAYERS):
        with tf.variable_scope(f"layer_{number}"):
            with tf.variable_scope("attention"):
                x += attention(ipu.normalization_ops.layer_norm(x, scope="norm"))
            with tf.variable_scope("perceptron"):
                hidden = dense(ipu.normalization_ops.layer_norm(x, scope="norm"), 4 * WIDTH, "in")
                x += dense(ipu.nn_ops.gelu(hidden), WIDTH, "out")
    return dense(ipu.normalization_ops.layer_norm(x, scope="norm"), characters, "scores")


def step(text, characters, outfeed):
    with tf.variable_scope("transformer", custom_getter=with_masters, use_resource=True):
        scores = network(text[:, :-1], characters)
    labels = tf.reshape(text[:, 1:], [-1])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.cast(scores, tf.float32))
    loss = tf.reduce_mean(losses)
    optimizer = tf.train.AdamOptimizer(RATE)
    pairs = optimizer.compute_gradients(loss * SCALE)
    return outfeed.enqueue(loss), optimizer.apply_gradients([(gradient / SCALE, weight) for gradient, weight in pairs])


def main():
    tf.disable_v2_behavior()
    tf.set_random_seed(SEED)
    numbers = np.frombuffer(pathlib.Path(__file__).read_bytes(), np.uint8).astype(np.int32)
    characters, text = np.unique(numbers, return_inverse=True)
    starts = np.random.default_rng(SEED).integers(0, len(text) - CONTEXT, (RUNS * STEPS, BATCH, 1))
    samples = text.astype(np.int32)[starts + np.arange(CONTEXT + 1)]
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(samples))
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        run = ipu.ipu_compiler.compile(
            lambda: ipu.loops.repeat(STEPS, lambda x: step(x, len(characters), outfeed), [], infeed)
        )
    losses = outfeed.dequeue()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        for number in range(RUNS):
            session.run(run)
            print(f"step {(number + 1) * STEPS:3}: mean loss {np.mean(session.run(losses)):.3f}")
        weights = session.run(tf.trainable_variables())
    kinds = {weight.dtype.name for weight in weights}
    rounding = max(np.abs(weight - weight.astype(np.float16)).max() for weight in weights)
    print(f"{len(weights)} weights of {', '.join(kinds)}, at most {rounding:.1e} away from what the network sees")


if __name__ == "__main__":
    main()

"""Recognises handwritten digits row by row: an LSTM reads the eight rows of an image, and its last output says which digit it is.

Prints the mean loss of every second epoch and the accuracy on images it has not seen.
"""

import argparse

import digits
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

BATCH, EPOCHS, UNITS, SEED = 32, 12, 64, 1


def scores_of(lstm, images, training):
    rows = tf.transpose(images[..., 0], [1, 0, 2])  # [row, image, pixel]
    outputs, _ = lstm(rows, training=training)
    return tf.layers.dense(outputs[-1], 10, name="scores")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", help="digits.csv.gz of scikit-learn")
    given = arguments.parse_args()

    tf.disable_v2_behavior()
    tf.set_random_seed(SEED)
    training, (images, labels) = digits.read(given.data)
    dataset = tf.data.Dataset.from_tensor_slices(training).shuffle(len(training[0]), SEED)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset.batch(BATCH, drop_remainder=True).repeat())
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    lstm = ipu.rnn_ops.PopnnLSTM(UNITS)  # one layer, called in both units

    def step(images, labels):
        loss = digits.loss_of(scores_of(lstm, images, True), labels)
        return outfeed.enqueue(loss), tf.train.AdamOptimizer(0.01).minimize(loss)

    def test(images):
        with tf.variable_scope("", reuse=True):
            return scores_of(lstm, images, False)

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        epoch = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(len(training[0]) // BATCH, step, [], infeed))
        (scores,) = ipu.ipu_compiler.compile(test, [tf.constant(images)])
    losses = outfeed.dequeue()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        for number in range(EPOCHS):
            session.run(epoch)
            loss = np.mean(session.run(losses))
            if number % 2:
                print(f"epoch {number + 1:2}: mean loss {loss:.4f}")
        print(f"accuracy on unseen digits: {np.mean(session.run(scores).argmax(1) == labels):.1%}")


if __name__ == "__main__":
    main()

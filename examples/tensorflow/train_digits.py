"""Trains a small network on handwritten digits: an epoch is one run of a loop on the IPU, fed by one queue and read by another.

Prints the mean loss of each epoch and the accuracy on images it has not seen; with --save it leaves a checkpoint, which
predict_digits.py reads.
"""

import argparse

import digits
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu

BATCH, EPOCHS, SEED = 32, 8, 1


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", help="digits.csv.gz of scikit-learn")
    arguments.add_argument("--save", help="prefix of the checkpoint's files")
    given = arguments.parse_args()

    tf.disable_v2_behavior()
    tf.set_random_seed(SEED)
    training, (images, labels) = digits.read(given.data)
    batches = len(training[0]) // BATCH
    dataset = tf.data.Dataset.from_tensor_slices(training).shuffle(len(training[0]), SEED)
    dataset = dataset.batch(BATCH, drop_remainder=True).repeat()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    rate = tf.placeholder(tf.float32, [])

    def step(images, labels):
        loss = digits.loss_of(digits.network(images), labels)
        update = tf.train.MomentumOptimizer(rate, 0.9).minimize(loss)
        return outfeed.enqueue(loss), update

    def test(images, labels):
        with tf.variable_scope("", reuse=True):
            found = tf.argmax(digits.network(images), axis=1, output_type=tf.int32)
        return tf.reduce_mean(tf.cast(tf.equal(found, labels), tf.float32))

    with ipu.scopes.ipu_scope("/device:IPU:0"):
        epoch = ipu.ipu_compiler.compile(lambda: ipu.loops.repeat(batches, step, [], infeed))
        accuracy = ipu.ipu_compiler.compile(test, [tf.constant(images), tf.constant(labels)])
    losses = outfeed.dequeue()

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        for number in range(EPOCHS):
            session.run(epoch, {rate: 0.1 * 0.8**number})
            print(f"epoch {number + 1}: mean loss {np.mean(session.run(losses)):.4f}")
        print(f"accuracy on unseen digits: {session.run(accuracy)[0]:.1%}")
        if given.save:
            tf.train.Saver(tf.trainable_variables()).save(session, given.save, write_meta_graph=False)


if __name__ == "__main__":
    main()

"""Recognises handwritten digits with the weights of a checkpoint, which train_digits.py --save has left. The checkpoint is TensorFlow's
own: a network that was trained without IPUs is read alike.

Prints the accuracy on images that were not trained on, and the first ten of them that are recognised as another digit.
"""

import argparse

import digits
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("checkpoint", help="prefix of the checkpoint's files")
    arguments.add_argument("--data", help="digits.csv.gz of scikit-learn")
    given = arguments.parse_args()

    tf.disable_v2_behavior()
    _, (images, labels) = digits.read(given.data)
    fed = tf.placeholder(tf.float32, images.shape)
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        (probabilities,) = ipu.ipu_compiler.compile(lambda x: tf.nn.softmax(digits.network(x)), [fed])
    with tf.Session() as session:
        tf.train.Saver().restore(session, given.checkpoint)
        found = session.run(probabilities, {fed: images})
    best = found.argmax(1)
    print(f"accuracy on unseen digits: {np.mean(best == labels):.1%}")
    for i in np.flatnonzero(best != labels)[:10]:
        print(f"image {i} of a {labels[i]} is taken for a {best[i]} with probability {found[i, best[i]]:.2f}")


if __name__ == "__main__":
    main()

"""`ipu.image_ops` (chapter 12.3)."""

import both
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python import ipu

normalise_image = ipu.image_ops.normalise_image
OFFSETS, SCALES = np.array([0.4, 0.5, 0.6], np.float32), np.array([2, 4, 5], np.float32)


@pytest.mark.shows("ipu.ops.image_ops.normalise_image")
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
@pytest.mark.parametrize("shape", [(2, 4, 5, 3), (6, 3)])
def test_an_image_gets_a_fourth_channel(shape, dtype):
    image = np.random.default_rng(0).integers(0, 256, shape).astype(dtype)

    def net(pixels, offsets):
        return normalise_image(pixels, offsets, SCALES, scale=1 / 255)

    result = np.float32 if dtype == np.float32 else np.float16
    tolerance = 1e-5 if result == np.float32 else 2e-3
    (got,), _ = both.check(net, (image, OFFSETS), tolerance=tolerance)
    assert got[0].dtype == result and got[0].shape == (*shape[:-1], 4) and (got[0][..., 3] == 0).all()
    assert np.allclose(got[0][..., :3], (image.astype(np.float64) / 255 - OFFSETS) * SCALES, atol=tolerance)


def test_the_gradient_of_an_image():
    def net(pixels):
        return tf.gradients(normalise_image(pixels, OFFSETS, SCALES, 0.5), pixels)[0]

    (got,), _ = both.check(net, (np.ones([2, 3], np.float32),))
    assert np.allclose(got[0], SCALES * 0.5)


@pytest.mark.parametrize(
    "image, offsets, error, text",
    [
        (np.ones([2, 3], np.int32), OFFSETS, TypeError, "uint8, float16 or float32, not int32"),
        (np.ones([2, 4], np.float32), OFFSETS, tf.errors.InvalidArgumentError, r"three channels, .* shape \(2, 4\)"),
        (np.ones([2, 3], np.float32), OFFSETS[:2], tf.errors.InvalidArgumentError, "channel_offsets are three numbers"),
    ],
)
def test_images_that_are_refused(image, offsets, error, text):
    with tf.Graph().as_default(), pytest.raises(error, match=text):
        normalise_image(image, offsets, SCALES)

"""`ipu.statistics_ops` (chapter 12.14)."""

import both
import numpy as np
import pytest
import tensorflow as tf
from both import some
from tensorflow.python import ipu

statistics = ipu.statistics_ops


@pytest.mark.shows("ipu.ops.statistics_ops.fixed_width_bins")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_bins_of_equal_width(count, dtype):
    x = (some(30) * 5).astype(dtype)
    (got,), _ = both.check(lambda given: statistics.fixed_width_bins(given, count), (x,))
    assert got[0].dtype == dtype
    assert np.allclose(got[0], np.linspace(x.min(), x.max(), count), rtol=2e-3 if dtype == np.float16 else 1e-6)


@pytest.mark.shows("ipu.ops.statistics_ops.histogram", "ipu.ops.statistics_ops.histogram_update")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("absolute", [False, True])
def test_counts_between_levels(absolute, dtype):
    x = np.round(some(200) * 4).astype(dtype)
    levels, before = np.array([-2, 0, 1, 5], dtype), np.arange(5, dtype=np.float32)

    def net(given, edges, hist):
        counts = statistics.histogram(given, edges, absolute)
        return counts, statistics.histogram_update(hist, given, edges, absolute)

    (got,), _ = both.check(net, (x, levels, before), tolerance=0)
    seen = np.abs(x) if absolute else x
    wanted = np.bincount(np.searchsorted(levels, seen, side="right"), minlength=5).astype(np.float32)
    assert (got[0] == wanted).all() and (got[1] == wanted + before).all()


def test_the_published_example():
    x, levels = np.array([0.5, 2, 2, 7], np.float32), np.array([2, 5], np.float32)
    (got,), _ = both.check(statistics.histogram, (x, levels))
    assert got[0].tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    "wrong, text",
    [
        (lambda: statistics.histogram(tf.ones([2, 2]), tf.ones([3])), "inputs: a vector .* not float32 of shape"),
        (lambda: statistics.histogram(tf.ones([2]), 1.0), "levels: a vector"),
        (lambda: statistics.histogram(tf.ones([2], tf.int32), tf.ones([3])), "inputs: a vector .* not int32"),
        (lambda: statistics.histogram(tf.ones([2], tf.float16), tf.ones([3])), "are float16 and levels are float32"),
        (lambda: statistics.fixed_width_bins(1.0, 3), "inputs: a vector"),
        (lambda: statistics.histogram_update(tf.ones([3]), tf.ones([2]), tf.ones([3])), r"shape \(4,\), one more"),
        (lambda: statistics.histogram_update(tf.ones([4], tf.int32), tf.ones([2]), tf.ones([3])), "not int32 of shape"),
    ],
)
def test_what_is_no_vector(wrong, text):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=text):
        wrong()

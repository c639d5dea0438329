"""`ipu.internal_ops` (chapters 12.4 and 26.1)."""

import both
import numpy as np
import pytest
import tensorflow as tf
from both import some
from tensorflow.python import ipu

v1 = tf.compat.v1
print_tensor = ipu.internal_ops.print_tensor


@pytest.mark.shows("ipu.ops.internal_ops.print_tensor")
@pytest.mark.parametrize("run", [both.plain, both.ours])
def test_a_tensor_is_printed_each_time_it_runs(run, capfd):
    def net(x, count):
        doubled = 2 * x
        return doubled, print_tensor(count, "count"), print_tensor(doubled, name="doubled"), print_tensor(x)

    run(
        net,
        [
            (np.array([1.5, 2.5], np.float32), np.int32(7)),
            (np.array([0.5, 0], np.float16).astype(np.float32), np.int32(8)),
        ],
    )
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith(("count:", "doubled:"))]
    numbers = [
        [float(word) for word in line.partition(":")[2].replace(",", " ").strip(" []()").split()] for line in lines
    ]
    assert sorted(numbers) == [[1.0, 0.0], [3.0, 5.0], [7.0], [8.0]]


def test_one_that_nothing_needs_is_not_printed_and_one_in_a_loop_each_time(capfd):
    def net(x):
        print_tensor(x, "never")

        def body(value):
            return value + 1, print_tensor(value, "looped")

        return ipu.loops.repeat(3, body, [x])

    (rows,), *_ = both.ours(net, [(np.float32(4),)])
    errors = capfd.readouterr().err
    assert rows == [7] and "never" not in errors
    assert [line.split(": ")[1] for line in errors.splitlines() if line.startswith("looped")] == [
        "4.000",
        "5.000",
        "6.000",
    ]


def test_types_that_are_not_printed():
    with (
        tf.Graph().as_default(),
        pytest.raises(TypeError, match="takes float16, float32 and int32: .* has type float64"),
    ):
        print_tensor(tf.zeros([2], tf.float64), "wide")


@pytest.mark.parametrize("name", ["remap", "remap_deduce", "recompute", "block_recompute"])
def test_identities(name):
    def net(x):
        y = getattr(ipu.internal_ops, name)(x)
        return y, tf.gradients(tf.square(y), x)[0]

    x = some(3, 2)
    got, _ = both.check(net, (x,))
    assert (got[0][0] == x).all()

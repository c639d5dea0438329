"""Products and convolutions with f16 partial sums on the emulator, bit for bit as docs/types.md defines them, in NumPy."""

import numpy
import pytest

import ipu_core

HALF = numpy.float16


def summed(a, b, start=None):
    """start + a [M, K] @ b [K, N]: 16 products at a time in f32, in order, the sum rounded to f16 between them."""
    total = numpy.zeros((a.shape[0], b.shape[1]), numpy.float32) if start is None else start.astype(numpy.float32)
    for first in range(0, a.shape[1], 16):
        for k in range(first, min(first + 16, a.shape[1])):
            total = total + a[:, k : k + 1].astype(numpy.float32) * b[k : k + 1].astype(numpy.float32)
        total = total.astype(HALF).astype(numpy.float32)
    return total.astype(HALF)


def added(y, bias):
    return (y.astype(numpy.float32) + bias.astype(numpy.float32)).astype(HALF)


def named(shape):
    return f"f16[{','.join(map(str, shape))}]"


def run(switch, op, result, *operands):
    """Result of shape `result` of an op given as text, on operands x0, x1, ..."""
    text = [f"module {{{switch}=true}}"] if switch else []
    text += [f"stream @x{i}: {named(x.shape)}" for i, x in enumerate(operands)]
    text += [
        f'stream @y: {named(result)} {{direction="device_to_host"}}',
        "entry main = @main",
        "graph @main() -> () {",
    ]
    text += [f"  %x{i} = host_load() {{stream=@x{i}}} : {named(x.shape)}" for i, x in enumerate(operands)]
    text += [f"  %y = {op} : {named(result)}", "  host_store(%y) {stream=@y}", "  return", "}"]
    session = ipu_core.compile("\n".join(text))
    return session.run({f"x{i}": x for i, x in enumerate(operands)})["y"]


def halves(*shape, seed=0):
    return numpy.random.default_rng([seed, *shape]).standard_normal(shape).astype(HALF)


@pytest.mark.parametrize("m, k, n", [(1, 1, 1), (37, 16, 70), (33, 17, 64), (5, 515, 3), (70, 100, 130)])
def test_half_products_round_the_sum_after_each_sixteen_terms(m, k, n):
    a, b = halves(m, k), halves(k, n, seed=1)
    expected = summed(a, b)
    assert numpy.array_equal(run("half_products", "matmul(%x0, %x1)", (m, n), a, b), expected)
    turned = [numpy.ascontiguousarray(x.T) for x in (a, b)]
    op = "matmul(%x0, %x1) {trans_a=true, trans_b=true}"
    assert numpy.array_equal(run("half_products", op, (m, n), *turned), expected)
    if k > 16:
        assert not numpy.array_equal(run("", "matmul(%x0, %x1)", (m, n), a, b), expected)
        assert not numpy.array_equal(run("half_convolutions", "matmul(%x0, %x1)", (m, n), a, b), expected)


def test_half_products_of_a_batch_are_those_of_its_matrices():
    a, b = halves(2, 3, 5, 40), halves(2, 3, 40, 6)
    y = run("half_products", "matmul(%x0, %x1)", (2, 3, 5, 6), a, b)
    for i, j in numpy.ndindex(2, 3):
        assert numpy.array_equal(y[i, j], summed(a[i, j], b[i, j]))


def test_linear_layers_and_their_gradients():
    x, w, bias, dy = halves(2, 35, 50), halves(40, 50), halves(40), halves(2, 35, 40)
    rows, above = x.reshape(-1, 50), dy.reshape(-1, 40)
    y = run("half_products", "linear(%x0, %x1, %x2)", dy.shape, x, w, bias)
    assert numpy.array_equal(y.reshape(-1, 40), added(summed(rows, w.T), bias))
    dx = run("half_products", "linear_input_gradient(%x0, %x1)", x.shape, dy, w)
    assert numpy.array_equal(dx.reshape(-1, 50), summed(above, w))
    dw = run("half_products", "linear_weight_gradient(%x0, %x1)", w.shape, x, dy)
    assert numpy.array_equal(dw, summed(above.T, rows))


def test_a_sum_stops_growing_where_its_spacing_is_too_large():
    # 16 products add 1, half of the spacing of halves from 2048 on; a tie goes to the even neighbour.
    a, ones = numpy.full((1, 16 * 3000), 1 / 16, HALF), numpy.ones((16 * 3000, 1), HALF)
    assert run("half_products", "matmul(%x0, %x1)", (1, 1), a, ones) == 2048
    assert run("", "matmul(%x0, %x1)", (1, 1), a, ones) == 3000


def test_nothing_to_sum():
    empty = halves(3, 0), halves(0, 4)
    assert numpy.array_equal(run("half_products", "matmul(%x0, %x1)", (3, 4), *empty), numpy.zeros((3, 4), HALF))


GEOMETRY = [
    # stride, padding before and after, dilation, groups
    ((1, 1), (0, 0), (0, 0), (1, 1), 1),
    ((2, 1), (1, 1), (1, 0), (1, 2), 1),
    ((1, 2), (2, 0), (1, 2), (2, 1), 4),
]


@pytest.mark.parametrize("stride, low, high, dilation, groups", GEOMETRY)
def test_convolutions_and_their_gradients(stride, low, high, dilation, groups):
    n, channels, outputs, kernel, size = 2, 20, 24, (3, 2), (9, 8)
    depth, per = channels // groups, outputs // groups
    x, w, bias = halves(n, channels, *size), halves(outputs, depth, *kernel), halves(outputs)
    out = [(size[d] + low[d] + high[d] - dilation[d] * (kernel[d] - 1) - 1) // stride[d] + 1 for d in (0, 1)]
    dy = halves(n, outputs, *out)
    padded = numpy.pad(x, [(0, 0), (0, 0), *zip(low, high)])

    def region(image, group, at):
        """What element `at` of the kernel meets, a view."""
        ends = [at[d] * dilation[d] + stride[d] * (out[d] - 1) + 1 for d in (0, 1)]
        return image[
            :,
            group * depth : (group + 1) * depth,
            at[0] * dilation[0] : ends[0] : stride[0],
            at[1] * dilation[1] : ends[1] : stride[1],
        ]

    def rows(image):
        return image.transpose(0, 2, 3, 1).reshape(-1, image.shape[1])

    def image(matrix):
        return matrix.reshape(n, *out, -1).transpose(0, 3, 1, 2)

    y, dw = numpy.zeros((n, outputs, *out), HALF), numpy.zeros_like(w)
    dx = numpy.zeros_like(padded)
    for group in range(groups):
        mine = slice(group * per, (group + 1) * per)
        above, total = rows(dy[:, mine]), None
        for at in numpy.ndindex(*kernel):
            taps = w[(mine, slice(None), *at)]
            seen = rows(region(padded, group, at))
            total = summed(seen, taps.T, total)
            dw[(mine, slice(None), *at)] = summed(above.T, seen)
            below = region(dx, group, at)
            below[...] = image(summed(above, taps, rows(below)))
        y[:, mine] = image(total)
    dx = dx[:, :, low[0] : low[0] + size[0], low[1] : low[1] + size[1]]

    lists = {"strides": stride, "padding_low": low, "padding_high": high, "dilations": dilation}
    window = ", ".join(f"{name}={list(value)}" for name, value in lists.items()) + f", groups={groups}"
    expected = added(y, bias[:, None, None])
    got = run("half_convolutions", f"conv(%x0, %x1, %x2) {{{window}}}", y.shape, x, w, bias)
    assert numpy.array_equal(got, expected)
    op = f"conv_input_gradient(%x0, %x1) {{{window}, input_shape={list(x.shape)}}}"
    assert numpy.array_equal(run("half_convolutions", op, x.shape, dy, w), dx)
    op = f"conv_weight_gradient(%x0, %x1) {{{window}, kernel_shape={list(w.shape)}}}"
    assert numpy.array_equal(run("half_convolutions", op, w.shape, x, dy), dw)
    assert not numpy.array_equal(run("half_products", op, w.shape, x, dy), dw)


def test_half_convolutions_in_one_dimension_sum_tap_after_tap():
    x, w = halves(2, 33, 20), halves(8, 33, 3)
    window = "strides=[2], padding_low=[1], padding_high=[0], dilations=[1]"
    y = run("half_convolutions", f"conv(%x0, %x1) {{{window}}}", (2, 8, 10), x, w)
    padded, total = numpy.pad(x, [(0, 0), (0, 0), (1, 0)]), None
    for i in range(3):
        total = summed(padded[:, :, i : i + 19 : 2].transpose(0, 2, 1).reshape(-1, 33), w[:, :, i].T, total)
    assert numpy.array_equal(y, total.reshape(2, 10, 8).transpose(0, 2, 1))


def test_a_convolution_may_choose_for_itself():
    x, w = halves(1, 64, 3, 3), halves(8, 64, 1, 1)
    window = "strides=[1, 1], padding_low=[0, 0], padding_high=[0, 0], dilations=[1, 1]"
    narrow = summed(x.reshape(64, 9).T.copy(), w.reshape(8, 64).T).T.reshape(1, 8, 3, 3)
    for switch, own, is_narrow in (
        ("", "half", True),
        ("half_convolutions", "float", False),
        ("half_convolutions", "half", True),
        ("", "float", False),
    ):
        op = f'conv(%x0, %x1) {{{window} | outline.multi_conv_partials="{own}"}}'
        assert numpy.array_equal(run(switch, op, (1, 8, 3, 3), x, w), narrow) == is_narrow

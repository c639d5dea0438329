"""Gradient accumulation by reference: a linear model is fitted to a plane, four micro-batches to each update.

A graph that takes the accumulator by reference runs in a `repeat`; after it the weight is updated once. Prints the weights found.
"""

import numpy as np

import popxl
from popxl import ops
from popxl.ops import var_updates

MICRO_BATCHES, ROWS, RATE = 4, 8, 0.1
TRUE = np.array([[2.0], [-1.0], [0.5]], np.float32)


def error(x, y, w):
    difference = x @ w - y
    return ops.sum(difference * difference) * (1 / ROWS)


def program():
    ir = popxl.Ir()
    ir.num_host_transfers = MICRO_BATCHES
    with ir.main_graph, popxl.in_sequence():
        xs = popxl.h2d_stream((ROWS, 3), popxl.float32, name="x")
        ys = popxl.h2d_stream((ROWS, 1), popxl.float32, name="y")
        out = popxl.d2h_stream((), popxl.float32, name="loss")
        weight = popxl.variable(np.zeros((3, 1), np.float32), name="weight")
        total = popxl.variable(np.zeros((3, 1), np.float32), name="accumulator")
        x, y = popxl.TensorSpec((ROWS, 3), popxl.float32), popxl.TensorSpec((ROWS, 1), popxl.float32)
        forward = ir.create_graph(error, x, y, weight)
        gradient = popxl.transforms.autodiff(forward, grads_required=[forward.inputs[2]])

        def micro_batch(weight: popxl.Tensor, total: popxl.TensorByRef):
            there = ops.call_with_info(forward, ops.host_load(xs), ops.host_load(ys), weight)
            ops.host_store(out, there.outputs[0])
            one = popxl.constant(1.0, popxl.float32)
            (d_weight,) = ops.call(gradient.graph, one, inputs_dict=gradient.inputs_dict(there))
            var_updates.accumulate_(total, d_weight, f=1 / MICRO_BATCHES)

        ops.repeat(ir.create_graph(micro_batch, weight, total), MICRO_BATCHES, weight, total)
        ops.scaled_add_(weight, total, b=-RATE)
        var_updates.accumulator_zero_(total)
    return ir, xs, ys, out, weight


def main():
    ir, xs, ys, out, weight = program()
    generator = np.random.default_rng(0)
    with popxl.Session(ir, "ipu_hw") as session:
        for step in range(60):
            x = generator.standard_normal((MICRO_BATCHES, ROWS, 3)).astype(np.float32)
            loss = session.run({xs: x, ys: x @ TRUE})[out]
            if step % 20 == 0:
                print(f"step {step}: losses of the micro-batches {np.round(loss, 2)}")
        found = session.get_tensor_data(weight)
    print(f"weights found: {np.round(found.ravel(), 2)}")


if __name__ == "__main__":
    main()

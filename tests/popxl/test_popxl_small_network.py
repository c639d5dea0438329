"""A small network of these ops, trained with Adam over a few steps, against torch."""

import numpy as np
import popxl
import pytest
import torch
from popxl import ops

rng = np.random.default_rng(31)
STEPS, RATE = 3, 0.05
IMAGES = rng.uniform(-1, 1, (STEPS, 4, 1, 6, 6)).astype(np.float32)
LABELS = rng.integers(0, 3, (STEPS, 4)).astype(np.int32)
WEIGHTS = {
    "kernel": rng.uniform(-0.5, 0.5, (2, 1, 3, 3)),
    "scale": rng.uniform(0.5, 1.5, 18),
    "shift": rng.uniform(-0.5, 0.5, 18),
    "matrix": rng.uniform(-0.5, 0.5, (18, 3)),
}
WEIGHTS = {name: value.astype(np.float32) for name, value in WEIGHTS.items()}


def network(x, labels, kernel, scale, shift, matrix):
    y = ops.max_pool(ops.relu(ops.conv(x, kernel, padding=(1, 1, 1, 1))), (2, 2), (2, 2))
    y = ops.layer_norm(y.reshape((4, 18)), scale, shift)
    return ops.nll_loss(ops.softmax(y @ matrix, -1), labels)


def in_torch():
    weights = {name: torch.tensor(value, requires_grad=True) for name, value in WEIGHTS.items()}
    adam = torch.optim.Adam(weights.values(), RATE, betas=(0.9, 0.99), eps=1e-6)
    losses = []
    for image, label in zip(torch.as_tensor(IMAGES), torch.as_tensor(LABELS).long()):
        y = torch.nn.functional.conv2d(image, weights["kernel"], padding=1).relu()
        y = torch.nn.functional.max_pool2d(y, 2).reshape(4, 18)
        y = torch.nn.functional.layer_norm(y, (18,), weights["scale"], weights["shift"])
        loss = torch.nn.functional.cross_entropy(y @ weights["matrix"], label)
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses, {name: value.detach().numpy() for name, value in weights.items()}


@pytest.mark.shows("popxl.ops.var_updates.adam_updater")
@pytest.mark.shows("popxl.transforms.autodiff")
def test_a_small_network_trains_as_in_torch():
    ir = popxl.Ir()
    ir.num_host_transfers = STEPS
    with ir.main_graph, popxl.in_sequence():
        images = popxl.h2d_stream((4, 1, 6, 6), popxl.float32, name="images")
        labels = popxl.h2d_stream((4,), popxl.int32, name="labels")
        losses = popxl.d2h_stream((), popxl.float32, name="losses")
        weights = {name: popxl.variable(value, name=name) for name, value in WEIGHTS.items()}
        moments = {
            name: [popxl.variable(np.zeros_like(value)) for _ in range(2)] for name, value in WEIGHTS.items()
        }
        steps = {name: popxl.variable(np.float32(0)) for name in WEIGHTS}
        x, t = popxl.TensorSpec((4, 1, 6, 6), popxl.float32), popxl.TensorSpec((4,), popxl.int32)
        graph = ir.create_graph(network, x, t, *weights.values())
        backward = popxl.transforms.autodiff(graph, grads_required=graph.inputs[2:])

        def step():
            forward = ops.call_with_info(graph, ops.host_load(images), ops.host_load(labels), *weights.values())
            ops.host_store(losses, forward.outputs[0])
            gradients = ops.call(
                backward.graph, popxl.constant(1.0), inputs_dict=backward.inputs_dict(forward)
            )
            for (name, weight), gradient in zip(weights.items(), gradients):
                first, second = moments[name]
                ops.var_updates.accumulate_moving_average_(first, gradient, 0.9)
                ops.var_updates.accumulate_moving_average_square_(second, gradient, 0.99)
                change = ops.var_updates.adam_updater(
                    first, second, time_step=steps[name], beta1=0.9, beta2=0.99, epsilon=1e-6
                )
                ops.scaled_add_(weight, change, b=-RATE)

        for _ in range(STEPS):
            step()
    with popxl.Session(ir, "ipu_model") as session:
        results = session.run({images: IMAGES, labels: LABELS})
    wanted_losses, wanted = in_torch()
    np.testing.assert_allclose(np.asarray(results[losses]), wanted_losses, rtol=1e-5)
    for name, weight in weights.items():
        np.testing.assert_allclose(session.get_tensor_data(weight), wanted[name], rtol=1e-4, atol=2e-5, err_msg=name)

"""Trains a small network on handwritten digits with PopXL, then tests it in a second program that takes over the weights.

Everything is written out: the forward graph, its gradient graph, the update of each weight, and the loop over the batches of an
epoch, which is one run of the session. Prints the loss of every fourth epoch and the accuracy on images it has not seen.
"""

import numpy as np
from sklearn.datasets import load_digits

import popxl
from popxl import ops
from popxl.ops import var_updates

BATCH, EPOCHS, RATE = 32, 24, 0.002


class Linear(popxl.Module):
    def build(self, x, width):
        self.weight = popxl.graph_input((x.shape[-1], width), popxl.float32, name="weight")
        self.bias = popxl.graph_input((width,), popxl.float32, name="bias")
        return x @ self.weight + self.bias


class Net(popxl.Module):
    """Scores of the ten digits."""

    def __init__(self):
        self.hidden, self.scores = Linear(), Linear()

    def build(self, images):
        return self.scores(ops.gelu(self.hidden(images, 128)), 10)

    def inputs(self):
        return [self.hidden.weight, self.hidden.bias, self.scores.weight, self.scores.bias]


def variables(net, generator):
    """A variable for each input of the graph of `net` that is a parameter."""
    values = {}
    for number, tensor in enumerate(net.inputs()):
        bound = 1 / np.sqrt(tensor.shape[0])
        data = generator.uniform(-bound, bound, tensor.shape) if tensor.rank == 2 else np.zeros(tensor.shape)
        values[tensor] = popxl.variable(data.astype(np.float32), name=f"parameter{number}")
    return values


class Adam(popxl.Module):
    """One step for one parameter: its moments and itself change in place."""

    def build(self, weight: popxl.TensorByRef, gradient: popxl.Tensor, first: popxl.TensorByRef, second: popxl.TensorByRef,
              step: popxl.TensorByRef):  # fmt: skip
        var_updates.accumulate_moving_average_(first, gradient, f=0.9)
        var_updates.accumulate_moving_average_square_(second, gradient, f=0.999)
        change = var_updates.adam_updater(first, second, time_step=step, beta1=0.9, beta2=0.999)
        ops.scaled_add_(weight, change, b=-RATE)


def training_program(batches, generator):
    ir = popxl.Ir()
    ir.num_host_transfers = batches
    with ir.main_graph, popxl.in_sequence():
        images = popxl.h2d_stream((BATCH, 64), popxl.float32, name="images")
        labels = popxl.h2d_stream((BATCH,), popxl.int32, name="labels")
        losses = popxl.d2h_stream((), popxl.float32, name="losses")
        net = Net()
        forward = ir.create_graph(net, popxl.TensorSpec((BATCH, 64), popxl.float32))
        parameters = variables(net, generator)
        gradient = popxl.transforms.autodiff(forward, grads_required=net.inputs())
        state = []
        for tensor, variable in parameters.items():
            moments = [popxl.variable(np.zeros(tensor.shape, np.float32), name=f"{variable.name}.{m}") for m in "mv"]
            state += [variable, *moments, popxl.variable(0.0, popxl.float32, name=f"{variable.name}.step")]
        adam = [ir.create_graph(Adam(), v, v.spec, v.spec, v.spec, popxl.TensorSpec((), popxl.float32)) for v in state[::4]]

        def step(*state: popxl.TensorByRef):
            x, y = ops.host_load(images), ops.host_load(labels)
            mine = dict(zip(net.inputs(), state[::4]))
            there = ops.call_with_info(forward, x, inputs_dict=mine)
            loss, d_scores = ops.nll_loss_with_softmax_grad(ops.softmax(there.outputs[0], 1), y)
            back = ops.call_with_info(gradient.graph, d_scores, inputs_dict=gradient.inputs_dict(there))
            for number, tensor in enumerate(net.inputs()):
                d = gradient.fwd_graph_ins_to_grad_parent_outs(back)[tensor]
                weight, first, second, count = state[4 * number : 4 * number + 4]
                ops.call(adam[number], weight, d, first, second, count)
            ops.host_store(losses, loss)

        ops.repeat(ir.create_graph(step, *state), batches, *state)
    return ir, (images, labels, losses), list(parameters.values())


def test_program(count, generator):
    ir = popxl.Ir()
    with ir.main_graph:
        images = popxl.h2d_stream((count, 64), popxl.float32)
        found = popxl.d2h_stream((count,), popxl.int32)
        net = Net()
        forward = ir.create_graph(net, popxl.TensorSpec((count, 64), popxl.float32))
        parameters = variables(net, generator)
        (scores,) = ops.call(forward, ops.host_load(images), inputs_dict=parameters)
        ops.host_store(found, ops.argmax(scores, 1))
    return ir, images, found, list(parameters.values())


def main():
    generator = np.random.default_rng(0)
    digits = load_digits()
    order = generator.permutation(len(digits.target))
    images, labels = (digits.data[order] / 16).astype(np.float32), digits.target[order].astype(np.int32)
    train = 1408  # 44 batches; 389 images are left for the test
    batches = train // BATCH
    ir, (x, y, losses), trained = training_program(batches, generator)
    with popxl.Session(ir, "ipu_hw") as session:
        for epoch in range(EPOCHS):
            order = generator.permutation(train)
            feed = {x: images[order].reshape(batches, BATCH, 64), y: labels[order].reshape(batches, BATCH)}
            loss = session.run(feed)[losses].mean()
            if epoch % 4 == 3:
                print(f"epoch {epoch + 1}: loss {loss:.3f}")
    weights = session.get_tensors_data(trained)
    ir, x, found, tested = test_program(len(labels) - train, generator)
    session = popxl.Session(ir, "ipu_hw")
    session.write_variables_data({there: weights[here] for here, there in zip(trained, tested)})
    with session:
        answers = session.run({x: images[train:]})[found]
    print(f"accuracy on unseen digits: {100 * (answers == labels[train:]).mean():.1f}%")


if __name__ == "__main__":
    main()

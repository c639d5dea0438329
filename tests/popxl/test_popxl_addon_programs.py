"""Programs as add-on libraries write them in Python on the public API: named tensors, factories, phased loops, pipelines."""

import numpy as np
import pytest

import popxl
from popxl import ops
from popxl.ops import var_updates


class NamedTensors(dict):
    """Tensors by dotted name, as add-on libraries keep them."""

    def __getattr__(self, name):
        return self[name]

    def mapping(self, other):
        return {self[name]: other[name] for name in self}


class Module(popxl.Module):
    """Collects its `graph_input`s with a factory for the first value of each."""

    def __init__(self):
        self.named_inputs, self.factories = NamedTensors(), {}

    def add_input(self, name, factory, shape):
        self.factories[name] = (factory, shape)
        self.named_inputs[name] = popxl.graph_input(shape, popxl.float32, name=name)
        return self.named_inputs[name]

    def data(self):
        return {name: factory(shape).astype(np.float32) for name, (factory, shape) in self.factories.items()}


class Layer(Module):
    def __init__(self, generator):
        super().__init__()
        self.generator = generator

    def build(self, x):
        w = self.add_input("w", self.generator.standard_normal, (x.shape[-1], x.shape[-1]))
        b = self.add_input("b", self.generator.standard_normal, (x.shape[-1],))
        return ops.tanh(x @ w + b)


def test_a_phased_loop_over_batches_keeps_weights_and_activations_in_remote_buffers():
    layers, batches, shape = 3, 4, (2, 5)
    generator = np.random.default_rng(1)
    ir = popxl.Ir()
    ir.num_host_transfers = batches
    with ir.main_graph, popxl.in_sequence():
        xs, ys = popxl.h2d_stream(shape, popxl.float32), popxl.d2h_stream(shape, popxl.float32)
        layer = Layer(generator)
        graph = ir.create_graph(layer, popxl.TensorSpec(shape, popxl.float32))
        buffers, values = {}, []
        for name, tensor in layer.named_inputs.items():
            buffers[name] = popxl.remote_buffer(tensor.shape, tensor.dtype, layers)
        for number in range(layers):
            values.append(layer.data())
            for name, data in values[-1].items():
                popxl.remote_variable(data, buffers[name], number, name=f"layer{number}/{name}")
        activations = popxl.remote_buffer(shape, popxl.float32, (layers + 1) * batches)
        zero = popxl.constant(0, popxl.uint32, name="zero")

        def fill(place):
            ops.remote_store(activations, place, ops.host_load(xs))
            return place + 1

        def batch(place, w, b):
            here = ops.remote_load(activations, place)
            (there,) = ops.call(graph, here, inputs_dict={layer.named_inputs.w: w, layer.named_inputs.b: b})
            ops.remote_store(activations, place + batches, there)
            return place + 1

        def phase(number, place):
            weights = NamedTensors({name: ops.remote_load(buffer, number) for name, buffer in buffers.items()})
            inner = ir.create_graph(batch, place, weights.w, weights.b)
            (place,) = ops.repeat(inner, batches, place, weights.w, weights.b)
            return number + 1, place

        def drain(place):
            ops.host_store(ys, ops.remote_load(activations, place))
            return place + 1

        with popxl.in_sequence():
            ops.repeat(ir.create_graph(fill, zero), batches, zero)
            _, place = ops.repeat(ir.create_graph(phase, zero, zero), layers, zero, zero)
            ops.repeat(ir.create_graph(drain, place), batches, place)
    x = generator.standard_normal((batches, *shape)).astype(np.float32)
    wanted = x
    for layer_values in values:
        wanted = np.tanh(wanted @ layer_values["w"] + layer_values["b"])
    with popxl.Session(ir, "ipu_model") as session:
        for _ in range(2):
            np.testing.assert_allclose(session.run({xs: x})[ys], wanted, rtol=1e-5, atol=1e-6)


def stage_0(x, w):
    return ops.tanh(x @ w)


def stage_1(h, w, y):
    difference = h @ w - y
    return ops.sum(difference * difference)


def gradients(x, y, w0, w1):
    h = np.tanh(x @ w0)
    d = 2 * (h @ w1 - y)
    return (d * (h @ w1 - y) / 2).sum(), x.T @ ((d @ w1.T) * (1 - h * h)), h.T @ d


@pytest.mark.parametrize("micro_batches", [4, 7])
def test_a_pipeline_over_two_ipus_trains_as_its_micro_batches_one_after_another(micro_batches):
    rate, rows, width = 0.01, 3, 4
    generator = np.random.default_rng(2)
    start = [generator.standard_normal((width, width)).astype(np.float32) for _ in range(2)]
    ir = popxl.Ir()
    ir.num_host_transfers = micro_batches
    spec = popxl.TensorSpec((rows, width), popxl.float32)
    square = popxl.TensorSpec((width, width), popxl.float32)
    with ir.main_graph, popxl.in_sequence():
        xs = popxl.h2d_stream(spec.shape, spec.dtype, name="x")
        ys = popxl.h2d_stream(spec.shape, spec.dtype, name="y")
        losses = popxl.d2h_stream((), popxl.float32, name="loss")
        with popxl.ipu(0):
            first = ir.create_graph(stage_0, spec, square)
            first_gradient = popxl.transforms.autodiff(first, grads_required=[first.inputs[1]])
        with popxl.ipu(1):
            second = ir.create_graph(stage_1, spec, square, spec)
            second_gradient = popxl.transforms.autodiff(second, grads_required=second.inputs[:2])
        weights = [popxl.variable(data, name=f"w{i}") for i, data in enumerate(start)]
        sums = [popxl.variable(np.zeros_like(data), name=f"sum{i}") for i, data in enumerate(start)]

        def forward_0(w):
            """Stage 0 of a micro-batch: what stage 1 reads, and what its own backward stage will read."""
            with popxl.ipu(0):
                x = ops.host_load(xs)
                info = ops.call_with_info(first, x, w)
                h = info.outputs[0]
                return ops.ipu_copy(h, 1), first_gradient.inputs_dict(info)

        def both_1(h, w, total):
            """Stage 1 forward and backward: adds to `total`, gives the gradient of h on IPU 0."""
            with popxl.ipu(1):
                info = ops.call_with_info(second, h, w, ops.host_load(ys))
                ops.host_store(losses, info.outputs[0])
                one = popxl.constant(1.0, popxl.float32)
                d_h, d_w = ops.call(second_gradient.graph, one, inputs_dict=second_gradient.inputs_dict(info))
                var_updates.accumulate_(total, d_w)
                return ops.ipu_copy(d_h, 0)

        def backward_0(d_h, stash, total):
            with popxl.ipu(0):
                (d_w,) = ops.call(first_gradient.graph, d_h, inputs_dict=stash)
                var_updates.accumulate_(total, d_w)

        # Ramp up: stage 0 of micro-batch 0; then of 1, beside stage 1 of micro-batch 0.
        h, stash_a = forward_0(weights[0])
        d_h = both_1(h, weights[1], sums[1])
        h, stash_b = forward_0(weights[0])
        keys = list(stash_a)

        # Steady state: a cycle takes what the last one left, and nobody waits for what is made in it.
        def cycle(h, d_h, w0: popxl.Tensor, w1: popxl.Tensor, sum0: popxl.TensorByRef, sum1: popxl.TensorByRef, *kept):
            older, newer = kept[: len(keys)], kept[len(keys) :]
            backward_0(d_h, dict(zip(keys, older)), sum0)
            d_h = both_1(h, w1, sum1)
            h, stash = forward_0(w0)
            return (h, d_h, *newer, *(stash[key] for key in keys))

        # Carried values stand in front: h, d_h and both stashes; the rest is the same in every cycle.
        def carried_first(h, d_h, *rest):
            count = 2 * len(keys)
            return cycle(h, d_h, *rest[count:], *rest[:count])

        values = [h, d_h, *stash_a.values(), *stash_b.values()]
        steady = ir.create_empty_graph("cycle")
        with steady, popxl.in_sequence():
            inside = [popxl.graph_input(t.shape, t.dtype, name=f"carried{i}") for i, t in enumerate(values)]
            ws = [popxl.graph_input(w.shape, w.dtype, name=f"w{i}") for i, w in enumerate(weights)]
            totals = [popxl.graph_input(s.shape, s.dtype, name=f"sum{i}", by_ref=True) for i, s in enumerate(sums)]
            for tensor in carried_first(*inside, *ws, *totals):
                popxl.graph_output(tensor)
        values = ops.repeat(steady, micro_batches - 2, *values, *weights, *sums)
        h, d_h, *kept = values
        # Ramp down.
        backward_0(d_h, dict(zip(keys, kept[: len(keys)])), sums[0])
        d_h = both_1(h, weights[1], sums[1])
        backward_0(d_h, dict(zip(keys, kept[len(keys) :])), sums[0])
        for number, (weight, total) in enumerate(zip(weights, sums)):
            with popxl.ipu(number):
                ops.scaled_add_(weight, total, b=-rate)
                var_updates.accumulator_zero_(total)

    assert ir.main_graph.variables[-1].ipu == 1
    current = [w.astype(np.float64) for w in start]
    with popxl.Session(ir, "ipu_model") as session:
        for _ in range(3):
            x, y = (generator.standard_normal((micro_batches, rows, width)).astype(np.float32) for _ in range(2))
            found = session.run({xs: x, ys: y})[losses]
            expected, totals = [], [0.0, 0.0]
            for one_x, one_y in zip(x, y):
                loss, *ds = gradients(one_x, one_y, *current)
                expected.append(loss)
                totals = [t + d for t, d in zip(totals, ds)]
            current = [w - rate * t for w, t in zip(current, totals)]
            np.testing.assert_allclose(found, expected, rtol=1e-4)
        for weight, value in zip(weights, current):
            np.testing.assert_allclose(session.get_tensor_data(weight), value, rtol=1e-4, atol=1e-5)


def accumulating(info, wanted):
    """Turns the outputs of a gradient graph that are gradients of `wanted` into accumulators, taken by reference. Their places
    are noted first, and removed one after the other in ascending order."""
    graph, accumulators = info.graph, {}
    places = [i for i, t in enumerate(info.outputs) if t in wanted]
    with graph, popxl.in_sequence():
        for i in places:
            gradient, forward = graph.outputs[i], info.outputs[i]
            accumulator = popxl.graph_input(forward.shape, forward.dtype, f"sum_of_{forward.name}", by_ref=True)
            var_updates.accumulate_(accumulator, gradient)
            accumulators[forward] = accumulator
    for i in places:
        graph._pb_graph.removeOutput(i)
    return accumulators


def test_gradients_of_a_layer_with_a_weight_and_a_bias_accumulate_in_the_gradient_graph():
    batches, shape = 3, (2, 4)
    generator = np.random.default_rng(5)
    ir = popxl.Ir()
    ir.num_host_transfers = batches
    with ir.main_graph, popxl.in_sequence():
        xs, dxs = popxl.h2d_stream(shape, popxl.float32), popxl.d2h_stream(shape, popxl.float32)
        layer = Layer(generator)
        graph = ir.create_graph(layer, popxl.TensorSpec(shape, popxl.float32))
        inputs = NamedTensors(layer.named_inputs)
        data = layer.data()
        values = NamedTensors({name: popxl.variable(array, name=name) for name, array in data.items()})
        info = popxl.transforms.autodiff(graph)
        sums = accumulating(info, list(inputs.values()))
        assert [t.name for t in info.graph.outputs] == ["Gradient___x"] and len(sums) == 2
        kept = {name: popxl.variable(np.zeros(t.shape), t.dtype, f"sum/{name}") for name, t in inputs.items()}

        def batch(w, b, sum_w: popxl.TensorByRef, sum_b: popxl.TensorByRef):
            site = ops.call_with_info(graph, ops.host_load(xs), inputs_dict=inputs.mapping(NamedTensors(w=w, b=b)))
            ones = popxl.constant(np.ones(shape, np.float32))
            places = {sums[inputs.w]: sum_w, sums[inputs.b]: sum_b}
            backward = ops.call_with_info(info.graph, ones, inputs_dict={**info.inputs_dict(site), **places})
            for tensor in places.values():
                backward.set_parent_input_modified(tensor)
            ops.host_store(dxs, backward.outputs[0])

        body = ir.create_graph(batch, values.w, values.b, kept["w"], kept["b"])
        ops.repeat(body, batches, values.w, values.b, kept["w"], kept["b"])
    x = generator.standard_normal((batches, *shape)).astype(np.float32)
    with popxl.Session(ir, "ipu_model") as session:
        dx = session.run({xs: x})[dxs]
    slope = 1 - np.tanh(x @ data["w"] + data["b"]) ** 2
    np.testing.assert_allclose(dx, slope @ data["w"].T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(session.get_tensor_data(kept["b"]), slope.sum((0, 1)), rtol=1e-4, atol=1e-5)
    wanted = np.einsum("nbi,nbj->ij", x, slope)
    np.testing.assert_allclose(session.get_tensor_data(kept["w"]), wanted, rtol=1e-4, atol=1e-5)


def test_batches_go_one_by_one_over_io_tiles():
    """The next batch comes in while one is computed and the one before leaves: a loop that carries both."""
    batches, shape = 4, (2, 3)
    generator = np.random.default_rng(6)
    w = generator.standard_normal((3, 3)).astype(np.float32)
    ir = popxl.Ir()
    options = ir._pb_ir.getSessionOptions()
    if options.numIOTiles < 1:
        options.numIOTiles = 32
    assert options.numIOTiles == 32
    with ir.main_graph, popxl.in_sequence():
        before = popxl.remote_buffer(shape, popxl.float32, batches)
        after = popxl.remote_buffer(shape, popxl.float32, batches)
        x = generator.standard_normal((batches, *shape)).astype(np.float32)
        for i in range(batches):
            popxl.remote_variable(x[i], before, i, name=f"x{i}")
        stored = [popxl.remote_variable(np.zeros(shape), after, i, name=f"y{i}") for i in range(batches)]
        weight = popxl.variable(w, name="w")

        def load(place):
            with popxl.io_tiles():
                return ops.remote_load(before, place)

        def compute(loaded, weight):
            return ops.io_tile_copy(ops.tanh(ops.io_tile_copy(loaded) @ weight))

        def step(place, loaded, computed, weight):
            """Stores batch place - 2, computes batch place - 1, loads batch place."""
            with popxl.transforms.io_tile_exchange(verify_overlap=False):
                with popxl.io_tiles():
                    ops.remote_store(after, place - 2, computed)
                following = load(place)
            return place + 1, following, compute(loaded, weight)

        first = load(popxl.constant(0, popxl.uint32))
        second = load(popxl.constant(1, popxl.uint32))
        done = compute(first, weight)
        place = popxl.constant(2, popxl.uint32)
        body = ir.create_graph(step, place, second, done, weight)
        _, last, done = ops.repeat(body, batches - 2, place, second, done, weight)
        with popxl.io_tiles():
            ops.remote_store(after, batches - 2, done)
        done = compute(last, weight)
        with popxl.io_tiles():
            ops.remote_store(after, batches - 1, done)
    with popxl.Session(ir, "ipu_model") as session:
        session.run()
    got = np.stack([session.get_tensor_data(t) for t in stored])
    np.testing.assert_allclose(got, np.tanh(x @ w), rtol=1e-5, atol=1e-6)


def trained(folder, runs, mode):
    """A layer whose weights lie in files, trained for some runs in a session of its own; the files then hold them."""
    shape, ir = (2, 3), popxl.Ir(replication=2)
    x = np.random.default_rng(7).standard_normal((2, *shape)).astype(np.float32)
    with ir.main_graph, popxl.in_sequence():
        xs, losses = popxl.h2d_stream(shape, popxl.float32), popxl.d2h_stream((), popxl.float32)
        files = {name: np.memmap(folder / name, np.float32, mode, shape=(3, 3)) for name in ("w", "m")}
        if mode == "w+":
            files["w"][:] = np.eye(3)
        w = popxl.variable(files["w"], name="w")
        handle, m = popxl.replica_sharded_variable(files["m"], name="m")
        y = ops.host_load(xs) @ w
        gradient = ops.collectives.replicated_all_reduce(ops.transpose(y) @ y)
        m += ops.collectives.replica_sharded_slice(gradient)
        ops.scaled_add_(w, ops.collectives.replicated_all_gather(m), b=-0.01)
        ops.host_store(losses, ops.sum(y))
    with popxl.Session(ir, "ipu_model") as session:
        for _ in range(runs):
            session.run({xs: x})
    assert session.get_tensor_data(w) is files["w"] and session.get_tensor_data(handle) is files["m"]
    return {name: np.fromfile(folder / name, np.float32) for name in files}


def test_a_checkpoint_in_memory_maps_goes_on_where_it_ended(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    wanted = trained(whole, 4, "w+")
    trained(parts, 1, "w+")
    got = trained(parts, 3, "r+")
    assert all((got[name] == wanted[name]).all() for name in wanted) and abs(wanted["m"]).max() > 0

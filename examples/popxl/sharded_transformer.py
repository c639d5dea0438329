"""A GPT-style block, data parallel over four IPUs, whose weights lie in shards in streaming memory.

Each replica keeps a quarter of every weight in a remote buffer (replicated tensor sharding). A step loads the shards, gathers the
whole weights for the forward and backward graphs, reduces and scatters the gradients, updates the shard it owns and stores it.
Prints how the loss of predicting the next character of a rhyme falls.
"""

import numpy as np

import popxl
from popxl import ops
from popxl.ops import collectives

REPLICAS, LENGTH, WIDTH, HEADS, RATE = 4, 32, 64, 4, 0.1
TEXT = "the ship that sails the silver sea shall see the shore she sailed for; " * 8
ALPHABET = sorted(set(TEXT))


def attention(x, qkv, out):
    """Causal self-attention of one sequence, x: (LENGTH, WIDTH)."""
    q, k, v = (t.reshape((LENGTH, HEADS, WIDTH // HEADS)).transpose((1, 0, 2)) for t in ops.split(x @ qkv, 3, axis=1))
    mask = popxl.constant(np.triu(np.full((LENGTH, LENGTH), -1e4, np.float32), 1), name="mask")
    scores = (q @ k.transpose((0, 2, 1))) * (WIDTH // HEADS) ** -0.5 + mask
    mixed = (ops.softmax(scores, -1) @ v).transpose((1, 0, 2)).reshape((LENGTH, WIDTH))
    return mixed @ out


def block(tokens, embedding, position, gain1, offset1, qkv, out, gain2, offset2, up, down):
    """Scores of the next character, (LENGTH, characters)."""
    x = ops.gather(embedding, tokens) + position
    x = x + attention(ops.layer_norm(x, gain1, offset1), qkv, out)
    x = x + ops.gelu(ops.layer_norm(x, gain2, offset2) @ up) @ down
    return x @ embedding.T


SHAPES = {
    "embedding": (len(ALPHABET), WIDTH),
    "position": (LENGTH, WIDTH),
    "gain1": (WIDTH,),
    "offset1": (WIDTH,),
    "qkv": (WIDTH, 3 * WIDTH),
    "out": (WIDTH, WIDTH),
    "gain2": (WIDTH,),
    "offset2": (WIDTH,),
    "up": (WIDTH, 4 * WIDTH),
    "down": (4 * WIDTH, WIDTH),
}


def first_value(name, shape, generator):
    if name.startswith("gain"):
        return np.ones(shape, np.float32)
    if name.startswith("offset"):
        return np.zeros(shape, np.float32)
    return (generator.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32)


def program(generator):
    ir = popxl.Ir(replication=REPLICAS)
    with ir.main_graph, popxl.in_sequence():
        tokens = popxl.h2d_stream((LENGTH,), popxl.uint32, name="tokens")
        wanted = popxl.h2d_stream((LENGTH,), popxl.uint32, name="next characters")
        losses = popxl.d2h_stream((), popxl.float32, name="loss")
        specs = [popxl.TensorSpec(shape, popxl.float32) for shape in SHAPES.values()]
        forward = ir.create_graph(block, popxl.TensorSpec((LENGTH,), popxl.uint32), *specs)
        gradient = popxl.transforms.autodiff(forward, grads_required=forward.inputs[1:])
        buffers, variables, shards = [], [], []
        for name, shape in SHAPES.items():
            buffers.append(popxl.replica_sharded_buffer(shape, popxl.float32))
            data = first_value(name, shape, generator)
            variables.append(popxl.remote_replica_sharded_variable(data, buffers[-1], 0, name=name))
            shards.append(ops.remote_load(buffers[-1], 0))
        whole = [collectives.replicated_all_gather(shard) for shard in shards]
        there = ops.call_with_info(forward, ops.host_load(tokens), *whole)
        probabilities = ops.softmax(there.outputs[0], -1)
        loss, d_scores = ops.nll_loss_with_softmax_grad(probabilities, ops.host_load(wanted))
        ops.host_store(losses, loss)
        back = ops.call_with_info(gradient.graph, d_scores, inputs_dict=gradient.inputs_dict(there))
        for buffer, shard, d_weight in zip(buffers, shards, back.outputs):
            mine = collectives.replicated_reduce_scatter(
                d_weight, op="mean", configure_output_for_replicated_tensor_sharding=True
            )
            ops.scaled_add_(shard, mine, b=-RATE)
            ops.remote_store(buffer, 0, shard)
    return ir, tokens, wanted, losses, variables


def main():
    generator = np.random.default_rng(0)
    ir, tokens, wanted, losses, variables = program(generator)
    numbers = np.array([ALPHABET.index(c) for c in TEXT], np.uint32)
    with popxl.Session(ir, "ipu_hw") as session:
        for step in range(120):
            starts = generator.integers(0, len(numbers) - LENGTH - 1, REPLICAS)
            x = np.stack([numbers[s : s + LENGTH] for s in starts])
            y = np.stack([numbers[s + 1 : s + LENGTH + 1] for s in starts])
            loss = session.run({tokens: x, wanted: y})[losses]
            if step % 40 in (0, 39):
                print(f"step {step}: loss {loss.mean():.3f}")
    weights = session.get_tensors_data(variables)
    print(f"{sum(w.size for w in weights.values())} weights, a quarter of each on every replica")


if __name__ == "__main__":
    main()

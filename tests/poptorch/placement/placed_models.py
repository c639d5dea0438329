"""A small model in blocks, and runs of it that say everything that may not depend on where tensors live."""

import torch
import torch.nn.functional as F

import poptorch

SIZES = (6, 8, 8, 5)
OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "combined": lambda p: poptorch.optim.SGD(p, lr=0.05, momentum=0.9, use_combined_accum=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "LAMB": lambda p: poptorch.optim.LAMB(p, lr=0.01),
}


class Layers(torch.nn.Module):
    """Layer i runs in block b<i>; the last one holds the loss. Dropout, a norm, and a buffer that forward writes."""

    def __init__(self, ipus=(0, 0, 0), overlap=(None, None)):
        super().__init__()
        self.overlap = overlap  # modes of inputs and of outputs
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(SIZES, SIZES[1:]))
        self.norm = torch.nn.LayerNorm(SIZES[1])
        self.register_buffer("seen", torch.zeros(()))
        self.ipus = ipus

    def forward(self, x, y=None):
        of_inputs, of_outputs = self.overlap
        if of_inputs is not None:
            x, y = poptorch.set_overlap_for_input((x, y), of_inputs)
        for index, layer in enumerate(self.layers):
            poptorch.Block.start(f"b{index}", ipu_id=self.ipus[index])
            x = layer(x)
            if index == 0:
                self.seen.add_(1)
                x = F.dropout(F.gelu(self.norm(x)), 0.25, self.training)
            elif index == 1:
                x = x.relu()
        if y is None:
            return x
        results = x, F.mse_loss(x, y)
        return results if of_outputs is None else poptorch.set_overlap_for_output(results, of_outputs)


def locations(options, **families):
    """`families`: weight, optimizer, accumulator, activation → dict of calls on `TensorLocationSettings`."""
    for family, calls in families.items():
        settings = poptorch.TensorLocationSettings()
        for name, value in calls.items():
            getattr(settings, name)(value)
        getattr(options.TensorLocations, f"set{family.capitalize()}Location")(settings)
    return options


def options_of(accumulation=1, iterations=1, replicas=1, mode=poptorch.OutputMode.All, strategy=None):
    options = poptorch.Options().deviceIterations(iterations).replicationFactor(replicas).randomSeed(3)
    options.outputMode(mode).autoRoundNumIPUs(True).broadcastBuffers(False)
    options.setExecutionStrategy(strategy or poptorch.ShardedExecution())
    options.Training.gradientAccumulation(accumulation)
    return options


def train(options, make_optimizer=OPTIMIZERS["momentum"], ipus=(0, 0, 0), rows=2, calls=2, overlap=(None, None)):
    """Outputs of `calls` calls, all state after them, statistics of the compilation."""
    torch.manual_seed(1)
    model = Layers(ipus, overlap)
    optimizer = make_optimizer(model.parameters())
    trainer = poptorch.trainingModel(model, options, optimizer)
    count = options.device_iterations * options.Training.gradient_accumulation * options.replication_factor * rows
    generator = torch.Generator().manual_seed(2)
    outputs = []
    for _ in range(calls):
        x = torch.randn(count, SIZES[0], generator=generator)
        outputs += trainer(x, torch.randn(count, SIZES[-1], generator=generator))
    statistics = trainer._executable.statistics()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    if hasattr(optimizer, "state_dict"):
        stored = optimizer.state_dict()
        for name, value in stored.get("ipu_state", {}).items() if isinstance(stored.get("ipu_state"), dict) else ():
            state[f"optimizer {name}"] = value
    trainer.destroy()
    return outputs, state, statistics


def assert_same_bits(one, other):
    for a, b in zip(one[0], other[0], strict=True):
        assert torch.equal(a, b)
    assert one[1].keys() == other[1].keys()
    for name in one[1]:
        assert torch.equal(torch.as_tensor(one[1][name]), torch.as_tensor(other[1][name])), name

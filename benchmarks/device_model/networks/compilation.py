"""The machine form of a network as it ran: captured on meta tensors and compiled by this project, as a user's model is."""

import functools

import poptorch
import torch

MOST_IPUS = 64  # of one process
OPTIMIZERS = {
    "sgd": functools.partial(poptorch.optim.SGD, lr=0.01),
    "momentum": functools.partial(poptorch.optim.SGD, lr=0.01, momentum=0.9),
    "adam": functools.partial(poptorch.optim.AdamW, lr=0.01, accum_type=torch.float16),
    "adam fp32": functools.partial(poptorch.optim.AdamW, lr=0.01),
    "lamb": functools.partial(poptorch.optim.LAMB, lr=0.01, accum_type=torch.float16),
}
PARTIALS = {"fp16": torch.float16, "fp32": torch.float32}
OVERLAPPED = 128  # batches of a call whose inputs come while others are computed [BYTE]
STAGES, ALL_BUT_CHECKPOINTS = 3, 4  # autoRecomputation


def options_of(run):
    ipus = len(run.proportions)
    options = poptorch.Options().showCompilationProgressBar(False)
    options.setAvailableMemoryProportion({f"IPU{ipu}": share for ipu, share in enumerate(run.proportions)})
    options.Precision.setPartialsType(PARTIALS[run.partials])
    processes = -(-run.replicas * ipus // MOST_IPUS)
    options.Distributed.configureProcessId(0, processes)
    options.replicationFactor(run.replicas // processes)
    if run.io_tiles:
        options.deviceIterations(OVERLAPPED)
        options.setExecutionStrategy(poptorch.ShardedExecution())
        options.TensorLocations.numIOTiles(run.io_tiles)
    if run.is_training:
        options.Training.gradientAccumulation(run.accumulation)
        options._Popart.set("autoRecomputation", STAGES if ipus > 1 else ALL_BUT_CHECKPOINTS)
    if run.off_chip_state:
        place = poptorch.TensorLocationSettings().useOnChipStorage(False)
        options.TensorLocations.setOptimizerLocation(place.useReplicatedTensorSharding(run.replicas > 1))
    return options


def of_a_call(tensor, micro_batches):
    """An argument of all its micro-batches, one behind the other."""
    return tensor.new_empty(tensor.shape[0] * micro_batches, *tensor.shape[1:])


class Overlapped(torch.nn.Module):
    """I/O tiles fetch the next inputs meanwhile."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *arguments):
        overlap = poptorch.OverlapMode.OverlapDeviceIterationLoop
        return self.module(*(poptorch.set_overlap_for_input(argument, overlap) for argument in arguments))


def machine_form(run):
    """Its text, of a call, and how many steps that has: all micro-batches up to an update, or a batch of inference."""
    if run.form:
        return run.form(), 1
    with torch.device("meta"):
        module = run.make().half().train(run.is_training)
    options = options_of(run)
    steps = options.device_iterations
    if run.io_tiles:
        module = Overlapped(module)
    if run.is_training:
        wrapper = poptorch.trainingModel(module, options, OPTIMIZERS[run.optimizer](module.parameters()))
    else:
        wrapper = poptorch.inferenceModel(module, options)
    micro_batches = options.replication_factor * options.Training.gradient_accumulation * steps
    wrapper.compile(*(of_a_call(argument, micro_batches) for argument in run.inputs(run.micro_batch)))
    text = wrapper._executable.machine_text()
    wrapper.destroy()
    return text, steps

"""A user's program, which mypy checks with the package (scripts/lint): the published names have the types they promise."""

import datetime
import typing

import poptorch
import torch
from poptorch import DataLoader, Options, OutputMode


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = poptorch.BeginBlock(torch.nn.Linear(4, 4), "first", ipu_id=0)
        self.last = torch.nn.Linear(4, 2)

    @poptorch.BlockFunction("last", ipu_id=1)
    def head(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(poptorch.nop(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        typing.assert_type(self.first, torch.nn.Linear)
        x = poptorch.recomputationCheckpoint(self.first(x))
        a, b = poptorch.recomputationCheckpoint(x, x)
        with poptorch.Block("middle", ipu_id=0) as block, poptorch.Attribute(__outline={"layer": "middle"}):
            typing.assert_type(block, poptorch.Block)
            x = poptorch.ipu_print_tensor(a + b, "middle")
        typing.assert_type(self.head(x), torch.Tensor)
        return poptorch.identity_loss(self.head(x), reduction="mean")


class Pair(poptorch.ICustomArgParser):
    def yieldTensors(self, struct: typing.Any) -> typing.Iterator[torch.Tensor]:
        yield struct.only

    def reconstruct(self, original_structure: typing.Any, tensor_iterator: typing.Iterator[torch.Tensor]) -> typing.Any:
        return type(original_structure)(next(tensor_iterator))


def options() -> Options:
    made = Options().deviceIterations(2).replicationFactor(1).outputMode(OutputMode.All)
    made.Training.gradientAccumulation(4).setAutomaticLossScaling(False)
    made.Precision.setPartialsType(torch.float16).enableStochasticRounding(False)
    made.TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(True))
    made.setExecutionStrategy(poptorch.PipelinedExecution("first", ["middle", "last"], poptorch.Stage("end").ipu(1)))
    typing.assert_type(made, Options)
    typing.assert_type(made.device_iterations, int)
    typing.assert_type(made.toDict()["device_iterations"], typing.Any)
    made.deviceIteratons(2)  # type: ignore[attr-defined] # misspelt
    made.deviceIterations("2")  # type: ignore[arg-type]
    return made


def train() -> None:
    model = Net()
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=1e-3, loss_scaling=2.0, accum_type=torch.float16)
    optimizer.variable_attrs.markAsConstant("loss_scaling")
    torch.optim.lr_scheduler.StepLR(optimizer, 10)
    trainer = poptorch.trainingModel(model, options(), optimizer)
    loader = DataLoader(options(), torch.utils.data.TensorDataset(torch.zeros(8, 4)), batch_size=1, shuffle=True)
    for (x,) in poptorch.AsynchronousDataAccessor(loader, buffer_size=2):
        trainer(x)
    trainer.setOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    typing.assert_type(trainer, poptorch.PoplarExecutor)
    typing.assert_type(trainer.isAttachedToDevice(), bool)
    typing.assert_type(trainer.copyWeightsToHostIfNeeded(), bool)
    typing.assert_type(trainer.rng_state, list[int] | None)
    typing.assert_type(trainer.compilationTime(), datetime.timedelta)
    typing.assert_type(trainer.getLatency(), tuple[float, float, float])
    trainer.save("trainer.poptorch")
    trainer.save(3)  # type: ignore[arg-type]
    poptorch.trainingModle(model)  # type: ignore[attr-defined] # misspelt
    predict = poptorch.inferenceModel(trainer)
    typing.assert_type(poptorch.load("trainer.poptorch", lambda o: o.randomSeed(1)), poptorch.PoplarExecutor)
    try:
        predict(torch.zeros(1, 4))
    except poptorch.RecoverableError as error:
        poptorch.testing.recover(error.recovery_action)
    except poptorch.Error as error:
        typing.assert_type(error.message, str)
        raise poptorch.createPoptorchError(error.type) from error


def rest() -> None:
    poptorch.registerCustomArgParser(Net, Pair())
    poptorch.registerPreCompileHook(lambda: None).remove()
    poptorch.setLogLevel("DEBUG")
    poptorch.print(poptorch.removeBlocks(Net()))  # type: ignore[func-returns-value]
    typing.assert_type(poptorch.ipuHardwareVersion(), int)
    typing.assert_type(poptorch.importPoptorchMetadataFromFile("trainer.poptorch"), bytes)
    with poptorch.profiling.Channel("mine").tracepoint("here"), poptorch.testing.faults("LINK_RESET@run=3"):
        typing.assert_type(poptorch.testing.allclose([], []), bool)
    with poptorch.MultiConv().planType(poptorch.MultiConvPlanType.Serial).cycleBackOff(0.5):
        poptorch.set_available_memory(torch.zeros(2), 0.3)
    product = poptorch.serializedMatMul(
        torch.zeros(2, 2), torch.zeros(2, 2), poptorch.MatMulSerializationMode.ReducingDim, factor=2
    )
    typing.assert_type(product, torch.Tensor)

"""Small saved executables of many kinds of models, for the fuzzer of programs (program_fuzz_test.cc).

python tests/executable/make_programs.py FOLDER
"""

import pathlib
import sys

import torch
import torch.nn.functional as F

import poptorch

PROGRAMS = {}


def program(function):
    """A function that compiles one model and gives its executor and the inputs of a call."""
    PROGRAMS[function.__name__] = function
    return function


class Call(torch.nn.Module):
    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


class WithLoss(torch.nn.Module):
    def __init__(self, model, loss):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, x, target):
        out = self.model(x)
        return out, self.loss(out, target)


def options(iterations=1, accumulation=1, replicas=1, mode=poptorch.OutputMode.All, period=None):
    made = poptorch.Options().deviceIterations(iterations).replicationFactor(replicas)
    made.outputMode(mode, period).showCompilationProgressBar(False)
    made.Training.gradientAccumulation(accumulation)
    return made


def infer(model, *inputs, **settings):
    return poptorch.inferenceModel(model.eval(), options(**settings)), inputs


def train(model, loss, optimizer, *inputs, made=None, **settings):
    whole = WithLoss(model, loss)
    return poptorch.trainingModel(whole, made or options(**settings), optimizer(whole.parameters())), inputs


def sgd(parameters):
    return poptorch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def adam(parameters):
    return poptorch.optim.Adam(parameters, lr=0.01)


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(a, b), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers)


def cut(first, second):
    """Two blocks on two IPUs."""

    def forward(self, x):
        poptorch.Block.start("front", ipu_id=0)
        x = self.first(x)
        poptorch.Block.start("back", ipu_id=1)
        return self.second(x)

    return Call(forward, first=first, second=second)


@program
def mlp_f32():
    return infer(mlp(6, 7, 3), torch.randn(2, 6))


@program
def mlp_f16():
    return infer(mlp(6, 7, 3).half(), torch.randn(2, 6).half())


@program
def mlp_in_iterations():
    return infer(mlp(6, 7, 3), torch.randn(6, 6), iterations=3)


@program
def mlp_sgd():
    return train(mlp(6, 7, 3), torch.nn.MSELoss(), sgd, torch.randn(2, 6), torch.randn(2, 3))


@program
def mlp_adam():
    return train(mlp(5, 4), torch.nn.MSELoss(), adam, torch.randn(4, 5), torch.randn(4, 4), iterations=2)


@program
def half_training():
    inputs = torch.randn(2, 6).half(), torch.randn(2, 3).half()
    return train(mlp(6, 3).half(), torch.nn.MSELoss(), sgd, *inputs)


def lenet():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(4, 6, 3),
        torch.nn.ReLU(),
        torch.nn.AvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(6, 4),
    )


@program
def lenet_inference():
    return infer(lenet(), torch.randn(2, 1, 8, 8))


@program
def lenet_training():
    return train(lenet(), torch.nn.CrossEntropyLoss(), sgd, torch.randn(2, 1, 8, 8), torch.randint(0, 4, (2,)))


@program
def lenet_f16():
    return infer(lenet().half(), torch.randn(1, 1, 8, 8).half())


@program
def depthwise_and_dilated():
    layers = [torch.nn.Conv2d(4, 4, 3, groups=4), torch.nn.Conv2d(4, 4, 2, dilation=2, stride=2, groups=2)]
    return infer(torch.nn.Sequential(*layers), torch.randn(1, 4, 8, 8))


@program
def transposed_convolution():
    return infer(torch.nn.ConvTranspose2d(2, 3, 3, stride=2), torch.randn(1, 2, 4, 4))


@program
def convolution_1d_training():
    model = torch.nn.Sequential(torch.nn.Conv1d(2, 3, 3), torch.nn.GELU())
    return train(model, torch.nn.MSELoss(), sgd, torch.randn(2, 2, 6), torch.randn(2, 3, 4))


@program
def batch_norm():
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 1), torch.nn.BatchNorm2d(3), torch.nn.ReLU())
    return train(model, torch.nn.MSELoss(), sgd, torch.randn(2, 2, 3, 3), torch.randn(2, 3, 3, 3))


@program
def pipelined():
    made = options(accumulation=4)
    made.setExecutionStrategy(poptorch.PipelinedExecution())
    model = cut(torch.nn.Linear(6, 5), torch.nn.Linear(5, 3))
    return train(model, torch.nn.MSELoss(), sgd, torch.randn(8, 6), torch.randn(8, 3), made=made)


@program
def sharded():
    made = options()
    made.setExecutionStrategy(poptorch.ShardedExecution(poptorch.AutoStage.SameAsIpu))
    model = cut(torch.nn.Linear(6, 5), torch.nn.Linear(5, 3))
    return train(model, torch.nn.MSELoss(), sgd, torch.randn(2, 6), torch.randn(2, 3), made=made)


@program
def replicated():
    model = mlp(6, 3)
    return train(model, torch.nn.MSELoss(), sgd, torch.randn(8, 6), torch.randn(8, 3), replicas=2, iterations=2)


@program
def accumulated():
    return train(mlp(6, 3), torch.nn.MSELoss(), adam, torch.randn(6, 6), torch.randn(6, 3), accumulation=3)


@program
def dropout_and_random():
    def forward(self, x):
        return F.dropout(x, 0.3, training=True) + torch.rand_like(x) * torch.randn(4, 5)

    return infer(Call(forward), torch.ones(4, 5))


@program
def embedding_training():
    model = torch.nn.Sequential(torch.nn.Embedding(11, 4), torch.nn.Flatten(0, 1), torch.nn.Linear(4, 5))
    words = torch.randint(0, 11, (2, 3), dtype=torch.int32)
    return train(model, torch.nn.CrossEntropyLoss(), sgd, words, torch.randint(0, 5, (6,)))


@program
def attention():
    def forward(self, x):
        return self.after(self.attend(x, x, x, need_weights=False)[0] + x)

    attend = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    return infer(Call(forward, attend=attend, after=torch.nn.LayerNorm(8)), torch.randn(1, 4, 8))


@program
def attention_training():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, dropout=0.1)
    return train(layer, torch.nn.MSELoss(), adam, torch.randn(1, 4, 8), torch.randn(1, 4, 8))


@program
def pooling():
    def forward(self, x):
        return F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2, 1, count_include_pad=False), F.max_pool1d(x[0], 2)

    return infer(Call(forward), torch.randn(1, 2, 7, 7))


@program
def pooling_training():
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.MaxPool2d(3, 2, 1), torch.nn.AvgPool2d(2, 1))
    return train(model, torch.nn.MSELoss(), sgd, torch.randn(1, 1, 7, 7), torch.randn(1, 2, 3, 3))


@program
def gather_and_scatter():
    def forward(self, x, index):
        taken = torch.gather(x, 1, index)
        added = torch.zeros_like(x).scatter_add(1, index, taken)
        return taken, added, x.scatter(1, index, 0.5), x.index_select(0, index[0])

    return infer(Call(forward), torch.randn(3, 4), torch.randint(0, 3, (3, 4)))


@program
def sorting_and_scans():
    def forward(self, x):
        values, places = torch.sort(x, dim=1)
        top, where = torch.topk(x, 2, dim=0)
        return values, places, top, where, torch.cumsum(x, 1), torch.cumprod(x, 0), torch.argmax(x, 1)

    return infer(Call(forward), torch.randn(3, 4))


@program
def indexing():
    def forward(self, x, rows):
        y = x.clone()
        y[1:3, ::2] = 7.0
        return x[rows], F.one_hot(rows.long(), 5), y, x.flip(0), x.roll(1, 1), F.pad(x, (1, 2)), x.T[1:, :2]

    return infer(Call(forward), torch.randn(4, 5), torch.randint(0, 4, (3,), dtype=torch.int32))


@program
def long_inputs():
    return infer(Call(lambda self, x, y: (x + y, x * 2, (x > y).sum())), torch.randint(0, 9, (4,)), torch.arange(4))


@program
def shapes():
    def forward(self, x):
        a = x.transpose(0, 1).reshape(2, 6)
        return torch.cat([a, a * 2], 1), x.permute(2, 0, 1).contiguous(), x.unsqueeze(0).expand(3, -1, -1, -1).clone()

    return infer(Call(forward), torch.randn(3, 2, 2))


@program
def reductions():
    def forward(self, x):
        return (
            x.sum(0),
            x.mean(),
            x.amax(1),
            x.prod(1),
            x.std(0),
            x.norm(),
            x.softmax(1),
            x.log_softmax(0),
            (x > 0).any(),
        )

    return infer(Call(forward), torch.randn(3, 4))


@program
def products():
    def forward(self, x, y):
        return torch.matmul(x, y), torch.matmul(x.transpose(1, 2), x), torch.einsum("bij,bjk->ik", x, y), x[0] @ y[1]

    return infer(Call(forward), torch.randn(2, 3, 4), torch.randn(2, 4, 5))


@program
def losses():
    def forward(self, x, target):
        return (
            F.nll_loss(x.log_softmax(1), target),
            F.smooth_l1_loss(x, x * 0.5),
            F.cross_entropy(x, target, reduction="none"),
        )

    return infer(Call(forward), torch.randn(3, 4), torch.randint(0, 4, (3,)))


@program
def ctc():
    def forward(self, x, target):
        lengths = torch.tensor([5, 4]), torch.tensor([2, 3])
        return F.ctc_loss(x.log_softmax(2), target, *lengths)

    return infer(Call(forward), torch.randn(5, 2, 4), torch.randint(1, 4, (2, 3), dtype=torch.int32))


@program
def summed_outputs():
    return infer(mlp(4, 3), torch.randn(8, 4), iterations=4, mode=poptorch.OutputMode.Sum)


@program
def final_outputs():
    return infer(mlp(4, 3), torch.randn(8, 4), iterations=2, replicas=2, mode=poptorch.OutputMode.Final)


@program
def every_second_output():
    return infer(mlp(4, 3), torch.randn(8, 4), iterations=4, mode=poptorch.OutputMode.EveryN, period=2)


@program
def written_inputs_and_buffers():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x):
            self.count += x.sum(0)
            x.mul_(2)
            return self.count * 1

    return infer(Counting(), torch.randn(4, 3), iterations=2)


@program
def upsampled():
    return infer(Call(lambda self, x: F.interpolate(x, scale_factor=2.0)), torch.randn(1, 2, 3, 3))


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(3)
    for name, make in PROGRAMS.items():
        executor, inputs = make()
        executor.compileAndExport(folder / f"{name}.poptorch", *inputs, export_model=False)
        executor.destroy()


if __name__ == "__main__":
    main(*sys.argv[1:])

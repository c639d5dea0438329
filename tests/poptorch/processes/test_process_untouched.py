"""Nothing of torch, numpy or Python is different after a use of the product, after an error in one, and in other threads
during one."""

import json

import pytest
from python_programs import run_program

COMMON = """
import json, sys, threading, warnings
warnings.simplefilter("ignore")
import numpy as np
import plain_expressions, process_picture

found = {}

def differ(name, expected, results):
    found[name] = [[key, str(expected[key]), str(results[key])] for key in expected if expected[key] != results[key]]

def in_other_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]

def changed(name, before):
    found[name] = [str(key) for key in process_picture.differences(before, process_picture.take())]

def failing(function):
    try:
        function()
    except BaseException as error:
        return type(error).__name__
    return "nothing"
"""

POPTORCH = (
    COMMON
    + """
import torch, poptorch

names = plain_expressions.torch_names()
def results():
    return plain_expressions.results(plain_expressions.TORCH, names)

class Net(torch.nn.Module):
    def __init__(self, then):
        super().__init__()
        self.first, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4, momentum=None)
        self.encoder = torch.nn.TransformerEncoderLayer(4, 2, 4, dropout=0.0, batch_first=True)
        self.then = then

    def forward(self, x, place):
        y = self.norm(self.first(x) + torch.ones(4)) * torch.rand(4)
        y[:, place:place + 2] = 1.0
        y = self.encoder(y[:, None])[:, 0]
        distribution = torch.distributions.Normal(y, torch.ones_like(y))
        y = torch.utils.checkpoint.checkpoint(torch.sin, distribution.mean, use_reentrant=False)
        self.then(y)
        return poptorch.identity_loss(torch.nn.functional.mse_loss(y, torch.zeros_like(y), weight=torch.ones_like(y)), "mean")

def raising(error):
    def then(y):
        with torch.no_grad(), torch.autocast("cpu"):
            raise error
    return then

def unsupported(y):
    torch.nonzero(y)

def value(y):
    y.sum().item()

def model(training, then=lambda y: None):
    net = Net(then)
    options = poptorch.Options().showCompilationProgressBar(False)
    if training:
        return poptorch.trainingModel(net, options, poptorch.optim.SGD(net.parameters(), lr=0.1))
    return poptorch.inferenceModel(net, options)

def load():
    for mode in (poptorch.DataLoaderMode.Sync, poptorch.DataLoaderMode.Async):
        strategy = {"sharing_strategy": poptorch.SharingStrategy.Fork}
        data = poptorch.DataLoader(poptorch.Options(), list(torch.ones(4, 2)), mode=mode, async_options=strategy)
        found[f"loaded by {mode.name}"] = [len(item) - 1 for item in data]
        data.terminate()

x, place = torch.linspace(-1, 1, 12).view(3, 4), torch.tensor([1], dtype=torch.int32)
expected = results()
differ("twice", expected, results())
during = []
runs = {
    "inference": lambda: model(False)(x, place),
    "training": lambda: model(True)(x, place),
    "another thread": lambda: model(False, lambda y: during.append(in_other_thread(results)))(x, place),
    "compile": lambda: model(True).compile(x, place),
    "loaders": load,
}
errors = {
    "ValueError": raising(ValueError()),
    "KeyboardInterrupt": raising(KeyboardInterrupt()),
    "SystemExit": raising(SystemExit()),
    "StopIteration": raising(StopIteration()),
    "unsupported": unsupported,
    "value": value,
}
for training in (False, True):  # the first ones load what they need
    model(training)
before = process_picture.take()
for name, run in runs.items():
    state = torch.get_rng_state()
    run()
    torch.set_rng_state(state)  # the layers draw their weights
changed("calls", before)
made = {name: model(False, then) for name, then in errors.items()}
before = process_picture.take()
found["errors"] = [failing(lambda: wrapper(x, place)) for wrapper in made.values()]
changed("after errors", before)
differ("during", expected, during[0])
differ("after", expected, results())
print(json.dumps(found))
"""
)

POPXL = (
    COMMON
    + """
import popxl, popxl.ops as ops, popart, onnx, onnx.checker

names = plain_expressions.numpy_names()
def results():
    return plain_expressions.results(plain_expressions.NUMPY, names)

def popxl_program(then=lambda: None):
    ir = popxl.Ir()
    with ir.main_graph:
        stream, out = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        w = popxl.variable(np.ones(2, np.float32))
        ops.host_store(out, ops.host_load(stream) + w)
        then()
    with popxl.Session(ir, "ipu_model") as session:
        return session.run({stream: np.ones(2, np.float32)})[out]

def popart_program(wrong=False):
    builder = popart.Builder()
    a = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]))
    b = builder.addInitializedInputTensor(np.ones(2 + wrong, np.float32))
    y = builder.aiOnnx.add([a, b])
    builder.addOutputTensor(y)
    flow = popart.DataFlow(1, {y: popart.AnchorReturnType("All")})
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
    session = popart.InferenceSession(fnModel=builder.getModelProto(), dataFlow=flow, deviceInfo=device)
    session.prepareDevice()
    anchors = session.initAnchorArrays()
    session.weightsFromHost()
    session.run(popart.PyStepIO({a: np.ones(2, np.float32)}, anchors))
    onnx.load_from_string(builder.getModelProto())
    return anchors[y]

def raising():
    raise KeyboardInterrupt

onnx.TensorProto.DataType, onnx.TensorProto.EXTERNAL  # classes of messages are filled in when they are asked
np.random.seed(3)
expected = results()
differ("twice", expected, results())
before = process_picture.take()
during = []
found["sums"] = [popxl_program(lambda: during.append(in_other_thread(results))).tolist(), popart_program().tolist()]
changed("calls", before)
before = process_picture.take()
found["errors"] = [
    failing(lambda: popxl_program(raising)),
    failing(lambda: popxl_program(lambda: ops.add(popxl.constant(np.ones(2)), popxl.constant(np.ones(3))))),
    failing(lambda: popart_program(wrong=True)),
    failing(lambda: popart.InferenceSession(b"nonsense", popart.DataFlow(1, {}), None)),
]
changed("after errors", before)
differ("during", expected, during[0])
differ("after", expected, results())
print(json.dumps(found))
"""
)

POPDIST = (
    COMMON
    + """
import popdist, onnx, onnx.checker

names = plain_expressions.numpy_names()
def results():
    return plain_expressions.results(plain_expressions.NUMPY, names)

np.random.seed(3)
expected = results()
before = process_picture.take()
during = []
popdist.init()
popdist.execute_on_instances({0}, lambda: during.append(in_other_thread(results)))
found["answers"] = [popdist.getNumInstances(), popdist.getInstanceIndex(), popdist.isPopdistEnvSet()]
popdist.synchronize()
popdist.finalizeBackend()
changed("calls", before)
before = process_picture.take()
found["errors"] = [
    failing(popdist.synchronize),
    failing(lambda: popdist.execute_on_instances({0}, lambda: 1 / 0)),
    failing(lambda: popdist.execute_on_instances({7}, print)),
]
changed("after errors", before)
differ("during", expected, during[0])
differ("after", expected, results())
print(json.dumps(found))
"""
)


def run(program):
    done = run_program(program)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.xdist_group("loading")
def test_poptorch():
    errors = ["ValueError", "KeyboardInterrupt", "SystemExit", "StopIteration", "DynamicShapeError", "Error"]
    found = run(POPTORCH)
    assert found.pop("errors") == errors
    assert [found.pop(f"loaded by {mode}") for mode in ("Sync", "Async")] == [[0] * 4, [0] * 4]
    assert found == {name: [] for name in ("twice", "calls", "after errors", "during", "after")}


def test_popxl_and_popart():
    found = run(POPXL)
    assert found.pop("errors") == ["KeyboardInterrupt", "popart_exception", "popart_exception", "TypeError"]
    assert found.pop("sums") == [[2.0, 2.0], [2.0, 2.0]]
    assert found == {name: [] for name in ("twice", "calls", "after errors", "during", "after")}


def test_popdist():
    found = run(POPDIST)
    assert found.pop("errors") == ["RuntimeError", "ZeroDivisionError", "ValueError"]
    assert found.pop("answers") == [1, 0, False]
    assert found == {name: [] for name in ("calls", "after errors", "during", "after")}

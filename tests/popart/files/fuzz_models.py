"""A child process that loads changed models into sessions until its time is over, five rounds at least. Prints what exceptions
came.

fuzz_models.py SEED SECONDS FILE: FILE always holds the last model that was begun with.
"""

import collections
import itertools
import pathlib
import random
import sys
import time

import numpy
from google.protobuf.message import EncodeError

import popart

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "poptorch" / "reference_models"))
from changed_models import changed  # noqa: E402

ALLOWED = (popart.popart_exception, popart.poplar_exception)
LEAST = 5  # rounds, however slow the machine is: what comes in them is counted by the test


def built(rng):
    """A small model of a random builder: products, functions, reshapes, and what has attributes."""
    builder = popart.Builder(opsets={"ai.onnx": rng.choice([6, 9, 10, 11]), "ai.graphcore": 1})
    x = builder.addInputTensor(rng.choice(["FLOAT", "FLOAT16"]), [2, 4], "x")
    half = builder.getTensorDtypeString(x) == "float16"
    dtype = numpy.float16 if half else numpy.float32
    onnx_ops, last = builder.aiOnnx, x
    for i in range(rng.randrange(1, 6)):
        kind = rng.randrange(9)
        if kind == 0:
            weight = builder.addInitializedInputTensor(numpy.full((4, 4), 0.25, dtype), f"w{i}")
            last = onnx_ops.matmul([last, weight])
        elif kind == 1:
            last = getattr(onnx_ops, rng.choice(["relu", "tanh", "sigmoid", "neg", "exp"]))([last])
        elif kind == 2:
            last = onnx_ops.transpose([onnx_ops.transpose([last], [1, 0])], [1, 0])
        elif kind == 3:
            last = onnx_ops.concat(onnx_ops.split([last], 2, 1, [2, 2]), 1)
        elif kind == 4:
            last = onnx_ops.softmax([last], 1)
        elif kind == 5:
            last = builder.reshape_const(onnx_ops, [last], [2, 4])
        elif kind == 6:
            last = builder.aiGraphcore.gelu([last])
        else:
            body = builder.createSubgraphBuilder()
            inside = body.addUntypedInputTensor("inside")
            if kind == 7:
                body.addOutputTensor(body.aiOnnx.relu([inside]))
                (last,) = builder.aiGraphcore.call([last], 1, body)
            else:
                body.addOutputTensor(body.aiOnnx.neg([last]))
                builder.aiGraphcore.call([x], 1, body)
    loss = builder.aiGraphcore.identityloss([last])
    builder.addOutputTensor(loss)
    return builder.getModelProto(), last, loss


def run(data, last, loss, is_training):
    """Loads a model into a session, and runs it where its input is still what it was."""
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 1472})
    if is_training:
        session = popart.TrainingSession(data, popart.DataFlow(1, [last]), loss, popart.ConstSGD(0.1), device)
    else:
        session = popart.InferenceSession(data, popart.DataFlow(1, [last]), device)
    info = session.getInfo("x")
    if info.nelms() > 10**6 or session.getInfo(last).nelms() > 10**6:
        return
    session.prepareDevice()
    session.weightsFromHost()
    arrays = session.initAnchorArrays()
    dtype = numpy.float16 if info.data_type() == "FLOAT16" else numpy.float32
    session.run(popart.PyStepIO({"x": numpy.ones(info.shape(), dtype)}, arrays))


def main():
    seed, seconds, path = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    popart.getLogger().setLevel("OFF")
    rng, counts = random.Random(seed), collections.Counter()
    end = time.monotonic() + seconds
    for number in itertools.count():
        if number >= LEAST and time.monotonic() > end:
            break
        original, last, loss = built(rng)
        run(original, last, loss, True)  # a good model runs after any number of bad ones
        for _ in range(20):
            try:
                data = changed(rng, original)
            except (EncodeError, ValueError):
                continue
            with open(path, "wb") as file:
                file.write(data)
            try:
                run(data, last, loss, rng.random() < 0.5)
                counts["ran"] += 1
            except ALLOWED as error:
                counts[type(error).__name__] += 1
            except RuntimeError as error:
                if type(error) is not RuntimeError or "external data" not in str(error):
                    raise
                counts["RuntimeError"] += 1
    print(dict(counts))


if __name__ == "__main__":
    main()

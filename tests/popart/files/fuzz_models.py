"""A child process that loads changed models into sessions until its time is over, five rounds at least. Prints what exceptions
came.

fuzz_models.py SEED SECONDS FILE: FILE always holds the last model that was begun with.
"""

import collections
import itertools
import random
import sys
import time

import numpy
import onnx
from google.protobuf.message import EncodeError

import popart

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


def messages(proto):
    """Every message inside a message."""
    found, left = [], [proto]
    while left:
        found.append(left.pop())
        for field, value in found[-1].ListFields():
            if field.message_type is not None:
                left.extend(value if hasattr(value, "__len__") and not hasattr(value, "ListFields") else [value])
    return found


NUMBERS = (0, 1, -1, 2, 3, 7, 17, 10**6, 2**31 - 1, -(2**31), 2**62, -(2**63))


def other(rng, field, value, texts):
    """Another value for a field that has this one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return (
            rng.choice([*NUMBERS[:8], value + 1])
            if field.enum_type or field.type == field.TYPE_INT32
            else rng.choice(NUMBERS)
        )
    if isinstance(value, float):
        return rng.choice([0.0, -1.0, 1e38, float("nan"), float("inf")])
    if isinstance(value, bytes):
        return value[: rng.randrange(len(value) + 1)] + bytes(rng.randrange(3))
    return rng.choice(texts)


def change(rng, proto):
    """One change of a field of a random message."""
    every = messages(proto)
    message = rng.choice(every)
    set_fields = message.ListFields()
    if not set_fields:
        return
    field, value = rng.choice(set_fields)
    repeated = hasattr(value, "__len__") and not isinstance(value, (str, bytes)) and not hasattr(value, "ListFields")
    texts = [one.name for one in every if isinstance(getattr(one, "name", None), str)] + [
        "",
        "x",
        "nothing",
        "Relu",
        "Conv",
        "LSTM",
        "\u00e9",
        "a/b",
    ]
    action = rng.random()
    if action < 0.15:
        message.ClearField(field.name)
    elif repeated and len(value):
        at = rng.randrange(len(value))
        if action < 0.35:
            del value[at]
        elif field.message_type is not None:
            copy = value.add()
            copy.CopyFrom(value[at])
        elif action < 0.6:
            value.append(value[at])
        else:
            value[at] = other(rng, field, value[at], texts)
    elif field.message_type is None:
        setattr(message, field.name, other(rng, field, value, texts))


def changed(rng, data):
    if rng.random() < 0.25:
        data = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data[: rng.randrange(1, len(data) + 1)] if rng.random() < 0.3 else data)
    proto = onnx.load_from_string(data)
    for _ in range(rng.randrange(1, 4)):
        try:
            change(rng, proto)
        except (ValueError, TypeError):
            continue  # a value that the field does not take
    return proto.SerializeToString()


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

"""Hostile model parts: nothing in a file may run code, name what it likes, or eat the memory of the machine."""

import builtins
import collections
import enum
import functools
import os
import pickle
import subprocess

import hypothesis
import hypothesis.strategies as st
import numpy
import pytest
import torch
from models import Mlp

import poptorch
from poptorch._impl.files import unpickler

RAN = []


def mark(*args, **kwargs):
    RAN.append(args)


class Colour(enum.Enum):
    RED = 1


Pair = collections.namedtuple("Pair", "left right")


class Hostile:
    """Pickles as a call of anything."""

    def __init__(self, function, *args, state=None):
        self.result = (function, args) if state is None else (function, args, state)

    def __reduce__(self):
        return self.result


class SetsState(torch.nn.Module):
    def __setstate__(self, state):
        mark(state)


class Reduces(torch.nn.Module):
    def __reduce__(self):
        return mark, (1,)


class Counted(torch.nn.Module):
    def __init__(self):
        mark("init")
        super().__init__()

    def __new__(cls, *args):
        mark("new")
        return super().__new__(cls)


class Outer:
    class Inner(torch.nn.Module):
        pass


def read(value, trusted=False):
    content, storages = unpickler.write(value)
    return unpickler.read(content, storages, "FILE", trusted)


def refusal(value):
    content = value if isinstance(value, bytes) else pickle.dumps(value, 4)
    RAN.clear()
    with pytest.raises(poptorch.Error) as error:
        unpickler.read(content, [], "FILE")
    assert RAN == []
    return error.value.message


def refused(name):
    return (
        f"FILE: the model part of the file uses {name}, which is not allowed while loading. Import the module that "
        "defines the classes of the model before loading; if you trust whoever wrote the file, pass trusted=True, which "
        "runs the code it names."
    )


@pytest.mark.parametrize(
    "function, args, name",
    [
        (subprocess.Popen, (["touch", "/tmp/poptorch_attack"],), "subprocess.Popen"),
        (eval, ("1",), "builtins.eval"),
        (exec, ("1",), "builtins.exec"),
        (compile, ("1", "x", "eval"), "builtins.compile"),
        (__import__, ("os",), "builtins.__import__"),
        (open, ("/tmp/poptorch_attack", "w"), "io.open"),
        (getattr, (os, "system"), None),
        (setattr, (1, "x", 2), "builtins.setattr"),
        (os.system, ("true",), f"{os.system.__module__}.system"),
        (functools.partial, (print, 1), "functools.partial"),
        (functools.reduce, (print, [1]), "_functools.reduce"),
        (torch.load, ("/tmp/x",), "torch.serialization.load"),
        (torch.save, (1, "/tmp/x"), "torch.serialization.save"),
        (torch.hub.load, ("a/b", "c"), "torch.hub.load"),
        (torch.from_file, ("/tmp/poptorch_attack", True, 4), None),
        (torch.storage._load_from_bytes, (b"x",), "torch.storage._load_from_bytes"),
        (torch.jit.load, ("/tmp/x",), "torch.jit._serialization.load"),
        (pickle.loads, (b"N.",), "_pickle.loads"),
        (mark, (1,), "test_unpickler.mark"),
        (type, ("X", (), {}), "builtins.type"),
        (numpy.load, ("/tmp/x",), "numpy.load"),
        (torch.compile, (print,), "torch.compile"),
        (torch.nn.functional.relu, (1,), "a call of torch.nn.functional.relu"),
        (torch.nn.Linear, (2, 2), "a call of torch.nn.modules.linear.Linear"),
        (Colour, (2,), "2 is no member of Colour"),
        (poptorch.Options, (), "a call of poptorch.options.Options"),
        (list, ((1,),), "a call of builtins.list"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_calls_are_refused_by_name(function, args, name):
    try:
        message = refusal(Hostile(function, *args))
    except (pickle.PicklingError, TypeError):
        # What Python cannot name in a pickle is written by hand.
        message = refusal(b"c" + function.__module__.encode() + b"\n" + function.__name__.encode() + b"\n(I1\ntR.")
    if name is not None:
        assert message in (refused(name), refused(name.replace("io.open", "_io.open")))
    assert not os.path.exists("/tmp/poptorch_attack")


def test_getattr_chains_have_no_beginning():
    chain = Hostile(getattr, Hostile(getattr, torch.nn.Linear, "__init__"), "__globals__")
    assert refusal(chain) == refused("builtins.getattr")
    for name in (b"Linear.__init__.__globals__", b"Linear.forward", b"Module.__class__"):
        content = b"\x80\x04\x8c\x08torch.nn\x8c" + bytes([len(name)]) + name + b"\x93."
        assert refusal(content) == refused(f"torch.nn.{name.decode()}")


def test_state_cannot_change_the_class_or_other_dunders():
    for name in ("__class__", "__dict__", "__call__", "__reduce__"):
        content = (
            b"\x80\x04\x8c\x08torch.nn\x8c\x04ReLU\x93)\x81}\x8c" + bytes([len(name)]) + name.encode() + b"\x88sb."
        )
        assert refusal(content) == refused(f"state that sets {name}")


def test_state_of_things_that_have_none():
    assert "state of builtins.list" in refusal(b"\x80\x04]}b.")
    assert "state of builtins.type" in refusal(b"\x80\x04\x8c\x08torch.nn\x8c\x04ReLU\x93}b.")
    assert "state of collections.OrderedDict" in refusal(
        b"\x80\x04\x8c\x0bcollections\x8c\x0bOrderedDict\x93)R}\x8c\x01a\x88sb."
    )


def test_code_of_the_models_own_classes_does_not_run():
    assert refusal(SetsState()) == refused("test_unpickler.SetsState.__setstate__, code that would run while loading")
    assert refusal(Reduces()) == refused("test_unpickler.mark")
    value = Counted()
    RAN.clear()
    assert type(read(value)) is Counted and RAN == []


def test_hooks_and_attributes_that_are_functions():
    model = torch.nn.Linear(2, 2)
    model.register_forward_hook(mark)
    with pytest.raises(poptorch.Error, match=r"test_unpickler\.mark"):
        read(model)
    model = torch.nn.Linear(2, 2)
    model.activation = torch.nn.functional.gelu
    model.other = torch.relu
    loaded = read(model)
    assert loaded.activation is torch.nn.functional.gelu and loaded.other is torch.relu
    model.other = builtins.print
    with pytest.raises(poptorch.Error, match=r"builtins\.print"):
        read(model)


def test_attributes_of_parameters_are_read_and_checked():
    model = torch.nn.Linear(2, 2)
    model.weight.note = "kept"
    assert read(model).weight.note == "kept"
    model.weight.note = Hostile(mark)
    with pytest.raises(poptorch.Error, match=r"test_unpickler\.mark"):
        read(model)


def test_a_nested_pickle_is_bytes():
    assert read({"x": pickle.dumps(Hostile(mark))})["x"].startswith(b"\x80")
    assert RAN == []


def test_classes_that_are_not_imported_are_named():
    assert refusal(b"\x80\x04\x8c\x09not_there\x8c\x01C\x93)\x81.") == refused("not_there.C")
    assert "antigravity.C" in refusal(b"\x80\x04\x8c\x0bantigravity\x8c\x01C\x93.")
    import sys

    assert "antigravity" not in sys.modules and "not_there" not in sys.modules


def test_a_small_pickle_that_asks_for_much_memory_is_refused():
    # Tuples of tuples of tuples: cheap to write, exponential to hash.
    bomb = b"\x80\x04)\x94" + b"".join(b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86\x94" for i in range(60))
    assert "a key of type tuple" in refusal(bomb + b"}h\x3cK\x01s.")
    # One megabyte, copied again and again out of the memory of the pickle.
    big = b"\x80\x04B" + (1_000_000).to_bytes(4, "little") + b"x" * 1_000_000 + b"\x94"
    copies = b"\x8c\x08builtins\x8c\x09bytearray\x93h\x00\x85R0" * 3000
    assert "more memory than its size explains" in refusal(big + copies + b".")
    # Sizes that are not there.
    for form in (b"B\xff\xff\xff\x7f", b"\x8e" + b"\xff" * 7 + b"\x7f", b"X\xff\xff\xff\xff"):
        assert "damaged (EOFError" in refusal(b"\x80\x04" + form + b".")
    assert "an integer of 2147483647 bytes" in refusal(b"\x80\x04\x8b\xff\xff\xff\x7f.")


def test_tensors_cannot_reach_beyond_their_storage():
    content, storages = unpickler.write(torch.arange(6.0))
    assert torch.equal(unpickler.read(content, storages, "FILE"), torch.arange(6.0))
    huge = content.replace(b"K\x06\x85", b"J\xff\xff\xff\x7f\x85")
    assert huge != content
    with pytest.raises(poptorch.Error, match="a tensor larger than its storage"):
        unpickler.read(huge, storages, "FILE")
    with pytest.raises(poptorch.Error, match="the storage 0"):
        unpickler.read(content, [], "FILE")
    with pytest.raises(poptorch.Error, match="the storage 0 as 'float32'"):
        unpickler.read(content, [torch.zeros(6, dtype=torch.int32)], "FILE")


def test_arrays_cannot_reach_beyond_their_bytes():
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    assert numpy.array_equal(read({"a": array})["a"], array)
    assert read({"n": numpy.float64(1.5)})["n"] == 1.5
    content = pickle.dumps(array, 4)
    assert "an array of another size" in refusal(content.replace(b"K\x02K\x03\x86", b"K\x02K\x09\x86"))
    with pytest.raises(poptorch.Error, match="odd numpy type"):
        read(numpy.array([Colour.RED], dtype=object))


def test_what_models_and_options_are_made_of_comes_back():
    model = torch.nn.ModuleDict({"a": Mlp(2), "b": torch.nn.LSTM(3, 4), "c": torch.nn.TransformerEncoderLayer(8, 2)})
    model.tied = model["a"].parts[0][0].weight
    model.halves = torch.nn.Parameter(torch.ones(3, dtype=torch.float16), requires_grad=False)
    poptorch.BeginBlock(model["b"], "rnn", ipu_id=1)
    extra = {
        "inner": Outer.Inner(),
        "pair": Pair(1, torch.ones(2)),
        "enum": [Colour.RED, poptorch.OutputMode.All],
        "set": {1, "a"},
        "frozen": frozenset({(1, 2)}),
        "default": collections.defaultdict(list, {"x": [1]}),
        "numbers": [1 << 100, -1, 0.5, True, None, 3 + 4j, b"bytes", range(3), slice(1, None)],
        "torch": [torch.float16, torch.Size([1, 2]), torch.device("cpu"), torch.bfloat16, torch.strided],
        "view": torch.arange(10).view(2, 5)[:, 1:3],
        "empty": torch.zeros(0, 3),
    }
    loaded, got = read((model, extra))
    assert loaded.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(loaded.state_dict()[key], value) for key, value in model.state_dict().items())
    assert loaded.tied is loaded["a"].parts[0][0].weight and not loaded.halves.requires_grad
    assert "BeginBlock(user_id=rnn, ipu_id=1)" in poptorch.module_repr(loaded)
    for key in ("enum", "set", "frozen", "default", "numbers", "torch"):
        assert got[key] == extra[key] and type(got[key]) is type(extra[key])
    assert (
        type(got["inner"]) is Outer.Inner
        and type(got["pair"]) is Pair
        and torch.equal(got["pair"].right, torch.ones(2))
    )
    assert torch.equal(got["view"], extra["view"]) and got["empty"].shape == (0, 3)


def test_options_come_back():
    options = poptorch.Options().deviceIterations(3).outputMode(poptorch.OutputMode.EveryN, 3)
    options.setExecutionStrategy(poptorch.ShardedExecution(poptorch.Stage("a").ipu(1), ["b"]))
    options.Training.gradientAccumulation(4)
    options.TensorLocations.setWeightLocation(poptorch.TensorLocationSettings())
    loaded = read(options)
    assert loaded == options and loaded._strategy == options._strategy


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_optimizers_come_back_with_their_parameters(name):
    model = torch.nn.Linear(2, 2)
    optimizer = getattr(poptorch.optim, name)(model.parameters(), lr=0.1)
    optimizer.variable_attrs.markAsConstant("weight_decay")
    torch_optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    torch_optimizer.step()
    loaded_model, loaded, loaded_torch = read((model, optimizer, torch_optimizer))
    assert loaded.param_groups[0]["params"][0] is loaded_model.weight
    assert loaded.param_groups[0]["lr"] == 0.1
    assert loaded.variable_attrs._variable_attributes == optimizer.variable_attrs._variable_attributes
    assert loaded_torch.state_dict().keys() == torch_optimizer.state_dict().keys()


def test_trusted_runs_everything():
    class_of = read({"x": functools.partial(int, "7")}, trusted=True)["x"]
    assert class_of() == 7


@functools.cache
def _corpus():
    values = [
        Mlp(1),
        {"a": [1, (2, "x"), {3}], "b": torch.arange(4), "c": Colour.RED},
        poptorch.Options().deviceIterations(2),
        numpy.arange(4),
        poptorch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1),
    ]
    return [unpickler.write(value) for value in values]


@hypothesis.settings(max_examples=int(os.environ.get("IPU_FUZZ_EXAMPLES", "300")))
@hypothesis.given(st.data())
def test_mutated_pickles_give_a_value_or_an_error(data):
    content, storages = data.draw(st.sampled_from(_corpus()))
    content = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        kind = data.draw(st.integers(0, 2))
        if kind == 0:
            content[at] = data.draw(st.integers(0, 255))
        elif kind == 1:
            del content[at : at + data.draw(st.integers(1, 20))]
        else:
            content[at:at] = content[: data.draw(st.integers(1, 40))]
        if not content:
            return
    try:
        unpickler.read(bytes(content), storages, "FILE")
    except poptorch.Error:
        pass


@hypothesis.settings(max_examples=int(os.environ.get("IPU_FUZZ_EXAMPLES", "300")))
@hypothesis.given(st.binary(max_size=200))
def test_random_bytes_give_a_value_or_an_error(content):
    try:
        unpickler.read(content, [], "FILE")
    except poptorch.Error:
        pass


def test_a_file_with_an_attack_in_it_is_refused_as_a_whole(tmp_path):
    executor = poptorch.inferenceModel(Mlp(1).eval(), poptorch.Options())
    executor.compile(torch.zeros(2, 12))
    executor.model.payload = Hostile(mark, 1)
    executor.save(tmp_path / "e.poptorch")
    del executor.model.payload
    RAN.clear()
    with pytest.raises(poptorch.Error, match=r"uses test_unpickler\.mark, which is not allowed"):
        poptorch.load(tmp_path / "e.poptorch")
    assert RAN == []
    assert poptorch.load(tmp_path / "e.poptorch", trusted=True).isCompiled() and RAN == [(1,)]

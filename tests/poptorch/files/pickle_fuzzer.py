"""Changes the model parts of executable files with an eye to their structure, and loads them. Run by test_fuzz in a child
with bounded memory:

    python pickle_fuzzer.py SECONDS SEED FOLDER [ROUND]

Each round parses the opcodes of a good model part and changes some: other opcodes, memo references, numbers, names (trusted
ones, dangerous ones, those of canaries), shared parts, cut-out pieces. The part is written under sound checksums and loaded.
Loading must end in a `poptorch.Error` or in a wrapper that can be looked at, within the time limit, and nothing that the file
names may have been called. The number of the round being run is in FOLDER/round; giving ROUND repeats that one alone.
"""

import copy
import enum
import faulthandler
import os
import pickle
import pickletools
import random
import signal
import sys
import time

import hostile
import torch

import poptorch
from poptorch._impl.files import unpickler

LIMIT = 40  # seconds for one load, on a busy machine
CALLED = []


def canary(*args, **kwargs):
    CALLED.append("canary")


class Canary(torch.nn.Module):
    """Knows when any of its methods that loading might be lured into is run."""

    def __new__(cls, *args, **kwargs):
        CALLED.append("Canary.__new__")
        return super().__new__(cls)

    def __init__(self, *args, **kwargs):
        CALLED.append("Canary.__init__")
        super().__init__()

    def __setstate__(self, state):
        CALLED.append("Canary.__setstate__")

    def __call__(self, *args):
        CALLED.append("Canary.__call__")

    def __setattr__(self, name, value):
        CALLED.append("Canary.__setattr__")

    def __reduce_ex__(self, protocol):
        CALLED.append("Canary.__reduce_ex__")


def _told(method):
    def run(self, *args):
        CALLED.append(f"Canary.{method}")
        return getattr(object, method)(self, *args) if hasattr(object, method) else 0

    return run


for _method in ("__bool__", "__len__", "__eq__", "__ne__", "__hash__", "__format__", "__repr__", "__str__", "__iter__"):
    setattr(Canary, _method, _told(_method))


class CanaryEnum(enum.Enum):
    ONE = 1

    @classmethod
    def _missing_(cls, value):
        CALLED.append("CanaryEnum._missing_")
        return cls.ONE


# Events of the interpreter that no load of a file has a reason for.
_FORBIDDEN = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.", "shutil.", "os.remove",
              "os.rename", "os.putenv", "ctypes.", "pty.", "webbrowser.")  # fmt: skip


def watch(event, arguments):
    if WATCHING and event.startswith(_FORBIDDEN):
        CALLED.append(event)
    if WATCHING and event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        CALLED.append(f"open {arguments[0]!r} for writing")


WATCHING = False
sys.addaudithook(watch)

NAMES = [
    ("os", "system"), ("builtins", "eval"), ("builtins", "exec"), ("builtins", "getattr"), ("builtins", "setattr"),
    ("builtins", "print"), ("builtins", "dict"), ("builtins", "list"), ("builtins", "set"), ("builtins", "bytearray"),
    ("builtins", "slice"), ("builtins", "range"), ("functools", "partial"), ("operator", "attrgetter"),
    ("copyreg", "_reconstructor"), ("collections", "OrderedDict"), ("collections", "defaultdict"), ("numpy", "ndarray"),
    ("numpy", "dtype"), ("numpy.core.multiarray", "scalar"), ("numpy._core.multiarray", "_reconstruct"),
    ("torch", "relu"), ("torch", "zeros"), ("torch", "from_file"), ("torch", "Size"), ("torch", "device"),
    ("torch", "float16"), ("torch.nn.functional", "relu"), ("torch._utils", "_rebuild_parameter"),
    ("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_parameter_with_state"),
    ("torch.nn.modules.linear", "Linear"), ("torch.nn.modules.rnn", "LSTM"), ("torch.nn.modules.container", "Sequential"),
    ("torch.optim.sgd", "SGD"), ("torch.optim.adamw", "AdamW"), ("poptorch.optim", "SGD"), ("poptorch.optim", "LAMB"),
    ("poptorch.optim", "VariableAttributes"), ("poptorch.options", "Options"), ("poptorch.options", "_TrainingOptions"),
    ("poptorch._impl.options.strategies", "Stage"), ("poptorch._impl.options.strategies", "ShardedExecution"),
    ("poptorch._impl.optimizer.state", "DeviceState"), ("poptorch.enums", "OutputMode"), ("poptorch.ops", "_BeginBlockHook"),
    ("poptorch.ops", "LegacyBeginBlockFn"), ("hostile", "Linear"), ("__main__", "canary"), ("__main__", "Canary"),
    ("__main__", "CanaryEnum"), ("torch._C", "_VariableFunctions"), ("torch.jit", "ScriptModule"),
    ("antigravity", "webbrowser"),
]  # fmt: skip
TEXTS = [
    "__class__", "__dict__", "__call__", "forward", "_forward_hooks", "_forward_pre_hooks", "_state_dict_hooks",
    "_backward_hooks", "_compiled_call_impl", "_poptorch_owner", "_parameters", "_buffers", "_modules", "training", "params",
    "lr", "state", "param_groups", "defaults", "_optimizer_step_pre_hooks", "variable_attrs", "_device_state", "_values",
    "log_dir", "cachePath", "engineOptions", "model_name", "../../x", "replication_factor", "device_iterations",
    "num_layers", "_all_weights", "_flat_weights", "named_parameters", "detach", "storage", "float32", "float64", "options",
    "groupings", "inputs", "model", "optimizer", "optimizer_state", "rng_state", "step", "\x1b[31m", "", "x" * 5000,
]  # fmt: skip
NUMBERS = [0, 1, 2, 3, -1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**40, 2**63 - 1, 2**63, 2**64, -(2**63), 2**2000]
PLAIN = b"N\x88\x89]})\x8f(t0Q1usea\x93R\x81b\x85\x86\x87\x91\x90\x94"  # opcodes without arguments


def number(value):
    return b"J" + value.to_bytes(4, "little", signed=True) if -(2**31) <= value < 2**31 else _long(value)


def _long(value):
    data = pickle.encode_long(value)
    if len(data) < 256:
        return b"\x8a" + bytes([len(data)]) + data
    return b"\x8b" + len(data).to_bytes(4, "little") + data


def text(value):
    data = value.encode()
    return b"X" + len(data).to_bytes(4, "little") + data


def name(pair):
    return text(pair[0]) + text(pair[1]) + b"\x93"


def pieces_of(content):
    """Opcodes of a pickle with their arguments: list of bytes; frames are left out."""
    places = [(place, opcode.name) for opcode, _, place in pickletools.genops(content)]
    ends = [place for place, _ in places[1:]] + [len(content)]
    return [content[place:end] for (place, kind), end in zip(places, ends) if kind not in ("FRAME", "PROTO", "STOP")]


def changed(pieces, other, choose):
    pieces = list(pieces)
    for _ in range(choose.choice((1, 1, 1, 2, 3, 6))):
        at = choose.randrange(len(pieces))
        kind = choose.randrange(11)
        first = pieces[at][:1]
        if kind == 0:
            pieces[at] = number(choose.choice(NUMBERS))
        elif kind == 1:
            pieces[at] = name(choose.choice(NAMES))
        elif kind == 2:
            pieces[at] = text(choose.choice(TEXTS))
        elif kind == 3:
            pieces[at] = b"j" + choose.randrange(400).to_bytes(4, "little")
        elif kind == 4:
            pieces[at] = bytes([choose.choice(PLAIN)])
        elif kind == 5:
            pieces[at : at + choose.randint(1, 8)] = []
            pieces = pieces or [b"N"]
        elif kind == 6:
            begin = choose.randrange(len(other))
            pieces[at:at] = other[begin : begin + choose.randint(1, 40)]
        elif kind == 7:  # another name of the same kind of place
            places = [i for i, piece in enumerate(pieces) if piece == b"\x93"]
            if places:
                pieces[choose.choice(places)] = b"00" + name(choose.choice(NAMES))
        elif kind == 8:  # a call of something
            pieces[at:at] = [name(choose.choice(NAMES)), b")", choose.choice((b"R", b"\x81"))]
        elif kind == 9:  # the same thing many times over
            pieces[at:at] = [
                b"](",
                (b"j" + choose.randrange(400).to_bytes(4, "little")) * choose.randint(1, 3000),
                b"e",
            ]
        elif first in b"KMJ\x8a":
            pieces[at] = number(choose.choice(NUMBERS))
        elif first in b"X\x8c":
            pieces[at] = text(choose.choice(TEXTS))
    return b"\x80\x04" + b"".join(pieces) + b"."


class Varied(torch.nn.Module):
    """Holds what models hold; the recurrent layer is only kept."""

    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 3)
        self.fc = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.layer = torch.nn.BatchNorm2d
        self.activation = torch.nn.functional.gelu
        poptorch.BeginBlock(self.norm, "norm", ipu_id=0)

    def forward(self, x):
        return self.activation(self.norm(self.fc(x)))


class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 2)

    def forward(self, x):
        y = self.fc(x)
        return y, poptorch.identity_loss(y, "mean")


def wrappers():
    made = [hostile.predictor(), hostile.predictor(Varied(), hostile.quiet().modelName("r").randomSeed(1))]
    for kind in (poptorch.optim.AdamW, torch.optim.SGD):
        model = Loss()
        options = hostile.quiet().setExecutionStrategy(poptorch.ShardedExecution())
        made.append(poptorch.trainingModel(model, options, kind(model.parameters(), lr=0.1)))
        made[-1](torch.zeros(2, 4))
    return made


class TooLong(BaseException):
    pass


def alarm(*_):
    raise TooLong(f"more than {LIMIT} seconds")


def look_at(wrapper):
    repr(wrapper), repr(wrapper.options), wrapper.options == wrapper.options.clone(), wrapper.isCompiled()
    dict(wrapper.model.named_parameters()), wrapper.model.state_dict(), str(wrapper.rng_state)
    copy.deepcopy(wrapper.options)


def load(path):
    """What a user does with a file. AssertionError: a file without a model, which is said so."""
    try:
        look_at(poptorch.load(path))
    except poptorch.Error as error:
        assert len(error.message) < 5000 and "\x1b" not in error.message, error.message
        assert "internal error" not in error.message, error.message
    except AssertionError as error:
        assert "does not contain the model" in str(error), str(error)


def main():
    global WATCHING
    seconds, seed, folder = float(sys.argv[1]), sys.argv[2], sys.argv[3]
    only = int(sys.argv[4]) if len(sys.argv) > 4 else None
    faulthandler.enable()
    poptorch.setLogLevel("ERR")
    made = wrappers()
    good = [unpickler.write(hostile.contents_of(wrapper)) for wrapper in made]
    parts = [pieces_of(content) for content, _ in good]
    path = os.path.join(folder, "e.poptorch")
    for wrapper in made:  # the good ones load
        hostile.forge(wrapper, path)
        look_at(poptorch.load(path))
    signal.signal(signal.SIGALRM, alarm)
    end, rounds = time.monotonic() + seconds, 0
    place = os.open(os.path.join(folder, "round"), os.O_WRONLY | os.O_CREAT)
    while time.monotonic() < end or only is not None:
        current = rounds if only is None else only
        os.pwrite(place, f"{current}\n".encode(), 0)
        choose = random.Random(f"{seed} {current}")
        i = choose.randrange(len(made))
        content = changed(parts[i], choose.choice(parts), choose)
        hostile.forge_bytes(made[i], path, content, good[i][1])
        WATCHING = True
        signal.alarm(LIMIT)
        try:
            load(path)
        finally:
            signal.alarm(0)
            WATCHING = False
        if CALLED or "antigravity" in sys.modules:
            raise SystemExit(f"round {current} of seed {seed} called {CALLED}")
        rounds += 1
        if only is not None:
            break
    print(rounds)


if __name__ == "__main__":
    main()

"""Executable files that somebody forged: they decide nothing outside the model, call nothing, and cost no more than they are."""

import collections
import enum
import os
import pickle
import re

import hostile
import pytest
import torch
from hostile import files_below, forge, forge_bytes, in_a_child, predictor, quiet
from models import Mlp

import poptorch
from poptorch._impl.files import unpickler
from poptorch._impl.optimizer.state import DeviceState
from poptorch._impl.session.executor import state_of


def without_addresses(value):
    """A name of a case that is the same in all processes that run tests."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


RAN = []


class Canary(torch.nn.Module):
    """Says so when its constructor runs."""

    def __init__(self, *args):
        RAN.append(args)
        super().__init__()


class Told(collections.namedtuple("Told", "a b")):
    def __new__(cls, a, b):
        RAN.append((a, b))
        return super().__new__(cls, a, b)


class Missing(enum.Enum):
    ONE = 1

    @classmethod
    def _missing_(cls, value):
        RAN.append(value)
        return cls.ONE


class HashedEnum(enum.Enum):
    ONE = 1

    def __hash__(self):
        RAN.append("hash")
        return 1


def refused(value_or_bytes, storages=()):
    """The message of a pickle that must not be read; nothing was called."""
    content = value_or_bytes
    if not isinstance(content, bytes):
        content, storages = unpickler.write(value_or_bytes)
    RAN.clear()
    with pytest.raises(poptorch.Error) as error:
        unpickler.read(content, storages, "FILE")
    assert RAN == []
    return error.value.message


def loading(path, edit=None):
    """The message of a file that must not be loaded; nothing was called."""
    RAN.clear()
    with pytest.raises(poptorch.Error) as error:
        poptorch.load(path, edit)
    assert RAN == []
    return error.value.message


@pytest.fixture(scope="module")
def wrapper():
    return predictor()


@pytest.fixture(scope="module")
def trainer():
    torch.manual_seed(0)
    model = Mlp(1)
    trainer = poptorch.trainingModel(model, quiet(), poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    trainer.compile(*Mlp.inputs(1, torch.Generator().manual_seed(1)))
    return trainer


# --- what a file may decide


def test_options_of_a_file_write_nothing_and_keep_nothing(wrapper, tmp_path, monkeypatch, caplog):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    options = wrapper.options.clone()
    options.logDir(str(tmp_path / "logs")).enableProfiling(str(tmp_path / "reports")).maxRepeatLogs(1)
    options.enableExecutableCaching(str(tmp_path / "cache")).modelName("../../above")
    options._Popart.set("saveInitializersToFile", str(tmp_path / "weights"))
    options.Distributed._values["ipuof_configs"] = {"path": "x"}
    file = forge(wrapper, tmp_path / "e.poptorch", options=options)
    before = files_below(tmp_path)
    loaded = poptorch.load(file)
    assert files_below(tmp_path) == before
    assert not loaded.options.exists("model_name") and loaded.options.log_dir == "."
    assert not {"cachePath", "engineOptions", "saveInitializersToFile"} & set(loaded.options._Popart.options)
    (warning,) = [record.getMessage() for record in caplog.records if "no file may decide" in record.getMessage()]
    assert warning == (
        f"{file} sets Distributed.ipuof_configs, _Popart.cachePath, _Popart.enableEngineCaching, _Popart.engineOptions, "
        "_Popart.saveInitializersToFile, log_dir, max_repeat_logs, model_name, which no file may decide: ignored. Set them "
        "yourself, for example with poptorch.load(file, lambda options: options.logDir(...))."
    )


def test_the_loading_process_decides_itself(wrapper, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("POPTORCH_CACHE_DIR", str(tmp_path / "mine"))
    options = wrapper.options.clone().enableExecutableCaching(str(tmp_path / "theirs"))
    file = forge(wrapper, tmp_path / "e.poptorch", options=options)
    loaded = poptorch.load(file, lambda options: options.logDir("logs").modelName("mine"))
    assert loaded.options._Popart.options["cachePath"] == str(tmp_path / "mine")
    assert loaded.options.log_dir == "logs" and loaded.options.model_name == "mine"


def test_options_of_the_model_come_back(tmp_path, caplog):
    options = quiet().deviceIterations(2).outputMode(poptorch.OutputMode.EveryN, 2).modelName("plain")
    options.setExecutionStrategy(poptorch.ShardedExecution("a", ["b"])).setAvailableMemoryProportion({"IPU0": 0.25})
    options.TensorLocations.numIOTiles(32).setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(True))
    options.Precision.enableFloatingPointExceptions(True)
    options._Popart.setPatterns({"ConvDataGrad": True}, 1)
    options.relaxOptimizerAttributesChecks().sourceLocationExcludes(["a"]).randomSeed(3).useIpuModel(True)
    executor = predictor(options=options)
    executor.save(tmp_path / "e.poptorch")
    loaded = poptorch.load(tmp_path / "e.poptorch")
    assert loaded.options == executor.options and type(loaded.options.sync_pattern) is int
    assert not [record for record in caplog.records if "no file may decide" in record.getMessage()]


@pytest.mark.parametrize(
    "name, value",
    [
        ("replication_factor", "2"),
        ("replication_factor", -1),
        ("device_iterations", 1 << 70),
        ("device_iterations", True),
        ("output_mode", 9),
        ("anchored_tensors", {"a": 1}),
        ("available_memory_proportion", {"x": "y"}),
        ("updatable_named_buffers", 3),
        ("model_name", ["x"]),
        ("random_seed", "x"),
    ],
)
def test_odd_options_are_errors(wrapper, tmp_path, name, value):
    options = wrapper.options.clone()
    options._values[name] = value
    message = loading(forge(wrapper, tmp_path / "e.poptorch", options=options))
    assert message == (
        f"Invalid file {tmp_path / 'e.poptorch'}: the model part is damaged (its options have an odd {name})."
    )


@pytest.mark.parametrize(
    "changes, detail",
    [
        ({"options": None}, "it has no options"),
        ({"options": 3}, "it has no options"),
        ({"training": "yes"}, "it does not say whether it is for training"),
        ({"inputs": None}, "it has no example inputs"),
        ({"inputs": ([], [], 3)}, "odd example inputs"),
        ({"inputs": ([1], [torch.zeros(1)], [None])}, "example inputs without names"),
        ({"inputs": (["x"], [torch.zeros(1)], [3])}, "example inputs with odd keywords"),
        ({"inputs": (["x"], [torch.nn.ReLU()], [None])}, "an example input is a ReLU"),
        ({"groupings": {"a": 3}}, "odd groupings of replicas"),
        ({"groupings": {"a": ((1 << 40, 1), True)}}, "odd groupings of replicas"),
        ({"rng_state": "x"}, "an odd rng_state"),
        ({"rng_state": [1 << 99]}, "an odd rng_state"),
        ({"rng_state": [1, -1]}, "an odd rng_state"),
        ({"model": 3}, "the model is no module"),
        ({"optimizer": 3}, "it has an odd optimizer"),
        ({"optimizer_state": {"state": 1}}, "an odd optimizer_state"),
    ],
)
def test_odd_model_parts_are_errors(wrapper, tmp_path, changes, detail):
    assert detail in loading(forge(wrapper, tmp_path / "e.poptorch", **changes))


def test_a_training_file_without_an_optimizer_is_an_error(trainer, tmp_path):
    for optimizer in (None, 3, torch.nn.ReLU()):
        assert "it has an odd optimizer" in loading(forge(trainer, tmp_path / "t.poptorch", optimizer=optimizer))
    state = DeviceState()
    state.state = {"a": 3}
    assert "odd attributes" in loading(forge(trainer, tmp_path / "t.poptorch", optimizer_state=state))
    assert poptorch.load(forge(trainer, tmp_path / "t.poptorch")).isCompiled()


def test_a_dict_of_something_else_is_an_error(wrapper, tmp_path):
    for value in ([1], None, "text"):
        assert "it is no dict" in loading(forge_bytes(wrapper, tmp_path / "e.poptorch", pickle.dumps(value, 4)))


def test_what_goes_wrong_while_capturing_names_the_file(wrapper, tmp_path):
    names, values, keywords = state_of(wrapper).compiled.example_inputs
    for inputs in ((names, [None], keywords), (names * 2, values * 2, keywords * 2), (names, values, ["nothing"])):
        message = loading(forge(wrapper, tmp_path / "e.poptorch", inputs=inputs))
        assert message.startswith(
            f"{tmp_path / 'e.poptorch'}: its model cannot be captured again with its example inputs"
        )
    model = hostile.Linear()
    del model._modules["fc"]
    assert "AttributeError: 'Linear' object has no attribute 'fc'" in loading(
        forge(wrapper, tmp_path / "e.poptorch", model=model)
    )


# --- nothing is called


def opcodes(kind, state):
    """A pickle of an instance of a class with a state, whatever its own `__reduce__` says."""
    content, storages = unpickler.write(state)
    body = content[11:-1] if content[2:3] == b"\x95" else content[2:-1]  # without PROTO, FRAME and STOP
    module, name = kind.__module__.encode(), kind.__qualname__.encode()
    head = b"\x80\x04\x8c" + bytes([len(module)]) + module + b"\x8c" + bytes([len(name)]) + name + b"\x93)\x81"
    return head + body + b"b.", storages


class Holder(torch.nn.Module):
    """An instance whose attributes are looked up by those who think it is a dict."""


def holder(**attributes):
    made = Holder()
    made.__dict__.update(attributes)
    return made


def sgd_state(**changes):
    model = torch.nn.Linear(1, 1)
    return torch.optim.Optimizer.__getstate__(torch.optim.SGD(model.parameters(), lr=0.1)) | changes


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "holder"},
        {"defaults": "holder"},
        {"param_groups": "holder"},
        {"_optimizer_step_pre_hooks": {0: torch.nn.functional.relu}},
        {"_optimizer_state_dict_pre_hooks": collections.OrderedDict({0: torch.relu})},
        {"param_groups": []},
        {"param_groups": [3]},
        {"param_groups": [{"params": 3}]},
        {"param_groups": [{"params": [], "lr": {}}]},
        {"other": torch.relu},
    ],
    ids=without_addresses,
)
def test_state_of_an_optimizer_is_data(changes):
    """torch's own `__setstate__` calls `get` and `setdefault` of what stands there."""
    changes = {
        name: holder(get=torch.nn.Linear, setdefault=torch.nn.Linear) if value == "holder" else value
        for name, value in changes.items()
    }
    message = refused(*opcodes(torch.optim.SGD, sgd_state(**changes)))
    assert "a torch.optim.sgd.SGD with" in message


def test_classes_of_the_program_are_no_values():
    for value in (Canary, [Canary], {"a": (1, Canary)}, Missing, poptorch.Options, torch.optim.SGD):
        assert " as a value, which is not allowed" in refused({"x": value})
    assert refused(holder(get=Canary)).count("test_hostile_files.Canary as a value") == 1
    # Layers of torch itself are what models keep (`norm_layer=torch.nn.BatchNorm2d`).
    content, storages = unpickler.write(holder(norm=torch.nn.BatchNorm2d, activation=torch.relu))
    assert unpickler.read(content, storages, "FILE").norm is torch.nn.BatchNorm2d


def test_names_on_the_stack_are_no_values():
    for name in (b"collections OrderedDict", b"copyreg _reconstructor", b"numpy ndarray", b"builtins getattr"):
        module, name = name.split()
        content = b"\x80\x04]\x8c" + bytes([len(module)]) + module + b"\x8c" + bytes([len(name)]) + name + b"\x93a."
        assert " as a value" in refused(content)


def test_state_hides_no_method():
    for name in ("forward", "named_parameters", "register_parameter", "extra_repr", "_call_impl", "zero_grad"):
        message = refused(*opcodes(Holder, {name: torch.relu}))
        assert f"state that hides torch.nn.modules.module.Module.{name}" in message
    assert "with a call of its own" in refused(*opcodes(Holder, {"_compiled_call_impl": torch.relu}))
    assert "state that sets _poptorch_owner" in refused(*opcodes(Holder, {"_poptorch_owner": torch.relu}))
    parameter = torch.nn.Parameter(torch.zeros(1))
    parameter.__dict__["detach"] = torch.relu
    assert "state that hides torch.Tensor.detach" in refused(parameter)


@pytest.mark.parametrize(
    "state, detail",
    [
        ({"_forward_hooks": {0: torch.relu}}, "with hooks"),
        ({"_forward_pre_hooks": {0: torch.relu}}, "with hooks that are not poptorch's"),
        ({"_state_dict_hooks": collections.OrderedDict({0: torch.relu})}, "with hooks"),
        ({"_forward_hooks": 3}, "with hooks"),
        ({"_parameters": {"a": 3}}, "with odd _parameters"),
        ({"_modules": {"a": torch.relu}}, "with odd _modules"),
        ({"_modules": [1]}, "with odd _modules"),
        ({"_buffers": {3: torch.zeros(1)}}, "with odd _buffers"),
        ({"training": torch.relu}, "with odd training"),
        ({"_non_persistent_buffers_set": [1]}, "with odd _non_persistent_buffers_set"),
    ],
    ids=without_addresses,
)
def test_tables_of_a_module_hold_what_torch_puts_there(state, detail):
    assert detail in refused(*opcodes(Holder, state))


def test_a_table_that_is_changed_after_its_state_was_set_is_checked_too():
    # holder with an empty dict of hooks, memoised; BUILD; then the same dict gets a hook.
    content = (
        b"\x80\x04(\x8c\x12test_hostile_files\x8c\x06Holder\x93)\x81"
        b"}\x8c\x0e_forward_hooks}\x94sb"  # memo 0: the dict
        b"h\x00K\x00\x8c\x13torch.nn.functional\x8c\x04relu\x93sl."
    ).replace(b"l.", b"t.")
    assert "with hooks" in refused(content)


def test_named_tuples_and_enumerations_run_nothing():
    RAN.clear()
    pair = Told(1, 2)
    RAN.clear()
    assert "test_hostile_files.Told" in refused({"x": pair})
    module, name = b"test_hostile_files", b"Missing"
    head = b"\x80\x04\x8c" + bytes([len(module)]) + module + b"\x8c" + bytes([len(name)]) + name + b"\x93"
    assert "7 is no member of Missing" in refused(head + b"K\x07\x85R.")
    assert "a key of type HashedEnum" in refused({HashedEnum.ONE: 1})


def test_names_that_make_torch_import_something_are_refused():
    content = b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93\x8c\x08torch._C\x8c\x12_VariableFunctions\x93"
    for name in (b"_dynamo", b"compile", b"hub", b"load", b"from_file"):
        assert "builtins.getattr" in refused(content + b"\x8c" + bytes([len(name)]) + name + b"\x86R.")


class Watchful(torch.nn.Module):
    """Says which of its methods runs."""


for _name in ("__bool__", "__len__", "__eq__", "__ne__", "__hash__", "__format__", "__repr__", "__str__", "__iter__"):
    setattr(Watchful, _name, lambda self, *args, _name=_name: RAN.append(_name))


@pytest.mark.parametrize(
    "name, count",
    [
        ("torch._utils _rebuild_tensor_v2", 7),
        ("torch._utils _rebuild_parameter", 3),
        ("torch._utils _rebuild_parameter_with_state", 4),
        ("torch.serialization _get_layout", 1),
        ("torch Size", 1),
        ("torch device", 2),
        ("builtins getattr", 2),
        ("collections OrderedDict", 1),
        ("collections defaultdict", 1),
        ("builtins set", 1),
        ("builtins frozenset", 1),
        ("builtins complex", 2),
        ("builtins slice", 3),
        ("builtins range", 2),
        ("builtins bytearray", 1),
        ("numpy.core.multiarray _reconstruct", 3),
        ("numpy.core.multiarray scalar", 2),
        ("numpy dtype", 3),
        ("copyreg _reconstructor", 3),
        ("test_hostile_files Missing", 1),
    ],
)
def test_arguments_are_not_asked_for_anything(name, count):
    def text(part):
        return b"\x8c" + bytes([len(part)]) + part.encode()

    module, function = name.split()
    watchful = text("test_hostile_files") + text("Watchful") + b"\x93)\x81"
    call = text(module) + text(function) + b"\x93("
    refused(b"\x80\x04" + call + watchful * count + b"tR.")
    for at in range(count):  # among arguments of a usual kind
        for usual in (b"N", b")", b"K\x00", text("x")):
            content = b"\x80\x04" + call + usual * at + watchful + usual * (count - at - 1) + b"tR."
            refused(content)


def test_identities_keys_and_states_are_not_asked_for_anything():
    watchful = b"\x8c\x12test_hostile_files\x8c\x08Watchful\x93)\x81"
    relu = b"\x8c\x08torch.nn\x8c\x04ReLU\x93)\x81"
    array = b"\x8c\x15numpy.core.multiarray\x8c\x0c_reconstruct\x93\x8c\x05numpy\x8c\x07ndarray\x93K\x00\x85C\x01b\x87R"
    dtype = b"\x8c\x05numpy\x8c\x05dtype\x93\x8c\x02f4\x85R"
    for content in (
        watchful * 3 + b"\x87Q",
        b"\x8c\x07storage" + watchful + b"K\x00\x87Q",
        b"}" + watchful + b"Ns",
        b"\x8f(" + watchful + b"\x90",
        relu + watchful + b"b",
        relu + b"}" + watchful + b"\x86b",
        relu + b"}" + watchful + b"Nsb",
        array + b"(K\x01K\x00\x85" + dtype + watchful + b"C\x00tb",
        array + b"(" + watchful * 5 + b"tb",
        dtype + b"(K\x03" + watchful * 7 + b"tb",
        watchful + b"K\x00\x93",
    ):
        refused(b"\x80\x04" + content + b".")


def test_unknown_classes_with_a_getattr_of_their_own_are_not_asked(monkeypatch):
    class Answering(type(torch)):
        def __getattr__(self, name):
            RAN.append(name)
            return torch.relu

    import sys

    monkeypatch.setitem(sys.modules, "answering", Answering("answering"))
    assert "answering.anything" in refused(b"\x80\x04\x8c\x09answering\x8c\x08anything\x93.")


# --- small pickles, large bills: what is not refused at once would go on for ever


def doubled(times, leaf=b"]", join=b"\x86"):
    """A value that holds two of the same, that hold two of the same, ..."""
    pieces = b"\x80\x04" + leaf + b"\x94"
    for i in range(times):
        number = b"j" + i.to_bytes(4, "little")
        pieces += b"0" + number + number + join + b"\x94"
    return pieces


def test_shared_parts_make_no_endless_text():
    assert "shared parts that would make endless text" in refused(doubled(100) + b".")
    text = b"X" + (100_000).to_bytes(4, "little") + b"x" * 100_000 + b"\x940"
    assert "shared parts" in refused(b"\x80\x04" + text + b"](" + b"h\x00" * 100_000 + b"e.")


def test_shared_example_inputs_end(wrapper, tmp_path):
    shared = [torch.zeros(2, 4)]
    for _ in range(60):
        shared = [shared, shared]
    names, _, keywords = state_of(wrapper).compiled.example_inputs
    assert "endless text" in loading(forge(wrapper, tmp_path / "e.poptorch", inputs=(names, [shared], keywords)))
    wide = [[torch.zeros(1)] * 1000] * 1000
    assert "too many parts" in loading(forge(wrapper, tmp_path / "e.poptorch", inputs=(names, [wide], keywords)))
    cycle = []
    cycle.append(cycle)
    assert "too many parts" in loading(forge(wrapper, tmp_path / "e.poptorch", inputs=(names, [cycle], keywords)))


@pytest.mark.parametrize(
    "begin, join",
    [(b"]", b"a"), (b"\x8c\x0bcollections\x8c\x0bdefaultdict\x93)R", b"K\x00\x85R")],
    ids=["list", "defaultdict"],
)
def test_depth_is_bounded_and_what_was_made_is_freed(begin, join):
    if begin == b"]":
        content = b"\x80\x04" + begin * 100_000 + join * 99_999 + b"."
    else:  # d = defaultdict(); d[0] = next, from the inside out
        content = b"\x80\x04" + (begin + b"K\x00") * 100_000 + b"N" + b"s" * 100_000 + b"."
    assert "nested more than 200 deep" in refused(content)


def test_a_chain_of_modules_is_bounded():
    model = torch.nn.Identity()
    for _ in range(120):
        model = torch.nn.Sequential(model)
    assert "nested more than 200 deep" in refused(model)
    model = torch.nn.Identity()
    for _ in range(60):
        model = torch.nn.Sequential(model)
    assert repr(unpickler.read(*unpickler.write(model), "FILE"))


def test_layers_of_a_recurrent_module_have_weights():
    layer = torch.nn.LSTM(2, 3)
    for changes in ({"num_layers": 1 << 40}, {"_all_weights": [[3]]}, {"bidirectional": 7}, {"_flat_weights": []}):
        state = {**layer.__getstate__(), **changes}
        assert "LSTM " in refused(*opcodes(torch.nn.LSTM, state))
    loaded = unpickler.read(*unpickler.write(torch.nn.LSTM(2, 3, 2, bidirectional=True)), "FILE")
    assert loaded(torch.zeros(1, 2))[0].shape == (1, 6) and loaded._flat_weights[0] is loaded.weight_ih_l0


def test_keys_cost_what_they_hash():
    # A key of 400 times the same tuple of 400, used 2000 times.
    content = b"\x80\x04(" + b"K\x00" * 400 + b"t\x94(" + b"h\x00" * 400 + b"t\x94}(" + b"h\x01N" * 200_000 + b"u."
    assert "more memory than its size explains" in refused(content)


def test_integers_are_of_a_sensible_size():
    number = b"\x80\x04\x8b" + (1 << 20).to_bytes(4, "little") + b"\x01" * (1 << 20) + b"\x94}("
    assert "an integer of 1048576 bytes" in refused(number + b"h\x00N" * 1000 + b"u.")


def test_the_clock_ends_what_no_budget_ended(monkeypatch):
    monkeypatch.setattr(unpickler, "_SECONDS", 0.0)
    monkeypatch.setattr(unpickler, "_SECONDS_PER_BYTE", 0.0)
    assert "took more than 0 seconds" in refused(b"\x80\x04" + b"N0" * 10_000 + b"N.")


def test_tensors_are_as_large_as_their_storages_say():
    wide = torch.zeros(1).expand(1 << 34)
    content, storages = unpickler.write({"a": [wide, wide]})
    assert "tensors of many more elements than it has values" in refused(content, storages)
    mask = torch.ones(8, 8).expand(64, 8, 8)
    assert torch.equal(unpickler.read(*unpickler.write({"m": mask}), "FILE")["m"], mask)


LOAD = """
try:
    poptorch.load(sys.argv[1])
except poptorch.Error as error:
    print(error.message)
"""


def test_example_inputs_take_no_memory(tmp_path):
    executor = predictor()
    names, _, keywords = state_of(executor).compiled.example_inputs

    def file_with(rows):
        return forge(executor, tmp_path / "e", inputs=(names, [torch.zeros(()).expand(rows, 4)], keywords))

    peak = "import resource\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    before = "import resource\nbefore = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
    # 4 GB of a call that the program was not compiled for: found without touching them.
    message, taken = in_a_child(before + LOAD + peak, file_with(250_000_000)).rstrip().rsplit("\n", 1)
    assert "executable of another model" in message and int(taken) < 300_000
    # 12 GB that cannot be had, and more than any machine has.
    message = in_a_child(LOAD, file_with(750_000_000), memory=2 << 30)
    assert "its example inputs have 12000000000 bytes" in message
    assert "its example inputs have 16000000000000000 bytes, this machine has" in loading(file_with(10**15))
    # A tensor that is an example input and a part of the model, too.
    model, shared = hostile.Linear(), torch.zeros(()).expand(250_000_000, 4)
    model.extra = shared
    message = loading(forge(executor, tmp_path / "e", inputs=(names, [shared], keywords), model=model))
    assert "tensors of many more elements than it has values" in message


def test_a_call_may_be_larger_than_its_file(tmp_path):
    torch.manual_seed(0)
    executor = poptorch.inferenceModel(hostile.Linear().eval(), quiet().deviceIterations(1000))
    executor.compile(torch.zeros(()).expand(100_000_000, 4))
    executor.save(tmp_path / "e.poptorch")
    assert poptorch.load(tmp_path / "e.poptorch").isCompiled()


# --- texts


def test_any_damaged_byte_of_the_header_is_an_error_that_can_be_printed(wrapper, tmp_path):
    wrapper.save(tmp_path / "e.poptorch")
    good = (tmp_path / "e.poptorch").read_bytes()
    length = int.from_bytes(good[:8], "little")
    step = max(1, length // 150)
    for at in [*range(8, 8 + length, step), *range(8, 40)]:
        for byte in (0xFF, 0x80, 0x1B, 0x00):
            bad = bytearray(good)
            bad[at] = byte
            (tmp_path / "bad.poptorch").write_bytes(bad)
            message = loading(tmp_path / "bad.poptorch")
            assert message.isprintable() or all(line.isprintable() for line in message.splitlines())
            assert len(message) < 2000


def test_names_of_a_pickle_are_quoted(wrapper, tmp_path):
    name = "x\x1b[31m\u202eevil" + "y" * 5000
    content = b"\x80\x04\x8c\x01m" + b"X" + len(name.encode()).to_bytes(4, "little") + name.encode() + b"\x93."
    message = refused(content)
    assert "m.x\\x1b[31m\\u202eevilyyy" in message and len(message) < 1000
    assert "damaged (UnicodeDecodeError" in refused(b"\x80\x04\x8c\x03\xed\xa0\x80.")  # half a surrogate pair


def test_metadata_is_quoted(wrapper, tmp_path):
    from poptorch import poptorch_core

    version = "9\x1b[31m" + "9" * 100_000
    poptorch_core.save_executable(wrapper._executable, str(tmp_path / "e"), {"poptorch_version": version}, b"N.", [])
    with pytest.raises(AssertionError) as error:
        poptorch.load(tmp_path / "e")
    assert "9\\x1b[31m999" in str(error.value) and len(str(error.value)) < 1000


def test_file_names_may_be_any_bytes(wrapper, tmp_path):
    path = os.path.join(os.fsencode(tmp_path), b"\xff\x1b.poptorch")
    wrapper.save(tmp_path / "e.poptorch")
    os.rename(tmp_path / "e.poptorch", path)
    assert poptorch.load(path).isCompiled() and poptorch.load(os.fsdecode(path)).isCompiled()
    os.truncate(path, 100)
    assert "\\xff\\x1b.poptorch: truncated" in loading(path)


# --- pipes and devices


def test_pipes_in_place_of_files_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    output = in_a_child(
        """
        path = sys.argv[1]
        for action in (
            lambda: poptorch.load(path),
            lambda: poptorch.inferenceModel(models.Mlp(1)).loadExecutable(path),
            lambda: poptorch.importPoptorchMetadataFromFile(path),
            lambda: poptorch.Options().loadFromFile(path),
        ):
            try:
                action()
            except (poptorch.Error, poptorch.ConfigFileError) as error:
                print(getattr(error, "message", error))
        """,
        tmp_path / "pipe",
    )
    pipe = tmp_path / "pipe"
    assert output.splitlines() == [f"cannot read file [IPU-E504]: {pipe}: not a regular file."] * 3 + [
        f"{pipe} is not a regular file"
    ]

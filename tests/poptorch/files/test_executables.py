"""Executables on disk: saved here, loaded by a fresh process, equal to the last bit; whatever is wrong with a file is said."""

import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
import torch
import xxhash
from models import Cnn, Mlp
from python_programs import run_program

import poptorch
from poptorch._impl.session.executor import state_of


def fresh(code, *arguments, timeout=240):
    """Standard output of a Python process that knows the test models and nothing else of this one."""
    prologue = "import sys\nimport torch, models\nimport poptorch\n"
    result = run_program(prologue + textwrap.dedent(code), *arguments, timeout=timeout)
    assert result.returncode == 0, result.stderr
    return result.stdout


def options(iterations=2, accumulation=1, mode=poptorch.OutputMode.All):
    made = poptorch.Options().deviceIterations(iterations).outputMode(mode).showCompilationProgressBar(False)
    made.Training.gradientAccumulation(accumulation)
    return made


def trainer_of(kind, ipus=1, optimizer=None, accumulation=3):
    torch.manual_seed(5)
    model = kind(ipus)
    optimizer = optimizer(model) if optimizer else poptorch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return poptorch.trainingModel(model, options(accumulation=accumulation), optimizer)


def batch(kind, seed, count):
    return kind.inputs(count, torch.Generator().manual_seed(seed))


@pytest.fixture
def predictor(tmp_path):
    """(file, input, output) of a saved inference model."""
    torch.manual_seed(1)
    executor = poptorch.inferenceModel(Mlp(1).eval(), options())
    (x, _) = batch(Mlp, 2, 2)
    expected = executor(x)
    path = tmp_path / "mlp.poptorch"
    executor.save(path)
    return path, x, expected


def test_inference_in_a_fresh_process_gives_the_same_bits(predictor, tmp_path):
    path, x, expected = predictor
    torch.save(x, tmp_path / "x.pt")
    fresh(
        """
        hooks = []
        poptorch.registerPreCompileHook(lambda: hooks.append(1))
        model = poptorch.load(sys.argv[1])
        assert model.isCompiled() and model.isAttachedToDevice() and len(hooks) == 1
        assert type(model.model) is models.Mlp and not model.model.training
        torch.save(model(torch.load(sys.argv[2])), sys.argv[3])
        """,
        path,
        tmp_path / "x.pt",
        tmp_path / "y.pt",
    )
    assert torch.equal(torch.load(tmp_path / "y.pt"), expected)


OPTIMIZERS = {
    "sgd": lambda m: poptorch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9),
    "torch sgd": lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9),
    "adamw": lambda m: poptorch.optim.AdamW(m.parameters(), lr=0.01),
}


@pytest.mark.parametrize(
    "kind, ipus, name",
    [
        (Cnn, 1, "sgd"),
        (Mlp, 2, "adamw"),
        (Mlp, 1, "torch sgd"),
    ],
    ids=["cnn", "pipeline", "torch"],
)
def test_training_goes_on_in_a_fresh_process_with_the_same_bits(tmp_path, kind, ipus, name):
    trainer = trainer_of(kind, ipus, OPTIMIZERS[name])
    for seed in range(2):
        trainer(*batch(kind, seed, 6))
    trainer.save(tmp_path / "t.poptorch")
    expected = [trainer(*batch(kind, seed, 6)) for seed in (2, 3)]
    state = trainer.model.state_dict()
    fresh(
        """
        path, kind, out = sys.argv[1], getattr(models, sys.argv[2]), sys.argv[3]
        trainer = poptorch.load(path)
        calls = [trainer(*kind.inputs(6, torch.Generator().manual_seed(seed))) for seed in (2, 3)]
        results = [[tensor.clone() for tensor in call] for call in calls]
        torch.save([results, trainer.model.state_dict()], out)
        """,
        tmp_path / "t.poptorch",
        kind.__name__,
        tmp_path / "out.pt",
    )
    results, loaded = torch.load(tmp_path / "out.pt")
    for (scores, loss), (wanted, wanted_loss) in zip(results, expected):
        assert torch.equal(scores, wanted) and torch.equal(loss, wanted_loss)
    assert all(torch.equal(loaded[key], state[key]) for key in state)


def test_scalars_that_differ_from_the_groups_are_those_of_a_fresh_process(tmp_path):
    """A state dictionary brought another learning rate than the groups say: it rules until setOptimizer."""
    trainer = trainer_of(Mlp, optimizer=lambda m: poptorch.optim.SGD(m.parameters(), lr=0.5, momentum=0.9))
    optimizer = state_of(trainer).optimizer_link.optimizer
    trainer(*batch(Mlp, 0, 6))
    state = optimizer.state_dict()
    for name in state["ipu_param"]:
        if name.startswith("scaledLearningRate2"):
            state["ipu_param"][name] = torch.tensor(0.125)
    optimizer.load_state_dict(state)
    trainer(*batch(Mlp, 1, 6))
    trainer.save(tmp_path / "t.poptorch")
    trainer(*batch(Mlp, 2, 6))
    expected = {key: value.clone() for key, value in trainer.model.state_dict().items()}
    optimizer.param_groups[0]["lr"] = 0.25
    trainer.setOptimizer(optimizer)
    trainer(*batch(Mlp, 3, 6))
    fresh(
        """
        from poptorch._impl.session.executor import state_of
        trainer = poptorch.load(sys.argv[1])
        optimizer = state_of(trainer).optimizer_link.optimizer
        steps = [{name: value for name, value in optimizer.state_dict()["ipu_param"].items() if "Rate2" in name}]
        trainer(*models.Mlp.inputs(6, torch.Generator().manual_seed(2)))
        steps.append({key: value.clone() for key, value in trainer.model.state_dict().items()})
        optimizer.param_groups[0]["lr"] = 0.25
        trainer.setOptimizer(optimizer)
        trainer(*models.Mlp.inputs(6, torch.Generator().manual_seed(3)))
        torch.save([optimizer.param_groups[0]["lr"], *steps, trainer.model.state_dict()], sys.argv[2])
        """,
        tmp_path / "t.poptorch",
        tmp_path / "out.pt",
    )
    rate, scalars, second, third = torch.load(tmp_path / "out.pt")
    assert rate == 0.25 and set(map(float, scalars.values())) == {0.125}
    assert all(torch.equal(second[key], expected[key]) for key in expected)
    last = trainer.model.state_dict()
    assert all(torch.equal(third[key], last[key]) for key in last)
    assert not any(torch.equal(third[key], second[key]) for key in last)


@pytest.mark.shows("load", "PoplarExecutor.save")
def test_replicated_training_is_loaded_with_its_replicas(tmp_path):
    torch.manual_seed(0)
    model = Mlp(1)
    trainer = poptorch.trainingModel(
        model, options(1).replicationFactor(2), torch.optim.SGD(model.parameters(), lr=0.1)
    )
    trainer(*batch(Mlp, 0, 2))
    trainer.save(tmp_path / "r.poptorch")
    loaded = poptorch.load(tmp_path / "r.poptorch")
    for got, wanted in zip(loaded(*batch(Mlp, 1, 2)), trainer(*batch(Mlp, 1, 2))):
        assert torch.equal(got, wanted)


@pytest.mark.shows("PoplarExecutor.compileAndExport", "PoplarExecutor.options", "Options.useOfflineIpuTarget")
def test_compile_offline_and_run_elsewhere(tmp_path):
    torch.manual_seed(1)
    model = Mlp(1).eval()
    offline = poptorch.inferenceModel(model, options().useOfflineIpuTarget())
    (x, _) = batch(Mlp, 2, 2)
    offline.compileAndExport(tmp_path / "o.poptorch", x)
    assert offline.isCompiled() and not offline.isAttachedToDevice()
    with pytest.raises(AssertionError, match="ConnectionType.Never"):
        offline(x)
    loaded = poptorch.load(tmp_path / "o.poptorch")
    assert loaded.options.connection_type == poptorch.ConnectionType.Always
    assert not loaded.options.exists("ipu_version")
    assert torch.equal(loaded(x), poptorch.inferenceModel(model, options())(x))


def test_an_executable_for_another_ipu_is_refused(tmp_path):
    offline = poptorch.inferenceModel(Mlp(1).eval(), options().useOfflineIpuTarget(21))
    offline.compileAndExport(tmp_path / "o.poptorch", batch(Mlp, 2, 2)[0])
    with pytest.raises(poptorch.Error) as error:
        poptorch.load(tmp_path / "o.poptorch")
    assert error.value.message == (
        f"executable of another machine [IPU-E505]: {tmp_path / 'o.poptorch'} was compiled for IPU version 21, version 2 "
        "is attached"
    )


@pytest.mark.shows("PoplarExecutor.loadExecutable")
def test_load_executable_without_the_exported_model(tmp_path):
    torch.manual_seed(1)
    model = Mlp(1).eval()
    executor = poptorch.inferenceModel(model, options())
    (x, _) = batch(Mlp, 2, 2)
    executor.compileAndExport(tmp_path / "e.poptorch", x, export_model=False)
    with pytest.raises(AssertionError) as error:
        poptorch.load(tmp_path / "e.poptorch")
    assert str(error.value) == (
        f"{tmp_path / 'e.poptorch'} does not contain the model: it was saved with export_model=False. Wrap the model with "
        "poptorch.trainingModel or poptorch.inferenceModel and call loadExecutable() on the wrapper."
    )
    other = poptorch.inferenceModel(model, options())
    assert not other.isCompiled()
    other.loadExecutable(tmp_path / "e.poptorch")
    assert other.isCompiled() and other.isAttachedToDevice()
    assert torch.equal(other(x), executor(x))


def off_chip():
    return poptorch.TensorLocationSettings().useOnChipStorage(False)


@pytest.mark.parametrize(
    "change, names",
    [
        (lambda o: o.outputMode(poptorch.OutputMode.Final), ["output_mode"]),
        (lambda o: o.outputMode(poptorch.OutputMode.EveryN, 2), ["output_mode", "output_return_period"]),
        (lambda o: o.anchorTensor("a", "input"), ["anchored_tensors"]),
        (lambda o: o.setExecutionStrategy(poptorch.ShardedExecution()), ["setExecutionStrategy"]),
        (lambda o: o.TensorLocations.setWeightLocation(off_chip()), ["location_weight"]),
        (lambda o: o.TensorLocations.numIOTiles(32), ["numIOTiles"]),
        (lambda o: o.Precision.setPartialsType(torch.half), ["convolutionOptions", "partialsTypeMatMuls"]),
        (lambda o: o.Precision.enableStochasticRounding(True), ["enableStochasticRounding"]),
        (lambda o: o.enableStableNorm(True), ["enableStableNorm"]),
        (lambda o: o.enableStableNorm(False), []),  # the default
        (lambda o: o.setAvailableMemoryProportion({"IPU0": 0.5}), ["available_memory_proportion"]),
        (lambda o: o.broadcastBuffers(False), ["broadcast_buffers"]),
        (lambda o: o._Popart.setPatterns({"OpToIdentity": False}), ["patterns", "patterns_level"]),
        (
            lambda o: (
                o.modelName("other").randomSeed(3).logCycleCount(True).connectionType(poptorch.ConnectionType.OnDemand)
            ),
            [],
        ),
    ],
)
@pytest.mark.parametrize("reader", ["load", "loadExecutable"])
def test_options_that_are_compiled_in_are_named_when_they_differ(tmp_path, change, names, reader, caplog):
    torch.manual_seed(1)
    model = Mlp(1).eval()
    executor = poptorch.inferenceModel(model, options())
    (x, _) = batch(Mlp, 2, 2)
    executor.compileAndExport(tmp_path / "e.poptorch", x)
    caplog.clear()
    if reader == "load":
        poptorch.load(tmp_path / "e.poptorch", change)
    else:
        changed = options()
        change(changed)
        poptorch.inferenceModel(model, changed).loadExecutable(tmp_path / "e.poptorch")
    pattern = re.compile(r"Option (\w+)=.* has no effect: .*e\.poptorch was compiled with .*\.")
    found = [pattern.fullmatch(record.getMessage()) for record in caplog.records]
    assert [match.group(1) for match in found if match] == names


def test_a_loaded_pair_shares_weights_as_the_documentation_says(tmp_path):
    trainer = trainer_of(Mlp)
    trainer(*batch(Mlp, 0, 6))
    trainer.save(tmp_path / "t.poptorch")
    tester = poptorch.inferenceModel(trainer, options())
    (x, _) = batch(Mlp, 2, 2)
    tester.compileAndExport(tmp_path / "i.poptorch", x)
    loaded_trainer = poptorch.load(tmp_path / "t.poptorch")
    loaded_tester = poptorch.inferenceModel(loaded_trainer, options())
    loaded_tester.loadExecutable(tmp_path / "i.poptorch")
    for _ in range(2):
        trainer(*batch(Mlp, 1, 6)), loaded_trainer(*batch(Mlp, 1, 6))
        assert torch.equal(loaded_tester(x), tester(x))


def test_the_executable_of_another_model_is_refused(tmp_path, predictor):
    path, _, _ = predictor

    class Other(Mlp):
        def forward(self, x, target=None):
            return super().forward(x * 2)

    with pytest.raises(poptorch.Error) as error:
        poptorch.inferenceModel(Other(1).eval(), options()).loadExecutable(path)
    assert error.value.message == (
        f"executable of another model [IPU-E505]: {path} was compiled from another graph than the model gives for its "
        "example inputs.\n  try:      the model, train()/eval() mode and options it was compiled with, or compile again"
    )
    with pytest.raises(poptorch.Error, match="executable of a poptorch.inferenceModel; this wrapper is a poptorch.tr"):
        trainer_of(Mlp).loadExecutable(path)


def test_options_that_matter_after_loading_and_those_that_do_not(predictor, caplog):
    path, x, expected = predictor

    def edit(edited):
        edited.connectionType(poptorch.ConnectionType.OnDemand)
        edited.outputMode(poptorch.OutputMode.Final)
        return None

    loaded = poptorch.load(path, edit)
    assert loaded.isCompiled() and not loaded.isAttachedToDevice()
    assert any("Option output_mode=" in record.getMessage() for record in caplog.records)
    assert torch.equal(loaded(x), expected)
    assert loaded.isAttachedToDevice()


def test_other_inputs_than_compiled_for_give_the_usual_error(predictor):
    loaded = poptorch.load(predictor[0])
    with pytest.raises(poptorch.Error, match="Shape mismatch for x"):
        loaded(torch.zeros(2, 12))


def test_save_makes_folders_and_refuses_paths_that_are_no_folder(tmp_path, predictor, caplog):
    loaded = poptorch.load(predictor[0])
    loaded.save(str(tmp_path / "new" / "folder" / "e.poptorch"))
    assert (tmp_path / "new" / "folder" / "e.poptorch").is_file()
    loaded.save(str(tmp_path / "new"))
    assert (tmp_path / "new" / "model.poptorch").is_file()
    assert any("got a folder" in record.getMessage() for record in caplog.records)
    with pytest.raises(AssertionError, match="exists and is not a folder"):
        loaded.save(str(predictor[0] / "x"))
    assert sorted(os.listdir(tmp_path / "new")) == ["folder", "model.poptorch"]
    with pytest.raises(poptorch.Error, match="save: the model has not been compiled"):
        poptorch.inferenceModel(Mlp(1)).save(str(tmp_path / "x"))


def test_calls_on_a_compiled_wrapper_are_ignored_with_a_warning(predictor, caplog):
    path, x, expected = predictor
    loaded = poptorch.load(path)
    loaded.loadExecutable(path)
    assert any("loadExecutable() ignored" in record.getMessage() for record in caplog.records)
    assert torch.equal(loaded(x), expected)


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.scale


def test_a_parameter_that_was_read_through_the_wrapper_can_be_saved(tmp_path):
    executor = poptorch.inferenceModel(Scale().eval(), options(1))
    x = torch.arange(8.0).view(2, 4)
    expected = executor(x)
    assert executor.scale.replicaGrouping is not None
    executor.save(tmp_path / "e.poptorch")
    assert torch.equal(poptorch.load(tmp_path / "e.poptorch")(x), expected)


def test_a_wrapper_that_could_not_take_a_file_is_as_it_was(tmp_path, predictor):
    trainer = trainer_of(Mlp)
    with pytest.raises(poptorch.Error):
        trainer.loadExecutable(predictor[0])
    other = poptorch.inferenceModel(Scale().eval(), options(1))
    with pytest.raises(poptorch.Error):
        other.loadExecutable(predictor[0])
    assert not other.isCompiled() and state_of(other).groupings == {}
    assert torch.equal(other(torch.ones(2, 4)), torch.ones(2, 4))


# --- what can be wrong with a file


def message_of_loading(path):
    with pytest.raises(poptorch.Error) as error:
        poptorch.load(path)
    return error.value.message


def test_damaged_files_are_poptorch_errors(tmp_path, predictor):
    good = pathlib.Path(predictor[0]).read_bytes()
    bad = tmp_path / "bad.poptorch"
    bad.write_bytes(good[: len(good) // 2])
    assert message_of_loading(bad).startswith(f"corrupt file [IPU-E501]: {bad}: truncated: ")
    bad.write_bytes(b"")
    assert message_of_loading(bad).startswith(f"corrupt file [IPU-E501]: {bad}: truncated: 0 bytes")
    bad.write_bytes(os.urandom(5000))
    assert message_of_loading(bad).startswith(f"corrupt file [IPU-E501]: {bad}: not an executable of poptorch")
    assert (
        message_of_loading(tmp_path / "none")
        == f"cannot read file [IPU-E504]: {tmp_path / 'none'}: No such file or directory."
    )
    generator = torch.Generator().manual_seed(9)
    for at in torch.randint(0, len(good), (100,), generator=generator).tolist():
        flipped = bytearray(good)
        flipped[at] ^= 0x10
        bad.write_bytes(flipped)
        assert "[IPU-E50" in message_of_loading(bad)


@pytest.mark.shows("__version__")
@pytest.mark.edge("22.54")
def test_another_version_is_an_assertion_or_an_error(predictor, monkeypatch):
    path = predictor[0]
    written = poptorch.__version__
    monkeypatch.setattr(poptorch, "__version__", "9.9")
    expected = (
        f"Invalid file {path}: written by poptorch {written}, this is 9.9. Compile and save again with this version."
    )
    with pytest.raises(AssertionError) as error:
        poptorch.load(path)
    assert str(error.value) == expected
    with pytest.raises(poptorch.Error) as error:
        poptorch.inferenceModel(Mlp(1)).loadExecutable(path)
    assert error.value.message == expected


@pytest.mark.shows("importPoptorchMetadataFromFile")
def test_the_file_is_a_safetensors_file(predictor):
    from safetensors import safe_open

    with safe_open(predictor[0], "pt") as file:
        assert file.metadata()["format"] == "poptorch-executable"
        names = set(file.keys())
        assert {"program", "signature", "executable", "ir", "frontend.model", "seal"} <= names
        weights = [file.get_tensor(name) for name in names if name.startswith("frontend.storage.")]
    model = poptorch.load(predictor[0]).model
    for parameter in model.parameters():
        assert any(torch.equal(parameter.detach().flatten(), weight) for weight in weights)
    assert poptorch.importPoptorchMetadataFromFile(predictor[0]).startswith(b"\x80\x04")


def test_a_model_that_cannot_be_pickled_is_pickles_own_error(tmp_path):
    model = Mlp(1).eval()
    model.function = lambda x: x
    executor = poptorch.inferenceModel(model, options())
    executor.compile(batch(Mlp, 2, 2)[0])
    with pytest.raises(Exception, match="pickle"):
        executor.save(tmp_path / "e.poptorch")
    executor.save(tmp_path / "e.poptorch", export_model=False)


class Known(torch.nn.Module):
    def forward(self, x):
        return torch.ones(2)


def test_a_model_that_uses_no_ipu_has_nothing_to_export(tmp_path):
    executor = poptorch.inferenceModel(Known(), options(1))
    with pytest.raises(poptorch.Error) as error:
        executor.compileAndExport(tmp_path / "e.poptorch", torch.zeros(2))
    assert error.value.message == "there is nothing to export: all outputs of the model are constants, it uses no IPU."
    assert os.listdir(tmp_path) == []


# --- the cache

CACHED = """
import logging
poptorch.setLogLevel("INFO")
torch.manual_seed(int(sys.argv[2]))
options = poptorch.Options().deviceIterations(int(sys.argv[3])).enableExecutableCaching(sys.argv[1])
executor = poptorch.inferenceModel(models.Cnn(1).eval(), options)
y = executor(models.Cnn.inputs(int(sys.argv[3]), torch.Generator().manual_seed(1))[0])
import hashlib
print(executor._executable.from_cache, hashlib.sha256(y.numpy().tobytes()).hexdigest())
"""


def entries(folder):
    return sorted(name for name in os.listdir(folder) if name.endswith(".poptorch"))


def test_a_second_process_finds_the_program_of_the_first(tmp_path):
    cache = tmp_path / "made" / "cache"
    first = fresh(CACHED, cache, 1, 2)
    assert first.startswith("False") and len(entries(cache)) == 1
    second = fresh(CACHED, cache, 1, 2)
    assert second == first.replace("False", "True")
    assert fresh(CACHED, cache, 7, 2).startswith("True")  # values of weights are no part of the key
    assert os.listdir(cache) == entries(cache)  # no locks, no temporary files


def native_log(tmp_path, code, *arguments):
    log = tmp_path / "native.log"
    os.environ["POPTORCH_LOG_DEST"] = str(log)
    try:
        fresh(code, *arguments)
    finally:
        del os.environ["POPTORCH_LOG_DEST"]
    return log.read_text()


def test_a_miss_says_what_differs(tmp_path):
    cache = tmp_path / "cache"
    assert "executable cache: miss, the folder has no entry yet" in native_log(tmp_path, CACHED, cache, 1, 2)
    log = native_log(tmp_path, CACHED, cache, 1, 3)
    assert f"executable cache: miss, the nearest entry, {entries(cache)[0]}" in log or entries(cache)[1] in log
    assert "differs in: graph, options (device_iterations=2 -> device_iterations=3)" in log
    assert "executable cache: hit, " in native_log(tmp_path, CACHED, cache, 1, 3)


def test_a_damaged_entry_is_compiled_again(tmp_path):
    cache = tmp_path / "cache"
    first = fresh(CACHED, cache, 1, 2)
    (entry,) = entries(cache)
    damaged = bytearray((cache / entry).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (cache / entry).write_bytes(damaged)
    log = native_log(tmp_path, CACHED, cache, 1, 2)
    assert "executable cache: entry ignored, compiling again: corrupt file [IPU-E501]" in log
    assert fresh(CACHED, cache, 1, 2) == first.replace("False", "True")


def read_tensors(path):
    """Metadata, and (entry of the header, bytes) by name, of a file in the layout of safetensors."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    metadata, data = header.pop("__metadata__"), content[8 + size :]
    return metadata, {name: (entry, data[slice(*entry["data_offsets"])]) for name, entry in header.items()}


def write_tensors(path, metadata, tensors):
    """The same, sealed as docs/file-format.md says."""
    metadata, header, data = dict(metadata), {}, b""
    for name, (entry, blob) in tensors.items():
        if name == "seal":
            continue
        header[name] = {**entry, "data_offsets": [len(data), len(data) + len(blob)]}
        metadata["digest:" + name] = xxhash.xxh3_128_hexdigest(blob)
        data += blob
    header["seal"] = {**tensors["seal"][0], "data_offsets": [len(data), len(data) + 16]}
    text = json.dumps({"__metadata__": metadata, **header}).encode()
    text += b" " * (-len(text) % 8)
    head = len(text).to_bytes(8, "little") + text
    path.write_bytes(head + data + xxhash.xxh3_128_digest(head))


@pytest.mark.slow
def test_an_entry_that_moves_other_elements_is_compiled_again(tmp_path):
    cache, other = tmp_path / "cache", tmp_path / "other"
    first = fresh(CACHED, cache, 1, 2)
    fresh(CACHED, other, 1, 3)
    (two,), (three,) = entries(cache), entries(other)
    metadata, right = read_tensors(cache / two)
    _, wrong = read_tensors(other / three)
    metadata = {name: value for name, value in metadata.items() if not name.startswith("digest:")}
    write_tensors(cache / two, metadata, right)
    assert fresh(CACHED, cache, 1, 2) == first.replace("False", "True")  # sealed well
    write_tensors(cache / two, metadata, wrong)
    log = native_log(tmp_path, CACHED, cache, 1, 2)
    assert "another program than its key says: a run moves 3 elements of 'x' where device_iterations=2" in log
    assert fresh(CACHED, cache, 1, 2) == first.replace("False", "True")  # it was written anew


def test_two_processes_at_once_compile_once(tmp_path):
    cache = tmp_path / "cache"
    prologue = "import sys\nimport torch, models\nimport poptorch\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", prologue + CACHED, str(cache), "1", "2"],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(3)
    ]
    outputs = sorted(process.communicate(timeout=240)[0] for process in processes)
    assert all(process.returncode == 0 for process in processes)
    assert [line.split()[0] for line in outputs] == ["False", "True", "True"]
    assert len({line.split()[1] for line in outputs}) == 1
    assert len(os.listdir(cache)) == 1


def test_training_from_the_cache_gives_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setenv("POPTORCH_CACHE_DIR", str(tmp_path))
    results = []
    for _ in range(2):
        trainer = trainer_of(Cnn, 2)
        results.append([trainer(*batch(Cnn, seed, 6))[1] for seed in range(2)])
        assert trainer._executable.from_cache == (len(results) == 2)
        trainer.destroy()
    assert all(torch.equal(a, b) for a, b in zip(*results))


@pytest.mark.shows("Options.enableExecutableCaching")
def test_the_ipu_model_has_no_cache_and_says_so(tmp_path, monkeypatch, caplog):
    def run(made):
        poptorch.inferenceModel(Mlp(1), made.enableExecutableCaching(str(tmp_path)))(batch(Mlp, 2, 2)[0])

    run(options().useIpuModel(True))
    monkeypatch.setenv("POPTORCH_SMALL_IPU_MODEL", "1")
    run(options())
    assert os.listdir(tmp_path) == []
    run(options().useIpuModel(False))
    assert [record.getMessage() for record in caplog.records] == [
        "Executable caching is not available on an IPU model: the program is compiled."
    ] * 2
    assert len(entries(tmp_path)) == 1


def test_a_cache_that_cannot_be_used_is_an_assertion(tmp_path):
    (tmp_path / "file").write_text("")
    executor = poptorch.inferenceModel(Mlp(1), options().enableExecutableCaching(str(tmp_path / "file")))
    with pytest.raises(AssertionError, match="cannot be made"):
        executor(batch(Mlp, 2, 2)[0])


def test_enable_executable_caching_sets_and_clears_the_path():
    made = poptorch.Options()
    assert made.enableExecutableCaching("/tmp/x") is made
    assert made._Popart.options["cachePath"] == "/tmp/x"
    made.enableExecutableCaching(None)
    assert "cachePath" not in made._Popart.options


def test_defaults_of_any_type_need_no_place_in_a_file(tmp_path):
    class Model(torch.nn.Module):
        def forward(self, x, activation=torch.nn.functional.relu, key=lambda t: t + 1, scale=torch.tensor(2.0)):
            return key(activation(x)) * scale

    x = torch.tensor([-1.0, 2.0])
    wrapper = poptorch.inferenceModel(Model())
    expected = wrapper(x)
    wrapper.save(str(tmp_path / "m"), export_model=False)
    wrapper.destroy()
    loaded = poptorch.inferenceModel(Model())
    loaded.loadExecutable(str(tmp_path / "m"))
    assert torch.equal(loaded(x), expected) and expected.tolist() == [2, 6]

"""The machine form of a model is the same text on every computer; what the computer runs may differ."""

import json

import torch
from python_programs import run_program

import poptorch

PROGRAM = """
import json, torch, poptorch
torch.manual_seed(0)

class Net(torch.nn.Module):
    def __init__(self, ipus):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))
        self.ipus = ipus
    def forward(self, x, y):
        for i, layer in enumerate(self.layers):
            ipu = i * self.ipus // 4
            poptorch.Block.start(f"b{ipu}", ipu_id=ipu)
            x = torch.nn.functional.dropout(torch.tanh(layer(x)), 0.1)
        return poptorch.identity_loss(torch.nn.functional.mse_loss(x, y), "none")

def form(ipus, strategy, mode):
    options = poptorch.Options().showCompilationProgressBar(False)
    options.setExecutionStrategy(strategy)
    options.Training.gradientAccumulation(4)
    options._Popart.set("autoRecomputation", mode)
    model = Net(ipus)
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    trainer.compile(torch.randn(8, 64), torch.randn(8, 64))
    executable = trainer._executable
    return [executable.machine_text(), executable.ir_text(), executable.statistics()]

print(json.dumps([
    form(1, poptorch.PipelinedExecution(), 4),
    form(2, poptorch.PipelinedExecution(), 3),
    form(2, poptorch.ShardedExecution(), 1),
]))
"""


def forms(**variables):
    known = ("POPTORCH_HOST_MEMORY", "POPTORCH_EXECUTE_RECOMPUTE", "POPTORCH_HOST_THREADS", "POPTORCH_ISA")
    one_core = "import os; os.sched_setaffinity(0, {0})" if variables.get("POPTORCH_HOST_THREADS") == "1" else ""
    run = run_program(one_core + PROGRAM, environment={**dict.fromkeys(known), **variables}, timeout=200)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_the_machine_form_of_a_training_step_does_not_depend_on_the_computer():
    small = forms(POPTORCH_HOST_MEMORY="1", POPTORCH_HOST_THREADS="1", POPTORCH_ISA="portable")
    large = forms(POPTORCH_HOST_MEMORY="1e12", POPTORCH_HOST_THREADS="8", POPTORCH_ISA="native")
    forced = forms(POPTORCH_EXECUTE_RECOMPUTE="1")
    for of_small, of_large, of_forced in zip(small, large, forced):
        assert of_small[0] == of_large[0] == of_forced[0]
        assert 'recompute="recompute"' in of_large[0] and "mse_loss" in of_large[0]
        assert "64a" not in of_large[0] and "64a" in of_large[1]
        # What the host runs does depend on it.
        assert of_small[1] == of_forced[1] != of_large[1]
        assert of_small[2]["stash bytes"] == of_large[2]["stash bytes"]
        assert of_small[2]["ops recomputed"] == of_large[2]["ops recomputed"] > 0
        assert (of_small[2]["recomputation executed"], of_large[2]["recomputation executed"]) == (1, 0)


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.tanh(self.layer(x))


def test_a_program_of_the_cache_or_of_a_file_has_its_machine_form(tmp_path, monkeypatch):
    monkeypatch.delenv("POPTORCH_CACHE_DIR", raising=False)
    options = poptorch.Options().showCompilationProgressBar(False).enableExecutableCaching(str(tmp_path / "cache"))
    x = torch.ones(2, 3)
    model = Small()
    first, second = (poptorch.inferenceModel(model, options) for _ in range(2))
    texts = []
    for wrapper in (first, second):
        wrapper.compile(x)
        texts.append(wrapper._executable.machine_text())
    assert (first._executable.from_cache, second._executable.from_cache) == (False, True)
    assert "linear" in texts[0] and texts[0] == texts[1]
    first.save(str(tmp_path / "program"))
    loaded = poptorch.inferenceModel(model, poptorch.Options().showCompilationProgressBar(False))
    loaded.loadExecutable(str(tmp_path / "program"))
    assert loaded._executable.machine_text() == texts[0]


def test_a_model_without_a_program_has_an_empty_one():
    class Constant(torch.nn.Module):
        def forward(self, x):
            return torch.ones(2)

    wrapper = poptorch.inferenceModel(Constant(), poptorch.Options().showCompilationProgressBar(False))
    wrapper.compile(torch.ones(1))
    assert wrapper._executable.machine_text() == wrapper._executable.ir_text() == ""

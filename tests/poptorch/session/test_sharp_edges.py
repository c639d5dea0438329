"""Published sharp edges (scripts/sharp_edges.txt) that no other test is about."""

import gc
import json
import logging

import pytest
import torch
from python_programs import run_program

import poptorch


def infer(forward, *inputs, options=None):
    return poptorch.inferenceModel(forward, options)(*inputs)


class Trained(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 1)

    def forward(self, x, y):
        out = self.fc(x)
        return out, torch.nn.functional.mse_loss(out, y)


def trainer_of(model, options=None, rate=0.1):
    return poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=rate))


ROWS = torch.ones(1, 2), torch.zeros(1, 1)


@pytest.mark.edge("22.6")
def test_plain_attributes_are_constants_and_assignments_do_not_persist():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.i = torch.tensor(0.0)

        def forward(self, x):
            self.i = self.i + 1
            return x + self.i

    run = poptorch.inferenceModel(Counts())
    assert [run(torch.zeros(1)).item() for _ in range(3)] == [1, 1, 1]


@pytest.mark.edge("22.10")
def test_printing_in_forward_shows_no_values_and_happens_once(capsys):
    def forward(x):
        print("value:", x)
        return x + 1

    run = poptorch.inferenceModel(forward)
    for _ in range(2):
        run(torch.tensor([7.0]))
    shown = capsys.readouterr().out
    assert shown.count("value:") == 1 and "<unavailable>" in shown and "7" not in shown


@pytest.mark.edge("22.11")
def test_hooks_run_once_at_capture():
    calls = []
    model = torch.nn.Linear(2, 2)
    model.register_forward_hook(lambda module, inputs, out: calls.append("forward") or out * 2)
    model.register_full_backward_hook(lambda *arguments: calls.append("backward"))

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            out = self.model(x)
            if out.requires_grad:
                out.register_hook(lambda gradient: calls.append("tensor"))
            return poptorch.identity_loss(out, "sum")

    trainer = trainer_of(Loss(), rate=0.0)
    x = torch.ones(1, 2)
    expected = (torch.nn.functional.linear(x, model.weight, model.bias) * 2).sum().item()  # the hook is in the graph
    for _ in range(2):
        torch.testing.assert_close(trainer(x).item(), expected)
    assert calls == ["forward"]
    trainer.destroy()


@pytest.mark.edge("22.12")
def test_autocast_has_no_effect():
    class Cast(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return self.fc(x)

    model, x = Cast(), torch.rand(2, 4)
    result = infer(model, x)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, model.fc(x))


@pytest.mark.edge("22.21")
def test_partial_sums_and_dithering_replace_each_others_settings():
    options = poptorch.Options()
    options.Precision.setPartialsType(torch.half)
    options.Training.setConvolutionDithering(True)
    assert "partialsType" not in options._Popart.options["convolutionOptions"]
    options.Precision.setPartialsType(torch.half)
    assert options._Popart.options["convolutionOptions"] == {"partialsType": "half"}


@pytest.mark.edge("22.24")
def test_lines_of_an_options_file_are_counted_without_comments(tmp_path):
    path = tmp_path / "bench.conf"
    path.write_text("# comment\n\ndeviceIterations(2)\n# another\ndeviceIterations(\n")
    with pytest.raises(poptorch.ConfigFileError, match=r"line 2 of bench\.conf"):
        poptorch.Options().loadFromFile(str(path))


@pytest.mark.edge("22.34")
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_the_exact_form_of_gelu_is_exact(approximate):
    x = torch.linspace(-4, 4, 101)
    gelu = torch.nn.GELU(approximate=approximate)
    torch.testing.assert_close(infer(gelu, x), gelu(x), rtol=1e-6, atol=1e-6)
    other = torch.nn.GELU(approximate="none" if approximate == "tanh" else "tanh")(x)
    assert (infer(gelu, x) - other).abs().max() > 1e-4


@pytest.mark.edge("22.35")
def test_maximising_is_ignored():
    weights = []
    for maximize in (False, True):
        torch.manual_seed(0)
        model = Trained()
        trainer = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=0.1, maximize=maximize))
        trainer(*ROWS)
        weights.append(model.fc.weight.detach().clone())
        trainer.destroy()
    assert torch.equal(*weights)


@pytest.mark.edge("22.23")
def test_warnings_are_shown_by_default_and_information_is_not():
    code = "import poptorch; log = poptorch._logging.logger; log.warning('louder'); log.info('quieter')"
    done = run_program(code, environment={"POPTORCH_LOG_LEVEL": None})
    assert done.returncode == 0 and "louder" in done.stderr and "quieter" not in done.stderr


@pytest.mark.edge("22.28")
def test_an_incomplete_batch_is_a_shape_mismatch():
    run = poptorch.inferenceModel(lambda x: x + 1)
    run(torch.ones(4, 2))
    with pytest.raises(poptorch.Error, match="Shape mismatch for x"):
        run(torch.ones(3, 2))


@pytest.mark.edge("22.32")
def test_settings_of_fused_convolutions_are_shown_with_the_operation():
    convolution = torch.nn.Conv2d(1, 1, 1)

    def forward(x):
        with poptorch.MultiConv().enableConvDithering(True):
            return convolution(x)

    run = poptorch.inferenceModel(forward)
    x = torch.rand(1, 1, 2, 2)
    torch.testing.assert_close(run(x), convolution(x))
    (fused,) = [op for op in json.loads(run._debugGetPopartIR())["maingraph"] if op["type"] == "MultiConv"]
    assert fused["attributes"]["enableConvDithering"] == "True"


@pytest.mark.edge("22.39")
def test_batch_norm_sees_the_rows_of_a_micro_batch():
    norm = torch.nn.BatchNorm1d(1, affine=False)
    x = torch.tensor([[0.0], [2.0], [10.0], [30.0]])
    result = infer(norm.train(), x, options=poptorch.Options().deviceIterations(2))
    torch.testing.assert_close(result, torch.tensor([[-1.0], [1.0], [-1.0], [1.0]]), rtol=1e-4, atol=1e-4)


@pytest.mark.edge("22.40")
@pytest.mark.parametrize(
    "make, name",
    [(lambda x: torch.ones(2), "ones"), (lambda x: torch.arange(2), "arange"), (lambda x: torch.zeros_like(x), "zeros_like")],
)
def test_factories_in_forward_make_tensors_of_the_ipu(make, name):
    seen = []

    def forward(x):
        seen.extend([make(x).device.type, torch.ones(2, device="cpu").device.type])
        return x + make(x)

    x = torch.ones(2)
    assert torch.equal(infer(forward, x), x + make(x))
    assert seen == ["ipu", "cpu"]


@pytest.mark.edge("22.43")
def test_weights_of_a_dropped_executor_are_lost():
    model = Trained()
    before = model.fc.weight.detach().clone()
    trainer = trainer_of(model)
    trainer(*ROWS)
    del trainer
    gc.collect()
    assert torch.equal(model.fc.weight, before)
    model.destroy()


@pytest.mark.edge("22.46")
def test_uploading_discards_newer_weights_of_the_device():
    model = Trained()
    trainer = trainer_of(model)
    trainer(*ROWS)
    start = model.fc.weight.detach().clone()
    trainer(*ROWS)
    trainer.copyWeightsToDevice()
    trainer.copyWeightsToHost()
    assert torch.equal(model.fc.weight, start)
    trainer.destroy()


@pytest.mark.edge("22.47")
def test_dict_inputs_warn_when_they_are_first_bound(caplog):
    run = poptorch.inferenceModel(lambda inputs: inputs["a"] + inputs["b"])
    values = {"a": torch.ones(1), "b": torch.ones(1)}
    with caplog.at_level(logging.WARNING):
        assert [run(values).item(), run({"b": values["b"], "a": values["a"]}).item()] == [2, 2]
    assert [record.levelname for record in caplog.records if "dict" in record.getMessage()] == ["WARNING"]


@pytest.mark.edge("22.48")
def test_a_loss_that_is_not_returned_counts():
    class Ignored(Trained):
        def forward(self, x, y):
            out = self.fc(x)
            torch.nn.functional.l1_loss(out, y)
            return torch.nn.functional.mse_loss(out, y)

    with pytest.raises(poptorch.Error, match="2 losses|several losses|Multiple"):
        trainer_of(Ignored())(*ROWS)

    class Detached(Trained):
        def forward(self, x, y):
            out = self.fc(x)
            torch.nn.functional.l1_loss(out.detach(), y)
            return torch.nn.functional.mse_loss(out, y)

    trainer_of(Detached())(*ROWS)


@pytest.mark.edge("22.51")
def test_a_sum_of_halves_can_overflow():
    options = poptorch.Options().deviceIterations(2).outputMode(poptorch.OutputMode.Sum)
    x = torch.full((2, 1), 40000.0)
    assert infer(lambda x: x.half(), x, options=options.clone()).isinf().all()
    assert infer(lambda x: x.half().float(), x, options=options).item() == 80000


@pytest.mark.edge("22.52")
def test_running_sums_of_large_integers_are_exact():
    x = torch.tensor([2**24, 1, 1, 2**25 + 1], dtype=torch.int32)
    assert infer(lambda x: x.cumsum(0), x).tolist() == x.cumsum(0).tolist()


@pytest.mark.edge("22.53")
def test_the_cache_keeps_every_program(tmp_path):
    for factor in (2, 3, 2):
        options = poptorch.Options().enableExecutableCaching(str(tmp_path))
        assert infer(lambda x: x * factor, torch.ones(1), options=options).item() == factor
    assert len([path for path in tmp_path.iterdir() if not path.name.endswith(".lock")]) == 2


@pytest.mark.edge("22.56")
def test_deprecated_options_of_precision_warn_and_do_nothing(caplog):
    options = poptorch.Options().outputMode(poptorch.OutputMode.All)
    before = options.toDict()
    with caplog.at_level(logging.WARNING):
        options.Precision.halfFloatCasting(poptorch.HalfFloatCastingBehavior.HalfUpcastToFloat)
        options.Precision.runningStatisticsAlwaysFloat(True)
    assert len(caplog.records) == 2
    assert {k: v for k, v in options.toDict().items() if not callable(v)} == {
        k: v for k, v in before.items() if not callable(v)
    }

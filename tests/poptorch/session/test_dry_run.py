"""A dry run: models and inputs on meta are compiled up to the machine form, and nothing else."""

import re

import pytest
import torch
from python_programs import run_program

import poptorch

LAYERS, WIDTH, SEQUENCE, MICRO_BATCH, ACCUMULATION, REPLICAS = 4, 16, 8, 2, 8, 2


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.wide, self.narrow = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = (
            part(x).unflatten(-1, (2, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        attended = torch.softmax(query @ key.transpose(-1, -2) * 0.35, -1) @ value
        x = self.norm_1(x + torch.nn.functional.dropout(self.out(attended.transpose(1, 2).flatten(2)), 0.1))
        return self.norm_2(x + self.narrow(torch.nn.functional.gelu(self.wide(x))))


class Encoder(torch.nn.Module):
    """As BERT: embeddings and the head on the first IPU, layers on four, the head's weights are those of the embedding."""

    def __init__(self, vocabulary=32):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(vocabulary, WIDTH), torch.nn.Embedding(SEQUENCE, WIDTH)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, vocabulary, bias=False)
        self.head.weight = self.words.weight

    def forward(self, words, labels):
        poptorch.Block.start("embedding", ipu_id=0)
        x = self.words(words) + self.places(torch.arange(SEQUENCE, device=words.device))
        for i, layer in enumerate(self.layers):
            poptorch.Block.start(f"layer{i}", ipu_id=i)
            x = poptorch.recomputationCheckpoint(layer(x))
        poptorch.Block.start("head", ipu_id=0)
        return torch.nn.functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


def options():
    made = poptorch.Options().showCompilationProgressBar(False)
    made.setExecutionStrategy(
        poptorch.PipelinedExecution(
            poptorch.Stage("embedding", "layer0").ipu(0),
            *(poptorch.Stage(f"layer{i}").ipu(i) for i in range(1, LAYERS)),
            poptorch.Stage("head").ipu(0),
        )
    )
    made.replicationFactor(REPLICAS)
    made.Training.gradientAccumulation(ACCUMULATION * 2)
    made.connectionType(poptorch.ConnectionType.OnDemand)
    made._Popart.set("autoRecomputation", 3)
    return made


def trainer(device, model=Encoder):
    torch.manual_seed(0)
    with torch.device(device):
        net = model()
    optimizer = poptorch.optim.LAMB(net.parameters(), lr=0.01)
    tokens = torch.zeros(MICRO_BATCH * ACCUMULATION * 2 * REPLICAS, SEQUENCE, dtype=torch.int32, device=device)
    return poptorch.trainingModel(net, options(), optimizer), (tokens, tokens.to(torch.int64))


class Net(torch.nn.Module):
    """A linear layer and a buffer."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x):
        return self.linear(x) * self.scale


def net_on_meta():
    with torch.device("meta"):
        return Net().eval()


def quiet():
    return poptorch.Options().showCompilationProgressBar(False)


@pytest.fixture
def dry():
    wrapper = poptorch.inferenceModel(net_on_meta(), quiet())
    wrapper.compile(torch.ones(2, 4, device="meta"))
    return wrapper


def refuses(what):
    text = f"^[^:]*: {what} needs values, and the parameter 'linear.weight' and [123] more on meta have none.*to_empty"
    return pytest.raises(poptorch.Error, match=re.compile(text, re.DOTALL))


def test_a_pipelined_training_step_on_meta_has_the_machine_form_of_one_with_values():
    forms = []
    for device in ("cpu", "meta"):
        wrapper, inputs = trainer(device)
        wrapper.compile(*inputs)
        forms.append(wrapper._executable.machine_text())
        wrapper.destroy()
    with_values, on_meta = forms
    assert on_meta == with_values
    assert 'recompute="recompute"' in on_meta and "ring" in on_meta and "all_reduce" in on_meta


def test_a_dry_run_allocates_no_weights():
    with torch.device("meta"):
        net = torch.nn.Linear(2**20, 2**20)
    trainer = poptorch.trainingModel(Loss(net), quiet(), poptorch.optim.Adam(net.parameters(), lr=0.1))
    trainer.compile(torch.ones(2, 2**20, device="meta"))
    assert "variable @net.weight: f32[1048576,1048576]" in trainer._executable.machine_text()
    trainer.destroy()


def test_a_dry_run_compiles_nothing_for_the_host(dry):
    assert dry.isCompiled() and not dry.isAttachedToDevice()
    assert dry._executable.ir_text() == dry._executable.program_text() == ""
    assert "linear" in dry._debugGetPopartIR()
    dry.destroy()
    assert not dry.isCompiled()


def test_inputs_on_meta_make_a_dry_run_of_a_model_with_values():
    wrapper = poptorch.inferenceModel(Net().eval(), quiet())
    wrapper.compile(torch.ones(2, 4, device="meta"))
    with pytest.raises(poptorch.Error, match="calling the model needs values, and the input 'x' on meta has none"):
        wrapper(torch.ones(2, 4))


def test_a_dry_run_cannot_be_called(dry):
    with refuses("calling the model"):
        dry(torch.ones(2, 4))


def test_a_model_on_meta_cannot_be_called_before_it_is_compiled():
    with refuses("calling the model"):
        poptorch.inferenceModel(net_on_meta(), quiet())(torch.ones(2, 4))


@pytest.mark.parametrize("method", ["attachToDevice", "copyWeightsToHost", "copyWeightsToDevice", "cycleCount"])
def test_a_dry_run_has_no_device(dry, method):
    with refuses(method):
        getattr(dry, method)()


def test_a_dry_run_has_no_buffers_to_update():
    wrapper = poptorch.inferenceModel(net_on_meta(), quiet().updatableNamedBuffers(["scale"]))
    wrapper.compile(torch.ones(2, 4, device="meta"))
    with refuses("copyNamedBuffersToDevice"):
        wrapper.copyNamedBuffersToDevice()


def test_a_dry_run_has_no_anchors():
    made = quiet()
    made.anchorTensor("y", "linear.weight")
    wrapper = poptorch.inferenceModel(net_on_meta(), made)
    wrapper.compile(torch.ones(2, 4, device="meta"))
    with refuses("getAnchoredTensor"):
        wrapper.getAnchoredTensor("y")


def test_a_dry_run_is_not_saved(dry, tmp_path):
    with refuses("save"):
        dry.save(str(tmp_path / "net.poptorch"))
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_leaves_no_entry_in_the_cache(tmp_path):
    wrapper = poptorch.inferenceModel(net_on_meta(), quiet().enableExecutableCaching(str(tmp_path)))
    wrapper.compile(torch.ones(2, 4, device="meta"))
    assert list(tmp_path.iterdir()) == []


def test_a_program_of_a_file_does_not_run_with_weights_on_meta(tmp_path):
    path = str(tmp_path / "net.poptorch")
    poptorch.inferenceModel(Net().eval(), quiet()).compileAndExport(path, torch.ones(2, 4), export_model=False)
    wrapper = poptorch.inferenceModel(net_on_meta(), quiet())
    with pytest.raises(poptorch.Error, match="(?s)'(linear.weight|linear.bias|scale)' is on meta.*to_empty"):
        wrapper.loadExecutable(path)


def test_reports_of_a_dry_run_are_those_of_the_machine(tmp_path):
    made = quiet()
    made._Popart.set("engineOptions", {"autoReport.all": "true", "autoReport.directory": str(tmp_path)})
    wrapper = poptorch.inferenceModel(net_on_meta(), made)
    wrapper.compile(torch.ones(2, 4, device="meta"))
    files = {path.name for path in (tmp_path / "inference").iterdir()}
    assert "ir.txt" in files and not {"host_ir.txt", "program.txt"} & files


def test_an_integer_buffer_on_meta_is_a_variable_and_no_constant():
    class Places(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(8, 4)
            self.register_buffer("places", torch.arange(8))

        def forward(self, x):
            return x + self.table(self.places)

    forms = []
    for device in ("cpu", "meta"):
        with torch.device(device):
            net = Places().eval()
        wrapper = poptorch.inferenceModel(net, quiet())
        wrapper.compile(torch.ones(8, 4, device="meta"))
        forms.append(wrapper._executable.machine_text())
    with_values, on_meta = forms
    assert "variable @places: i32[8]" in on_meta and "@places" not in with_values


def test_a_number_out_of_a_buffer_on_meta_is_refused_at_its_line():
    class Long(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("length", torch.tensor(3))

        def forward(self, x):
            return x[: int(self.length)]

    with torch.device("meta"):
        net = Long().eval()
    wrapper = poptorch.inferenceModel(net, quiet())
    with pytest.raises(
        poptorch.Error, match="(?s)uses the buffer 'length' as a Python number.*is on meta.*CPU"
    ) as caught:
        wrapper.compile(torch.ones(4, 2, device="meta"))
    assert "test_dry_run.py:" in str(caught.value)


def test_a_training_wrapper_of_a_dry_run_gives_its_model_back():
    net = net_on_meta().train()
    trainer = poptorch.trainingModel(Loss(net), quiet(), torch.optim.SGD(net.parameters(), lr=0.1))
    trainer.compile(torch.ones(2, 4, device="meta"))
    trainer.setOptimizer(torch.optim.SGD(net.parameters(), lr=0.2))
    assert net.linear.weight.is_meta and net.state_dict()["linear.weight"].is_meta
    trainer.destroy()
    assert type(net.linear.weight) is torch.nn.Parameter and net.linear.weight.is_meta


class Loss(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return poptorch.identity_loss(self.net(x), "mean")


def test_an_input_given_twice_is_one_tensor_on_meta_too():
    def write(x, y):
        x += 1
        return x + y

    x = torch.ones(2, 4, device="meta")
    wrapper = poptorch.inferenceModel(write, quiet())
    wrapper.compile(x, x)
    same = wrapper._executable.machine_text()
    other = poptorch.inferenceModel(write, quiet())
    other.compile(x, torch.ones(2, 4, device="meta"))
    assert same != other._executable.machine_text()


SEVEN_BILLION = """
import resource
resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
import torch, poptorch

LAYERS, WIDTH, HEADS, SEQUENCE, VOCABULARY, ACCUMULATION = 32, 4096, 32, 2048, 32000, 80

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        attended = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.norms[1](x))))

class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Embedding(SEQUENCE, WIDTH)
        self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, words, following):
        x = self.words(words) + self.places(torch.arange(SEQUENCE, device=words.device))
        for i, layer in enumerate(self.layers):
            poptorch.Block.start(f"layer{i}", ipu_id=i)
            x = layer(x)
        return torch.nn.functional.cross_entropy(self.head(x).flatten(0, 1).float(), following.flatten())

with torch.device("meta"):
    model = Decoder().half()
assert sum(parameter.numel() for parameter in model.parameters()) > 6.5e9
options = poptorch.Options().showCompilationProgressBar(False)
options.Training.gradientAccumulation(ACCUMULATION)
trainer = poptorch.trainingModel(model, options, poptorch.optim.AdamW(model.parameters(), lr=1e-4))
words = torch.zeros(ACCUMULATION, SEQUENCE, dtype=torch.int32, device="meta")
trainer.compile(words, words)
assert trainer._executable.machine_text().count("= attention_gradient(") == LAYERS
"""


@pytest.mark.slow
def test_seven_billion_parameters_are_compiled_within_four_gibibytes():
    run = run_program(SEVEN_BILLION, environment={"POPTORCH_EMULATED_SYSTEM": "pod64"}, timeout=300)
    assert run.returncode == 0, run.stderr

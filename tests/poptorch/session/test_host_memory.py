"""Tensors without the memory that their shape needs, and of other layouts, at every way in and out: an error that names
them. Never a crash, never bytes of others."""

import pathlib
import re

import pytest
import torch
from odd_tensors import COMPLEX, LAYOUTS, PLACES, STORAGES
from torch import nn

import poptorch
from poptorch import poptorch_core

pytestmark = pytest.mark.shows("inferenceModel", "trainingModel", "CPU")

X = torch.ones(2, 3)
DENSE = {**STORAGES, **PLACES}
ALL = {**STORAGES, **PLACES, **LAYOUTS, **COMPLEX}


def _options():
    return poptorch.Options().showCompilationProgressBar(False)


class Layer(nn.Module):
    def __init__(self, w=None, kind="parameter"):
        super().__init__()
        w = torch.ones(2, 3) if w is None else w
        if kind == "parameter":
            self.w = nn.Parameter(w, requires_grad=w.is_floating_point())
        elif kind == "buffer":
            self.register_buffer("w", w)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        y = (x * self.w * self.scale).sum()
        return poptorch.identity_loss(y, "none") if self.training else y


def _wrapped(forward=None):
    return poptorch.inferenceModel(forward or (lambda x: x * 2), _options())


def _first(odd):
    _wrapped()(odd(X))


def _compiled(odd):
    _wrapped().compile(odd(X))


def _later(odd):
    wrapper = _wrapped()
    wrapper(X)
    wrapper(odd(X))


def _in_a_dict(odd):
    wrapper = _wrapped(lambda x: x["a"] * 2)
    wrapper({"a": X})
    wrapper({"a": odd(X)})


def _written_input(odd):
    wrapper = _wrapped(lambda x: x.mul_(2) + 1)
    wrapper(X.clone())
    wrapper(odd(X))


def _of_a_trainer(odd):
    trainer = poptorch.trainingModel(Layer(), _options())
    trainer(X)
    trainer(odd(X))


INPUTS = {f.__name__[1:]: f for f in (_first, _compiled, _later, _in_a_dict, _written_input, _of_a_trainer)}


# compile() with inputs on meta is a dry run (test_dry_run.py).
NAMES_AND_WAYS = [(name, way) for name in [*STORAGES, *PLACES, *LAYOUTS] for way in INPUTS]
NAMES_AND_WAYS.remove(("meta", "compiled"))


@pytest.mark.parametrize("name, way", NAMES_AND_WAYS)
def test_an_input_that_cannot_be_read_is_named(name, way):
    odd, text = ALL[name]
    with pytest.raises(poptorch.Error, match=text) as caught:
        INPUTS[way](odd)
    assert re.search(r"'x'", str(caught.value)) and "please" not in str(caught.value)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("kind", ["parameter", "buffer"])
@pytest.mark.parametrize("name", ALL)
def test_a_state_that_cannot_be_read_is_named_with_the_line_of_the_call(name, kind, training):
    odd, text = ALL[name]
    model = Layer(odd(torch.ones(2, 3)), kind).train(training)
    with pytest.raises(poptorch.Error, match=f"(?s){kind} 'w' .*({text})") as caught:
        (poptorch.trainingModel if training else poptorch.inferenceModel)(model, _options())(X)
    if not (name == "fake" and training):  # refused when it is wrapped
        assert "test_host_memory.py:" in str(caught.value)


def _upload(wrapper, model, w):
    model.w.data = w
    wrapper.copyWeightsToDevice()


def _upload_replaced(wrapper, model, w):
    model.w = nn.Parameter(w, requires_grad=False)
    wrapper.copyWeightsToDevice()


def _attach(wrapper, model, w):
    wrapper.detachFromDevice()
    model.w = nn.Parameter(w, requires_grad=False)
    wrapper(X)


@pytest.mark.parametrize("upload", [_upload, _upload_replaced, _attach])
@pytest.mark.parametrize("name", ALL)
def test_a_weight_that_cannot_be_read_any_more_is_not_uploaded(name, upload):
    odd, text = ALL[name]
    model = Layer()
    wrapper = poptorch.inferenceModel(model.eval(), _options())
    wrapper(X)
    w = odd(torch.full((2, 3), 5.0))
    if upload is _upload and name not in (*STORAGES, *COMPLEX, "fake"):
        with pytest.raises(RuntimeError, match="incompatible tensor type"):  # torch's own
            model.w.data = w
        return
    with pytest.raises(poptorch.Error, match=f"(?s)'w' .*({text})"):
        upload(wrapper, model, w)


@pytest.mark.parametrize("name", STORAGES)
def test_a_weight_without_memory_is_not_read_back(name):
    odd, text = ALL[name]
    model = Layer()
    trainer = poptorch.trainingModel(model, _options())
    trainer(X)
    torch.Tensor.data.__set__(model.w, odd(torch.ones(2, 3)))
    with pytest.raises(poptorch.Error, match=f"'w' .*{text}"):
        trainer.copyWeightsToHost()


def test_weights_that_replaced_others_go_to_the_device():
    model = Layer().eval()
    wrapper = poptorch.inferenceModel(model, _options())
    assert wrapper(X) == 6
    model.load_state_dict({"w": torch.full((2, 3), 5.0), "scale": torch.ones(1)}, assign=True)
    wrapper.copyWeightsToDevice()
    assert wrapper(X) == 30


def test_a_model_that_moved_to_meta_does_not_pass_for_uploaded():
    model = Layer().eval()
    wrapper = poptorch.inferenceModel(model, _options())
    wrapper(X)
    model.to("meta")
    with pytest.raises(poptorch.Error, match="(?s)'(w|scale)' is on meta.*to_empty"):
        wrapper.copyWeightsToDevice()


def test_weights_that_replaced_others_are_trained_on():
    model = Layer()
    trainer = poptorch.trainingModel(model, _options(), torch.optim.SGD(model.parameters(), lr=0.5))
    trainer(X)
    model.load_state_dict({"w": torch.full((2, 3), 5.0), "scale": torch.ones(1)}, assign=True)
    trainer.copyWeightsToDevice()
    trainer(X)
    torch.testing.assert_close(model.w.detach(), torch.full((2, 3), 4.5))
    trainer.destroy()


@pytest.mark.parametrize("name", STORAGES)
def test_a_constant_without_memory_is_refused_at_its_line(name):
    odd, text = ALL[name]
    constant = odd(torch.ones(2, 3))
    with pytest.raises(poptorch.Error, match=f"a tensor that forward\\(\\) uses .*{text}") as caught:
        _wrapped(lambda x: x * constant)(X)
    assert "test_host_memory.py:" in str(caught.value)


@pytest.mark.parametrize("name", ["sparse", "CSR", "quantised"])
def test_a_constant_of_another_layout_is_refused_at_its_line(name):
    odd, text = ALL[name]
    constant = odd(torch.ones(3, 3))
    with pytest.raises((poptorch.Error, RuntimeError)) as caught:
        _wrapped(lambda x: torch.mm(constant, x.t()))(X)
    assert isinstance(caught.value, poptorch.Error) and re.search(text, str(caught.value))


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, c: torch.mm(x, c),
        lambda x, c: x @ c,
        lambda x, c: torch.addmm(x, x, c),
        lambda x, c: torch.baddbmm(x[None], x[None], c[None])[0],
        lambda x, c: torch.nn.functional.linear(x, c),
        lambda x, c: torch.sparse.mm(c, x),
        lambda x, c: torch.nn.functional.conv2d(x[None, None], c[None, None])[0, 0],
    ],
    ids=["mm", "matmul", "addmm", "baddbmm", "linear", "sparse_mm", "conv2d"],
)
def test_a_meta_constant_beside_a_value_is_refused_at_its_line(compute):
    constant = torch.ones(3, 3, device="meta")
    with pytest.raises(poptorch.Error, match="an operand of .* is on meta: it has no values") as caught:
        _wrapped(lambda x: compute(x, constant))(torch.ones(3, 3))
    assert "test_host_memory.py:" in str(caught.value)


def test_a_meta_tensor_gives_its_shape():
    like = torch.ones(3, 2, device="meta")
    torch.testing.assert_close(_wrapped(lambda x: x.view_as(like) * 2)(X), X.view(3, 2) * 2)


@pytest.mark.parametrize("name", [*STORAGES, *PLACES, "sparse", "CSR", "mkldnn", "nested", "quantised"])
def test_an_output_that_cannot_be_read_is_refused(name):
    odd, text = ALL[name]
    constant = odd(torch.ones(2, 3))
    with pytest.raises(poptorch.Error, match=f"An output of forward .*({text})"):
        _wrapped(lambda x: (x * 2, constant))(X)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize("call", [1, 2, 3])
@pytest.mark.parametrize("name", STORAGES | {"meta": PLACES["meta"]})
def test_a_result_of_a_host_function_that_cannot_be_read_is_refused(name, call, dtype):
    odd, text = ALL[name]
    calls = []

    def function(x):
        calls.append(None)
        result = torch.ones(2, 3, dtype=dtype)
        return odd(result) if len(calls) == call else result

    wrapper = _wrapped(lambda x: poptorch.CPU(function, "f")(x) * 2)
    with pytest.raises(poptorch.Error, match=f"(?s)'f'.*({text})"):
        for _ in range(call):
            wrapper(X)


@pytest.mark.parametrize("name", STORAGES | {"meta": PLACES["meta"]})
def test_a_gradient_of_a_host_function_that_cannot_be_read_is_refused(name):
    odd, text = ALL[name]

    class Odd(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, gradient):
            return odd(torch.ones(2, 3))

    class Net(Layer):
        def forward(self, x):
            return poptorch.identity_loss(poptorch.CPU(Odd.apply, "f")(self.w * x).sum(), "none")

    with pytest.raises(poptorch.Error, match="'f' raised"):
        poptorch.trainingModel(Net(), _options())(X)


@pytest.mark.parametrize("name", [*STORAGES, *PLACES, "jagged"])
def test_a_model_with_a_weight_that_cannot_be_read_is_not_saved(name, tmp_path):
    jagged = lambda w: torch.nested.nested_tensor([w[0], w[1]], layout=torch.jagged)
    odd = jagged if name == "jagged" else ALL[name][0]
    model = Layer().eval()
    wrapper = poptorch.inferenceModel(model, _options())
    wrapper(X)
    model.w = nn.Parameter(odd(torch.ones(2, 3)))
    if name == "jagged":  # torch.save ends the process when such a tensor is the data of a plain parameter
        model.w = nn.Parameter(torch.ones(2, 3))
        model.w.data = odd(torch.ones(2, 3))
    with pytest.raises(poptorch.Error, match="'w'"):
        wrapper.save(tmp_path / "model.poptorch")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", STORAGES)
def test_optimizer_state_without_memory_is_not_loaded(name):
    odd, text = ALL[name]
    model = Layer()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    trainer = poptorch.trainingModel(model, _options(), optimizer)
    trainer(X)
    state = optimizer.state_dict()
    key = next(key for key, tensor in state["ipu_state"].items() if tensor.shape == (2, 3))
    state["ipu_state"][key] = odd(state["ipu_state"][key])
    with pytest.raises(poptorch.Error, match=f"optimizer state '{re.escape(key)}' .*{text}"):
        optimizer.load_state_dict(state)


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("fake", "mkldnn")])
def test_a_wrapped_model_tells_its_states_whatever_they_are(name):
    odd, _ = ALL[name]
    model = Layer(odd(torch.ones(2, 3)), "buffer")
    poptorch.trainingModel(model, _options())
    assert list(model.state_dict()) == ["w", "scale"] or set(model.state_dict()) == {"w", "scale"}


@pytest.mark.parametrize(
    "tensor", [torch.ones(0, 3), torch.ones(3).expand(2, 3), torch.ones(3, 2).t(), torch.ones(6)[1::2]]
)
def test_tensors_with_all_their_memory_are_read(tensor):
    assert poptorch_core.objection_to(tensor) == ""


def test_nothing_but_one_function_takes_the_address_of_a_tensor():
    root = pathlib.Path(poptorch.__file__).parent.parent
    sources = [*root.glob("csrc/**/*.cc"), *root.glob("csrc/**/*.h"), *root.glob("poptorch/**/*.py")]
    pattern = re.compile(r"(\.|->|::)(mutable_|const_)?data_ptr(<\w+>)?\(")
    found = {path.name for path in sources if pattern.search(path.read_text())}
    assert len(sources) > 100 and found == {"host_memory.cc"}

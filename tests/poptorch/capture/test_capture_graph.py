"""What capture makes of operators: the graph of small modules as text, constants, types, annotations."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch
from capture_harness import Function, capture, graph, kinds


def test_matmul_bias_relu_becomes_three_operations_with_parameters_as_inputs():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros(3, 4))
            self.b = nn.Parameter(torch.zeros(4))

        def forward(self, x):
            return torch.relu(x @ self.w + self.b)

    assert (
        graph(Layer(), torch.zeros(2, 3))
        == """\
graph @forward(%x0: f32[2,3], %w: f32[3,4], %b: f32[4]) -> f32[2,4] {
  %0 = matmul(%x0, %w) : f32[2,4]
  %1 = add(%0, %b) : f32[2,4]
  %2 = relu(%1) : f32[2,4]
  return %2
}"""
    )


def test_layers_stay_whole():
    assert kinds(nn.Linear(3, 4), torch.zeros(2, 5, 3)) == ["linear"]
    assert kinds(nn.Conv2d(3, 4, 3, padding=1), torch.zeros(2, 3, 8, 8)) == ["conv"]
    assert kinds(nn.Conv1d(3, 4, 3), torch.zeros(2, 3, 8)) == ["conv"]
    assert kinds(nn.MaxPool2d(2), torch.zeros(2, 3, 8, 8)) == ["max_pool"]
    assert kinds(nn.Embedding(5, 3), torch.zeros(2, dtype=torch.long)) == ["embedding"]
    assert kinds(nn.LogSoftmax(-1), torch.zeros(2, 3)) == ["log_softmax"]
    assert kinds(lambda x, y: F.cross_entropy(x, y), torch.zeros(2, 3), torch.zeros(2, dtype=torch.long)) == [
        "cross_entropy"
    ]


def test_numbers_keep_their_weak_type():
    assert (
        graph(lambda x: x * 2, torch.zeros(3, dtype=torch.float16))
        == """\
graph @forward(%x0: f16[3]) -> f16[3] {
  %0 = constant() {value=f16[] [2.0]} : f16[]
  %1 = mul(%x0, %0) : f16[3]
  return %1
}""".replace("f16[] [2.0]", graph_constant(torch.float16, 2))
    )
    captured = capture(lambda i: i * 2.5, torch.zeros(3, dtype=torch.int32))
    assert captured.outputs[0].dtype == torch.float32


def graph_constant(dtype, value):
    """How the text form writes a 0-d constant, taken from a graph that is nothing else."""
    text = graph(lambda x: x + torch.full((), value, dtype=dtype), torch.zeros((), dtype=dtype))
    return text.split("value=")[1].split("}")[0]


def test_wide_types_are_narrowed_at_the_edges_only():
    captured = capture(
        lambda i, d, b: (i + 1, d * 2, b * 2),
        torch.zeros(2, dtype=torch.int64),
        torch.zeros(2, dtype=torch.float64),
        torch.zeros(2, dtype=torch.bfloat16),
    )
    assert [spec.dtype for spec in captured.inputs] == [torch.int64, torch.float64, torch.bfloat16]
    assert [spec.dtype for spec in captured.outputs] == [torch.int32, torch.float32, torch.float32]
    assert captured.ir_text(False).startswith("graph @forward(%x0: i32[2], %x1: f32[2], %x2: f32[2])")


def test_cpu_tensors_are_constants_and_uniform_ones_are_expanded_scalars():
    table = torch.tensor([1.0, 2.0, 3.0])
    assert kinds(lambda x: x + table, torch.zeros(2, 3)) == ["constant", "add"]
    ones = torch.ones(100, 100)
    assert kinds(lambda x: x + ones, torch.zeros(100, 100)) == ["constant", "expand", "add"]


def test_a_cpu_tensor_changed_between_two_uses_gives_two_constants():
    table = torch.tensor([1.0, 2.0])

    def forward(x):
        y = x + table
        table.add_(1)
        return y * table

    assert kinds(forward, torch.zeros(2)) == ["constant", "add", "constant", "mul"]
    torch.testing.assert_close(table, torch.tensor([2.0, 3.0]))


@pytest.mark.edge("22.41")
def test_what_depends_on_no_input_is_evaluated_on_the_host():
    def forward(x):
        mask = torch.ones(4, 4, device="ipu").tril() * 3
        assert mask.sum().item() == 30
        if mask[0, 0] > 2:
            x = x * 1
        return x + mask

    assert kinds(forward, torch.zeros(4, 4)) == ["constant", "mul", "constant", "add"]


def test_constant_outputs_need_no_operation():
    captured = capture(lambda x: (torch.arange(3, device="ipu"), x), torch.zeros(2))
    assert captured.op_kinds() == []
    assert captured.outputs[0].constant.tolist() == [0, 1, 2] and captured.outputs[0].index is None
    assert captured.outputs[1].passthrough == 0


@pytest.mark.edge("22.49")
def test_one_value_returned_twice_is_one_output():
    captured = capture(lambda x: [y := x + 1, y], torch.zeros(2))
    assert [output.index for output in captured.outputs] == [0, 0]


def test_each_operation_carries_the_users_line_and_module_path():
    def forward(x):
        return x.exp()  # the line

    line = forward.__code__.co_firstlineno + 1
    captured = capture(forward, torch.zeros(2), during=lambda native: native.push_module("encoder.layer1"))
    text = captured.ir_text()
    assert f'test_capture_graph.py":{line}, "encoder.layer1")' in text and 'origin("aten", "exp")' in text


def test_blocks_are_set_not_pushed_and_are_listed_in_order():
    holder = []

    def forward(x):
        y = x + 1
        holder[0].set_block("b", 3)
        y = y * y
        holder[0].set_block("a")
        return y - y

    captured = capture(forward, torch.zeros(2), during=holder.append)
    assert captured.blocks() == [("b", "b", 3), ("a", "a", None)]
    lines = captured.ir_text(False).splitlines()
    assert 'block="b"' in next(line for line in lines if "mul(" in line)
    assert 'block="a"' in next(line for line in lines if "sub(" in line)
    assert "block" not in next(line for line in lines if "add(" in line)


def test_an_id_on_another_ipu_is_an_entry_of_its_own():
    holder = []

    def forward(x):
        for block, ipu in (("b", 0), ("b@2", 1), ("b", 2), ("b", -1), ("b", 0), ("b@2", -1)):
            holder[0].set_block(block, ipu)
            x = x + 1
        return x

    captured = capture(forward, torch.zeros(2), during=holder.append)
    assert captured.blocks() == [("b", "b", 0), ("b@2", "b@2", 1), ("b@2'", "b", 2)]
    keys = re.findall(r'add\(.*block="([^"]+)"', captured.ir_text(False))
    assert keys == ["b", "b@2", "b@2'", "b@2'", "b", "b@2"]


def test_an_entry_without_ipu_takes_the_one_that_is_named_later():
    holder = []

    def forward(x):
        for ipu in (-1, 1, -1):
            holder[0].set_block("b", ipu)
            x = x + 1
        return x

    captured = capture(forward, torch.zeros(2), during=holder.append)
    assert captured.blocks() == [("b", "b", 1)]


def test_no_grad_regions_and_detached_tensors_are_marked():
    def forward(x):
        with torch.no_grad():
            frozen = x.exp()
        return frozen + x.sin().detach() + x.cos().data

    lines = graph(forward, torch.zeros(2)).splitlines()
    assert "no_grad" in next(line for line in lines if "exp(" in line)
    assert "no_grad" not in next(line for line in lines if "sin(" in line)
    assert sum("detach(" in line for line in lines) == 2


def test_grad_mode_and_requires_grad_look_as_in_eager_mode():
    seen = {}

    def forward(module, x):
        h = x * module.w
        seen.update(
            enabled=torch.is_grad_enabled(),
            requires=h.requires_grad,
            leaf=h.is_leaf,
            detached=h.detach().requires_grad,
            integer=(h > 0).requires_grad,
        )
        h.register_hook(lambda g: g)
        return h

    capture(Function(forward, w=nn.Parameter(torch.ones(2))), torch.zeros(2))
    assert seen == {"enabled": True, "requires": True, "leaf": False, "detached": False, "integer": False}


def test_functions_of_the_poptorch_library_are_captured_and_work_on_the_cpu():
    x = torch.randn(2, 3)
    assert kinds(lambda t: torch.ops.poptorch.identity_loss(t, "mean"), x) == ["identity_loss"]
    assert kinds(lambda t: torch.ops.poptorch.nop(t), x) == ["nop"]
    torch.testing.assert_close(torch.ops.poptorch.identity_loss(x, "sum"), x.sum())
    torch.testing.assert_close(torch.ops.poptorch.nop(x), x)


def test_scripted_modules_are_captured_by_running_them():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 4)

        def forward(self, x):
            return self.linear(x).relu()

    assert kinds(torch.jit.trace(Layer(), torch.zeros(2, 3)), torch.zeros(2, 3)) == ["linear", "relu"]


def test_gradients_flow_through_custom_functions_as_around_them():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sinh()

        @staticmethod
        def backward(ctx, dy):
            return dy

    apply = Double.apply
    assert "no_grad" not in graph(lambda x: apply(x), torch.zeros(2))

    def without(x):
        with torch.no_grad():
            return apply(x)

    assert "no_grad" in graph(without, torch.zeros(2))


def test_dropout_is_off_in_evaluation():
    assert kinds(nn.Dropout(0.5).eval(), torch.zeros(2)) == []
    assert kinds(nn.Dropout(0.0), torch.zeros(2)) == []


def test_scripted_and_traced_modules_and_functional_calls_are_captured_inside_a_model():
    class Branch(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3, 3)

        def forward(self, x):
            if x.shape[0] > 2:
                return torch.relu(self.fc(x))
            return x

    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scripted = torch.jit.script(Branch())
            self.traced = torch.jit.trace(torch.nn.Linear(3, 3), torch.ones(4, 3))
            self.plain = torch.nn.Linear(3, 3)

        def forward(self, x):
            scaled = {name: tensor * 2 for name, tensor in self.plain.named_parameters()}
            return torch.func.functional_call(self.plain, scaled, self.traced(self.scripted(x)))

    model, x = Mixed(), torch.randn(4, 3)
    torch.testing.assert_close(poptorch.inferenceModel(model)(x), model(x).detach())


def test_parametrised_modules_train_like_torch():
    import copy

    class Model(torch.nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return poptorch.identity_loss(self.layer(x).square(), "mean")

    x = torch.randn(4, 3)
    top = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 3))
    torch.testing.assert_close(poptorch.inferenceModel(top)(x), top(x).detach())
    old = torch.nn.utils.weight_norm(torch.nn.Linear(3, 3))
    torch.testing.assert_close(poptorch.inferenceModel(old)(x), old(x).detach())
    model = Model(torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 3), dim=1))
    plain = copy.deepcopy(model)
    trainer = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=0.1))
    trainer(x)
    plain(x).backward()
    torch.optim.SGD(plain.parameters(), lr=0.1).step()
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], tensor)
    trainer.destroy()


def test_a_loss_of_detached_values_is_no_second_loss():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3, 3)

        def forward(self, x, y):
            out = self.fc(x)
            return torch.nn.functional.l1_loss(out, y), torch.nn.functional.mse_loss(out.detach(), y)

    x, y = torch.randn(4, 3), torch.randn(4, 3)
    trainer = poptorch.trainingModel(Model())
    loss, metric = trainer(x, y)
    assert loss != metric
    trainer.destroy()

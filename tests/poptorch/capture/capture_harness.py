"""Runs one capture without compiling it, for tests of what capture makes of a model."""

import torch

from poptorch import poptorch_core


class Function(torch.nn.Module):
    """A module from a function of (module, *inputs) and members."""

    def __init__(self, function, **members):
        super().__init__()
        self.function = function
        for name, member in members.items():
            setattr(self, name, member)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def capture(model, *inputs, training=False, during=None):
    """Captures `model(*inputs)` and returns `poptorch_core.Captured`.

    Args:
        model: a module, or a function of the inputs.
        during: called with the native capture before forward runs.
    """
    if not isinstance(model, torch.nn.Module):
        function = model
        model = Function(lambda module, *args: function(*args))
    native = poptorch_core.Capture(training)
    swapped = []
    native.begin()
    try:
        for named, is_parameter in ((model.named_parameters(), True), (model.named_buffers(), False)):
            for name, tensor in named:
                symbolic = native.add_state(name, tensor, is_parameter, is_parameter and tensor.requires_grad)
                torch._C._swap_tensor_impl(tensor, symbolic)
                swapped.append((tensor, symbolic))
        symbolic_inputs = [native.add_input(f"x{i}", tensor, tensor) for i, tensor in enumerate(inputs)]
        if during is not None:
            during(native)
        result = model(*symbolic_inputs)
        return native.finish(list(result) if isinstance(result, (tuple, list)) else [result])
    except BaseException:
        native.abort()
        raise
    finally:
        for tensor, symbolic in reversed(swapped):
            torch._C._swap_tensor_impl(tensor, symbolic)


def graph(model, *inputs, **options):
    """The captured graph as text, without user lines."""
    return capture(model, *inputs, **options).ir_text(False).strip()


def kinds(model, *inputs, **options):
    return capture(model, *inputs, **options).op_kinds()

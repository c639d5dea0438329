"""Ways in which `forward` writes a parameter or buffer: functions of the module and its input, and what becomes of each.

The module has `w`, the state in question, a trained parameter `v` of the same shape, and `alias`, a plain name of the memory of
`w`. A way without a text behaves as in torch; the text of another is part of its error.
"""

import torch
from torch import nn

REBOUND = "re-bound in forward"
SHARED = r"shared memory.*E109"
OTHER_TYPE = r"another shape.*E109"
UNSUPPORTED = "IPU-E101"
VALUE_NEEDED = "value needed.*E102"
OF_OPERATORS = {UNSUPPORTED, VALUE_NEEDED}  # errors that name the operator
EXCHANGED = "was exchanged in forward"

WAYS: dict[str, tuple] = {}


def way(error=None):
    def add(function):
        WAYS[function.__name__] = (function, error)
        return function

    return add


# --- .data = ...
@way()
def data_clamped(m, x):
    m.w.data = m.w.data.clamp(-10, 10)


@way()
def data_scaled(m, x):
    m.w.data = m.w.data * 0.5 + 1


@way()
def data_of_input(m, x):
    m.w.data = m.w.data * 0.9 + 0.1 * x.mean(0)


@way()
def data_of_another_without_gradient(m, x):
    with torch.no_grad():
        m.w.data = m.v * 2


@way()
def data_of_another_with_gradient(m, x):
    m.w.data = m.v * 2


@way()
def data_constant(m, x):
    m.w.data = torch.zeros(3)


@way()
def data_by_condition(m, x):
    m.w.data = torch.where(m.w.data > 1, m.w.data, -m.w.data)


@way()
def data_exchanged(m, x):
    m.w.data, m.v.data = m.v.data, m.w.data


@way()
def data_then_write_of_the_new_memory(m, x):
    new = m.w.data * 2
    m.w.data = new
    new.add_(1)


@way()
def data_then_write_of_the_old_memory(m, x):
    old = m.w.data
    m.w.data = m.w.data * 2
    old.add_(1)


@way()
def data_there_and_back(m, x):
    old = m.w.data
    m.w.data = old * 2
    m.w.data = old


@way()
def data_then_in_place(m, x):
    m.w.data = m.w.data * 2
    with torch.no_grad():
        m.w.add_(1)


@way()
def data_through_a_view(m, x):
    m.w.data = (m.w.data * 2).view(3, 1).squeeze(1)


@way()
def data_of_another_shape_for_a_while(m, x):
    m.w.data = m.w.data.view(3, 1) * 2
    m.w.data = m.w.data.view(3)


@way(SHARED)
def data_of_another_state(m, x):
    m.w.data = m.v.data


@way(OTHER_TYPE)
def data_of_another_shape(m, x):
    m.w.data = m.w.data[:2].sum().reshape(1)


@way(OTHER_TYPE)
def data_of_another_type(m, x):
    m.w.data = m.w.data.half()


@way("data of another device.*E103")
def data_of_the_cpu(m, x):
    m.w.data = m.table


# --- in place
@way()
def data_copy(m, x):
    m.w.data.copy_(m.w.data * 0.5)


@way()
def data_multiplied(m, x):
    m.w.data.mul_(0.5)


@way()
def data_element(m, x):
    m.w.data[0] = 5


@way()
def data_slice(m, x):
    m.w.data[1:].mul_(2)


@way()
def detached_copy(m, x):
    m.w.detach().copy_(m.v)


@way()
def copy_without_gradient(m, x):
    with torch.no_grad():
        m.w.copy_(m.v * 2)


@way()
def mask(m, x):
    with torch.no_grad():
        m.w[m.w > 1] = 0


@way()
def out_argument(m, x):
    with torch.no_grad():
        torch.add(m.w, m.v, out=m.w)


@way()
def lerp(m, x):
    with torch.no_grad():
        m.w.lerp_(m.v, 0.25)


@way()
def initialiser(m, x):
    nn.init.constant_(m.w, 0.5)


@way()
def index_copy(m, x):
    with torch.no_grad():
        m.w.index_copy_(0, torch.tensor([0, 2]), m.v[:2] * 2)


@way()
def scatter(m, x):
    with torch.no_grad():
        m.w.scatter_(0, torch.tensor([0, 2]), 4.0)


@way()
def masked_fill(m, x):
    m.w.data.masked_fill_(m.w.data > 1, 0.5)


@way()
def view(m, x):
    m.w.data.view(3, 1)[0].add_(1)


@way()
def another_name_of_the_memory(m, x):
    m.alias.mul_(0.5)


@way()
def dimensions_there_and_back(m, x):
    with torch.no_grad():
        m.w.unsqueeze_(0)
        m.w.squeeze_(0)


@way(OTHER_TYPE)
def dimensions(m, x):
    with torch.no_grad():
        m.w.unsqueeze_(0)


# --- of whole modules
@way()
def vector_to_parameters(m, x):
    states = [m.w, m.v]
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(states) * 0.5, states)


@way()
def load_state_dict(m, x):
    m.load_state_dict({"w": m.w.detach() * 2, "v": m.v.detach()})


@way(REBOUND)
def load_state_dict_by_assignment(m, x):
    m.load_state_dict({"w": m.w.detach() * 2, "v": m.v.detach()}, assign=True)


@way(f"{REBOUND}|{OTHER_TYPE}")
def module_of_another_type(m, x):
    m.half()


# --- the object
@way(REBOUND)
def rebound(m, x):
    m.w = nn.Parameter(m.w.detach() * 2) if isinstance(m.w, nn.Parameter) else m.w * 2


@way(EXCHANGED)
def swap_tensors(m, x):
    torch.utils.swap_tensors(m.w, m.w.detach() * 2)


@way(EXCHANGED)
def swap_states(m, x):
    torch.utils.swap_tensors(m.w, m.v)


@way(UNSUPPORTED)
def set_to_a_tensor(m, x):
    with torch.no_grad():
        m.w.set_(m.w * 2)


@way(VALUE_NEEDED)
def set_to_a_storage(m, x):
    new = (m.w * 2).detach()
    with torch.no_grad():
        m.w.set_(new.untyped_storage(), 0, (3,), (1,))


# Ways whose error cannot name the line: nothing of torch sees them.
@way(REBOUND)
def entry_of_the_table(m, x):
    table = m._parameters if "w" in m._parameters else m._buffers
    table["w"] = nn.Parameter(m.w.detach() * 2) if isinstance(m.w, nn.Parameter) else m.w * 2


@way("removed in forward")
def removed(m, x):
    y = m.w
    del m.w
    m.__dict__["w"] = y


WITHOUT_LINE = {"entry_of_the_table", "module_of_another_type", "removed", "swap_tensors", "swap_states"}


class Written(nn.Module):
    """`kind`: "trained", "frozen" (a parameter without gradient) or "buffer"."""

    def __init__(self, kind, write):
        super().__init__()
        w = torch.tensor([1.0, 2.0, 3.0])
        if kind == "buffer":
            self.register_buffer("w", w)
        else:
            self.w = nn.Parameter(w, requires_grad=kind == "trained")
        self.v = nn.Parameter(torch.tensor([0.5, -1.5, 4.0]))
        self.alias = self.w.data
        self.table = torch.tensor([7.0, 8.0, 9.0])
        self.write = write

    def forward(self, x):
        self.write(self, x)
        return (x * self.w * self.w).sum() + (self.v * x).sum()

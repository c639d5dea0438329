"""Tensors whose elements do not lie where their shape says, made of a dense tensor of shape [2, 3]."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode


def _shrunk(tensor):
    tensor = tensor.clone()
    tensor.untyped_storage().resize_(4)
    return tensor


def _freed(tensor):
    tensor = tensor.clone()
    tensor.untyped_storage().resize_(0)
    return tensor


def _shrunk_view(tensor):
    view = tensor.repeat(1, 2)[:, ::2]
    view.untyped_storage().resize_(8)
    return view


def _set_beyond(tensor):
    """Begins at the last element of its storage."""
    long = tensor.repeat(2, 1)
    view = long[2:]
    long.untyped_storage().resize_(long.element_size() * (view.storage_offset() + 1))
    return view


def _fake(tensor):
    with FakeTensorMode() as mode:
        return mode.from_tensor(tensor)


# By name: how it is made, and what an error says of it.
STORAGES = {
    "shrunk": (_shrunk, "its storage has 4 bytes"),
    "freed": (_freed, "its storage has 0 bytes"),
    "shrunk view": (_shrunk_view, "its storage has 8 bytes"),
    "beyond its storage": (_set_beyond, "from element 6 on"),
}
PLACES = {
    "meta": (lambda tensor: tensor.to("meta"), "on meta|on 'meta'"),
    "fake": (_fake, "has no values"),
}
LAYOUTS = {
    "sparse": (lambda tensor: tensor.to_sparse(), "is a sparse tensor"),
    "CSR": (lambda tensor: tensor.to_sparse_csr(), "is a sparse tensor"),
    "mkldnn": (lambda tensor: tensor.to_mkldnn(), "layout of mkldnn"),
    "nested": (lambda tensor: torch.nested.nested_tensor([tensor[0], tensor[1]]), "is a nested tensor"),
    "quantised": (lambda tensor: torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8), "is quantised"),
}
COMPLEX = {"complex": (lambda tensor: tensor.to(torch.complex64), "ComplexFloat|complex inputs")}

"""PyTorch's own samples of its operators (torch.testing._internal): which operators there are, and calls of each.

A call is `operator(input, *args, **kwargs)`. Its tensors can be taken out and put back: in a trial they are inputs of a model.
"""

import random
import sys
import types
import unittest
import warnings
from dataclasses import dataclass
from unittest import mock

import numpy
import torch
from torch.utils import _pytree as pytree

from outcomes import MOST_SAMPLES

# torch's test helpers import it for a base class of test cases, which nothing here uses.
if "expecttest" not in sys.modules:
    try:
        import expecttest  # noqa: F401
    except ImportError:
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=False)

from torch.testing._internal import common_utils  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.opinfo import core  # noqa: E402

# For each sample torch looks for the test case that asks for it, through all files on the stack: two thirds of the time.
# Nobody here is a test case.
common_utils.extract_test_fn = core.extract_test_fn = lambda: None

# Tensors that must be known when the model is compiled, by operator: the place of an argument or its name.
CONSTANTS = {
    "linspace": (0, 1),
    "logspace": (0, 1),
    "narrow": (2,),
    "tensor_split": (1, "tensor_indices_or_sections"),
    "nn.functional.embedding_bag": ("offsets",),
}

# Just-in-time compiled CUDA functions, sparse tensors, and products of types that the CPU does not have.
NOT_FOR_A_DEVICE = ("jiterator", "sparse.", "to_sparse", "torch._scaled_mm")

CPU = ("cpu", torch.device("cpu"))
DTYPES = (torch.float32, torch.int64, torch.bool, torch.float16)


def full_name(operator):
    """`div.floor_rounding`: the name in op_db, with the name of the variant."""
    variant = operator.variant_test_name.strip("_").replace(" ", "_")
    return f"{operator.name}.{variant}" if variant else operator.name


def operators():
    """Operators by full name, sorted."""
    named = {}
    for operator in op_db:
        if not operator.name.startswith(NOT_FOR_A_DEVICE):
            named.setdefault(full_name(operator), operator)
    return dict(sorted(named.items()))


def seed_cpu(number):
    """torch.manual_seed without what it notes, with a stack of the call as text, for each kind of device that is not there."""
    return torch.default_generator.manual_seed(number)


def seed():
    seed_cpu(0)
    random.seed(0)
    numpy.random.seed(0)


def is_tensor(value):
    return isinstance(value, torch.Tensor)


def tensors_in(value):
    return [leaf for leaf in pytree.tree_leaves(value) if is_tensor(leaf)]


@dataclass
class Call:
    """One call of a function: `function(*arguments[0], **arguments[1])`."""

    function: object
    arguments: tuple
    finish: object = None  # what of the results has a gradient (SampleInput.output_process_fn_grad)
    constants: tuple = ()

    @classmethod
    def of(cls, operator, sample):
        arguments = ((sample.input, *sample.args), dict(sample.kwargs))
        return cls(operator.op, arguments, sample.output_process_fn_grad, CONSTANTS.get(operator.name, ()))

    def tensors(self):
        return tensors_in(self.arguments)

    def is_constant(self):
        """Says of each tensor whether it must be known when the model is compiled."""
        positional, keywords = self.arguments
        named = [*enumerate(positional), *keywords.items()]
        return [name in self.constants for name, value in named for _ in tensors_in(value)]

    def run(self, tensors, device="cpu", function=None, **more):
        """The results of the call on other tensors; `device="ipu"` where the call names the CPU."""
        tensors = iter(tensors)
        leaves, structure = pytree.tree_flatten(self.arguments)
        leaves = [next(tensors) if is_tensor(v) else device if isinstance(v, (str, torch.device)) and v in CPU else v for v in leaves]
        positional, keywords = pytree.tree_unflatten(leaves, structure)
        return (function or self.function)(*positional, **keywords, **more)


def calls(operator, dtype, requires_grad=False):
    """The calls torch has for this operator and element type."""
    seed()
    # torch seeds for each sample.
    with warnings.catch_warnings(), mock.patch("torch.manual_seed", seed_cpu):
        warnings.simplefilter("ignore")
        samples = list(operator.sample_inputs("cpu", dtype, requires_grad=requires_grad))
    step = -(-len(samples) // MOST_SAMPLES)
    return [Call.of(operator, sample) for sample in samples[:: max(1, step)]]

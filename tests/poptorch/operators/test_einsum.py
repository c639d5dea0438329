"""einsum of every kind of equation and of integers, which matrix products do not take, equals torch's."""

import pytest
import torch
from models import Call

import poptorch

EQUATIONS = {
    "ij,jk->ik": [(2, 3), (3, 4)],
    "bij,bjk->bik": [(2, 3, 4), (2, 4, 3)],
    "ij,kj->": [(2, 3), (4, 3)],
    "i,j->ij": [(2,), (3,)],
    "i,i": [(3,), (3,)],
    "ii->i": [(3, 3)],
    "...ij,...jk->...ik": [(2, 1, 2, 3), (4, 3, 2)],
    "ij,jk,kl->il": [(2, 3), (3, 2), (2, 4)],
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.float32])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum_equals_torch(equation, dtype):
    generator = torch.Generator().manual_seed(len(equation))
    operands = [torch.randint(-9, 9, shape, generator=generator).to(dtype) for shape in EQUATIONS[equation]]
    module = Call(lambda *tensors: torch.einsum(equation, *tensors))
    model = poptorch.inferenceModel(module)
    got = model(*operands)
    model.destroy()
    expected = module(*operands)
    torch.testing.assert_close(
        got, expected.int() if expected.dtype == torch.int64 else expected
    )  # the IPU has 32-bit integers

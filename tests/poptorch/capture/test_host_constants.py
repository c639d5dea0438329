"""Tensors that `forward` makes of numbers, reads, writes through views, and reads again."""

import pytest
import torch

import poptorch


def run(forward, *inputs):
    class Model(torch.nn.Module):
        def forward(self, *given):
            return forward(*given)

    expected = forward(*(x.clone() for x in inputs))
    assert torch.equal(poptorch.inferenceModel(Model())(*inputs), expected)


def written(write, **arguments):
    def forward(x):
        constant = torch.zeros(4, **arguments)
        before = x + constant
        write(constant)
        return before + constant * 2

    return forward


WRITES = {
    "element": lambda c: c.__setitem__(0, 5.0),
    "selection": lambda c: c.select(0, 1).fill_(2),
    "reshaped": lambda c: c.view(2, 2).add_(1),
    "slice": lambda c: c[1:3].mul_(0).add_(3),
    "view of a view": lambda c: c.view(2, 2)[1][0:1].fill_(7),
    "split": lambda c: torch.split(c, 2)[1].fill_(4),
    "whole": lambda c: c.add_(1),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("arguments", [{}, {"device": "cpu"}])
def test_a_write_through_a_view_is_seen_by_later_reads(name, arguments):
    run(written(WRITES[name], **arguments), torch.ones(4))


def test_a_view_sees_a_write_of_its_base():
    def forward(x):
        constant = torch.zeros(4)
        view = constant[1:3]
        before = x[1:3] + view
        constant.add_(2)
        return before + view

    run(forward, torch.ones(4))


def test_masks_that_grow_in_a_loop():
    def forward(x):
        position, rows = torch.zeros(4), []
        for i in range(3):
            position[i] = 1.0
            rows.append(x + position)
        return torch.stack(rows)

    run(forward, torch.ones(4))

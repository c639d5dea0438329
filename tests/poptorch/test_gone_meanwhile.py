"""What a call meets that was changed since: a stage in two strategies, a parameter that was replaced, a removed parser."""

import pytest
import torch

import poptorch


def test_a_stage_in_two_strategies_has_its_place_in_each():
    a, b = poptorch.Stage("a").ipu(0), poptorch.Stage("b").ipu(1)
    first = poptorch.PipelinedExecution(a, b)
    second = poptorch.PipelinedExecution(b, a)
    blocks = [("a", None), ("b", None)]
    assert first._place(blocks) == {"": (0, 0), "a": (0, 0), "b": (1, 1)}
    assert second._place(blocks) == {"": (0, 0), "a": (1, 0), "b": (0, 1)}


def test_grouping_of_a_parameter_that_was_replaced_is_an_error():
    model = torch.nn.Linear(2, 2)
    predict = poptorch.inferenceModel(model)
    grouping = predict.weight.replicaGrouping
    model.weight = torch.nn.Parameter(torch.ones(2, 2))
    with pytest.raises(poptorch.Error, match="replicaGrouping of 'weight': its parameter is gone"):
        grouping(poptorch.CommGroupType.All, 0, poptorch.VariableRetrievalMode.OnePerGroup)


class Box:
    def __init__(self, content):
        self.content = content


class BoxParser(poptorch.ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.content

    def reconstruct(self, original_structure, tensor_iterator):
        return Box(next(tensor_iterator))


def test_a_parser_that_was_removed_after_the_first_call_is_an_error():
    poptorch.registerCustomArgParser(Box, BoxParser())
    try:
        double = poptorch.inferenceModel(lambda box: box.content * 2)
        assert double(Box(torch.ones(2))).tolist() == [2, 2]
    finally:
        poptorch.registerCustomArgParser(Box, None)
    with pytest.raises(poptorch.Error, match="Length mismatch for box: expected 1 tensors, got 0"):
        double(Box(torch.ones(2)))

"""The device "ipu" outside a capture: tensors are host buffers that can be made, moved, copied, printed, saved."""

import copy
import io
import pickle

import pytest
import torch

import poptorch


def test_tensors_travel_to_the_device_and_back():
    x = torch.randn(2, 3)
    t = x.to("ipu")
    assert t.device == torch.device("ipu:0") and t.shape == (2, 3) and t.dtype == torch.float32
    assert torch.equal(t.cpu(), x) and torch.equal(x.ipu().to("cpu", torch.float64), x.double())
    x.zero_()
    assert t.cpu().abs().sum() > 0  # a copy


def test_factories_make_known_values():
    assert torch.zeros(2, device="ipu").tolist() == [0, 0]
    assert torch.tensor([1, 2], device="ipu").cpu().tolist() == [1, 2]
    assert torch.full((2,), 3.0, device="ipu").cpu().tolist() == [3, 3]
    assert torch.zeros(3, device="ipu").new_ones(2).tolist() == [1, 1]
    with torch.device("ipu"):
        layer = torch.nn.Linear(3, 4)
    assert layer.weight.device.type == "ipu" and layer.weight.cpu().abs().sum() > 0
    assert torch.ones(3, device="ipu").sum  # attributes resolve


def test_views_and_copies_share_memory_as_in_torch():
    t = torch.zeros(2, 3, device="ipu")
    t[0].fill_(1)
    t[:, 1] = torch.tensor([5.0, 6.0])
    assert t.tolist() == [[1, 5, 1], [0, 6, 0]]
    t.copy_(torch.ones(2, 3))
    assert t.cpu().sum() == 6


def test_pickle_deepcopy_and_torch_save_round_trip():
    t = torch.randn(3).to("ipu")
    for other in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        assert other.device.type == "ipu" and torch.equal(other.cpu(), t.cpu())
    buffer = io.BytesIO()
    torch.save({"w": torch.arange(6.0).reshape(2, 3).t()}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, map_location="ipu")["w"]
    assert loaded.device.type == "ipu" and torch.equal(loaded.cpu(), torch.arange(6.0).reshape(2, 3).t())
    loaded.copy_(torch.zeros(3, 2))
    assert loaded.cpu().sum() == 0


def test_modules_move_and_state_dicts_load():
    layer = torch.nn.Linear(3, 4)
    moved = copy.deepcopy(layer).to("ipu")
    assert moved.weight.device.type == "ipu"
    torch.nn.Linear(3, 4).load_state_dict(moved.state_dict())
    moved.load_state_dict(layer.state_dict())
    assert torch.equal(moved.to("cpu").weight, layer.weight)


def test_computing_outside_a_model_names_the_legal_ways():
    t = torch.zeros(2, device="ipu")
    with pytest.raises(poptorch.Error) as caught:
        t + 1
    assert caught.value.message == (
        "operation outside a model [IPU-E109]: aten::add.Tensor cannot run on an ipu tensor here; outside forward() of a "
        "wrapped model ipu tensors are only made, moved, copied, printed and saved.\n"
        "  try:      wrap the model with poptorch.inferenceModel or poptorch.trainingModel and call that, or move the tensor "
        "with .cpu() first"
    )


@pytest.mark.shows("getIpuTensorId")
def test_tensor_ids_tell_memory_views_apart():
    t = torch.zeros(2, device="ipu")
    assert poptorch.getIpuTensorId(t) == poptorch.getIpuTensorId(t.detach())
    assert poptorch.getIpuTensorId(t) != poptorch.getIpuTensorId(t.clone())
    with pytest.raises(poptorch.Error, match="Expected an IPU tensor"):
        poptorch.getIpuTensorId(torch.zeros(2))


@pytest.mark.shows("poptorch_core.isCompilingWithDispatcher")
def test_a_capture_is_in_progress_in_forward_only():
    seen = []

    def forward(x):
        seen.append(poptorch.poptorch_core.isCompilingWithDispatcher())
        return x + 1

    forward(torch.ones(2))
    poptorch.inferenceModel(forward)(torch.ones(2))
    assert seen == [False, True] and poptorch.poptorch_core.isCompilingWithDispatcher() is False


def test_the_device_is_known_to_torch():
    assert torch.ipu.is_available() and torch.ipu.device_count() >= 1
    assert torch.device("ipu").type == "ipu"
    assert torch.zeros(2, device="ipu").is_ipu

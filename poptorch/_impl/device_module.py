"""The module `torch.ipu` and the rename of torch's private device to "ipu".

Done by `import poptorch` only, before any tensor is made: installing the package changes nothing for other programs.
"""

import types

import torch


def _make_module():
    module = types.ModuleType("torch.ipu")

    class device:
        """Context manager that does nothing: a process sees one ipu device."""

        def __init__(self, index=0):
            self.index = index

        def __enter__(self):
            return self

        def __exit__(self, *unused):
            return False

    vars(module).update(
        device=device,
        is_available=lambda: True,
        is_initialized=lambda: True,
        _is_in_bad_fork=lambda: False,
        device_count=lambda: 1,
        current_device=lambda: 0,
        set_device=lambda index: None,
        synchronize=lambda index=None: None,
        manual_seed=lambda seed: None,
        manual_seed_all=lambda seed: None,
        get_rng_state=lambda device="ipu": torch.get_rng_state(),
        set_rng_state=lambda state, device="ipu": None,
        get_amp_supported_dtype=lambda: [torch.float16],
        __doc__="Device module of the emulated IPUs: one device, index 0.",
    )
    return module


def _index(device):
    if device is None:
        return 0
    if isinstance(device, int):
        return device
    return torch.device(device).index or 0


def install():
    """Renames the device, registers `torch.ipu`, adds `Tensor.ipu()` and `Tensor.is_ipu`. Called once."""
    if torch._C._get_privateuse1_backend_name() != "ipu":
        torch.utils.rename_privateuse1_backend("ipu")
    if not hasattr(torch, "ipu"):
        torch._register_device_module("ipu", _make_module())

    def to_ipu(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
        """This tensor on the ipu device."""
        return self.to(torch.device("ipu", _index(device)), non_blocking=non_blocking, memory_format=memory_format)

    setattr(torch.Tensor, "ipu", to_ipu)
    setattr(torch.Tensor, "is_ipu", property(lambda tensor: tensor.device.type == "ipu"))

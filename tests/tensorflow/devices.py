"""A core that only notes which devices it is given, for tests of what configurations ask for."""

import types

import pytest


class Recorder:
    """`devices`: what was set last; `calls`: how many times; `attached`: how many times they were attached; `seeds`: (seed, device) of
    each call."""

    def __init__(self, ipus):
        self.ipus, self.devices, self.calls, self.attached, self.seeds = ipus, None, 0, 0, []

    def set_devices(self, devices):
        self.devices, self.calls = devices, self.calls + 1

    def attach(self):
        self.attached += 1
        if sum(device["ipus"] for device in self.devices) > self.ipus:
            raise RuntimeError("18 IPUs are not free")

    def native(self):
        return types.SimpleNamespace(
            system_ipus=lambda: self.ipus,
            configure_devices=self.set_devices,
            attach_devices=self.attach,
            Error=RuntimeError,
            seed_devices=lambda seed, device: self.seeds.append((seed, device)),
        )


@pytest.fixture
def recorder(monkeypatch):
    """Of a machine of 16 IPUs; nothing is configured before and after."""
    from ipu_tensorflow import core, system

    found = Recorder(16)
    monkeypatch.setattr(core, "native", found.native)
    monkeypatch.setattr(system, "_active", None)
    return found


@pytest.fixture
def configured():
    """Configures devices of so many IPUs each; nothing is configured afterwards."""
    from ipu_tensorflow import config, system

    def configure(*ipus):
        wanted = config.IPUConfig()
        wanted.auto_select_ipus = list(ipus)
        wanted.configure_ipu_system()

    yield configure
    system.reset_ipu_configuration()

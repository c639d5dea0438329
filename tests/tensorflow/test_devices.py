"""Chapters 6.2 and 19: what is configured, which IPUs that is, and what a program is told of it."""

import logging

import pytest

import tensorflow as tf
from tensorflow.python import ipu
from ipu_tensorflow import device_ids, system

ON_DEMAND = ipu.config.DeviceConnectionType.ON_DEMAND
# Ids of a machine of 16 IPUs behind those of single ones.
PUBLISHED = """16: 5 7 | 17: 4 6 | 18: 3 1 | 19: 2 0 | 20: 13 15 | 21: 12 14 | 22: 9 11 | 23: 10 8 | 24: 5 7 4 6 | 25: 3 1 2 0
26: 13 15 12 14 | 27: 9 11 10 8 | 28: 5 7 4 6 3 1 2 0 | 29: 13 15 12 14 9 11 10 8
30: 5 7 4 6 3 1 2 0 13 15 12 14 9 11 10 8"""


def config_of(**attributes):
    config = ipu.config.IPUConfig()
    for name, value in attributes.items():
        setattr(config, name, value)
    return config


def test_the_ids_of_sixteen_ipus_are_those_published():
    rows = [row.split(": ") for row in PUBLISHED.replace("\n", " | ").split(" | ")]
    groups = device_ids.groups(16)
    assert groups[:16] == [(ipu,) for ipu in range(16)] and len(groups) == 31
    assert groups[16:] == [tuple(map(int, ipus.split())) for _, ipus in rows] and [int(id) for id, _ in rows] == list(
        range(16, 31)
    )


@pytest.mark.parametrize("ipus", [1, 2, 4, 8, 16, 32, 64])
def test_groups_of_each_machine_are_aligned_and_known_to_the_core_by_one_id_each(ipus):
    groups = device_ids.groups(ipus)
    assert len(groups) == 2 * ipus - 1 and sorted(groups[-1]) == list(range(ipus))
    assert sorted(device_ids.pool_id(group, ipus) for group in groups) == list(range(2 * ipus - 1))
    for group in groups:  # what the core takes for the IPUs of a group are the ids of these IPUs
        size, id, width = len(group), device_ids.pool_id(group, ipus), 1
        while width < size:
            id -= ipus // width
            width *= 2
        assert sorted(device_ids.pool_id((one,), ipus) for one in group) == list(range(id * size, (id + 1) * size))


def test_nothing_configured_is_one_device_of_one_ipu(recorder):
    assert system.devices_of(system.active_config()) == [
        {
            "ipus": 1,
            "ipu_id": -1,
            "ipu_model": False,
            "wait_for_ipu": False,
            "wait_seconds": -1.0,
            "compiles_only": False,
            "stochastic_rounding": False,
            "check_floating_point": False,
        }
    ]
    with pytest.raises(RuntimeError, match="no IPUs are configured: call configure_ipu_system"):
        ipu.utils.get_ipu_config()
    ipu.config.reset_ipu_configuration()
    assert recorder.calls == 0


@pytest.mark.shows("ipu.config.IPUConfig.configure_ipu_system", "ipu.config.IPUConfig.auto_select_ipus")
@pytest.mark.shows("ipu.config.configure_ipu_system", "ipu.config.get_ipu_config", "ipu.config.reset_ipu_configuration")
def test_a_configuration_is_copied_and_given_to_the_core(recorder):
    config = config_of(auto_select_ipus=[2, 1])
    config.configure_ipu_system()
    assert [device["ipus"] for device in recorder.devices] == [2, 1]
    config.auto_select_ipus = 4
    options = ipu.utils.get_ipu_config()
    assert len(options) == 2 and options[0].config.auto_select_ipus == [2, 1] == options[1].config.auto_select_ipus
    options[0].config.auto_select_ipus = 8
    assert ipu.config.get_ipu_config()[0].config.auto_select_ipus == [2, 1]
    ipu.config.reset_ipu_configuration()
    assert recorder.devices == [] and recorder.calls == 2
    with pytest.raises(RuntimeError):
        ipu.config.get_ipu_config()


def test_options_of_the_older_functions_configure_too(recorder):
    utils = ipu.utils
    utils.configure_ipu_system(utils.auto_select_ipus(utils.create_ipu_config(), 2))
    assert [device["ipus"] for device in recorder.devices] == [2]
    with pytest.raises(
        TypeError, match="config must be an IPUConfig or what create_ipu_config\\(\\) returns, and is dict"
    ):
        utils.configure_ipu_system({})


def test_an_equal_configuration_is_left_alone_and_another_one_replaces_it(recorder, caplog):
    ipu.config.configure_ipu_system(config_of(auto_select_ipus=1))
    ipu.config.configure_ipu_system(config_of(auto_select_ipus=1))
    assert recorder.calls == 1 and not caplog.records
    with pytest.raises(tf.errors.FailedPreconditionError, match="another configuration is active"):
        ipu.config.configure_ipu_system(config_of(auto_select_ipus=2), reset_configuration=False)
    assert [device["ipus"] for device in recorder.devices] == [1]
    with caplog.at_level(logging.WARNING, "tensorflow"):
        ipu.config.configure_ipu_system(config_of(auto_select_ipus=2))
    assert "Another configuration of the IPUs is active" in caplog.text and [d["ipus"] for d in recorder.devices] == [2]


def test_ipus_are_attached_when_they_are_configured_unless_the_first_run_shall_do_it(recorder):
    with pytest.raises(
        Exception, match="could not attach: 18 IPUs are not free. Free IPUs, or set device_connection.type to ON_DEMAND"
    ):
        config_of(auto_select_ipus=[16, 2]).configure_ipu_system()
    assert recorder.devices == [] and recorder.attached == 1
    with pytest.raises(RuntimeError, match="no IPUs are configured"):
        ipu.config.get_ipu_config()
    for kind in (ON_DEMAND, ipu.config.DeviceConnectionType.NEVER):
        config = config_of(auto_select_ipus=[16, 2])
        config.device_connection.type, config.device_connection.version = kind, "ipu2"
        config.configure_ipu_system()
    assert recorder.attached == 1 and all(device["compiles_only"] for device in recorder.devices)


@pytest.mark.shows("ipu.config.IPUConfig.select_ipus")
def test_ids_become_groups_of_ipus(recorder):
    config_of(select_ipus=[16, 28 - 3, 4]).configure_ipu_system()
    assert [(device["ipus"], device["ipu_id"]) for device in recorder.devices] == [(2, 19), (4, 24), (1, 4)]
    config_of(select_ipus=3).configure_ipu_system()
    assert [(device["ipus"], device["ipu_id"]) for device in recorder.devices] == [(1, 3)]


def test_ids_that_are_not_there_or_overlap_are_refused(recorder):
    with pytest.raises(tf.errors.InvalidArgumentError, match="has the id 31: a machine of 16 IPUs has ids 0 to 30"):
        config_of(select_ipus=31).configure_ipu_system()
    with pytest.raises(tf.errors.InvalidArgumentError, match="the ids 5 and 24 share IPU 5"):
        config_of(select_ipus=[5, 24]).configure_ipu_system()
    assert recorder.calls == 0


@pytest.mark.shows("ipu.config.IPUConfig.device_connection.type", "ipu.config.IPUConfig.floating_point_behaviour.div0")
@pytest.mark.shows("ipu.config.IPUConfig.floating_point_behaviour.esr")
def test_what_is_asked_of_the_core(recorder, monkeypatch):
    config = config_of(auto_select_ipus=1)
    config.device_connection.type = ON_DEMAND
    config.floating_point_behaviour.div0 = config.floating_point_behaviour.esr = True
    monkeypatch.setenv(
        "TF_POPLAR_FLAGS", "--use_ipu_model --executable_cache_path=/cache --on_demand_device_timeout=500"
    )
    config.configure_ipu_system()
    wanted = {
        "ipu_model": True,
        "wait_for_ipu": True,
        "wait_seconds": 0.5,
        "stochastic_rounding": True,
        "check_floating_point": True,
    }
    assert recorder.devices == [{"ipus": 1, "ipu_id": -1, "compiles_only": False, **wanted}]
    assert system.unit_options(0) == {"device": 0, "cache_path": "/cache", "cache_suffix": ".poplar_exec"}


@pytest.mark.shows("ipu.config.IPUConfig.floating_point_behaviour.set_all")
def test_all_of_floating_point_is_as_each_of_it():
    config = ipu.config.IPUConfig()
    assert not config.has_floating_point("oflo") and not config.has_floating_point("esr")
    config.floating_point_behaviour.set_all = True
    assert (
        config.has_floating_point("oflo")
        and config.has_floating_point("esr")
        and not config.floating_point_behaviour.esr
    )


@pytest.mark.shows("ipu.utils.get_num_of_ipus_in_device")
def test_a_device_says_how_many_ipus_it_has(recorder):
    count = ipu.utils.get_num_of_ipus_in_device
    assert count("/device:IPU:0") == 1
    config_of(auto_select_ipus=[4, 2]).configure_ipu_system()
    assert [
        count("/device:IPU:0"),
        count("/device:IPU:1", "cpu"),
        count("IPU:1"),
        count("/job:worker/device:ipu:0"),
    ] == [4, 2, 2, 4]
    with pytest.raises(ValueError, match="'/device:IPU:2' is not there: 2 device\\(s\\) are configured"):
        count("/device:IPU:2")
    with pytest.raises(ValueError, match="'/device:CPU:0' is no IPU device"):
        count("/device:CPU:0")


@pytest.mark.shows("ipu.config.IPUConfig.serialization_output_folder")
def test_the_folder_of_compiled_programs_is_made(recorder, tmp_path):
    config_of(serialization_output_folder=str(tmp_path / "a" / "b")).configure_ipu_system()
    assert (tmp_path / "a" / "b").is_dir()
    assert system.unit_options(1)["cache_path"] == str(tmp_path / "a" / "b")


def test_without_a_core_of_its_version_the_import_says_how_to_get_one(monkeypatch):
    import importlib.metadata
    import importlib.util

    from ipu_tensorflow import core

    core.check()
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "3.3.0+open.9")
    with pytest.raises(
        ImportError,
        match=r"3.4.0\+open.1 needs a core of its own version, and ipu-core is 3.3.0\+open.9: IPU_TORCH=OFF",
    ):
        core.check()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="needs a core, which is not installed: IPU_TORCH=OFF pip install"):
        core.check()

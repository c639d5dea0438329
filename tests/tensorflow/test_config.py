"""Chapter 6: IPUConfig, its attributes, and what does not fit together."""

import copy
import enum
import logging

import pytest

from tensorflow.python import ipu

IPUS = "Union[int, List[int], Tuple[int, ...]]"
# name → (type, default), as the API publishes them.
PUBLISHED = {
    "allow_recompute": ("bool", False),
    "selection_order": ("SelectionOrder", ipu.config.SelectionOrder.AUTO),
    "serialization_output_folder": ("str", ""),
    "compilation_poplar_options": ("dict", {}),
    "gcl_poplar_options": ("dict", {}),
    "auto_select_ipus": (IPUS, []),
    "select_ipus": (IPUS, []),
    "convolutions.poplar_options": ("dict", {}),
    "device_connection.type": ("DeviceConnectionType", ipu.config.DeviceConnectionType.ALWAYS),
    "device_connection.version": ("str", ""),
    "device_connection.enable_remote_buffers": ("bool", False),
    "experimental.always_rearrange_copies_on_the_host": ("bool", False),
    "experimental.enable_remote_buffer_embedding": ("bool", False),
    "experimental.multi_replica_distribution.process_index": ("int", 0),
    "experimental.multi_replica_distribution.process_count": ("int", 0),
    "floating_point_behaviour.inv": ("bool", False),
    "floating_point_behaviour.div0": ("bool", False),
    "floating_point_behaviour.oflo": ("bool", False),
    "floating_point_behaviour.esr": ("bool", False),
    "floating_point_behaviour.nanoo": ("bool", False),
    "floating_point_behaviour.set_all": ("bool", False),
    "io_tiles.num_io_tiles": ("int", 0),
    "io_tiles.place_ops_on_io_tiles": ("bool", False),
    "io_tiles.available_memory_proportion": ("float", 0.9),
    "ipu_model.compile_ipu_code": ("bool", True),
    "ipu_model.tiles_per_ipu": ("int", 0),
    "ipu_model.version": ("str", "ipu2"),
    "matmuls.clear_pass_type": ("bool", False),
    "matmuls.poplar_options": ("dict", {}),
    "norms.use_stable_statistics": ("bool", False),
    "norms.experimental.distributed_batch_norm_replica_group_size": ("int", 1),
    "optimizations.prefetch_data_streams": ("bool", True),
    "optimizations.combine_embedding_lookups": ("bool", False),
    "optimizations.combine_matmuls": ("bool", False),
    "optimizations.enable_graph_outlining": ("bool", True),
    "optimizations.merge_infeed_io_copies": ("bool", False),
    "optimizations.maximum_cross_replica_sum_buffer_size": ("int", 0),
    "optimizations.maximum_reduce_scatter_buffer_size": ("int", 0),
    "optimizations.maximum_inter_ipu_copies_buffer_size": ("int", 0),
    "optimizations.maximum_send_recv_cluster_size": ("int", 0),
    "optimizations.minimum_remote_tensor_size": ("int", 128),
    "optimizations.merge_remote_buffers": (
        "MergeRemoteBuffersBehaviour",
        ipu.config.MergeRemoteBuffersBehaviour.IF_BENEFICIAL,
    ),
    "optimizations.enable_gather_simplifier": ("bool", True),
    "optimizations.triangular_solve_expander_block_size": ("int", 0),
    "optimizations.cholesky_block_size": ("int", 0),
    "optimizations.enable_fast_math": ("bool", False),
    "pooling.poplar_options": ("dict", {}),
    "scheduling.algorithm": ("SchedulingAlgorithm", ipu.config.SchedulingAlgorithm.CHOOSE_BEST),
    "scheduling.maximum_scheduler_lookahead_depth": ("int", 5),
    "scheduling.maximum_scheduler_search_space_size": ("int", 64),
}
CATEGORIES = (
    "convolutions device_connection experimental experimental.multi_replica_distribution floating_point_behaviour io_tiles",
    "ipu_model matmuls norms norms.experimental optimizations pooling scheduling",
)
ENUMS = {
    "DeviceConnectionType": {"ALWAYS": 0, "ON_DEMAND": 1, "NEVER": 2, "PRE_COMPILE": 3},
    "ExecutionProfileType": {"NO_PROFILE": 0, "DEVICE_PROFILE": 1, "IPU_PROFILE": 2, "TILE_PROFILE": 3},
    "MergeRemoteBuffersBehaviour": {"NO_MERGING": 0, "MERGE": 1, "IF_BENEFICIAL": 2},
    "SchedulingAlgorithm": {"CHOOSE_BEST": 0, "CLUSTERING": 1, "POST_ORDER": 2, "LOOK_AHEAD": 3, "SHORTEST_PATH": 4},
    "SelectionOrder": {"AUTO": 0, "ZIGZAG": 1, "SNAKE": 2, "HOOF": 3},
}


def attribute(config, name):
    for part in name.split("."):
        config = getattr(config, part)
    return config


def set_attribute(config, name, value):
    category, _, last = name.rpartition(".")
    setattr(attribute(config, category) if category else config, last, value)


def other_than(value):
    """Another value of the same type."""
    if isinstance(value, enum.Enum):
        return next(member for member in type(value) if member is not value)
    return {
        bool: lambda: not value,
        int: lambda: value + 1,
        float: lambda: 0.5,
        str: lambda: "ipu1",
        dict: lambda: {"a": "1"},
    }.get(type(value), lambda: [2])()


@pytest.mark.shows(
    "ipu.config.IPUConfig", "ipu.config.AttributeMetadata", "ipu.config.IPUConfig.get_attribute_metadata"
)
@pytest.mark.shows(*(f"ipu.config.AttributeMetadata.{name}" for name in ("name", "type", "default", "check_type")))
def test_each_published_attribute_is_there_with_its_type_and_default():
    config = ipu.config.IPUConfig()
    assert [name for name, _ in config.values()] == list(PUBLISHED)
    for name, (kind, default) in PUBLISHED.items():
        metadata = config.get_attribute_metadata(name)
        assert isinstance(metadata, ipu.config.AttributeMetadata)
        assert (metadata.name, metadata.type, metadata.default) == (name, kind, default) and metadata.__doc__
        assert attribute(config, name) == default and type(attribute(config, name)) is type(default)
        assert not metadata.deprecated and metadata.deprecated_msg is None
        assert metadata.check_type(default) is True


def test_categories_have_no_type_and_no_default_and_cannot_be_set():
    config = ipu.config.IPUConfig()
    for name in " ".join(CATEGORIES).split():
        metadata = config.get_attribute_metadata(name)
        assert (metadata.name, metadata.type, metadata.types, metadata.default) == (name, None, [], None)
        with pytest.raises(Exception, match=f"'{name}' is a category: set the attributes in it"):
            set_attribute(config, name, 3)


@pytest.mark.shows("ipu.config.AttributeMetadata.types")
def test_metadata_is_asked_for_relative_to_a_category():
    config = ipu.config.IPUConfig()
    metadata = config.norms.get_attribute_metadata("experimental.distributed_batch_norm_replica_group_size")
    assert metadata.name == "norms.experimental.distributed_batch_norm_replica_group_size" and metadata.types == [int]
    with pytest.raises(ValueError, match="'norms.inv' is no attribute. Did you mean 'floating_point_behaviour.inv'"):
        config.norms.get_attribute_metadata("inv")


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_attribute_takes_values_of_its_type_alone(name):
    config = ipu.config.IPUConfig()
    value = other_than(PUBLISHED[name][1])
    set_attribute(config, name, value)
    assert attribute(config, name) == value
    assert [changed for changed, now in config.values() if now != PUBLISHED[changed][1]] == [name]
    for wrong in (None, object(), "text" if PUBLISHED[name][0] != "str" else b"text"):
        with pytest.raises(TypeError, match=f"'{name}' must be "):
            set_attribute(config, name, wrong)
    assert attribute(config, name) == value


@pytest.mark.parametrize(
    "name, value",
    [
        ("io_tiles.num_io_tiles", True),
        ("allow_recompute", 1),
        ("io_tiles.available_memory_proportion", 1),
        ("auto_select_ipus", [1, True]),
        ("auto_select_ipus", (1, 2.0)),
        ("select_ipus", True),
        ("selection_order", 1),
    ],
)
def test_a_value_of_a_similar_type_is_refused(name, value):
    with pytest.raises(TypeError, match=f"'{name}' must be "):
        set_attribute(ipu.config.IPUConfig(), name, value)


def test_devices_are_a_number_a_list_or_a_tuple():
    config = ipu.config.IPUConfig()
    for value in (4, [4, 2], (1, 1)):
        config.auto_select_ipus = value
        assert config.auto_select_ipus == value


@pytest.mark.parametrize(
    "path, name, close",
    [
        ("", "allow_recomputation", "allow_recompute"),
        ("", "floating_point_behavior", "floating_point_behaviour"),
        ("optimizations", "combine_matmul", "optimizations.combine_matmuls"),
        ("", "esr", "floating_point_behaviour.esr"),
    ],
)
def test_a_name_that_is_not_known_is_an_error_with_the_closest_one(path, name, close):
    config = ipu.config.IPUConfig()
    owner = attribute(config, path) if path else config
    for use in (lambda: getattr(owner, name), lambda: setattr(owner, name, 1)):
        with pytest.raises(
            ValueError, match=f"'{name}' is no attribute. Did you mean '{close}'\\?".replace("'" + name, ".*" + name)
        ):
            use()
    with pytest.raises(ValueError, match="is no attribute"):
        setattr(config, "io_tiles.num_io_tiles", 3)


def test_a_deep_copy_has_values_of_its_own():
    config = ipu.config.IPUConfig()
    config.matmuls.poplar_options = {"availableMemoryProportion": "0.3"}
    other = copy.deepcopy(config)
    assert other == config
    other.matmuls.poplar_options["availableMemoryProportion"] = "0.1"
    other.io_tiles.num_io_tiles = 32
    assert config.matmuls.poplar_options == {"availableMemoryProportion": "0.3"} and config.io_tiles.num_io_tiles == 0
    assert other != config and "io_tiles.num_io_tiles=32" in repr(other)
    assert ipu.config.IPUConfig().matmuls.poplar_options == {}
    other.get_attribute_metadata("matmuls.poplar_options").default["a"] = "b"
    assert ipu.config.IPUConfig().matmuls.poplar_options == {}


@pytest.mark.shows(
    *(f"ipu.config.AttributeMetadata.{name}" for name in ("deprecated", "deprecated_msg", "warn_if_deprecated"))
)
def test_setting_what_is_deprecated_warns_with_its_category(caplog):
    from ipu_tensorflow.config_tree import Category, Structure

    rows = {"a": "An old category.", "a.b": ((int,), 1, "A number."), "c": ((int,), 2, "Another one.")}
    config = Category(Structure(rows, {"a": "use 'c' instead"}))
    with caplog.at_level(logging.WARNING, "tensorflow"):
        config.c = 3
        assert not caplog.records
        config.a.b = 4
    assert [record.getMessage() for record in caplog.records] == ["'a.b' is deprecated: use 'c' instead"]
    assert (
        config.get_attribute_metadata("a").deprecated
        and config.get_attribute_metadata("a.b").deprecated_msg == "use 'c' instead"
    )


@pytest.mark.shows(*(f"ipu.config.{name}" for name in ENUMS))
def test_enumerations_have_their_published_values():
    for name, members in ENUMS.items():
        assert {member.name: member.value for member in getattr(ipu.config, name)} == members
        assert getattr(ipu.utils, name) is getattr(ipu.config, name)


# (what is set, flags, class of the error, text)
NEVER, PRE_COMPILE = ipu.config.DeviceConnectionType.NEVER, ipu.config.DeviceConnectionType.PRE_COMPILE
GROUP = "norms.experimental.distributed_batch_norm_replica_group_size"
JOB = "experimental.multi_replica_distribution"
MODEL = "--use_ipu_model"
REFUSED = [
    ({"auto_select_ipus": 1, "select_ipus": 1}, "", Exception, "both auto_select_ipus and select_ipus are set"),
    ({"select_ipus": [3, 3]}, "", ValueError, r"select_ipus has an id twice: \[3, 3\]"),
    ({"select_ipus": [3]}, MODEL, Exception, "select_ipus cannot be used with the software model"),
    ({"auto_select_ipus": [1, 0]}, "", ValueError, "each device has at least one IPU"),
    (
        {"device_connection.type": NEVER},
        "",
        ValueError,
        "device_connection.version is empty: NEVER compiles without a device",
    ),
    ({"device_connection.type": PRE_COMPILE}, "", ValueError, "device_connection.version is empty: PRE_COMPILE"),
    ({"device_connection.version": "ipu9"}, "", ValueError, "device_connection.version is 'ipu9'"),
    ({"io_tiles.place_ops_on_io_tiles": True}, "", ValueError, "io_tiles.num_io_tiles is 0"),
    ({GROUP: 0}, "", ValueError, f"{GROUP} is 0: it must be at least 1"),
    ({GROUP: 2, "io_tiles.num_io_tiles": 32}, "", ValueError, "cannot be used together"),
    (
        {f"{JOB}.process_count": 2, f"{JOB}.process_index": 2},
        "",
        ValueError,
        "process_index is 2: it must be from 0 to 1",
    ),
    ({f"{JOB}.process_count": 1, f"{JOB}.process_index": -1}, "", ValueError, "process_index is -1"),
    (
        {f"{JOB}.process_count": 1},
        MODEL,
        Exception,
        "multi_replica_distribution cannot be used with the software model",
    ),
    ({"ipu_model.version": ""}, MODEL, ValueError, "ipu_model.version is empty"),
    (
        {"device_connection.type": PRE_COMPILE, "device_connection.version": "ipu2"},
        "",
        NotImplementedError,
        "PRE_COMPILE is not in this version",
    ),
    ({GROUP: 2}, "", NotImplementedError, f"{GROUP} of more than 1 is not in this version"),
    ({f"{JOB}.process_count": 2}, "", NotImplementedError, "process_count of more than 1 is not in this version"),
    ({"serialization_output_folder": "/proc/none"}, "", ValueError, "'/proc/none', which cannot be written"),
]


@pytest.mark.shows("ipu.config.IPUConfig.device_connection.version")
@pytest.mark.parametrize("values, flags, kind, text", REFUSED, ids=[str(case[0]) + case[1] for case in REFUSED])
def test_what_does_not_fit_together_is_refused_when_configured(recorder, monkeypatch, values, flags, kind, text):
    monkeypatch.setenv("TF_POPLAR_FLAGS", flags)
    config = ipu.config.IPUConfig()
    for name, value in values.items():
        set_attribute(config, name, value)
    with pytest.raises(kind, match=text) as raised:
        config.configure_ipu_system()
    assert type(raised.value) is kind and recorder.calls == 0
    with pytest.raises(RuntimeError, match="no IPUs are configured"):
        ipu.config.get_ipu_config()

"""Chapter 5.2: the functions that were there before IPUConfig, by the attributes that they write."""

import inspect
import logging

import pytest

from tensorflow.python import ipu
from tensorflow.python.ipu import utils

DEFAULTS = ipu.config.IPUConfig()
# (function, arguments) → the attributes that are then other than their defaults.
WRITES = [
    ("auto_select_ipus", {"num_ipus": 4}, {"auto_select_ipus": 4}),
    ("auto_select_ipus", {"num_ipus": [2, 2]}, {"auto_select_ipus": [2, 2]}),
    ("select_ipus", {"indices": (3, 4)}, {"select_ipus": (3, 4)}),
    ("set_compilation_options", {"compilation_options": {"a": "1"}}, {"compilation_poplar_options": {"a": "1"}}),
    ("set_compilation_options", {}, {}),
    ("set_convolution_options", {"convolution_options": {"a": "1"}}, {"convolutions.poplar_options": {"a": "1"}}),
    (
        "set_matmul_options",
        {"matmul_options": {"a": "1"}, "clear_pass_type": True},
        {"matmuls.poplar_options": {"a": "1"}, "matmuls.clear_pass_type": True},
    ),
    ("set_pooling_options", {"pooling_options": {"a": "1"}}, {"pooling.poplar_options": {"a": "1"}}),
    ("set_gcl_options", {"gcl_options": {"a": "1"}}, {"gcl_poplar_options": {"a": "1"}}),
    ("set_report_options", {"graph_options": {"a": "1"}, "execution_options": {"b": "2"}}, {}),
    ("set_serialization_options", {"output_folder": "x"}, {"serialization_output_folder": "x"}),
    ("set_recomputation_options", {}, {"allow_recompute": True}),
    (
        "set_floating_point_behaviour_options",
        {},
        {f"floating_point_behaviour.{name}": True for name in ("inv", "div0", "oflo", "esr", "nanoo")},
    ),
    ("set_floating_point_behaviour_options", dict.fromkeys(("inv", "div0", "oflo", "esr", "nanoo"), False), {}),
    (
        "set_io_tile_options",
        {"num_io_tiles": 32, "place_ops_on_io_tiles": True, "io_tile_available_memory_proportion": 0.5},
        {
            "io_tiles.num_io_tiles": 32,
            "io_tiles.place_ops_on_io_tiles": True,
            "io_tiles.available_memory_proportion": 0.5,
        },
    ),
    ("set_io_tile_options", {"num_io_tiles": 0}, {}),
    (
        "set_ipu_connection_type",
        {"connection_type": utils.DeviceConnectionType.NEVER, "ipu_version": 1, "enable_remote_buffers": True},
        {
            "device_connection.type": utils.DeviceConnectionType.NEVER,
            "device_connection.version": "ipu1",
            "device_connection.enable_remote_buffers": True,
        },
    ),
    (
        "set_ipu_model_options",
        {"compile_ipu_code": False, "tiles_per_ipu": 8, "ipu_model_version": "ipu1"},
        {"ipu_model.compile_ipu_code": False, "ipu_model.tiles_per_ipu": 8, "ipu_model.version": "ipu1"},
    ),
    ("set_ipu_model_options", {}, {}),
    (
        "set_norm_options",
        {"use_stable_statistics": True, "experimental_distributed_batch_norm_replica_group_size": 2},
        {"norms.use_stable_statistics": True, "norms.experimental.distributed_batch_norm_replica_group_size": 2},
    ),
    (
        "set_optimization_options",
        {},
        {"optimizations.merge_remote_buffers": utils.MergeRemoteBuffersBehaviour.NO_MERGING},
    ),
    (
        "set_optimization_options",
        {"merge_remote_buffers": True, "max_cross_replica_sum_buffer_size": 7, "gather_simplifier": False},
        {
            "optimizations.maximum_cross_replica_sum_buffer_size": 7,
            "optimizations.merge_remote_buffers": utils.MergeRemoteBuffersBehaviour.MERGE,
            "optimizations.enable_gather_simplifier": False,
        },
    ),
    ("set_optimization_options", {"merge_remote_buffers": None}, {}),
    (
        "set_experimental_multi_replica_distribution_options",
        {"process_count": 2, "process_index": 1},
        {
            "experimental.multi_replica_distribution.process_index": 1,
            "experimental.multi_replica_distribution.process_count": 2,
        },
    ),
    ("set_transfer_options", {"use_verified_transfers": True}, {}),
    ("set_verification_options", {"verification_options": utils.VerificationOptions()}, {}),
]
CREATES = [
    ({"scheduler_selection": "LookAhead"}, {"scheduling.algorithm": utils.SchedulingAlgorithm.LOOK_AHEAD}),
    ({"scheduler_selection": ""}, {}),
    ({"always_rearrange_copies_on_the_host": True}, {"experimental.always_rearrange_copies_on_the_host": True}),
    ({"merge_infeed_io_copies": True}, {"optimizations.merge_infeed_io_copies": True}),
    ({"disable_graph_outlining": True}, {"optimizations.enable_graph_outlining": False}),
    ({"retain_control_dependencies": True}, {}),
    ({"max_cross_replica_sum_buffer_size": 5}, {"optimizations.maximum_cross_replica_sum_buffer_size": 5}),
    ({"max_inter_ipu_copies_buffer_size": 5}, {"optimizations.maximum_inter_ipu_copies_buffer_size": 5}),
    ({"max_scheduler_lookahead_depth": 9}, {"scheduling.maximum_scheduler_lookahead_depth": 9}),
    ({"max_scheduler_search_space_size": 9}, {"scheduling.maximum_scheduler_search_space_size": 9}),
    ({"prefetch_data_streams": False}, {"optimizations.prefetch_data_streams": False}),
    ({"selection_order": utils.SelectionOrder.SNAKE}, {"selection_order": utils.SelectionOrder.SNAKE}),
    ({"enable_experimental_remote_buffer_embedding": True}, {"experimental.enable_remote_buffer_embedding": True}),
    ({"profiling": True, "profile_execution": True, "use_poplar_text_report": True, "report_directory": "x"}, {}),
]


NAMES = (
    "auto_select_ipus select_ipus set_compilation_options set_convolution_options set_matmul_options set_pooling_options "
    "set_gcl_options set_serialization_options set_recomputation_options set_floating_point_behaviour_options "
    "set_io_tile_options set_ipu_connection_type set_ipu_model_options set_norm_options set_optimization_options "
    "set_experimental_multi_replica_distribution_options"
).split()


def changed(options):
    defaults = dict(DEFAULTS.values())
    return {name: value for name, value in options.config.values() if value != defaults[name]}


@pytest.mark.shows(*(f"ipu.utils.{name}" for name in NAMES))
@pytest.mark.parametrize("name, arguments, attributes", WRITES, ids=[f"{i}-{case[0]}" for i, case in enumerate(WRITES)])
def test_a_function_writes_its_attributes_and_gives_the_options_back(name, arguments, attributes):
    options = utils.create_ipu_config()
    assert getattr(utils, name)(options, **arguments) is options
    assert changed(options) == attributes


@pytest.mark.shows("ipu.utils.create_ipu_config")
@pytest.mark.parametrize("arguments, attributes", CREATES, ids=[next(iter(case[0])) for case in CREATES])
def test_new_options_write_their_attributes(arguments, attributes):
    assert changed(utils.create_ipu_config(**arguments)) == attributes


def test_dictionaries_accumulate():
    options = utils.create_ipu_config()
    for name in ("compilation", "convolution", "matmul", "pooling", "gcl"):
        function = getattr(utils, f"set_{name}_options")
        function(function(options, {"a": "1", "b": "2"}), {"b": "3"})
    values = dict(options.config.values())
    names = ("compilation", "convolutions.", "matmuls.", "pooling.", "gcl")
    for name in names:
        found = [value for full, value in values.items() if full.startswith(name) and full.endswith("poplar_options")]
        assert found == [{"a": "1", "b": "3"}]


CONNECTION = utils.DeviceConnectionType
REFUSED = [
    (
        "create_ipu_config",
        {"profiling": True, "enable_ipu_events": True},
        Exception,
        "profiling and enable_ipu_events are both set",
    ),
    ("create_ipu_config", {"profile_execution": True}, Exception, "profile_execution is set without profiling"),
    ("create_ipu_config", {"scheduler_selection": "Best"}, TypeError, "scheduler_selection is 'Best'"),
    ("create_ipu_config", {"scheduler_selection": 2}, TypeError, "scheduler_selection is 2"),
    ("auto_select_ipus", {"num_ipus": "4"}, Exception, "num_ipus must be a number"),
    ("select_ipus", {"indices": 4}, Exception, "indices must be a list or tuple"),
    ("select_ipus", {"indices": [4, 4]}, Exception, "indices has an id twice"),
    ("set_compilation_options", {"compilation_options": [1]}, Exception, "compilation_options must be a dictionary"),
    ("set_convolution_options", {"convolution_options": [1]}, Exception, "convolution_options must be a dictionary"),
    ("set_matmul_options", {"matmul_options": [1]}, Exception, "matmul_options must be a dictionary"),
    ("set_pooling_options", {"pooling_options": [1]}, Exception, "pooling_options must be a dictionary"),
    ("set_report_options", {"graph_options": [1]}, Exception, "graph_options must be a dictionary"),
    ("set_gcl_options", {"gcl_options": None}, TypeError, "gcl_options must be a dictionary"),
    ("set_io_tile_options", {"num_io_tiles": 0, "place_ops_on_io_tiles": True}, ValueError, "num_io_tiles is 0"),
    ("set_ipu_connection_type", {"connection_type": CONNECTION.NEVER}, Exception, "ipu_version is not set: NEVER"),
    (
        "set_ipu_connection_type",
        {"connection_type": CONNECTION.PRE_COMPILE},
        Exception,
        "ipu_version is not set: PRE_COMPILE",
    ),
    (
        "set_norm_options",
        {"experimental_distributed_batch_norm_replica_group_size": 0},
        ValueError,
        "must be at least 1",
    ),
    (
        "set_experimental_multi_replica_distribution_options",
        {"process_count": 2, "process_index": 2},
        ValueError,
        "process_index is 2 and process_count 2",
    ),
    (
        "set_verification_options",
        {"verification_options": {}},
        Exception,
        "verification_options must be VerificationOptions",
    ),
]


@pytest.mark.parametrize(
    "name, arguments, kind, text", REFUSED, ids=[f"{i}-{case[0]}" for i, case in enumerate(REFUSED)]
)
def test_a_wrong_argument_is_refused(name, arguments, kind, text):
    options = [] if name == "create_ipu_config" else [utils.create_ipu_config()]
    with pytest.raises(kind, match=text) as raised:
        getattr(utils, name)(*options, **arguments)
    assert type(raised.value) is kind


def test_ipus_are_chosen_once():
    for first, second in ((utils.auto_select_ipus, utils.select_ipus), (utils.select_ipus, utils.auto_select_ipus)):
        options = first(utils.create_ipu_config(), [1])
        with pytest.raises(Exception, match="IPUs were chosen already"):
            second(options, [1])


def test_options_are_those_that_were_created():
    with pytest.raises(TypeError, match="opts must be what create_ipu_config\\(\\) returns, and is IPUConfig"):
        utils.auto_select_ipus(ipu.config.IPUConfig(), 1)


@pytest.mark.parametrize("name", ["create_ipu_config", "set_recomputation_options", "set_transfer_options"])
def test_a_function_says_once_that_it_is_deprecated(caplog, monkeypatch, name):
    function = inspect.unwrap(getattr(utils, name))
    from ipu_tensorflow import option_functions

    again = option_functions._deprecated("do otherwise", takes_options=False)(function)
    options = [] if name == "create_ipu_config" else [utils.create_ipu_config()]
    with caplog.at_level(logging.WARNING, "tensorflow"):
        caplog.clear()
        again(*options)
        again(*options)
    assert [record.getMessage() for record in caplog.records] == [f"{name} is deprecated: do otherwise"]


@pytest.mark.shows("ipu.config.KeyId", "ipu.config.VerificationOptions")
def test_verification_options_are_stored_by_both_spellings():
    options = utils.VerificationOptions()
    assert options.inputs == utils.KeyId() == utils.KeyId(0, -1) and options.checkpoint_in == utils.KeyId(0, 0)
    options.inputs.key = 1
    options.outfeeds["loss"].start_id = 3
    options.infeeds["feed"] = utils.KeyId(2)
    options.input_parameters = utils.KeyId(key=5, start_id=6)
    assert options.inputs == utils.KeyId(1, -1) and options.outfeeds["loss"] == utils.KeyId(0, 3)
    assert options.infeeds == {"feed": utils.KeyId(2)} and options.input_parameters.key == 5

"""The modules that programs import by path, and what they import from them."""

import importlib
import inspect

import pytest

import popxl

# What each module holds, under the same name as in popxl where it is there too.
MODULES = {
    "ops": "add matmul call repeat conditional host_load PadType CallSiteInfo collectives var_updates",
    "ops.collectives": "CommGroup CommGroupType replicated_all_reduce replicated_all_gather all_reduce",
    "ops.var_updates": "accumulate_ accumulator_zero_ adam_updater copy_var_update_",
    "transforms": "autodiff GradGraphInfo ExpectedConnection ExpectedConnectionType decompose_sum merge_exchange io_tile_exchange",
    "utils": "table_to_string to_numpy downcast_np_dtypes _to_device_info np_dtype_float8_143 np_dtype_float8_152",
    "fp8_utils": "host_fp8_mse_scale float8_143_def float8_152_def ieee_fp16_denorms ieee_fp32_no_denorms FpDef",
    "context": "get_current_graph gcg get_main_graph gmg get_ir gir in_sequence name_scope ipu io_tiles get_current_context "
    "op_debug_context debug_context_frame_offset _execution_context Context",
    "tensor": "Tensor variable remote_variable remote_replica_sharded_variable replica_sharded_variable replica_sharded_buffer "
    "constant graph_input graph_output TensorByRef TensorSpec Variable Constant",
    "graph": "Graph",
    "ir": "Ir",
    "session": "Session d2hStreamBufferMaps h2dStreamBufferMaps",
    "streams": "HostToDeviceStream DeviceToHostStream h2d_stream d2h_stream Stream",
    "dtypes": "dtype bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 half float16 float8_143 float8_152 float float32 "
    "double float64 complex64 complex128 np_dtype_float8_143 np_dtype_float8_152 _STR_TO_POPXL _PY_TO_POPXL _PB_TO_POPXL "
    "_NP_TO_POPXL _PT_TO_POPXL",
    "errors": "UndefinedValue",
    "random_seed": "create_seeds uint64_to_two_uint32 two_uint32_to_uint64",
    "replica_grouping": "ReplicaGrouping",
    "tensorlocation": "TensorStorage TensorLocation ReplicatedTensorSharding TileSet ExecutionContext",
    "module": "Module",
    "typing_": "NewAliasAnnotation",
    "testing": "get_all_dtypes get_all_int_dtypes",
}
# The attribute of this name is a function.
ALL = {**MODULES, "remote_buffer": "RemoteBuffer remote_buffer"}
# Files of popxl.ops whose names are those of functions too: the function is the attribute, the file is found by its path.
FILES = {
    "call": "call call_with_info CallSiteInfo",
    "conditional": "conditional conditional_with_info ConditionalSiteInfo",
    "repeat": "repeat repeat_with_info",
    "conv": "conv conv_transpose PadType",
    "interpolate": "interpolate InterpolateType NearestType CoordinateTransformationType",
    "pooling": "average_pool max_pool",
    "negative_log_likelihood": "nll_loss nll_loss_with_softmax_grad",
    "remote_code_load": "remote_code_load",
    "code_copy": "code_copy",
    "scatter_reduce": "scatter_reduce grouped_scatter_reduce",
    "random_seed": "split_random_seed create_random_seed",
    "utils": "check_in_graph",
}


@pytest.mark.shows(*(f"popxl.{name}" for name in MODULES))
@pytest.mark.parametrize("name", ALL)
def test_modules_hold_what_the_package_exports(name):
    module = importlib.import_module(f"popxl.{name}")
    for held in ALL[name].split():
        assert getattr(module, held) is getattr(popxl, held, getattr(module, held)), held


def test_every_exported_name_is_that_of_its_module():
    held = {name for names in ALL.values() for name in names.split()}
    assert set(popxl.__all__) <= held and popxl.replica_sharded_buffer is popxl.tensor.replica_sharded_buffer


def test_modules_of_ops_are_found_by_their_files():
    for file, names in FILES.items():
        module = importlib.import_module(f"popxl.ops.{file}")
        for name in names.split():
            found = getattr(module, name)
            assert found is getattr(popxl.ops, name, found) or name == "code_copy", name
    assert importlib.import_module("popxl.ops.collectives.collectives").CollectiveOps
    for name in ("call", "conditional", "repeat", "conv", "remote_code_load", "scatter_reduce"):
        assert inspect.isfunction(getattr(popxl.ops, name)), name

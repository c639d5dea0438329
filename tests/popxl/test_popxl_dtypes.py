"""Element types, and host arrays of data."""

import numpy as np
import pytest

import popart
import popxl
from popxl import dtypes, ops, utils

NAMES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float8_143",
    "float8_152",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.mark.shows(*(f"popxl.{name}" for name in NAMES), "popxl.dtype", "popxl.dtype.from_name", "popxl.dtype.as_dtype")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.shows(
    "popxl.dtype.name",
    "popxl.dtype.as_numpy",
    "popxl.bool",
    "popxl.int8",
    "popxl.int16",
    "popxl.int32",
    "popxl.int64",
    "popxl.uint8",
    "popxl.uint16",
    "popxl.uint32",
    "popxl.uint64",
    "popxl.float16",
    "popxl.float8_143",
    "popxl.float8_152",
    "popxl.float32",
    "popxl.float64",
    "popxl.complex64",
    "popxl.complex128",
)
def test_each_type_is_found_by_all_its_forms(name):
    t = getattr(popxl, name)
    assert t.name == name and repr(t) == f"popxl.dtypes.{name}"
    assert popxl.dtype.from_name(name) is t
    assert t.as_numpy() == (np.dtype([(name, "u1")]) if name.startswith("float8") else np.dtype(name))
    for form in (t, name, t.as_numpy(), t._pb_dtype, np.zeros(2, t.as_numpy())):
        assert popxl.dtype.as_dtype(form) is t
    assert dtypes._STR_TO_POPXL[name] is dtypes._NP_TO_POPXL[t.as_numpy()] is dtypes._PB_TO_POPXL[t._pb_dtype] is t


@pytest.mark.shows("popxl.half", "popxl.float", "popxl.double")
@pytest.mark.shows(
    "popxl.dtype.is_complex", "popxl.dtype.is_int", "popxl.dtype.is_floating_point", "popxl.dtype.is_signed"
)
def test_what_the_types_are():
    kinds = {t: (t.is_int, t.is_floating_point, t.is_signed, t.is_complex) for t in dtypes._STR_TO_POPXL.values()}
    assert kinds[popxl.bool] == (False, False, False, False)
    assert kinds[popxl.int8] == (True, False, True, False)
    assert kinds[popxl.uint64] == (True, False, False, False)
    assert kinds[popxl.float8_152] == kinds[popxl.float16] == (False, True, True, False)
    assert kinds[popxl.complex64] == (False, False, True, True)
    assert popxl.half is popxl.float16 and popxl.float is popxl.float32 and popxl.double is popxl.float64
    assert {bool: popxl.bool, float: popxl.float32} == dtypes._PY_TO_POPXL
    assert popxl.dtype.as_dtype(bool) is popxl.bool and popxl.dtype.as_dtype(float) is popxl.float32
    assert popxl.dtype.as_dtype(int) is popxl.int64


def test_errors_of_types():
    with pytest.raises(TypeError):
        popxl.dtype()
    with pytest.raises(ValueError, match="float12"):
        popxl.dtype.from_name("float12")
    for nothing in ("nothing", None, object(), str):
        with pytest.raises(ValueError):
            popxl.dtype.as_dtype(nothing)
    with pytest.raises(TypeError, match="torch"):
        pytest.importorskip("torch")
        popxl.uint32.as_torch()


@pytest.mark.shows("popxl.dtype.as_torch")
def test_types_of_torch():
    torch = pytest.importorskip("torch")
    assert popxl.float16.as_torch() is torch.float16
    assert popxl.dtype.as_dtype(torch.int64) is popxl.int64
    assert popxl.dtype.as_dtype(torch.zeros(1, dtype=torch.bool)) is popxl.bool
    assert torch.uint16 not in dtypes._PT_TO_POPXL and dtypes._PT_TO_POPXL[torch.uint8] is popxl.uint8


@pytest.mark.shows("popxl.utils.to_numpy")
@pytest.mark.shows("popxl.utils.downcast_np_dtypes")
def test_host_arrays():
    assert utils.to_numpy([1.5]).dtype == np.float32 and utils.to_numpy(3).dtype == np.int32
    assert utils.to_numpy([1.5], downcast=False).dtype == np.float64
    assert utils.to_numpy(np.uint64([1])).dtype == np.uint32 and utils.to_numpy(True).dtype == np.bool_
    assert utils.to_numpy([1.9, -1.9], popxl.int32).tolist() == [1, -1]
    x = np.zeros((2, 3), np.float32)
    assert utils.to_numpy(x, copy=False) is x and not np.shares_memory(utils.to_numpy(x), x)
    assert utils.to_numpy(x.T, copy=False).flags.c_contiguous
    assert utils.downcast_np_dtypes == {
        np.dtype("int64"): np.dtype("int32"),
        np.dtype("uint64"): np.dtype("uint32"),
        np.dtype("float64"): np.dtype("float32"),
    }
    torch = pytest.importorskip("torch")
    t = torch.ones(2, requires_grad=True)
    assert np.shares_memory(utils.to_numpy(t, copy=False), t.detach().numpy())


def test_host_arrays_of_float8():
    codes = utils.to_numpy([0.75, 2.0], popxl.float8_143, log2_scale=1)
    assert codes.dtype == utils.np_dtype_float8_143 and codes["float8_143"][0] == 0x44
    assert utils.to_numpy(codes, popxl.float8_143, copy=False) is codes
    assert utils.to_numpy(1e9, popxl.float8_152, nan_on_overflow=False)["float8_152"] == 0x7F
    with pytest.raises(RuntimeError, match="log2_scale"):
        utils.to_numpy([1.0], popxl.float32, log2_scale=0)
    with pytest.raises(RuntimeError, match="nan_on_overflow"):
        utils.to_numpy([1.0], nan_on_overflow=True)
    with pytest.raises(TypeError, match="int"):
        utils.to_numpy([1, 2], popxl.float8_143)
    with pytest.raises(TypeError, match="float8"):
        utils.to_numpy(codes, popxl.float8_152)


@pytest.mark.shows("popxl.utils.table_to_string")
def test_table_to_string_pads_columns_and_draws_a_line_below_the_header():
    assert utils.table_to_string([("a", "bcd"), (10, 2)]) == "a  | bcd\n---------\n10 | 2  \n"
    assert utils.table_to_string([("a", "b")]) == "a | b\n"
    assert utils.table_to_string([("a", "b"), ("c", "d")], "-", header=False) == "a-b\nc-d\n"


@pytest.mark.shows(
    "popxl.create_seeds", "popxl.random_seed.uint64_to_two_uint32", "popxl.random_seed.two_uint32_to_uint64"
)
@pytest.mark.shows("popxl.random_seed.create_seeds", "popxl.random_seed.MAX_UINT64")
def test_create_seeds_gives_the_words_of_numpys_generator():
    from popxl import random_seed

    words = np.random.default_rng(12).integers(0, 2**64 - 1, endpoint=True, dtype="uint64", size=6)
    seeds = popxl.create_seeds(10, 2, batches_per_step=2, replicas=3)
    assert seeds.shape == (2, 3, 2) and seeds.dtype == np.uint32
    for word, (high, low) in zip(words, seeds.reshape(-1, 2)):
        assert random_seed.two_uint32_to_uint64(int(high), int(low)) == word
        assert random_seed.uint64_to_two_uint32(int(word)) == (high, low)
    assert popxl.create_seeds(0).shape == random_seed.create_seeds(3).shape == (2,)
    assert random_seed.create_seeds(12).tolist() == seeds[0, 0].tolist() == popxl.create_seeds(10, offset=2).tolist()
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError, match="64 bits"):
            random_seed.uint64_to_two_uint32(wrong)
    for pair in ((-1, 0), (0, 2**32)):
        with pytest.raises(ValueError, match="32 bits"):
            random_seed.two_uint32_to_uint64(*pair)
    assert random_seed.MAX_UINT64 == 2**64 - 1


@pytest.mark.shows("popxl.testing.get_all_dtypes", "popxl.testing.get_all_int_dtypes")
def test_lists_of_types():
    from popxl import testing

    assert popxl.bool not in testing.get_all_dtypes() and len(testing.get_all_dtypes()) == 15
    assert set(testing.get_all_int_dtypes(include_signed=False)) == {
        popxl.uint8,
        popxl.uint16,
        popxl.uint32,
        popxl.uint64,
    }
    signed = {popxl.int8, popxl.int16, popxl.int32, popxl.int64}
    assert set(testing.get_all_int_dtypes(include_unsigned=False)) == signed
    assert set(testing.get_all_int_dtypes()) == signed | set(testing.get_all_int_dtypes(include_signed=False))


@pytest.mark.shows(
    "popxl.TensorLocation",
    "popxl.TensorStorage",
    "popxl.ReplicatedTensorSharding",
    "popxl.TileSet",
)
@pytest.mark.shows("popxl.TensorLocation.storage", "popxl.TensorLocation.replicated_tensor_sharding")
def test_locations_and_enums():
    at = popxl.TensorLocation()
    assert at.storage is popxl.TensorStorage.OnChip
    assert at.replicated_tensor_sharding is popxl.ReplicatedTensorSharding.Off
    with pytest.raises(AttributeError):
        at.storage = popxl.TensorStorage.OffChip
    off = popxl.TensorLocation(popxl.TensorStorage.OffChip, popxl.ReplicatedTensorSharding.On)
    assert (off.storage.value, off.replicated_tensor_sharding.value) == ("OffChip", "On")
    assert popxl.TileSet.IO.value == 1 and popxl.TileSet(0).name == "Compute"
    assert [c.name for c in popxl.ExecutionContext][:3] == [
        "Normal",
        "AccumulateOuterFragment",
        "WeightsFromHostFragment",
    ]
    assert popxl.TensorByRef.__name__ == "TensorByRef"
    with pytest.raises(NotImplementedError):
        popxl.TensorByRef(1)
    assert issubclass(popart.popart_exception, Exception)


MAKERS = [
    popxl.constant,
    popxl.variable,
    lambda data: popxl.remote_variable(data, popxl.remote_buffer((2,), popxl.float32)),
    lambda data: popxl.replica_sharded_variable(data)[0],
]
# What arrays may hold, in the byte order of other machines; what they may not.
ORDERS = [">f2", ">f4", ">f8", ">i2", ">i4", ">i8", ">u2", ">u4", ">u8", "<i4", "=f4"]
NO_DTYPE = [
    np.array([None, 1]),
    np.array([{}, []], object),
    np.array(["a", "b"]),
    np.array([b"a", b"b"]),
    np.array(["2020-01-01"] * 2, "M8[D]"),
    np.array([1, 2], "m8[s]"),
    np.zeros(2, [("a", "f4")]),
    np.zeros(2, np.longdouble),
    "text",
    None,
    [None, 1.0],
    {"a": 1},
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("stored", ORDERS)
def test_arrays_of_either_byte_order_are_taken(make, stored):
    with popxl.Ir(replication=2).main_graph:
        t = make(np.array([1, 258], stored))
    native = np.dtype(stored).newbyteorder("=")
    narrowed = {"int64": "int32", "uint64": "uint32", "float64": "float32"}.get(native.name, native.name)
    assert t.dtype.name == narrowed


def test_values_of_the_other_byte_order_arrive(ir):
    data = np.array([1.5, -2.0], ">f4")
    with ir.main_graph:
        x, y = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        v = popxl.variable(data)
        ops.host_store(y, popxl.constant(data) + v + ops.host_load(x))
    with popxl.Session(ir, "ipu_model") as session:
        assert session.run({x: data})[y].tolist() == [4.5, -6.0]
        session.write_variable_data(v, data * 2)
        assert session.run({x: data})[y].tolist() == [6.0, -8.0]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("number", range(len(NO_DTYPE)))
def test_data_without_a_dtype_are_named(make, number):
    with popxl.Ir(replication=2).main_graph, pytest.raises(TypeError, match=r"array of .* has no popxl.dtype.*float32"):
        make(NO_DTYPE[number])

"""Sessions: devices, attaching, weight traffic, shapes of inputs and outputs, data of variables, errors."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import popart
import popxl
from popart._impl.sessions.ir_session import IrSession
from popxl import ops


class Program:
    """y = (x + a) stored, a += 1 in each run; b is only read."""

    def __init__(self, replication=1, transfers=1, shape=()):
        self.ir = popxl.Ir(replication=replication)
        with self.ir.main_graph, popxl.in_sequence():
            self.x = popxl.h2d_stream(shape, popxl.float32, "x")
            self.y = popxl.d2h_stream(shape, popxl.float32, "y")
            self.a = popxl.variable(np.zeros(shape), name="a")
            self.b = popxl.variable(np.full(shape, 10.0), name="b")
            for _ in range(transfers):
                ops.host_store(self.y, ops.host_load(self.x) + self.a + self.b)
            self.a += 1
        self.ir.num_host_transfers = transfers


@pytest.fixture
def traffic(monkeypatch):
    """Names of the uploads and downloads, in order."""
    calls = []
    for name in ("weightsFromHost", "weightsToHost"):
        original = getattr(IrSession, name)

        def counted(self, original=original, name=name):
            calls.append(name)
            return original(self)

        monkeypatch.setattr(IrSession, name, counted)
    return calls


@pytest.mark.shows("popxl.Session", "popxl.Session.write_variable_data", "popxl.Session.get_tensor_data")
@pytest.mark.parametrize("device", ["ipu_hw", "ipu_model", "cpu"])
@pytest.mark.shows(
    "popxl.Session.run", "popxl.Session.is_attached", "popxl.Session.__enter__", "popxl.Session.__exit__"
)
def test_weight_traffic(traffic, device):
    p = Program()
    s = popxl.Session(p.ir, device)
    s.write_variable_data(p.a, 3.0)
    assert traffic == [] and not s.is_attached
    with pytest.raises(ValueError, match="attach|device"):
        s.run({p.x: 1.0})

    def after(*expected):
        assert tuple(traffic) == expected
        traffic.clear()

    with s:
        after("weightsFromHost")
        assert s.run({p.x: 1.0})[p.y] == 14
        after()
        assert s.get_tensor_data(p.a) == 4
        after("weightsToHost")
        assert s.get_tensor_data(p.b) == 10
        after()
        s.write_variable_data(p.a, 7.0)
        after("weightsFromHost")
        with s:
            assert s.run({p.x: 0.0})[p.y] == 17
        after()
        assert s.is_attached
    after("weightsToHost")
    assert not s.is_attached
    assert s.get_tensor_data(p.a) == 8
    after()


@pytest.mark.edge("29.39")
def test_leaving_by_an_exception_keeps_the_hosts_values(traffic):
    p = Program()
    s = popxl.Session(p.ir, "ipu_model")
    with pytest.raises(KeyError):
        with s:
            s.run({p.x: 1.0})
            raise KeyError
    assert traffic == ["weightsFromHost"] and not s.is_attached
    assert s.get_tensor_data(p.a) == 0
    with s:
        assert s.run({p.x: 1.0})[p.y] == 11


def test_weights_stay_when_the_session_is_told_so(traffic):
    p = Program()
    s = popxl.Session(p.ir, "ipu_model", weights_to_host_on_exit=False)
    with s:
        s.run({p.x: 1.0})
    assert traffic == ["weightsFromHost"]
    assert s.get_tensor_data(p.a) == 0


@pytest.mark.shows("popxl.Session.get_tensors_data")
@pytest.mark.edge("29.36", "29.37")
def test_writing_one_variable_keeps_what_runs_left_in_others():
    p = Program()
    with popxl.Session(p.ir, "ipu_model") as s:
        s.run({p.x: 0.0})
        s.write_variable_data(p.b, 100.0)
        assert s.run({p.x: 0.0})[p.y] == 101
        assert s.get_tensors_data(t for t in (p.a, p.b)) == {p.a: 2, p.b: 100}


@pytest.mark.shows("popxl.Session.create_host_outputs", "popxl.Session.expected_inputs")
@pytest.mark.parametrize("transfers,replicas", [(1, 1), (4, 1), (1, 4), (4, 2)])
@pytest.mark.shows("popxl.Session.run_with_outputs")
def test_shapes_of_inputs_and_outputs(transfers, replicas):
    p = Program(replicas, transfers, (2, 4))
    extra = ((transfers,) if transfers > 1 else ()) + ((replicas,) if replicas > 1 else ())
    full = (*extra, 2, 4)
    with popxl.Session(p.ir, "ipu_model") as s:
        assert s.expected_inputs() == {p.x} and s._expected_outputs() == {p.y}
        assert s._full_input_shape((2, 4)) == full
        assert s.create_host_outputs()[p.y].shape == full
        x = np.random.default_rng(0).standard_normal(full).astype(np.float32)
        np.testing.assert_allclose(s.run({p.x: x})[p.y], x + 10, rtol=1e-6)
        outputs = {p.y: np.empty(full, np.float32)}
        assert s.run_with_outputs({p.x: x}, outputs) is None
        np.testing.assert_allclose(outputs[p.y], x + 11, rtol=1e-6)
        if transfers > 1:  # more rows than are needed
            more = np.concatenate([x, x])
            np.testing.assert_allclose(s.run({p.x: more})[p.y], x + 12, rtol=1e-6)
            with pytest.raises(ValueError, match="num_host_transfers"):
                s.run({p.x: x[1:]})
        if replicas > 1:
            with pytest.raises(ValueError, match="replicas"):
                s.run({p.x: np.zeros((*extra[:-1], replicas + 1, 2, 4), np.float32)})
        with pytest.raises(ValueError, match=r"\(2, 4\)"):
            s.run({p.x: np.zeros((*extra, 2, 5), np.float32)})


@pytest.mark.shows("popxl.Session.run_with_outputs")
@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
def test_an_output_of_another_dtype_than_its_stream_is_refused(dtype):
    p = Program(shape=(2,))
    name = np.dtype(dtype).name
    with popxl.Session(p.ir, "ipu_model") as s:
        wrong = np.full(2, 7, dtype)
        with pytest.raises(ValueError, match=rf"DeviceToHostStream .*\by\b.* {name}, .*float32.*create_host_outputs"):
            s.run_with_outputs({p.x: np.ones(2, np.float32)}, {p.y: wrong})
        assert wrong.tolist() == [7, 7]
        assert s.run({p.x: np.ones(2, np.float32)})[p.y].tolist() == [11, 11]  # it did not run


def test_streams_of_a_run_are_exactly_those_in_use():
    p = Program()
    with p.ir.main_graph:
        unused = popxl.h2d_stream((), popxl.float32, "unused")
    with popxl.Session(p.ir, "ipu_model") as s:
        with pytest.raises(ValueError, match="missing"):
            s.run()
        with pytest.raises(ValueError, match="unused"):
            s.run({p.x: 1.0, unused: 1.0})
        with pytest.raises(ValueError, match="missing"):
            s.run_with_outputs({p.x: 1.0}, {})
        assert s.run({p.x: 1.0})[p.y] == 11  # still usable


@pytest.mark.parametrize("dtype", [popxl.int32, popxl.uint32, popxl.float16, popxl.float32, popxl.bool])
@pytest.mark.parametrize("value", [1, True, [1], np.ones(1)])
def test_what_an_input_can_be(dtype, value):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.h2d_stream((1,), dtype)
        y = popxl.d2h_stream((1,), dtype)
        ops.host_store(y, ops.host_load(x))
    if isinstance(value, np.ndarray):
        value = value.astype(dtype.as_numpy())
    elif dtype is popxl.bool:
        value = True
    with popxl.Session(ir, "ipu_model") as s:
        out = s.run({x: value})[y]
        assert out.dtype == dtype.as_numpy() and out.tolist() == [1]


def test_a_torch_tensor_is_an_input():
    torch = pytest.importorskip("torch")
    p = Program(shape=(2,))
    with popxl.Session(p.ir, "ipu_model") as s:
        assert s.run({p.x: torch.ones(2, requires_grad=True)})[p.y].tolist() == [11, 11]


def test_an_input_of_another_dtype_is_refused_and_the_session_goes_on():
    p = Program(shape=(2,))
    with popxl.Session(p.ir, "ipu_model") as s:
        with pytest.raises(popart.popart_exception, match="int32"):
            s.run({p.x: np.ones(2, np.int32)})
        with pytest.raises(popart.popart_exception, match="float64"):
            s.run({p.x: np.ones(2)}, downcast_inputs=False)
        assert s.run({p.x: np.ones(2)})[p.y].tolist() == [11, 11]


def test_int64_without_downcast_is_narrowed_with_a_warning(capfd):
    ir = popxl.Ir()
    with ir.main_graph:
        x, y = popxl.h2d_stream((2,), popxl.int32, "x"), popxl.d2h_stream((2,), popxl.int32)
        ops.host_store(y, ops.host_load(x))
    with popxl.Session(ir, "ipu_model") as s:
        assert s.run({x: np.int64([1, 2])}, downcast_inputs=False)[y].tolist() == [1, 2]
    assert "int64" in capfd.readouterr().err


@pytest.mark.edge("29.18")
def test_short_streams_wrap_and_stores_go_around():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x, y = popxl.h2d_stream((), popxl.float32, "x"), popxl.d2h_stream((), popxl.float32, "y")
        for _ in range(5):
            ops.host_store(y, ops.host_load(x))
    ir.num_host_transfers = 2
    with popxl.Session(ir, "ipu_model") as s:
        # 1 2 1 2 1 are loaded; the last of five stores is row 0 again.
        assert s.run({x: np.float32([1, 2])})[y].tolist() == [1, 2]


def test_a_store_executed_less_often_writes_its_rows_only():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x, y = popxl.h2d_stream((), popxl.float32, "x"), popxl.d2h_stream((), popxl.float32, "y")
        ops.host_store(y, ops.host_load(x) + ops.host_load(x))
    ir.num_host_transfers = 2
    with popxl.Session(ir, "ipu_model") as s:
        outputs = {y: np.full(2, -1, np.float32)}
        s.run_with_outputs({x: np.float32([1, 2])}, outputs)
        assert outputs[y].tolist() == [3, -1]


def test_data_methods_check_their_arguments():
    p = Program(shape=(2,))
    with p.ir.main_graph:
        bytes_ = popxl.variable(np.zeros(2, np.int8), name="bytes")
        half = popxl.constant([1.0, 2.0], popxl.float16)
        float8 = popxl.variable([1.0, 2.0], popxl.float8_143, "float8")
    s = popxl.Session(p.ir, "ipu_model")
    with pytest.raises(TypeError, match="Variable"):
        s.get_tensor_data(p.x)
    with pytest.raises(TypeError, match="Variable"):
        s.get_tensors_data([p.a, p.a + 1 if False else p.ir.main_graph.get_tensor("add_out")])
    with pytest.raises(ValueError, match="int8"):
        s.get_tensor_data(bytes_)
    with pytest.raises(TypeError, match="no popxl.tensor.Variable"):
        s.write_variable_data(half, 1.0)
    with pytest.raises(TypeError, match="float64"):
        s.write_variable_data(p.a, np.zeros(2))
    with pytest.raises(TypeError, match="number"):
        s.write_variable_data(float8, 1.0)
    with pytest.raises(ValueError, match=r"\(3,\)"):
        s.write_variable_data(p.a, np.zeros(3, np.float32))
    assert s.get_tensor_data(half).dtype == np.float16
    assert s.get_tensor_data(float8).dtype == popxl.float8_143.as_numpy()
    s.write_variable_data(p.a, np.float32([5, 6]))
    assert s.get_tensor_data(p.a).tolist() == [5, 6]
    for call in (s.weights_from_host, s.weights_to_host):
        with pytest.raises(ValueError, match="device"):
            call()


def test_unused_variables_keep_their_first_value():
    p = Program()
    with p.ir.main_graph:
        unused = popxl.variable(4.0, name="unused")
    with popxl.Session(p.ir, "ipu_model") as s:
        assert s.get_tensor_data(unused) == 4


def test_a_session_takes_the_device_that_is_named():
    p = Program(replication=2)
    with pytest.raises(ValueError, match="cpu"):
        popxl.Session(p.ir, "cpu")
    with pytest.raises(ValueError, match="toaster"):
        popxl.Session(p.ir, "toaster")
    with pytest.raises(RuntimeError, match="no op"):
        popxl.Session(popxl.Ir())
    for name, kind in (("ipu_model", "IpuModel"), ("ipu_hw", "OfflineIpu"), ("IPU-POD16", "OfflineIpu")):
        s = popxl.Session(p.ir, name)
        assert s._device.type is getattr(popart.DeviceType, kind) and s._device.numIpus == 2
        assert s._get_ipus_per_replica() == 1 and s._get_ipu_count() == 2


def test_offline_device_of_the_environment(monkeypatch):
    monkeypatch.setenv("POPXL_OFFLINE_DEVICE", "IPU-POD4")
    s = popxl.Session(Program().ir, "cpu")
    assert s._device.type is popart.DeviceType.OfflineIpu


def test_a_device_that_is_attached_gets_one_upload_and_stays_attached(traffic):
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1})
    device.attach()
    p = Program()
    s = popxl.Session(p.ir, device)
    assert traffic == ["weightsFromHost"] and s.is_attached
    with s:
        assert s.run({p.x: 1.0})[p.y] == 11
    assert traffic == ["weightsFromHost"] and s.is_attached
    assert s.run({p.x: 1.0})[p.y] == 12


@pytest.mark.parametrize("compiled_for", ["ipu_hw", "ipu_model", "cpu"])
def test_entering_another_device_than_compiled_for_is_refused(compiled_for, traffic):
    p = Program()
    s = popxl.Session(p.ir, compiled_for)
    devices = [popxl.utils._to_device_info(kind, 1) for kind in ("ipu_hw", "ipu_model", "cpu")]
    attached = popxl.utils._to_device_info("ipu_model", 2)
    attached.attach()
    others = [d for kind, d in zip(("ipu_hw", "ipu_model", "cpu"), devices) if kind != compiled_for]
    for device in [*others, popxl.utils._to_device_info("ipu_model", 2), attached]:
        s._set_device(device)  # only notes it
        with pytest.raises(popart.popart_exception, match="compiled for another device.*1 IPU"), s:
            pass
        assert traffic == []
    s._set_device(next(d for d in devices if d not in others))
    with s:
        assert s.run({p.x: 1.0})[p.y] == 11
    assert traffic == ["weightsFromHost", "weightsToHost"]


def test_an_attached_device_that_comes_later_gets_the_weights():
    p = Program()
    s = popxl.Session(p.ir, "ipu_model")
    device = popxl.utils._to_device_info("ipu_model", 1)
    device.attach()
    s._set_device(device)
    with s:
        assert s.run({p.x: 1.0})[p.y] == 11


def writing_calls(call):
    """A program in which graphs that write their input by reference are called without any order."""

    def graph_of(ir, x, function):
        def body(x: popxl.TensorByRef):
            function(x)

        return ir.create_graph(body, x)

    ir = popxl.Ir()
    with ir.main_graph:
        w = popxl.variable(np.full(4, 2.0), name="w")
        large = popxl.variable(np.zeros((64, 64)))  # a program that took the smallest first would read too late
        add, double = graph_of(ir, w, lambda x: ops.add_(x, x + 1)), graph_of(ir, w, lambda x: ops.add_(x, x))
        out = popxl.d2h_stream((4,), popxl.float32)
        read = w + ops.sum(large)
        call(add, w)
        between = w * 1
        call(double, w)
        ops.host_store(out, read + 10 * between)
    return ir, w, out


@pytest.mark.parametrize("how", ["call", "repeat"])
def test_calls_that_write_run_in_the_order_in_which_they_were_made(how):
    run = ops.call if how == "call" else lambda graph, w: ops.repeat(graph, 1, w)
    ir, w, out = writing_calls(run)
    with popxl.Session(ir, "ipu_model") as s:
        assert s.run()[out].tolist() == [2 + 10 * 5.0] * 4  # 2 + (2 + 1), then twice that
    assert s.get_tensor_data(w).tolist() == [10.0] * 4


def test_a_write_beside_a_call_that_writes_is_ambiguous():
    def write_too(graph, w):
        ops.call(graph, w)
        ops.relu_(w)

    with pytest.raises(popart.popart_exception, match="ambiguous order"):
        popxl.Session(writing_calls(write_too)[0], "ipu_model")


@pytest.mark.shows("popxl.Ir.replication_factor")
def test_a_session_does_not_see_later_changes_and_another_does():
    p = Program()
    first = popxl.Session(p.ir, "ipu_model")
    with p.ir.main_graph:
        y2 = popxl.d2h_stream((), popxl.float32, "y2")
        ops.host_store(y2, p.b * 2)
    second = popxl.Session(p.ir, "ipu_model")
    with first, second:
        assert set(first.run({p.x: 1.0})) == {p.y}
        assert second.run({p.x: 1.0})[y2] == 20
    with pytest.raises(RuntimeError, match="replication factor"):
        p.ir.replication_factor = 2


@pytest.mark.shows("popxl.Session.ir")
def test_sessions_can_be_subclassed_and_hold_attributes():
    class Mine(popxl.Session):
        def run(self, *args, **kwargs):
            self.runs = getattr(self, "runs", 0) + 1
            return super().run(*args, **kwargs)

    p = Program()
    with Mine(p.ir, "ipu_model") as s:
        s.run({p.x: 0.0})
        assert s.runs == 1 and s.ir is p.ir is s.ir_ and s._ir is p.ir._pb_ir


def ambiguous(body):
    ir = popxl.Ir()
    with ir.main_graph:
        a, b = popxl.variable([1.0, -1.0], name="a"), popxl.variable([2.0, 2.0], name="b")
        out = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(out, body(a, b))
    return ir


def twice(op):
    def body(a, b):
        op(a)
        return ops.relu_(a)

    return body


def read_and_written(a, b):
    ops.relu_(a)
    return a + b


@pytest.mark.parametrize("body", [read_and_written, twice(ops.relu_), twice(ops.gelu_)])
def test_writes_that_nothing_orders_are_refused(body):
    with pytest.raises(popart.popart_exception):
        popxl.Session(ambiguous(body), "ipu_model")


def too_many_ipus():
    ir = popxl.Ir(replication=2048)
    with ir.main_graph:
        ops.relu_(popxl.variable([1.0]))
    return ir


@pytest.mark.parametrize(
    "make, cure",
    [
        (lambda: ambiguous(read_and_written), "put both in a `popxl.in_sequence()` context"),
        (
            too_many_ipus,
            'fewer replicas (`replication` of the Ir), or several processes: `popxl.Ir("popdist")` under poprun',
        ),
    ],
)
def test_an_error_of_the_core_has_a_cure_of_popxl(make, cure):
    with pytest.raises(popart.popart_exception) as raised:
        popxl.Session(make(), "ipu_model")
    assert str(raised.value) == f"{raised.value.__cause__}\n  try:      {cure}"


@pytest.mark.parametrize("body, is_ambiguous", [(read_and_written, True), (lambda a, b: ops.relu_(a + b), False)])
def test_a_session_says_whether_a_program_is_ambiguous(body, is_ambiguous):
    ir = ambiguous(body)._pb_ir
    session = popart.InferenceSession.fromIr(ir, popart.DeviceManager().createCpuDevice())
    assert session.checkInplacingAmbiguity() is is_ambiguous
    if is_ambiguous:
        with pytest.raises(popart.popart_exception, match="ambiguous order"):
            session.prepareDevice()
    else:
        session.prepareDevice()


def test_ordered_writes_are_accepted():
    def body(a, b):
        with popxl.in_sequence():
            ops.relu_(a)
            return a + b

    popxl.Session(ambiguous(body), "ipu_model")
    popxl.Session(ambiguous(lambda a, b: ops.relu_(a + b)), "ipu_model")


def test_memory_maps_are_used_in_place(tmp_path):
    path = tmp_path / "a.dat"
    memmap = np.memmap(path, np.float32, "w+", shape=(2,))
    memmap[:] = [1, 2]
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        a = popxl.variable(memmap, name="a")
        a += 1
        show = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(show, a)
    assert a._memmap_arr is memmap
    flushed = []
    with popxl.Session(ir, "ipu_model") as s:
        s.run()
        memmap.flush = lambda: flushed.append(1)
        assert s.get_tensor_data(a) is memmap
    assert flushed and memmap.tolist() == [2, 3]


def test_a_read_only_memory_map_keeps_all_variables_on_the_device(tmp_path):
    path = tmp_path / "a.dat"
    np.full(2, 5, np.float32).tofile(path)
    memmap = np.memmap(path, np.float32, "r", shape=(2,))
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        a = popxl.variable(memmap, name="a")
        b = popxl.variable([1.0, 1.0], name="b")
        b += a
        out = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(out, b)
    assert ir._has_read_only_memmap
    with popxl.Session(ir, "ipu_model") as s:
        assert not s.weights_to_host_on_exit
        assert s.run()[out].tolist() == [6, 6]
        with pytest.raises(Exception, match="read-only"):
            s.weights_to_host()
        assert s.get_tensor_data(b).tolist() == [1, 1]


def test_writing_to_a_read_only_memory_map_says_which_variable_and_how(tmp_path):
    path = tmp_path / "a.dat"
    np.full(2, 5, np.float32).tofile(path)
    ir = popxl.Ir()
    with ir.main_graph:
        a = popxl.variable(np.memmap(path, np.float32, "r", shape=(2,)), name="a")
        b = popxl.variable([1.0, 1.0], name="b")
        ops.host_store(popxl.d2h_stream((2,), popxl.float32), a + b)
    new = np.float32([3, 4])
    with popxl.Session(ir, "ipu_model") as s:
        with pytest.raises(ValueError, match=r"variable 'a' cannot be written.* np\.memmap of .*a\.dat.*'r\+'"):
            s.write_variables_data({b: new, a: new})
        with pytest.raises(ValueError, match="variable 'a' cannot be written"):
            s._pb_session.writeWeights(popart.PyWeightsIO({"a": new}))
        assert s.get_tensor_data(b).tolist() == [1, 1]  # nothing was written
        s.write_variable_data(b, new)
        assert s.get_tensor_data(b).tolist() == [3, 4]


def test_memory_maps_that_would_have_to_change_are_refused(tmp_path):
    memmap = np.memmap(tmp_path / "a.dat", np.float64, "w+", shape=(4, 4))
    ir = popxl.Ir()
    with ir.main_graph:
        for arguments in ((), (popxl.float16,), (popxl.float64,), (None, None, False)):
            with pytest.raises(ValueError, match="narrowed to float32"):
                popxl.variable(memmap, *arguments)
        half = np.memmap(tmp_path / "b.dat", np.float16, "w+", shape=(4, 4))
        with pytest.raises(ValueError, match="is to become popxl.dtypes.float32"):
            popxl.variable(half, popxl.float32)
        with pytest.raises(ValueError, match="contiguous"):
            popxl.variable(half.T)
        assert popxl.variable(half, popxl.float16).dtype is popxl.float16


def test_executables_are_cached(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("POPXL_CACHE_DIR", str(tmp_path / "cache"))
    popart.getLogger("session").setLevel("DEBUG")

    def build(scale, options=None, weight=2.0):
        ir = popxl.Ir()
        with ir.main_graph:
            y = popxl.d2h_stream((), popxl.float32)
            ops.host_store(y, popxl.variable(weight) * scale)
        ir._pb_ir.getSessionOptions().engineOptions.update(options or {})
        with popxl.Session(ir, "ipu_model") as s:
            result = s.run()[y]
        text = capfd.readouterr().err
        return float(result), "loaded" if "loaded from the cache" in text else "compiled"

    def files():
        return [name for name in os.listdir(tmp_path / "cache") if name.endswith(".popef")]

    try:
        assert build(3.0) == (6, "compiled") and len(files()) == 1
        assert build(3.0) == (6, "loaded") and len(files()) == 1
        assert build(3.0, weight=5.0) == (15, "loaded") and len(files()) == 1  # values are no part of the key
        assert build(4.0) == (8, "compiled") and len(files()) == 2
        assert build(3.0, {"debug.x": "true"}) == (6, "compiled") and len(files()) == 3
        os.remove(tmp_path / "cache" / files()[0])
        assert {build(3.0), build(4.0), build(3.0, {"debug.x": "true"})} <= {
            (6.0, "loaded"),
            (6.0, "compiled"),
            (8.0, "loaded"),
            (8.0, "compiled"),
        }
        assert len(files()) == 3
    finally:
        popart.getLogger("session").setLevel("WARN")


def test_irs_are_collected():
    gc.collect()
    before = len(popxl.Ir._ir_cache)
    p = Program()
    with popxl.Session(p.ir, "ipu_model") as s:
        s.run({p.x: 0.0})
    assert len(popxl.Ir._ir_cache) == before + 1
    del p, s
    gc.collect()
    assert len(popxl.Ir._ir_cache) == before


def test_importing_popxl_takes_no_torch():
    code = "import sys, popxl; assert 'torch' not in sys.modules; print(popxl.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip()


def large_program():
    """A product with weights that the four tiles of the model cannot hold."""
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.h2d_stream((1, 900), popxl.float32, name="x")
        y = popxl.d2h_stream((1, 900), popxl.float32, name="y")
        ops.host_store(y, ops.matmul(ops.host_load(x), popxl.variable(np.zeros((900, 900), np.float32))))
    return ir


def test_a_program_that_does_not_fit_is_warned_of(monkeypatch):
    lines = []
    monkeypatch.setattr(type(popart.getLogger("session")), "warn", lambda self, message: lines.append(message))
    report = popxl.Session(large_program(), "ipu_model").report()
    (line,) = lines
    assert "out of tile memory: IPU 0 needs" in line and "enableStrictMemory makes this an error" in line
    assert f"IPU 0 needs {report.memory[0]:,} bytes" in line and not report.fits
    popxl.Session(large_program(), "ipu_hw")
    assert len(lines) == 1


def test_a_report_counts_io_tiles():
    ir = large_program()
    ir._pb_ir.getSessionOptions().numIOTiles = 32
    report = popxl.Session(ir, "ipu_hw").report()
    assert report.to_dict()["program"]["io_tiles"] == 32


@pytest.mark.parametrize("how", ["engine option", "environment"])
def test_strict_memory_refuses_it(how, monkeypatch):
    ir = large_program()
    if how == "environment":
        monkeypatch.setenv("POPTORCH_STRICT_MEMORY", "1")
    else:
        ir._pb_ir.getSessionOptions().engineOptions = {"enableStrictMemory": "true"}
    with pytest.raises(popart.OutOfMemoryException, match="out of tile memory: IPU 0 needs"):
        popxl.Session(ir, "ipu_model")


def test_a_session_says_what_its_program_takes_on_the_machine():
    session = popxl.Session(Program(shape=(256,)).ir, "ipu_model")
    report = session.report()
    assert report.cycles > 0 and report.fits and "add" in str(report)
    assert report.to_dict()["program"]["streams"][0]["bytes"] == 1024
    with pytest.raises(popart.popart_exception, match="unknown machine 'pod61'"):
        session.report(machine="pod61")

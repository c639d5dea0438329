"""Sessions: writes that nothing orders, run-time faults, float8 and bool streams, driving by hand, many IPUs."""

import os
import subprocess
import sys

import numpy as np
import pytest

import ipu_core
import popart
import popxl
from popxl import ops
from popxl.ops import var_updates


def build(body):
    ir = popxl.Ir()
    with ir.main_graph:
        a, b = popxl.variable([1.0, -1.0], name="a"), popxl.variable([2.0, 2.0], name="b")
        result = body(ir, a, b)
        if result is not None:
            ops.host_store(popxl.d2h_stream((2,), popxl.float32), result)
    return ir


def in_graph(function):
    """The body of a called graph."""

    def body(ir, a, b):
        (result,) = ops.call(ir.create_graph(function, a, b), a, b)
        return result

    return body


def write_and_read(x, y):
    ops.relu_(x)
    return x + y


def write_twice(x, y):
    ops.relu_(x)
    return ops.gelu_(x)


def write_after_a_reader_and_before_a_writer(x, y):
    z = ops.relu(x)
    ops.relu_(x)
    x += y
    return z


def update_and_read(x, y):
    var_updates.copy_var_update_(x, y)
    return x + 5


def read_and_add(x, y):
    ops.relu_(x)
    x += y
    return ops.relu(x)


def of_loaded(x, y):
    t = ops.host_load(popxl.h2d_stream((2,), popxl.float32))
    ops.relu_(t)
    return t + x


WRITES = [
    write_and_read,
    write_twice,
    write_after_a_reader_and_before_a_writer,
    update_and_read,
    read_and_add,
    of_loaded,
]


@pytest.mark.parametrize("function", WRITES)
@pytest.mark.parametrize("where", ["main", "graph"])
def test_writes_that_nothing_orders(function, where):
    body = in_graph(function) if where == "graph" else lambda ir, a, b: function(a, b)
    with pytest.raises(popart.popart_exception):
        popxl.Session(build(body), "ipu_model")

    def ordered(x, y):
        with popxl.in_sequence():
            return function(x, y)

    body = in_graph(ordered) if where == "graph" else lambda ir, a, b: ordered(a, b)
    popxl.Session(build(body), "ipu_model")


def test_orders_that_need_not_be_said():
    popxl.Session(build(lambda ir, a, b: ops.relu_(ops.relu(a) + b)), "ipu_model")  # by data
    popxl.Session(build(lambda ir, a, b: (a + b) * ops.relu(a)), "ipu_model")  # readers

    def by_value(ir, a, b):
        (y,) = ops.call(ir.create_graph(lambda x: ops.relu_(x), a), a)
        return y + a

    popxl.Session(build(by_value), "ipu_model")  # the call works on a copy


@pytest.mark.parametrize("scale,good", [(0, True), (31, True), (-32, True), (32, False), (-33, False)])
def test_a_scale_out_of_range_ends_the_run_and_the_session_goes_on(scale, good):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.h2d_stream((), popxl.int32)
        y = popxl.d2h_stream((), popxl.float8_143)
        value = popxl.variable(0.0, popxl.float16)
        ops.host_store(y, ops.pow2scale_cast_to_fp8(value, ops.host_load(x), popxl.float8_143))
    with popxl.Session(ir, "ipu_model") as s:
        if not good:
            with pytest.raises(popart.poplar_application_runtime_error):
                s.run({x: scale})
        assert s.run({x: 0 if not good else scale})[y].dtype == popxl.float8_143.as_numpy()


@pytest.mark.parametrize("scale, nearest", [(32, 31), (1000, 31), (-33, -32), (5, 5)])
def test_a_scale_out_of_range_is_taken_as_the_nearest_where_the_option_says_so(scale, nearest):
    ir = popxl.Ir()
    small, codes = np.float32(2.0 ** (1 - nearest)), np.float32([[1, 2], [3, 4]])
    with ir.main_graph:
        x = popxl.h2d_stream((), popxl.int32)
        at = ops.host_load(x)
        to, back, product = (
            popxl.d2h_stream(s, t) for s, t in (((), popxl.float8_143), ((), popxl.float32), ((2, 2), popxl.float16))
        )
        ops.host_store(to, ops.pow2scale_cast_to_fp8(popxl.variable(small), at, popxl.float8_143))
        one = popxl.variable(1.0, popxl.float8_143, log2_scale=0)
        ops.host_store(back, ops.pow2scale_cast_from_fp8(one, at, popxl.float32))
        eight = popxl.variable(codes, popxl.float8_143, log2_scale=0)
        tiny = popxl.variable(np.full((2, 2), 2.0**-8, np.float32), popxl.float8_143, log2_scale=0)
        ops.host_store(product, ops.matmul_pow2scaled(eight, tiny, at))
    options = ir._pb_ir.getSessionOptions()
    options.throwIfLog2ScaleTensorNotInRange = False
    with popxl.Session(ir, "ipu_model") as s:
        got = s.run({x: scale})
    assert popxl.fp8_utils.host_pow2scale_cast_from_fp8(got[to], popxl.float32, 0) == 2.0
    assert got[back] == 2.0**nearest
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(
            got[product], (codes.sum(1, keepdims=True) * 2.0 ** (nearest - 8) * np.ones(2)).astype(np.float16)
        )
    options.throwIfLog2ScaleTensorNotInRange = True  # read when a session is built
    if scale != nearest:
        with popxl.Session(ir, "ipu_model") as s, pytest.raises(popart.poplar_application_runtime_error):
            s.run({x: scale})


def test_float8_and_bool_streams():
    ir = popxl.Ir()
    with ir.main_graph:
        x, y = popxl.h2d_stream((3,), popxl.float8_152, "x"), popxl.d2h_stream((3,), popxl.float8_152, "y")
        f, g = popxl.h2d_stream((2,), popxl.bool, "f"), popxl.d2h_stream((2,), popxl.bool, "g")
        v = popxl.variable([0.5, 1.0], popxl.float8_143, "v", log2_scale=1)
        w = popxl.d2h_stream((2,), popxl.float8_143, "w")
        ops.host_store(y, ops.host_load(x))
        ops.host_store(g, ops.logical_not(ops.host_load(f)))
        ops.host_store(w, v)
    codes = popxl.utils.to_numpy([1.0, -2.0, 1e9], popxl.float8_152)
    with popxl.Session(ir, "ipu_model") as s:
        outputs = s.run({x: codes, f: [True, False]})
        np.testing.assert_array_equal(outputs[y].view(np.uint8), codes.view(np.uint8))
        assert outputs[g].tolist() == [False, True]
        assert outputs[w]["float8_143"].tolist() == s.get_tensor_data(v)["float8_143"].tolist()
        assert popxl.fp8_utils.host_pow2scale_cast_from_fp8(s.get_tensor_data(v), popxl.float32, -1).tolist() == [
            0.5,
            1,
        ]
        s.write_variable_data(v, codes[:2].view(np.uint8).view(popxl.float8_143.as_numpy()))
        assert s.run({x: codes, f: [True, False]})[w].view(np.uint8).tolist() == codes[:2].view(np.uint8).tolist()


def test_64_bit_variables_keep_their_type_on_the_host():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(np.array([1.5, 2.5]), name="v", downcast=False)
        v += 1
        n = popxl.variable(np.array([3, 4]), popxl.int64, name="n", downcast=False)
        n += 1
        out = popxl.d2h_stream((2,), popxl.float64)
        ops.host_store(out, v)
    with popxl.Session(ir, "ipu_model") as s:
        got = s.run()[out]
        assert got.dtype == np.float64 and got.tolist() == [2.5, 3.5]
        assert s.get_tensor_data(v).dtype == np.float64 and s.get_tensor_data(v).tolist() == [2.5, 3.5]
        assert s.get_tensor_data(n).dtype == np.int64 and s.get_tensor_data(n).tolist() == [4, 5]


@pytest.mark.shows("popart.InferenceSession.fromIr")
@pytest.mark.shows("popart.InferenceSession", "popart.PyStepIO", "popart.PyWeightsIO")
@pytest.mark.parametrize("replicas", [1, 2])
def test_driving_by_hand(replicas):
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph:
        x, y = popxl.h2d_stream((2,), popxl.float32, "x"), popxl.d2h_stream((2,), popxl.float32, "y")
        w = popxl.variable([1.0, 2.0], name="w")
        ops.host_store(y, ops.host_load(x) * w)
    ir._pb_ir.setDataFlow(
        popart.DataFlow(batchesPerStep=1, anchorTensors={y.tensor_id: popart.AnchorReturnType("All")})
    )
    ir._pb_ir.updateVertices()
    ir._pb_ir.setPatterns(popart.Patterns(popart.PatternsLevel.Default))
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": replicas})
    s = popart.InferenceSession.fromIr(ir=ir._pb_ir, deviceInfo=device)
    s.prepareDevice()
    anchors = s.initAnchorArrays()
    s.weightsFromHost()
    data = np.arange(2 * replicas, dtype=np.float32).reshape((replicas, 2) if replicas > 1 else (2,))
    s.run(popart.PyStepIO(inputs={x.tensor_id: data}, outputs=anchors))
    np.testing.assert_array_equal(anchors["y"], data * [1, 2])
    s.weightsToHost()
    weights = {"w": np.zeros(2, np.float32)}
    s.readWeights(popart.PyWeightsIO(weights))
    assert weights["w"].tolist() == [1, 2]
    s.writeWeights(popart.PyWeightsIO({"w": np.float32([3, 4])}))
    s.weightsFromHost()
    s.run(popart.PyStepIO(inputs={x.tensor_id: data}, outputs=anchors))
    np.testing.assert_array_equal(anchors["y"], data * [3, 4])
    assert s.getReport()
    with pytest.raises(popart.popart_exception, match="no variable"):
        s.readWeights(popart.PyWeightsIO({"x": data}))
    with pytest.raises(popart.popart_exception, match="no array"):
        s.run(popart.PyStepIO(inputs={}, outputs=anchors))
    with pytest.raises(popart.popart_exception, match=r"input 'x' has shape \(3,\)"):
        s.run(popart.PyStepIO(inputs={"x": np.zeros(3, np.float32)}, outputs=anchors))
    with pytest.raises(popart.popart_exception, match=r"output 'y' has shape \(3,\)"):
        s.run(popart.PyStepIO(inputs={"x": data}, outputs={"y": np.zeros(3, np.float32)}))


@pytest.mark.shows("popart.InferenceSession.fromIr")
def test_a_session_of_a_program_keeps_track_of_the_values_of_the_host():
    ir = popxl.Ir()
    with ir.main_graph:
        w = popxl.variable([1.0, 2.0], name="w")
        ops.host_store(popxl.d2h_stream((2,), popxl.float32, "y"), w + 1)
    session = popart.InferenceSession.fromIr(ir._pb_ir, popart.DeviceManager().createCpuDevice())
    assert isinstance(session, popart.InferenceSession)
    session.prepareDevice()
    session.weightsFromHost()
    session.writeWeights(popart.PyWeightsIO({"w": np.float32([8, 9])}))
    session.markHostWeightsInSync()
    session.copyDeviceWeightsToHost()  # nothing to bring
    held = np.zeros(2, np.float32)
    session.readWeights(popart.PyWeightsIO({"w": held}))
    assert session.areHostWeightsInSync() and held.tolist() == [8, 9]
    session.markHostWeightsOutOfSync()
    session.copyDeviceWeightsToHost()
    session.readWeights(popart.PyWeightsIO({"w": held}))
    assert held.tolist() == [1, 2]


@pytest.mark.parametrize("name", ["fromIr", "prepareDevice", "weightsFromHost"])
def test_calls_of_a_session_can_be_counted_at_the_class(monkeypatch, name):
    called, before = [], getattr(popart.InferenceSession, name)

    def counted(*arguments, **named):
        called.append(name)
        return before(*arguments, **named)

    monkeypatch.setattr(popart.InferenceSession, name, counted)
    ir = popxl.Ir()
    with ir.main_graph:
        y = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(y, popxl.variable([1.0, 2.0]) + 1)
    with popxl.Session(ir, "ipu_model") as session:
        assert session.run()[y].tolist() == [2, 3]
    assert called == [name]


def test_several_ipus():
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        x, y = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        t = ops.host_load(x)
        for ipu in range(1, 4):
            t = ops.ipu_copy(t, ipu)
            with popxl.ipu(ipu):
                t = t + 1
        with popxl.ipu(3):
            ops.host_store(y, t)
    for device in ("ipu_model", "ipu_hw"):
        s = popxl.Session(ir, device)
        assert s._get_ipus_per_replica() == 4 and s._get_ipu_count() == 8
        with s:
            assert s.run({x: np.zeros((2, 2), np.float32)})[y].tolist() == [[3, 3], [3, 3]]


def test_no_device_left_is_a_runtime_error(idle_ipus):
    ir = popxl.Ir(replication=16)
    with ir.main_graph:
        y = popxl.d2h_stream((), popxl.float32)
        ops.host_store(y, popxl.variable(1.0) + 1)
    first, second = popxl.Session(ir, "ipu_hw"), popxl.Session(ir, "ipu_hw")
    with first:
        with pytest.raises(RuntimeError, match="attached"):
            second.__enter__()
        assert not second.is_attached and first.is_attached
    with second:
        assert second.run()[y].tolist() == [2] * 16


def test_a_program_of_another_process_is_loaded(tmp_path):
    program = """
import popart, popxl
from popxl import ops
popart.getLogger("session").setLevel("DEBUG")
ir = popxl.Ir()
with ir.main_graph:
    y = popxl.d2h_stream((), popxl.float32)
    ops.host_store(y, popxl.variable(2.0) * 3)
with popxl.Session(ir, "ipu_model") as s:
    assert s.run()[y] == 6
"""
    environment = {**os.environ, "POPXL_CACHE_DIR": str(tmp_path / "c")}
    texts = [
        subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        ).stderr
        for _ in range(2)
    ]
    assert "compiled" in texts[0] and "loaded from the cache" in texts[1]
    assert [name for name in os.listdir(tmp_path / "c") if name.endswith(".popef")] == os.listdir(tmp_path / "c")


@pytest.mark.shows(
    "popxl.Session.weights_from_host", "popxl.Session.weights_to_host", "popxl.Session.write_variables_data"
)
def test_weights_move_when_they_are_told_to():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        a, b = popxl.variable([1.0, 2.0], name="a"), popxl.variable(10.0, name="b")
        y = popxl.d2h_stream((2,), popxl.float32)
        a += 1
        ops.host_store(y, a + b)
    with popxl.Session(ir, "ipu_model") as s:
        assert s.run()[y].tolist() == [12, 13]
        s.weights_from_host()  # the host has the first values still
        assert s.run()[y].tolist() == [12, 13]
        held = s.get_tensor_data(a)
        assert held.tolist() == [2, 3]
        s.run()
        assert held.tolist() == [2, 3] and not a.in_sync_with_ipu
        s.weights_to_host()
        assert held.tolist() == [3, 4] and a.in_sync_with_ipu
        s.write_variables_data({a: np.float32([5, 6]), b: 100.0})
        assert s.run()[y].tolist() == [106, 107]
        assert s.get_tensors_data([a, b]) == {a: pytest.approx([6, 7]), b: 100}
        with pytest.raises(ValueError, match=r"\(3,\)"):
            s.write_variables_data({b: 1.0, a: np.zeros(3, np.float32)})
    s.write_variables_data({b: 0.0, a: np.float32([0, 1])})
    assert s.get_tensor_data(b) == 0 and s.get_tensor_data(a).tolist() == [0, 1]
    with s:
        assert s.run()[y].tolist() == [1, 2]


@pytest.mark.shows("popxl.utils.HW_DEVICE_CONNECTION_TIMEOUT")
def test_the_device_of_a_session_waits_for_the_published_time_and_that_of_the_program_for_its_own(
    monkeypatch, idle_ipus
):
    ir = build(lambda ir, a, b: a + b)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        assert session._device.attach_seconds == popxl.utils.HW_DEVICE_CONNECTION_TIMEOUT == 10000
    monkeypatch.setattr(popxl.utils, "HW_DEVICE_CONNECTION_TIMEOUT", 1)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        pass
    with popart.DeviceManager().acquireAvailableDevice(16) as every:
        assert every.attach_seconds == 0
        waits = []
        monkeypatch.setattr(ipu_core._native, "take_ipus", lambda first, count, seconds: waits.append(seconds))
        assert not session._device.tryAttachUntilTimeout() and waits == [0, 1]

"""Units of straight nodes: variables, inputs, outputs, what a run sends."""

import numpy
import pytest
from unit_records import Records

import ipu_core

f32 = numpy.float32


def scaled_product():
    r = Records([("x", f32, [2, 3])], {"w": (f32, [3, 2]), "n": (numpy.int64, [])})
    w = r.read("w")
    product = r.node("MatMul", "x", w, T="float32", transpose_a=False, transpose_b=False)
    r.assign("w", r.node("Mul", w, r.const(0.5, f32)))
    r.node("AssignAddVariableOp", "n", r.const(1, numpy.int64), results=0, dtype="int64")
    return r.returns(product, r.node("AddV2", r.read("w"), w))


def values():
    return numpy.arange(6, dtype=f32).reshape(2, 3), numpy.arange(6, dtype=f32).reshape(3, 2)


def test_nodes_read_what_nodes_before_them_assigned():
    x, w = values()
    unit = ipu_core.Unit(scaled_product().unit())
    assert unit.written == ["w", "n"]
    assert list(unit.variables) == ["w", "n"] and unit.variables["n"] == (numpy.dtype("int64"), ())
    (product, total), written = unit.run([x], {"w": w, "n": numpy.array(7)})
    numpy.testing.assert_array_equal(product, x @ w)
    numpy.testing.assert_array_equal(total, 1.5 * w)
    numpy.testing.assert_array_equal(written["w"], 0.5 * w)
    assert written["n"] == 8 and written["n"].dtype == numpy.int64


def test_variable_that_is_the_same_array_is_not_sent_again():
    x, w = values()
    unit = ipu_core.Unit(scaled_product().unit())
    given = {"w": w, "n": numpy.array(7)}
    _, written = unit.run([x], given)
    assert unit.counts() == {"compilations": 1, "runs": 1, "uploaded_bytes": 32, "downloaded_bytes": 32}
    _, written = unit.run([x], written)
    assert unit.counts()["uploaded_bytes"] == 0
    numpy.testing.assert_array_equal(written["w"], 0.25 * w)
    _, written = unit.run([x], {**written, "w": w})  # another array: only it is sent
    assert unit.counts()["uploaded_bytes"] == 24
    numpy.testing.assert_array_equal(written["w"], 0.5 * w)
    assert written["n"] == 10


def test_integers_are_wide_where_they_leave():
    r = Records([("x", numpy.int64, [2])])
    r.returns(r.node("AddV2", "x", "x"), types=[numpy.int64])
    (doubled,), _ = ipu_core.Unit(r.unit()).run([numpy.array([3, -4])])
    assert doubled.dtype == numpy.int64 and doubled.tolist() == [6, -8]


def test_integer_of_a_variable_that_does_not_fit():
    r = Records([], {"n": (numpy.int64, [2])})
    unit = ipu_core.Unit(r.returns(r.read("n")).unit())
    with pytest.raises(ipu_core.Error, match=r"element 1 of variable 'n' is 4294967296"):
        unit.run([], {"n": numpy.array([1, 2**32])})


def test_all_unsupported_nodes_are_listed_with_their_lines():
    r = Records([("x", f32, [2])])
    a = r.node("Unheard", "x", location=("model.py", 7))
    b = r.node("Unseen", "x", location=("model.py", 9))
    with pytest.raises(ipu_core.Error) as raised:
        ipu_core.Unit(r.returns(a, b).unit()).written
    text = str(raised.value)
    assert "Unheard" in text and "at model.py:7" in text and "Unseen" in text and "at model.py:9" in text
    assert "on the CPU, outside of the unit" in text and "export" not in text


def test_error_of_a_node_says_its_line():
    r = Records([("x", f32, [2]), ("y", f32, [3])])
    y = r.node("AddV2", "x", "y", location=("model.py", 12))
    with pytest.raises(ipu_core.Error, match=r"at:   model\.py:12"):
        ipu_core.Unit(r.returns(y).unit()).text()


def test_value_of_another_type_is_not_assigned():
    r = Records([("x", f32, [2])], {"w": (f32, [3])})
    r.assign("w", "x")
    with pytest.raises(ipu_core.Error, match=r"assigns f32\[2\] to variable 'w', which is f32\[3\]"):
        ipu_core.Unit(r.returns().unit()).written


def test_arguments_of_another_form_are_refused():
    unit = ipu_core.Unit(scaled_product().unit())
    x, w = values()
    with pytest.raises(ipu_core.Error, match="takes 1 and is given 0"):
        unit.run([], {"w": w, "n": numpy.array(7)})
    with pytest.raises(ipu_core.Error, match="no value of 'n'"):
        unit.run([x], {"w": w})
    with pytest.raises(ipu_core.Error, match="float64"):
        unit.run([x], {"w": w.astype(numpy.float64), "n": numpy.array(7)})


def test_devices_are_what_was_configured():
    devices = [{"ipus": 2}, {"ipus": 1, "compiles_only": True}]
    try:
        ipu_core.configure(devices=devices, seed=7)
        assert [device["ipus"] for device in ipu_core.devices()] == [2, 1]
        ipu_core.attach_devices()
        x, w = values()
        given = {"w": w, "n": numpy.array(7)}
        ipu_core.Unit(scaled_product().unit(), {"device": 0}).run([x], given)
        unit = ipu_core.Unit(scaled_product().unit(), {"device": 1})
        unit.compile()
        with pytest.raises(ipu_core.Error, match="compilation only") as raised:
            unit.run([x], given)
        assert raised.value.reason == "compiles_only"
        with pytest.raises(ipu_core.Error, match="'ipu' of a device"):
            ipu_core.configure(devices=[{"ipu": 2}])
    finally:
        ipu_core.reset()
    assert [device["ipus"] for device in ipu_core.devices()] == [1]


def test_shards_are_ipus_of_the_device():
    r = Records([("x", f32, [2])])
    y = r.node("AddV2", "x", "x", settings={"ipu": 0})
    r.returns(r.node("Mul", y, y, settings={"ipu": 1}))
    unit = ipu_core.Unit(r.unit())
    with pytest.raises(ipu_core.Error, match=r"uses 2 and device 0 has 1"):
        unit.run([f32([1, 2])])
    try:
        ipu_core.configure(devices=[{"ipus": 2}])
        (y,), _ = unit.run([f32([1, 2])])
        numpy.testing.assert_array_equal(y, [4, 16])
    finally:
        ipu_core.reset()


def test_half_results_are_rounded_at_random_where_the_device_says_so():
    r = Records([("x", numpy.float16, [4096])])
    unit = ipu_core.Unit(r.returns(r.node("AddV2", "x", r.const(2**-12, numpy.float16))).unit())
    x = numpy.ones([4096], numpy.float16)
    assert set(unit.run([x])[0][0]) == {1.0}
    try:
        ipu_core.configure(devices=[{"stochastic_rounding": True}], seed=3)
        assert len(set(unit.run([x])[0][0])) == 2
    finally:
        ipu_core.reset()

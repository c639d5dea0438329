"""Loops, conditions and calls of units: what they carry, read and assign; feeds inside them."""

import numpy
import pytest
from unit_records import Records

import ipu_core

f32, i32 = numpy.float32, numpy.int32


def run(records, inputs=(), variables=None):
    return ipu_core.Unit(records.unit()).run(list(inputs), variables or {})


def doubling(r, n=None, operands=()):
    """repeat: x = x + x; w = w + x, with w a variable."""
    body = r.inside("x")
    more = body.node("AddV2", "x", "x")
    body.node("AssignAddVariableOp", "w", more, results=0)
    attributes = {} if n is None else {"n": n}
    return r.node("Repeat", *operands, "start", domain="ipu", subgraphs={"body": body.returns(more)}, **attributes)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_repeat_assigns_a_variable_in_each_round(n):
    r = Records([("start", f32, [2])], {"w": (f32, [2])})
    r.returns(doubling(r, n), r.read("w"))
    start, w = f32([1, 2]), f32([10, 20])
    (last, seen), written = run(r, [start], {"w": w})
    numpy.testing.assert_array_equal(last, start * 2**n)
    numpy.testing.assert_array_equal(seen, w + start * (2 ** (n + 1) - 2))
    assert n == 0 or numpy.array_equal(written["w"], seen)


@pytest.mark.parametrize("n", [-2, 0, 1, 5])
def test_repeat_with_a_number_known_when_it_runs(n):
    r = Records([("start", f32, [2]), ("n", i32, [])], {"w": (f32, [2])})
    r.returns(doubling(r, operands=["n"]), r.read("w"))
    start, w = f32([1, 2]), f32([10, 20])
    (last, seen), _ = run(r, [start, numpy.array(n, i32)], {"w": w})
    rounds = max(n, 0)
    numpy.testing.assert_array_equal(last, start * 2**rounds)
    numpy.testing.assert_array_equal(seen, w + start * (2 ** (rounds + 1) - 2))


def test_variables_in_nested_loops():
    r = Records([], {"a": (f32, []), "b": (f32, [])})
    outer = r.inside()
    inner = outer.inside()
    inner.assign("a", inner.node("AddV2", inner.read("a"), inner.read("b")))
    outer.node("Repeat", results=0, domain="ipu", subgraphs={"body": inner.returns()}, n=3)
    outer.assign("b", outer.node("AddV2", outer.read("b"), outer.const(1, f32)))
    r.node("Repeat", results=0, domain="ipu", subgraphs={"body": outer.returns()}, n=2)
    _, written = run(r.returns(), [], {"a": numpy.zeros([], f32), "b": numpy.ones([], f32)})
    assert written["a"] == 3 * 1 + 3 * 2 and written["b"] == 3


def test_two_variables_of_one_value_in_a_loop():
    r = Records([], {"a": (f32, []), "b": (f32, [])})
    r.assign("b", r.read("a"))
    body = r.inside()
    body.node("AssignAddVariableOp", "a", body.const(1, f32), results=0)
    body.node("AssignSubVariableOp", "b", body.const(1, f32), results=0)
    r.node("Repeat", results=0, domain="ipu", subgraphs={"body": body.returns()}, n=4)
    _, written = run(r.returns(), [], {"a": numpy.full([], 10, f32), "b": numpy.zeros([], f32)})
    assert written["a"] == 14 and written["b"] == 6


def below(r, limit, **attributes):
    """while i < limit: i += 1; x = x * w, w += 1, with w a variable that the condition may read."""
    condition = r.inside("i", "x")
    condition.returns(condition.node("Less", "i", limit))
    body = r.inside("i", "x")
    i = body.node("AddV2", "i", body.const(1, i32))
    x = body.node("Mul", "x", body.read("w"))
    body.node("AssignAddVariableOp", "w", body.const(1, f32), results=0)
    return r.node(
        "While",
        r.const(0, i32),
        "x",
        results=2,
        subgraphs={"cond": condition, "body": body.returns(i, x)},
        **attributes,
    )


@pytest.mark.parametrize(("limit", "most", "rounds"), [(3, None, 3), (0, None, 0), (5, 2, 2), (2, 5, 2), (-1, None, 0)])
def test_while_with_a_limit_known_when_it_runs(limit, most, rounds):
    r = Records([("x", f32, []), ("limit", i32, [])], {"w": (f32, [])})
    i, x = below(r, "limit", **({} if most is None else {"maximum": most}))
    unit = ipu_core.Unit(r.returns(i, x, r.read("w")).unit())
    (i, x, w), _ = unit.run([numpy.full([], 2, f32), numpy.array(limit, i32)], {"w": numpy.ones([], f32)})
    assert (i, w) == (rounds, 1 + rounds) and x == 2 * numpy.prod(numpy.arange(1, rounds + 1))


def test_while_whose_counter_is_known_is_a_plain_loop():
    r = Records([("x", f32, [])], {"w": (f32, [])})
    i, x = below(r, r.const(4, i32))
    unit = ipu_core.Unit(r.returns(i, x).unit())
    assert "trip=4" in unit.text() and "while" not in unit.text()
    (i, x), _ = unit.run([numpy.ones([], f32)], {"w": numpy.ones([], f32)})
    assert i == 4 and x == 24


def test_condition_of_a_loop_reads_what_its_body_assigns():
    r = Records([], {"w": (f32, [])})
    condition = r.inside()
    condition.returns(condition.node("Less", condition.read("w"), condition.const(100, f32)))
    body = r.inside()
    body.assign("w", body.node("AddV2", body.read("w"), body.read("w")))
    r.node("While", results=0, subgraphs={"cond": condition, "body": body.returns()})
    _, written = run(r.returns(), [], {"w": numpy.full([], 3, f32)})
    assert written["w"] == 192


@pytest.mark.parametrize("says", [True, False])
def test_branches_assign_different_variables(says):
    r = Records([("p", bool, []), ("x", f32, [2])], {"a": (f32, [2]), "b": (f32, [2])})
    then, otherwise = r.inside(), r.inside()
    then.assign("a", "x")
    then.returns(then.read("b"))
    otherwise.node("AssignAddVariableOp", "b", "x", results=0)
    otherwise.returns(otherwise.read("b"))
    y = r.node("If", "p", subgraphs={"then": then, "else": otherwise})
    x, a, b = f32([1, 2]), f32([3, 4]), f32([5, 6])
    (y,), written = run(r.returns(y), [numpy.array(says), x], {"a": a, "b": b})
    numpy.testing.assert_array_equal(y, b if says else b + x)
    numpy.testing.assert_array_equal(written["a"], x if says else a)
    numpy.testing.assert_array_equal(written["b"], b if says else b + x)


def test_branch_with_arguments():
    r = Records([("p", bool, []), ("x", f32, [2])])
    then, otherwise = r.inside("v"), r.inside("u")
    then.returns(then.node("AddV2", "v", "v"))
    otherwise.returns("u")
    unit = ipu_core.Unit(r.returns(r.node("If", "p", "x", subgraphs={"then": then, "else": otherwise})).unit())
    x = f32([1, 2])
    for says in (True, False):
        (y,), _ = unit.run([numpy.array(says), x])
        numpy.testing.assert_array_equal(y, x * 2 if says else x)


def test_known_condition_takes_one_branch():
    r = Records([("x", f32, [2])])
    then, otherwise = r.inside(), r.inside()
    then.returns(then.node("AddV2", "x", "x"))
    otherwise.returns(otherwise.node("Unheard", "x"))
    r.returns(r.node("If", r.const(True), subgraphs={"then": then, "else": otherwise}))
    (y,), _ = run(r, [f32([1, 2])])
    numpy.testing.assert_array_equal(y, [2, 4])


def test_call_assigns_a_variable():
    r = Records([("x", f32, [2])], {"w": (f32, [2])})
    f = r.inside("v")
    f.assign("w", f.node("Mul", "v", f.read("w")))
    r.node("StatefulPartitionedCall", "x", results=0, subgraphs={"f": f.returns()}, config="")
    _, written = run(r.returns(r.read("w")), [f32([3, 4])], {"w": f32([5, 6])})
    numpy.testing.assert_array_equal(written["w"], [15, 24])


def test_loop_that_changes_a_type():
    r = Records([("x", f32, [2])])
    body = r.inside("v")
    r.node("Repeat", "x", domain="ipu", subgraphs={"body": body.returns(body.const([1, 2, 3], f32))}, n=2)
    with pytest.raises(ipu_core.Error, match=r"f32\[2\] before the loop and f32\[3\] after a round"):
        ipu_core.Unit(r.returns().unit()).text()


def test_branches_of_different_types():
    r = Records([("p", bool, []), ("x", f32, [2])])
    then, otherwise = r.inside().returns("x"), r.inside()
    otherwise.returns(otherwise.const(1, f32))
    y = r.node("If", "p", subgraphs={"then": then, "else": otherwise})
    with pytest.raises(ipu_core.Error, match=r"f32\[2\] in 'then' and f32\[\] in 'else'"):
        ipu_core.Unit(r.returns(y).unit()).text()


def test_names_that_nobody_gives():
    r = Records([("x", f32, [2])])
    body = r.inside("v")
    r.node("Repeat", "x", domain="ipu", subgraphs={"body": body.returns("lost")}, n=2)
    with pytest.raises(ipu_core.Error, match="reads 'lost'"):
        ipu_core.Unit(r.returns().unit()).text()


def fed(r, queue="in_feed", shape=(2,)):
    return r.node("InfeedDequeue", domain="ipu", queue=queue, dtypes=["float32"], shapes=[list(shape)])


def enqueue(r, *values, mode="all"):
    r.node("OutfeedEnqueue", *values, results=0, domain="ipu", queue="out_feed", mode=mode)


@pytest.mark.parametrize("n", [3, None])
def test_loop_takes_and_gives_elements(n):
    r = Records([] if n else [("n", i32, [])], {"w": (f32, [2])})
    body = r.inside()
    x = fed(body)
    body.node("AssignAddVariableOp", "w", x, results=0)
    enqueue(body, body.read("w"))
    attributes = {"n": n} if n else {}
    r.node("Repeat", *([] if n else ["n"]), results=0, domain="ipu", subgraphs={"body": body.returns()}, **attributes)
    unit = ipu_core.Unit(r.returns().unit())
    assert list(unit.streams()) == ([] if n else ["in:0"]) + ["in_feed:0", "out_feed:0"]
    infeed = ipu_core.FeedQueue("in_feed", [(f32, [2])])
    outfeed = ipu_core.FeedQueue("out_feed", [(f32, [2])])
    for i in range(6):
        infeed.push([f32([i, 10 * i])])
    w, sums = numpy.zeros([2], f32), numpy.zeros([2], f32)
    for i in range(6):  # the second run goes on where the first stopped
        if i % 3 == 0:
            _, written = unit.run([] if n else [numpy.array(3, i32)], {"w": w})
            w = written["w"]
        sums += f32([i, 10 * i])
        numpy.testing.assert_array_equal(outfeed.pop()[0], sums)
    numpy.testing.assert_array_equal(w, sums)
    infeed.close()
    outfeed.close()
    assert outfeed.pop() is None


def test_feed_outside_of_loops_and_in_a_branch():
    r = Records([("p", bool, [])])
    then, otherwise = r.inside(), r.inside()
    enqueue(then, fed(then), then.const([1, 2], f32))
    r.node("If", "p", results=0, subgraphs={"then": then.returns(), "else": otherwise.returns()})
    unit = ipu_core.Unit(r.returns(fed(r)).unit())
    infeed = ipu_core.FeedQueue("in_feed", [(f32, [2])])
    outfeed = ipu_core.FeedQueue("out_feed", [(f32, [2]), (f32, [2])])
    for i in range(3):
        infeed.push([f32([i, i])])
    assert unit.run([numpy.array(False)])[0][0].tolist() == [0, 0]
    assert unit.run([numpy.array(True)])[0][0].tolist() == [2, 2]
    assert [array.tolist() for array in outfeed.pop()] == [[1, 1], [1, 2]]
    infeed.close()
    outfeed.close()


def test_end_of_data_writes_nothing():
    r = Records([], {"w": (f32, [2])})
    body = r.inside()
    body.node("AssignAddVariableOp", "w", fed(body), results=0)
    r.node("Repeat", results=0, domain="ipu", subgraphs={"body": body.returns()}, n=3)
    unit = ipu_core.Unit(r.returns().unit())
    infeed = ipu_core.FeedQueue("in_feed", [(f32, [2])])
    for _ in range(4):
        infeed.push([f32([1, 1])])
    w = numpy.zeros([2], f32)
    _, written = unit.run([], {"w": w})
    infeed.end()
    with pytest.raises(ipu_core.Error, match="in_feed:0"):  # one element is left, of three
        unit.run([], written)
    infeed.close()
    with pytest.raises(ipu_core.Error, match="uses the queue 'in_feed', which nobody has initialised"):
        unit.run([], written)
    assert written["w"].tolist() == [3, 3]
    again = ipu_core.FeedQueue("in_feed", [(f32, [2])])
    for _ in range(3):
        again.push([f32([1, 1])])
    assert unit.run([], written)[1]["w"].tolist() == [6, 6]
    again.close()


def test_queue_that_is_used_in_two_ways():
    r = Records([("x", f32, [3])])
    a, b = fed(r, "queue", [2]), fed(r, "queue", [3])
    with pytest.raises(ipu_core.Error, match="array 0 of an element of queue 'queue'"):
        ipu_core.Unit(r.returns(a, b).unit()).text()


def test_assertion_ends_a_run_with_its_message():
    r = Records([("x", f32, [2])], {"w": (f32, [2])})
    body = r.inside()
    body.node("AssignAddVariableOp", "w", "x", results=0)
    small = body.node("Less", body.read("w"), body.const(10, f32))
    body.node("Assert", small, body.read("w"), "x", results=0, message="w={} after x={}", summarize=1)
    r.node("Repeat", results=0, domain="ipu", subgraphs={"body": body.returns()}, n=3)
    unit = ipu_core.Unit(r.returns().unit())
    w = f32([0, 0])
    _, written = unit.run([f32([1, 3])], {"w": w})
    assert written["w"].tolist() == [3, 9]
    with pytest.raises(ipu_core.Error, match=r"assertion failed .*: w=\[4\.\.\.\] after x=\[1\.\.\.\]") as raised:
        unit.run([f32([1, 3])], written)
    assert raised.value.reason == "assertion"
    assert unit.run([f32([0, 0])], written)[1]["w"].tolist() == [3, 9]


def test_loop_and_branch_over_two_ipus():
    r = Records([("x", f32, [2]), ("n", i32, [])], {"w": (f32, [2])})
    condition = r.inside("i", "v")
    condition.returns(condition.node("Less", "i", "n", settings={"ipu": 0}))
    body = r.inside("i", "v")
    i = body.node("AddV2", "i", body.const(1, i32), settings={"ipu": 0})
    doubled = body.node("AddV2", "v", "v", settings={"ipu": 0})
    v = body.node("Mul", doubled, body.read("w"), settings={"ipu": 1})
    body.node("AssignAddVariableOp", "w", v, results=0, settings={"ipu": 1})
    _, last = r.node(
        "While", r.const(0, i32), "x", results=2, subgraphs={"cond": condition, "body": body.returns(i, v)}
    )
    unit = ipu_core.Unit(r.returns(last).unit())
    x, w = f32([1, 2]), f32([1, 0.5])
    try:
        ipu_core.configure(devices=[{"ipus": 2}])
        for n in (0, 3):
            (last,), written = unit.run([x, numpy.array(n, i32)], {"w": w})
            v, sums = x, w
            for _ in range(n):
                v = v * 2 * sums
                sums = sums + v
            numpy.testing.assert_allclose(last, v, rtol=1e-6)
            numpy.testing.assert_allclose(written["w"], sums, rtol=1e-6)
    finally:
        ipu_core.reset()

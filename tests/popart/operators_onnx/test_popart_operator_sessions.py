"""Single operators in sessions: identities, steps whose gradient is zero, types, and what PopART refuses when it builds a session."""

import numpy
import pytest

import popart
from popart_operator_sessions import Constant, Program, gradients, values

F32 = numpy.float32
X = numpy.random.default_rng(3).standard_normal((2, 3)).astype(F32)


def ints(*numbers):
    return Constant(numpy.int64(numbers))


IDENTITIES = {
    "clip without bounds": (lambda b, on, gc, x: on.clip(x), [X], 11),
    "clip with its default bounds": (lambda b, on, gc, x: on.clip(x), [X], 10),
    "the largest of one": (lambda b, on, gc, x: on.max(x), [X], 10),
    "the sum of one": (lambda b, on, gc, x: on.sum(x), [X], 6),
    "a shape that is the shape": (lambda b, on, gc, x: on.reshape(x), [X, ints(0, 0)], 10),
    "no dimension to exchange": (lambda b, on, gc, x: on.transpose(x, [0, 1]), [X], 10),
    "one part": (lambda b, on, gc, x: on.concat(x, 0), [X], 10),
    "split into one": (lambda b, on, gc, x: on.split(x, 1, 1), [X], 10),
    "no padding": (lambda b, on, gc, x: on.pad(x, [0, 0, 0, 0]), [X], 10),
    "expanded to what it is": (lambda b, on, gc, x: on.expand(x), [X, ints(1)], 10),
    "dropout of an inference": (lambda b, on, gc, x: on.dropout(x, 1), [X], 10),
}


@pytest.mark.parametrize("make, operands, opset", IDENTITIES.values(), ids=IDENTITIES)
def test_a_model_of_nothing_but_an_identity_runs(make, operands, opset):
    (found,) = values(make, operands, opset)
    numpy.testing.assert_array_equal(found, X)


STEPS = {
    "ceil": (lambda b, on, gc, x: on.ceil(x), 6),
    "floor": (lambda b, on, gc, x: on.floor(x), 10),
    "sign": (lambda b, on, gc, x: on.sign(x), 9),
    "onnx round": (lambda b, on, gc, x: on.round(x), 11),
    "graphcore round": (lambda b, on, gc, x: gc.round(x), 10),
    "nearbyint": (lambda b, on, gc, x: gc.nearbyint(x), 10),
}


@pytest.mark.parametrize("dtype", (F32, numpy.float16))
@pytest.mark.parametrize("make, opset", STEPS.values(), ids=STEPS)
def test_the_gradient_of_a_step_is_there_and_zero(make, opset, dtype):
    (found,) = gradients(make, [X.astype(dtype)], [0], opset)
    assert found.dtype == dtype
    numpy.testing.assert_array_equal(found, numpy.zeros((2, 3)))


def test_a_step_leaves_the_other_gradients_of_its_operand():
    (found,) = gradients(lambda b, on, gc, x: on.add([on.floor(x), on.mul([x[0], x[0]])]), [X], [0])
    numpy.testing.assert_allclose(found, 2 * X, rtol=1e-6)


@pytest.mark.parametrize("kind", ("fmod", "remainder"))
def test_a_divisor_that_nobody_trains_is_in_nobodys_way(kind):
    operands = [4 * X, numpy.abs(X) + 1]
    make = lambda b, on, gc, x: getattr(gc, kind)(x)
    numpy.testing.assert_array_equal(gradients(make, operands, [0])[0], numpy.ones((2, 3)))
    numpy.testing.assert_array_equal(gradients(make, operands, [0], trained=())[0], numpy.ones((2, 3)))
    with pytest.raises(popart.popart_exception, match=f"not differentiable.*ai.graphcore::{kind.capitalize()}"):
        gradients(make, operands, [1])


@pytest.mark.parametrize("fmod", (0, 1))
def test_mod_has_a_gradient_of_its_dividend_alone(fmod):
    operands = [4 * X, numpy.abs(X) + 1]
    make = lambda b, on, gc, x: on.mod(x, fmod)
    numpy.testing.assert_array_equal(gradients(make, operands, [0])[0], numpy.ones((2, 3)))
    with pytest.raises(popart.popart_exception, match="not differentiable.*ai.onnx::Mod"):
        gradients(make, operands, [1])


def test_the_gradient_of_a_value_in_the_middle_needs_none_of_what_is_before_it():
    """The value comes from an operator without a gradient, and no gradient leads through it."""
    program = Program(lambda b, on, gc, x: on.mul([gc.fmod(x[:2]), x[2]]), [X, numpy.abs(X) + 1, X], trained=(2,))
    loss = program.builder.aiGraphcore.identityloss([program.results[0]], popart.ReductionType.Sum)
    anchors = program.run(program.session(["Gradient___Fmod:0", loss], loss))
    numpy.testing.assert_allclose(anchors["Gradient___Fmod:0"], X, rtol=1e-6)


# --- integers

WHOLE = numpy.int32([[4, -2, 6], [1, 0, -3]])


def integer_loss(make, expected):
    program = Program(make, [WHOLE])
    anchors = program.run(program.session(["Gradient___x0"], program.results[0]))
    found = anchors["Gradient___x0"]
    assert found.dtype == numpy.int32
    numpy.testing.assert_array_equal(found, expected)


def test_losses_of_integers_have_gradients_of_integers():
    kinds = popart.ReductionType
    ones = numpy.ones((2, 3), int)
    integer_loss(lambda b, on, gc, x: gc.identityloss(x, kinds.Sum), ones)
    integer_loss(lambda b, on, gc, x: gc.l1loss(x, 2.0, kinds.Sum), 2 * numpy.sign(WHOLE))
    integer_loss(lambda b, on, gc, x: gc.identityloss([on.mul([x[0], x[0]])], kinds.Sum), 2 * WHOLE)
    integer_loss(lambda b, on, gc, x: gc.identityloss([on.reducesum([on.neg(x)], [1])], kinds.Sum), -ones)
    middle = numpy.int32([[1, 0, 0], [0, 1, 0]])
    integer_loss(lambda b, on, gc, x: gc.identityloss([gc.reducemedian(x, [1])[0]], kinds.Sum), middle)


def test_a_weight_before_a_cast_to_integers_gets_the_gradient_cast_back():
    w = F32([1.5, -2.5])
    program = Program(lambda b, on, gc, x: on.cast(x, "INT32"), [w], trained=(0,))
    loss = program.builder.aiGraphcore.l1loss(program.results, 3.0, popart.ReductionType.Sum)
    session = program.session(["Gradient___w0", loss], loss)
    anchors = program.run(session)
    assert anchors[loss] == 9 and anchors["Gradient___w0"].dtype == F32
    numpy.testing.assert_array_equal(anchors["Gradient___w0"], F32([3, -3]))
    after = numpy.empty_like(w)
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO({"w0": after}))
    numpy.testing.assert_allclose(after, w - 0.1 * F32([3, -3]), rtol=1e-6)


def test_unsigned_64_bit_integers_are_32_bits_wide_on_the_device():
    x = numpy.uint64([7, 9, 2**32 - 1])
    found, copy = values(lambda b, on, gc, x: [on.div(x), x[0]], [x, Constant(numpy.uint64([2, 3, 5]))])
    numpy.testing.assert_array_equal(found, x // numpy.uint64([2, 3, 5]))
    assert copy.dtype == numpy.uint64
    numpy.testing.assert_array_equal(copy, x)
    options = popart.SessionOptions()
    options.enableSupportedDataTypeCasting = False
    with pytest.raises(popart.popart_exception, match="'x0' is UINT64"):
        values(lambda b, on, gc, x: on.neg(x), [x], options=options)


@pytest.mark.parametrize("dtype", ("int32", "int64", "uint32", "uint64"))
def test_a_loop_counts_its_rounds_in_any_integer(dtype):
    def make(b, on, gc, x):
        body = b.createSubgraphBuilder()
        body.addInputTensor("INT32", [])
        goes_on, carried = body.addInputTensor("BOOL", []), body.addInputTensor("FLOAT", [2, 3])
        body.addOutputTensor(goes_on)
        body.addOutputTensor(body.aiOnnx.add([carried, x[0]]))
        return on.loop([on.constant(numpy.array(3, dtype)), on.constant(numpy.array(True)), x[0]], 1, body)

    numpy.testing.assert_allclose(values(make, [X])[0], 4 * X, rtol=1e-6)


# --- what the ONNX checker does not know


def test_operands_of_resize_that_are_left_out():
    image = numpy.arange(4, dtype=F32).reshape(1, 1, 2, 2)
    twice = image.repeat(2, 2).repeat(2, 3)
    scales, sizes = Constant(F32([1, 1, 2, 2])), ints(1, 1, 4, 4)
    for make, operand in (
        (lambda b, on, gc, x: on.resize([x[0], "", x[1]]), scales),
        (lambda b, on, gc, x: on.resize([x[0], "", "", x[1]]), sizes),
    ):
        numpy.testing.assert_array_equal(values(make, [image, operand], 11)[0], twice)


def test_resize_of_opset_10_takes_the_attributes_of_opset_11():
    def make(b, on, gc, x):
        y = on.resize(x, "linear")
        b.addNodeAttribute("coordinate_transformation_mode", "align_corners", {y})
        return y

    (found,) = values(make, [F32([[0, 3]]), Constant(F32([1, 2]))])
    numpy.testing.assert_allclose(found, [[0, 1, 2, 3]], atol=1e-6)


def test_deprecated_operators_run_in_the_opset_that_deprecates_them():
    x, index, updates = X, numpy.int64([[1, 0, 1]]), F32([[7, 8, 9]])
    (found,) = values(lambda b, on, gc, x: on.scatter(x), [x, index, updates], 11)
    expected = x.copy()
    numpy.put_along_axis(expected, index, updates, 0)
    numpy.testing.assert_array_equal(found, expected)
    image = F32([[[[1, 2]]]])
    (found,) = values(lambda b, on, gc, x: on.upsample(x), [image, Constant(F32([1, 1, 1, 2]))], 10)
    numpy.testing.assert_array_equal(found, [[[[1, 1, 2, 2]]]])


def test_abort_needs_no_operand():
    def make(b, on, gc, x):
        gc.abort()
        return on.neg(x)

    with pytest.raises(popart.poplar_application_runtime_error, match="abort"):
        values(make, [X])


# --- refusals

REFUSED = {
    "a bound that is computed": (lambda b, on, gc, x: on.clip(x), [X, F32(1)[...]], 11, "Clip.*'min', is computed"),
    "no repeats": (lambda b, on, gc, x: on.tile(x), [X, ints(0, 1)], 10, r"Tile.*repeats \[0,1\]; each is at least 1"),
    "real indices": (lambda b, on, gc, x: on.gather(x), [X, F32([1])], 10, "Gather.*indices of f32; they are integers"),
    "real places": (
        lambda b, on, gc, x: on.scatterelements(x),
        [X, X, X],
        11,
        "ScatterElements.*indices of f32; they are integers",
    ),
    "an axis added twice": (lambda b, on, gc, x: on.unsqueeze(x, [0, 3, 0]), [X], 10, "axes named twice.*Unsqueeze"),
    "an axis taken twice": (lambda b, on, gc, x: on.squeeze(x, [0, 0]), [X[:1]], 10, "axes named twice.*Squeeze"),
    "numbers of 64 bits": (lambda b, on, gc, x: on.cast(x, "DOUBLE"), [X], 10, "Cast.*element type DOUBLE"),
}


@pytest.mark.parametrize("make, operands, opset, message", REFUSED.values(), ids=REFUSED)
def test_what_popart_refuses_when_a_session_is_built(make, operands, opset, message):
    program = Program(make, [numpy.asarray(o) if not isinstance(o, Constant) else o for o in operands], opset)
    with pytest.raises(popart.popart_exception, match=f"(?s){message}"):
        program.session(program.results)


@pytest.mark.parametrize("axes", ([1, -1], [0, 0, 1]))
def test_axes_may_be_named_twice(axes):
    (found,) = values(lambda b, on, gc, x: on.reducesum(x, axes), [X])
    numpy.testing.assert_allclose(found, X.sum(tuple({a % 2 for a in axes}), keepdims=True), rtol=1e-6)


@pytest.mark.parametrize("axes", ([1, -1], [0, 0, 1]))
def test_axes_of_medians_may_be_named_twice(axes):
    found, _ = values(lambda b, on, gc, x: gc.reducemedian(x, axes), [X])
    expected = numpy.sort(X, None)[2] if len({a % 2 for a in axes}) == 2 else numpy.sort(X, 1)[:, 1:2]
    numpy.testing.assert_array_equal(found.ravel(), numpy.ravel(expected))


def test_a_call_names_both_counts():
    def make(b, on, gc, x):
        callee = b.createSubgraphBuilder()
        callee.addOutputTensor(callee.aiOnnx.neg([callee.addInputTensor("FLOAT", [2, 3])]))
        return gc.call(x, 2, callee)

    program = Program(make, [X])
    with pytest.raises(popart.popart_exception, match="outputs.*CallOp.* has 2, and its callee 1"):
        program.session(program.results[:1])


def test_gradients_that_no_device_can_run_are_refused_when_the_device_is_prepared():
    image = F32([[[[1, 2], [3, 4]]]])
    for make, operands in (
        (lambda b, on, gc, x: on.resize(x, "linear"), [image, Constant(F32([1, 1, 2, 2]))]),
        (
            lambda b, on, gc, x: gc.scatterreduce(x, 2, 0, enable_index_broadcast=0),
            [X, Constant(numpy.int32([[0, 1, 1]]))],
        ),
    ):
        program = Program(make, operands, trained=(0,))
        loss = program.builder.aiGraphcore.identityloss(program.results, popart.ReductionType.Sum)
        session = program.session([loss], loss)
        with pytest.raises(popart.popart_exception, match="not differentiable.*(Resize|ScatterReduce).*device can run"):
            session.prepareDevice()

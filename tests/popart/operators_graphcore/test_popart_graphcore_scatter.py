"""ScatterReduce, in groups or not, against the rules written out in NumPy: values, gradients, refusals."""

import numpy as np
import pytest

import ipu_core
from graphcore_models import Gradients, Values, normal, refusal, train

START = {"sum": 0, "none": 0, "mul": 1, "max": -np.inf, "min": np.inf}


def combine(reduction, old, new):
    if reduction == "none":
        return new
    return {"sum": old + new, "mul": old * new, "max": max(old, new), "min": min(old, new)}[reduction]


def aligned(index, rank, axis, grouped):
    if index.ndim == 1 + grouped and rank > index.ndim:
        shape = [1] * rank
        shape[axis] = index.shape[-1]
        if grouped:
            shape[0] = index.shape[0]
        return index.reshape(shape)
    return index.reshape(index.shape + (1,) * (rank - index.ndim))


def scatter(src, index, initial=None, *, axis_size, axis=-1, reduction="sum", group_size=1, enable_index_broadcast=1):
    """One element after the other. Also says which sources meet which targets."""
    axis %= src.ndim
    index = aligned(np.asarray(index, np.int64), src.ndim, axis, group_size > 1)
    if enable_index_broadcast:
        index = np.broadcast_to(index, src.shape)
    shape = list(index.shape)
    shape[axis] = axis_size
    wide = np.float64 if src.dtype.kind == "f" else np.int64
    out = np.full(shape, START[reduction], np.float64) if initial is None else np.asarray(initial, np.float64).copy()
    touched, pairs = np.zeros(out.shape, bool), []
    for place in np.ndindex(*index.shape):
        target = (*place[:axis], index[place], *place[axis + 1 :])
        out[target] = combine(reduction, out[target], wide(src[place]))
        touched[target] = True
        pairs.append((place, target))
    if initial is None and reduction in ("max", "min"):
        out[~touched] = 0
    return out, pairs, touched


def gradients_of(src, index, initial, weights, **attributes):
    """As the rules state them."""
    reduction = attributes["reduction"]
    out, pairs, touched = scatter(src, index, initial, **attributes)
    d_src = np.zeros(src.shape)
    for place, target in pairs:
        factor = {
            "sum": 1,
            "none": 1,
            "mul": out[target] / np.float64(src[place]),
            "max": src[place] == out[target],
            "min": src[place] == out[target],
        }[reduction]
        d_src[place] = weights[target] * factor
    if initial is None:
        return [d_src]
    factor = {"sum": 1, "none": ~touched, "max": initial == out, "min": initial == out, "mul": out / initial}[reduction]
    return [d_src, weights * factor]


CASES = [  # shape of src, index, attributes
    ((5, 3), np.int32([0, 2, 2, 1, 2]), {"axis": 0, "axis_size": 4}),
    ((5, 3), np.uint32([[0], [2], [2], [1], [2]]), {"axis": 0, "axis_size": 4}),
    ((2, 3), np.int64([[0, 1, 1], [3, 0, 3]]), {"axis": 1, "axis_size": 4}),
    ((2, 4, 2), np.int32([1, 1, 0, 2]), {"axis": -2, "axis_size": 3}),
    ((6,), np.int32([0, 0, 1, 4, 4, 4]), {"axis_size": 5}),
    ((4, 3), np.int32([[1, 0], [0, 1]]), {"axis": 0, "axis_size": 3, "enable_index_broadcast": 0}),
    ((4, 3), np.int32([2, 0]), {"axis": 0, "axis_size": 3, "enable_index_broadcast": 0}),
    ((2, 5, 3), np.int32([[0, 2, 2, 1, 2], [1, 1, 1, 0, 0]]), {"axis": 1, "axis_size": 4, "group_size": 2}),
    (
        (2, 2, 3),
        np.int32([[[0, 1, 1], [1, 0, 0]], [[0, 0, 0], [1, 1, 1]]]),
        {"axis": 2, "axis_size": 2, "group_size": 2},
    ),
]


def sources(shape, dtype, ties=False):
    if np.dtype(dtype).kind != "f" or ties:
        return np.random.default_rng(shape).integers(1, 4, shape).astype(dtype)
    return (np.random.default_rng(shape).uniform(0.5, 2, shape) * 64).round().astype(dtype) / dtype(64)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_every_reduction_gives_what_the_rules_say(dtype):
    values = Values()
    for reduction in START:
        for shape, index, attributes in CASES:
            src = sources(shape, dtype)
            expected, _, _ = scatter(src, index, reduction=reduction, **attributes)
            values.add("ScatterReduce", [src, index], expected.astype(dtype), reduction=reduction, **attributes)
            start = sources(expected.shape, dtype)
            expected, _, _ = scatter(src, index, start, reduction=reduction, **attributes)
            values.add("ScatterReduce", [src, index, start], expected.astype(dtype), reduction=reduction, **attributes)
    values.check()


def test_the_name_of_a_reduction_may_be_written_in_capitals_and_entries_nobody_names_are_the_start():
    src, index = np.float32([[-1, -2], [-3, -4]]), np.int32([0, 2])
    values = Values()
    values.add(
        "ScatterReduce", [src, index], np.float32([[-1, -2], [0, 0], [-3, -4]]), 0, axis=0, axis_size=3, reduction="MAX"
    )
    values.add(
        "ScatterReduce", [src, index], np.float32([[-1, -2], [1, 1], [-3, -4]]), 0, axis=0, axis_size=3, reduction="Mul"
    )
    values.check()


@pytest.mark.parametrize("reduction", list(START))
def test_gradients_are_those_of_the_rules(reduction):
    """With ties, of which each gets the whole gradient."""
    gradients = Gradients()
    for shape, index, attributes in CASES:
        if attributes.get("enable_index_broadcast") == 0:
            continue
        for ties in (False, True):
            src, attributes = sources(shape, np.float32, ties), attributes | {"reduction": reduction}
            expected, _, _ = scatter(src, index, **attributes)
            start = sources(expected.shape, np.float32, ties)
            ones = np.ones(expected.shape)
            gradients.add(
                "ScatterReduce",
                {0: src},
                lambda s, i=index, a=attributes: scatter(s, i, **a)[0],
                {1: index},
                gradients=gradients_of(src, index, None, ones, **attributes),
                **attributes,
            )
            gradients.add(
                "ScatterReduce",
                {0: src, 2: start},
                lambda s, t, i=index, a=attributes: scatter(s, i, t, **a)[0],
                {1: index},
                gradients=gradients_of(src, index, start, ones, **attributes),
                **attributes,
            )
    gradients.check()


def test_gradients_of_sums_and_products_are_differences():
    gradients, index = Gradients(), np.int32([0, 2, 2, 1, 2])
    src, start = sources((5, 3), np.float32), sources((4, 3), np.float32)
    for reduction in ("sum", "mul", "max", "min"):
        attributes = {"axis": 0, "axis_size": 4, "reduction": reduction}
        gradients.add(
            "ScatterReduce",
            {0: src, 2: start},
            lambda s, t, a=attributes: scatter(s, index, t, **a)[0],
            {1: index},
            **attributes,
        )
    gradients.check()


def test_without_broadcasting_a_gradient_needs_equal_shapes():
    nodes = [
        ("ScatterReduce", ["w", "i"], ["y"], {"axis_size": 3, "axis": 0, "enable_index_broadcast": 0}),
        ("IdentityLoss", ["y"], ["loss"], {"reduction": "Sum"}),
    ]
    w = normal(4, 3)
    with pytest.raises(ipu_core.Error, match="ScatterReduce_0.*device can run"):
        train(nodes, {"i": np.int32([[1, 0]])}, {"w": w}, ["loss"])
    got = train(nodes, {"i": np.zeros((4, 3), np.int32)}, {"w": w}, ["loss"])["w"]
    np.testing.assert_allclose(got, np.ones((4, 3)), rtol=1e-5)


def test_what_cannot_be_is_refused_with_its_numbers():
    src, index = normal(4, 3), np.int32([0, 1, 2, 0])
    good = {"axis": 0, "axis_size": 3}
    assert "axis_size 0" in refusal("ScatterReduce", [src, index], good | {"axis_size": 0})
    assert "group_size 0" in refusal("ScatterReduce", [src, index], good | {"group_size": 0})
    assert "'enable_index_broadcast' = 2" in refusal(
        "ScatterReduce", [src, index], good | {"enable_index_broadcast": 2}
    )
    assert "dimension 2" in refusal("ScatterReduce", [src, index], good | {"axis": 2})
    assert "dimension -3" in refusal("ScatterReduce", [src, index], good | {"axis": -3})
    assert '"mean"' in refusal("ScatterReduce", [src, index], good | {"reduction": "mean"})
    assert "f32" in refusal("ScatterReduce", [src, normal(4)], good)
    assert "too many" in refusal("ScatterReduce", [src, index.reshape(4, 1, 1)], good)
    assert "[5]" in refusal("ScatterReduce", [src, np.int32([0] * 5)], good)
    assert "vector along axis 0" in refusal("ScatterReduce", [src, np.int32([0, 1])], good)
    assert "vector along axis 0" in refusal("ScatterReduce", [src, np.int32([[0, 1]] * 4)], good)
    assert "[4,3]" in refusal("ScatterReduce", [src, index, src], good)
    assert "f16" in refusal("ScatterReduce", [src, index, src[:3].astype(np.float16)], good)
    assert "axis 0 with 4 groups" in refusal("ScatterReduce", [src, index.reshape(4, 1)], good | {"group_size": 4})
    assert "2 groups" in refusal("ScatterReduce", [src, index.reshape(4, 1)], good | {"group_size": 2, "axis": 1})

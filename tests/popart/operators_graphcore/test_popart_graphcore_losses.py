"""Losses of ai.graphcore: reductions, labels that count or not, small probabilities, the two of CTC."""

import itertools

import numpy as np
import pytest

from graphcore_models import Gradients, Values, normal, refusal, run, train

REDUCTIONS = ("Sum", "Mean", "None")


def reduced(loss, reduction):
    return {"Sum": np.sum, "Mean": np.mean, "None": np.asarray}[reduction](loss)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_identity_and_l1(dtype):
    x, values = (normal(3, 4) * 8).astype(dtype), Values()
    wide = x.astype(np.float64)
    for reduction in REDUCTIONS:
        mean = reduced(wide, reduction)
        values.add(
            "IdentityLoss",
            [x],
            np.asarray(mean).astype(dtype),
            4e-3 if dtype == np.float16 else 1e-5,
            reduction=reduction,
        )
        loss = reduced(np.abs(wide) * 2, reduction)
        values.add(
            "L1",
            [x],
            np.asarray(loss).astype(dtype),
            4e-3 if dtype == np.float16 else 1e-5,
            reduction=reduction,
            **{"lambda": 2.0},
        )
    values.check()


def test_gradients_of_identity_and_l1():
    x, gradients = normal(3, 4), Gradients()
    for reduction in REDUCTIONS:
        gradients.add("IdentityLoss", {0: x}, lambda x, r=reduction: reduced(x, r), reduction=reduction)
        gradients.add(
            "L1", {0: x}, lambda x, r=reduction: reduced(0.25 * np.abs(x), r), reduction=reduction, **{"lambda": 0.25}
        )
    gradients.add(
        "L1", {0: np.zeros(3, np.float32)}, np.abs, gradients=[np.zeros(3)], reduction="None", **{"lambda": 1.0}
    )
    gradients.check()


# --- negative log-likelihood


def softmax(x):
    e = np.exp(np.asarray(x, np.float64) - np.max(x, -1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def nll(p, labels, reduction="Mean", ignored=None, is_log=False, epsilon=1e-7):
    p, flat = np.asarray(p, np.float64).reshape(-1, np.shape(p)[-1]), np.ravel(labels).astype(np.int64)
    losses, count = [], 0
    for row, label in zip(p, flat):
        inside = 0 <= label < len(row)
        if is_log:
            loss = -row[label] if inside else -np.log(epsilon)
        else:
            loss = -np.log(max(row[label] if inside else 0.0, epsilon))
        counts = label != ignored
        losses.append(loss if counts else 0.0)
        count += counts
    if reduction == "None":
        return np.reshape(losses, np.shape(labels))
    return np.sum(losses) / (max(count, 1) if reduction == "Mean" else 1)


CASES = [{}, {"ignoreIndex": 1}, {"inputIsLogProbability": 1}, {"inputIsLogProbability": 1, "ignoreIndex": -7}]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_nll_follows_its_formula_for_every_reduction(dtype):
    values = Values()
    epsilon = 6.104e-5 if dtype == np.float16 else 1e-7
    for shape, label_dtype in (((6,), np.int32), ((2, 3), np.uint32)):
        p = softmax(normal(*shape, 4) * 2).astype(dtype)
        p[(0,) * len(shape)] = 0
        labels = np.asarray([0, 1, 3, 2, 1, 9], label_dtype).reshape(shape)
        if label_dtype == np.int32:
            labels[-1] = -7
        for attributes, reduction in itertools.product(CASES, REDUCTIONS):
            is_log = bool(attributes.get("inputIsLogProbability"))
            x = np.log(np.maximum(p, dtype(0.001))) if is_log else p
            loss = nll(x, labels.astype(np.int64), reduction, attributes.get("ignoreIndex"), is_log, epsilon)
            tolerance = 5e-3 if dtype == np.float16 else 1e-5
            values.add("Nll", [x, labels], np.asarray(loss).astype(dtype), tolerance, reduction=reduction, **attributes)
    values.check()


def test_gradients_of_nll_leave_out_labels_that_are_ignored_or_no_class():
    gradients, labels = Gradients(), np.int32([0, 1, 3, 2, 1, 9])
    p = softmax(normal(6, 4)).astype(np.float32)
    for attributes, reduction in itertools.product(CASES, REDUCTIONS):
        is_log = bool(attributes.get("inputIsLogProbability"))
        x = np.log(p) if is_log else p
        function = lambda x, a=attributes, r=reduction, g=is_log: nll(x, labels, r, a.get("ignoreIndex"), g)
        gradients.add("Nll", {0: x}, function, {1: labels}, reduction=reduction, **attributes)
    all_ignored = np.full(6, 1, np.int32)
    gradients.add(
        "Nll",
        {0: p},
        lambda x: nll(x, all_ignored, "Mean", 1),
        {1: all_ignored},
        gradients=[np.zeros((6, 4))],
        ignoreIndex=1,
    )
    gradients.check()


def test_the_gradient_behind_a_softmax_does_not_vanish_with_the_probability():
    scores, labels = np.float32([[0, 60], [1, 2]]), np.int32([0, 1])
    nodes = [("onnx.Softmax", ["w"], ["p"], {"axis": 1}), ("Nll", ["p", "labels"], ["loss"], {"reduction": "Sum"})]
    got = train(nodes, {"labels": labels}, {"w": scores}, ["loss"])["w"]
    np.testing.assert_allclose(got, softmax(scores) - np.eye(2)[labels], atol=4e-6)
    loss = run(nodes, {"labels": labels, "w": scores}, ["loss"])["loss"]
    np.testing.assert_allclose(loss, nll(softmax(scores), labels, "Sum"), rtol=1e-5)


# --- connectionist temporal classification


def ctc(log_probs, target, blank=0):
    """By the sum over all ways, of one sample [T, C]."""
    total = -np.inf
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        merged = [label for label, _ in itertools.groupby(path)]
        if [label for label in merged if label != blank] == list(target):
            total = np.logaddexp(total, sum(log_probs[t, label] for t, label in enumerate(path)))
    return -total


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


LENGTHS, TARGETS, SIZES = np.uint32([4, 3]), np.uint32([[1, 2], [2, 0]]), np.uint32([2, 1])


def ctc_losses(x, reduction, blank=0):
    losses = np.array([ctc(x[: LENGTHS[n], n], TARGETS[n, : SIZES[n]], blank) for n in range(2)])
    if reduction == "Mean":
        return np.mean(losses / np.maximum(SIZES, 1))
    return reduced(losses, reduction)


def test_ctc_losses_and_gradients():
    x = log_softmax(normal(4, 2, 3)).astype(np.float32)
    values, gradients = Values(), Gradients()
    operands = [TARGETS, LENGTHS, SIZES]
    for reduction in REDUCTIONS:
        values.add(
            "Ctc", [x, *operands], np.asarray(ctc_losses(x, reduction)).astype(np.float32), 1e-4, reduction=reduction
        )
        half = np.asarray(ctc_losses(x.astype(np.float16).astype(np.float64), reduction))
        values.add("Ctc", [x.astype(np.float16), *operands], half.astype(np.float16), 5e-3, reduction=reduction)
        values.add(
            "Ctc",
            [x.astype(np.float16), *operands],
            half.astype(np.float32),
            1e-4,
            reduction=reduction,
            outDataType="FLOAT",
        )
        gradients.add(
            "Ctc",
            {0: x},
            lambda x, r=reduction: ctc_losses(x, r),
            dict(enumerate(operands, 1)),
            outputs=2,
            tolerance=1e-3,
            reduction=reduction,
        )
    values.check()
    gradients.check()


def test_infinite_ctc_losses_become_zero_where_asked_for():
    x = log_softmax(normal(2, 1, 3)).astype(np.float32)
    operands = [x, np.int32([[1, 2, 1]]), np.int32([2]), np.int32([3])]  # three labels in two steps
    values = Values()
    values.add("Ctc", operands, np.float32(np.inf), reduction="Sum")
    values.add("Ctc", operands, [np.float32(0), np.zeros((2, 1, 3), np.float32)], reduction="Sum", zeroInfinity=1)
    values.check()
    fixed = dict(enumerate(operands[1:], 1))
    gradients = Gradients()
    gradients.add("Ctc", {0: x}, np.sum, fixed, gradients=[np.zeros((2, 1, 3))], reduction="Sum", zeroInfinity=1)
    gradients.check()


def test_the_beam_search_finds_the_most_probable_targets():
    x, lengths = log_softmax(normal(4, 2, 3) * 2).astype(np.float32), np.uint32([4, 3])
    nodes = [("CtcBeamSearchDecoder", ["x", "n"], ["p", "l", "t"], {"beam_width": 60, "top_paths": 2})]
    got = run(nodes, {"x": x, "n": lengths}, ["p", "l", "t"])
    assert got["l"].dtype == got["t"].dtype == np.uint32
    for n in range(2):
        targets = [t for size in range(5) for t in itertools.product((1, 2), repeat=size)]
        ranked = sorted(((-ctc(x[: lengths[n], n], t), t) for t in targets), reverse=True)[:2]
        for k, (probability, target) in enumerate(ranked):
            np.testing.assert_allclose(got["p"][n, k], probability, rtol=1e-4)
            assert got["l"][n, k] == len(target)
            assert tuple(got["t"][n, k, : len(target)]) == target
            assert not got["t"][n, k, len(target) :].any()


def test_what_cannot_be_is_refused_with_its_numbers():
    p = softmax(normal(3, 4)).astype(np.float32)
    assert '"sum"' in refusal("IdentityLoss", [p], {"reduction": "sum"})
    assert "without dimensions" in refusal("L1", [np.float32(1)], {"lambda": 1.0})
    assert "[2]" in refusal("Nll", [p, np.int32([0, 1])], {})
    assert "f32" in refusal("Nll", [p, p[:, 0]], {})
    x, labels, size = normal(4, 2, 3), np.int32([[1], [1]]), np.int32([1, 1])
    assert "[3,1]" in refusal("Ctc", [x, np.int32([[1]] * 3), size, size], {}, results=2)
    assert "blank 3" in refusal("Ctc", [x, labels, size, size], {"blank": 3}, results=2)
    assert '"INT32"' in refusal("Ctc", [x, labels, size, size], {"outDataType": "INT32"}, results=2)
    assert "[1]" in refusal("Ctc", [x, labels, size[:1], size], {}, results=2)
    assert "top_paths 4" in refusal("CtcBeamSearchDecoder", [x, size], {"beam_width": 3, "top_paths": 4}, results=3)

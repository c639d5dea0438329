"""Losses by class: values, gradients, what they add to a graph, and what they refuse."""

import numpy as np
import popart
import popxl
import pytest
from one_program import OneProgram, check, check_gradients, op_types
from popxl import ops

rng = np.random.default_rng(11)
PROBS = rng.dirichlet(np.ones(5), size=(3, 4)).astype(np.float32)
LABELS = np.array([[0, 4, 2, 2], [1, 1, 3, 0], [4, 0, 2, 1]], np.int32)


def picked(probs, labels, log_prob=False):
    p = np.take_along_axis(probs, labels[..., None].astype(np.int64), -1)[..., 0]
    return -p if log_prob else -np.log(np.maximum(p, 1e-7))


def nll(probs, labels, ignore_index=None, reduction="mean", log_prob=False):
    counts = np.ones(labels.shape, bool) if ignore_index is None else labels != ignore_index
    losses = np.where(counts, picked(probs, np.where(counts, labels, 0), log_prob), 0.0)
    if reduction == "none":
        return losses
    return losses.sum() / (max(counts.sum(), 1) if reduction == "mean" else 1)


def softmax_grad(probs, labels, grad=1.0, ignore_index=None, reduction="mean"):
    counts = np.ones(labels.shape, bool) if ignore_index is None else labels != ignore_index
    dx = (probs - (labels[..., None] == np.arange(probs.shape[-1]))) * counts[..., None] * grad
    return dx / max(counts.sum(), 1) if reduction == "mean" else dx


@pytest.mark.shows("popxl.ops.nll_loss")
def test_nll_loss_has_the_published_values():
    cases = []
    for reduction in ("mean", "sum", "none"):
        for ignored in (None, 2):
            want = np.asarray(nll(PROBS, LABELS, ignored, reduction), np.float32)
            cases.append(
                (
                    f"{reduction} ignoring {ignored}",
                    lambda p, t, r=reduction, i=ignored: ops.nll_loss(p, t, ignore_index=i, reduction=r),
                    (PROBS, LABELS),
                    want,
                )
            )
    cases += [
        (
            "logarithms",
            lambda p, t: ops.nll_loss(p, t, log_prob=True),
            (np.log(PROBS), LABELS),
            np.float32(nll(PROBS, LABELS)),
        ),
        (
            "a label that no class has is ignored",
            lambda p, t: ops.nll_loss(p, t, ignore_index=-1, reduction="sum"),
            (PROBS, LABELS - 1),
            np.float32(nll(PROBS, LABELS - 1, -1, "sum")),
        ),
        (
            "nothing counts",
            lambda p, t: ops.nll_loss(p, t, ignore_index=1),
            (PROBS, np.ones_like(LABELS)),
            np.float32(0),
        ),
        (
            "a probability of 0 is taken for 1e-7",
            lambda p, t: ops.nll_loss(p, t, reduction="none"),
            (np.array([[1.0, 0.0]], np.float32), np.array([1], np.int32)),
            np.array([-np.log(1e-7)], np.float32),
        ),
        (
            "of float16 for 6.104e-5",
            lambda p, t: ops.nll_loss(p, t, reduction="none"),
            (np.array([[1.0, 0.0]], np.float16), np.array([1], np.uint32)),
            np.array([-np.log(6.104e-5)], np.float16),
        ),
        (
            "one row of probabilities",
            lambda p, t: ops.nll_loss(p, t, reduction="none"),
            (PROBS[0, 0], np.array(3, np.int32)),
            np.float32(nll(PROBS[0, 0], np.array(3), reduction="none")),
        ),
    ]
    check(cases)


@pytest.mark.shows("popxl.ops.nll_loss")
def test_the_gradient_of_nll_loss_is_that_of_its_values():
    check_gradients(
        [
            (
                f"{reduction} ignoring {ignored}",
                lambda p, t, r=reduction, i=ignored: ops.nll_loss(p, t, ignore_index=i, reduction=r),
                lambda p, t, r=reduction, i=ignored: nll(p, t, i, r),
                (PROBS, LABELS),
            )
            for reduction in ("mean", "sum", "none")
            for ignored in (None, 2)
        ]
    )


@pytest.mark.shows("popxl.ops.nll_loss_with_softmax_grad")
def test_nll_loss_with_softmax_grad_gives_the_loss_and_its_gradient():
    cases = []
    for reduction in ("mean", "sum", "none"):
        for ignored in (None, 2):
            cases.append(
                (
                    f"{reduction} ignoring {ignored}",
                    lambda p, t, r=reduction, i=ignored: ops.nll_loss_with_softmax_grad(
                        p, t, 3, ignore_index=i, reduction=r
                    ),
                    (PROBS, LABELS),
                    (
                        np.asarray(nll(PROBS, LABELS, ignored, reduction), np.float32),
                        softmax_grad(PROBS, LABELS, 3, ignored, reduction).astype(np.float32),
                    ),
                )
            )
    half = PROBS.astype(np.float16)
    cases.append(
        (
            "float16 with a float32 gradient",
            lambda p, t, g: ops.nll_loss_with_softmax_grad(p, t, g, reduction="sum"),
            (half, LABELS, np.float32(8.0)),
            (
                np.asarray(nll(half.astype(np.float32), LABELS, reduction="sum"), np.float16),
                softmax_grad(half.astype(np.float32), LABELS, 8, reduction="sum").astype(np.float16),
            ),
        )
    )
    check(cases)


@pytest.mark.shows("popxl.ops.nll_loss_with_softmax_grad")
def test_losses_add_one_op_and_the_gradient_of_a_number_one_constant():
    with OneProgram() as p:
        probs, labels = p.of(PROBS), p.of(LABELS)
        before = len(p.ir.main_graph.tensors)
        loss = ops.nll_loss(probs, labels)
        assert loss.id == "loss" and len(p.ir.main_graph.tensors) == before + 1
        other, dx = ops.nll_loss_with_softmax_grad(probs, labels)
        assert (other.name.split("__")[0], dx.id) == ("loss", "dx")
        assert len(p.ir.main_graph.tensors) == before + 4
        # Float labels are accepted when the op is made.
        ops.nll_loss_with_softmax_grad(probs, ops.cast(labels, popxl.float32), loss)
        assert op_types(p.ir.main_graph) == ["Nll", "NlllWithSoftmaxGradDirect", "Cast", "NlllWithSoftmaxGradDirect"]


@pytest.mark.shows("popxl.ops.nll_loss")
def test_losses_refuse_what_does_not_fit():
    with OneProgram() as p:
        probs, labels = p.of(PROBS), p.of(LABELS)
        with pytest.raises(ValueError, match="'average'.*'mean', 'sum', 'none'"):
            ops.nll_loss(probs, labels, reduction="average")
        with pytest.raises(ValueError, match="'avg'"):
            ops.nll_loss_with_softmax_grad(probs, labels, reduction="avg")
        with pytest.raises(TypeError, match="labels"):
            ops.nll_loss(probs, LABELS)
        with pytest.raises(popart.popart_exception, match="without the last dimension"):
            ops.nll_loss(probs, ops.reshape(labels, (4, 3)))
        with pytest.raises(popart.popart_exception, match="integers"):
            ops.nll_loss(probs, ops.cast(labels, popxl.float32))
        assert len(p.ir.main_graph.tensors) == 4  # the two variables, and what reshape and cast made


def test_words_of_reductions_map_to_the_enum():
    import popart._internal.ir as _ir
    from popxl.ops.negative_log_likelihood import REDUCTION_TYPE

    names = {word: kind.name for word, kind in REDUCTION_TYPE.items()}
    assert names == {"mean": "Mean", "sum": "Sum", "none": "NoReduction"}
    assert REDUCTION_TYPE["mean"] is _ir.ReductionType.Mean

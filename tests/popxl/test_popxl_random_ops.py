"""Random ops: the same seed gives the same numbers, other seeds others; moments; masks and their gradients."""

import numpy as np
import popart
import popxl
import pytest
from one_program import OneProgram, op_types
from popxl import ops
from popxl.ops.random_seed import create_random_seed


def seed_of(p, *values):
    return p.of(np.array(values, np.uint32), popxl.uint32)


@pytest.mark.shows("popxl.ops.random_uniform")
@pytest.mark.shows("popxl.ops.random_normal")
def test_samples_follow_the_distribution_and_the_seed():
    with OneProgram() as p:
        seed, other = seed_of(p, 7, 9), seed_of(p, 7, 10)
        for s in (seed, seed, other):
            p.out(ops.random_uniform(s, (100, 100), low=-1.0, high=3.0))
            p.out(ops.random_normal(s, (100, 100), mean=2.0, std=0.5))
        p.out(ops.random_uniform(seed, (3,), dtype=popxl.float16))
        p.out(ops.random_normal(seed, (), dtype=popxl.float16))
    u, n, u_again, n_again, u_other, n_other, half, one = p.run()
    np.testing.assert_array_equal(u, u_again)
    np.testing.assert_array_equal(n, n_again)
    assert not np.any(u == u_other) and np.mean(n == n_other) < 0.01
    # 10^4 samples: four standard errors of each moment.
    assert u.min() >= -1 and u.max() < 3
    assert abs(u.mean() - 1) < 4 * 1.155 / 100 and abs(u.var() - 16 / 12) < 0.06
    assert abs(n.mean() - 2) < 4 * 0.5 / 100 and abs(n.std() - 0.5) < 4 * 0.5 / 141
    assert half.dtype == np.float16 and half.shape == (3,) and one.shape == ()


@pytest.mark.shows("popxl.ops.dropout")
@pytest.mark.shows("popxl.ops.shaped_dropout")
def test_dropout_zeroes_and_scales_and_its_gradient_has_the_same_mask():
    x = np.random.default_rng(1).uniform(1, 2, (50, 40)).astype(np.float32)
    forms = {
        "Dropout": lambda t, s: ops.dropout(t, s, 0.25),
        "ShapedDropout": lambda t, s: ops.shaped_dropout(t, s, (50, 1), 0.25),
    }
    with OneProgram() as p:
        t, seed = p.of(x), seed_of(p, 1, 2)
        for kind, form in forms.items():
            graph = p.ir.create_graph(form, t, seed)
            info = popxl.transforms.autodiff(graph, grads_required=[graph.inputs[0]])
            assert sorted(op_types(info.graph)) == sorted([f"{kind}Grad", "Sum"])
            assert len(info.graph.inputs) == 2  # the provided gradient and the seed
            call = ops.call_with_info(graph, t, seed)
            p.out(call.outputs[0])
            dy = popxl.constant(np.full(x.shape, 2, np.float32))
            p.out(ops.call_with_info(info.graph, dy, inputs_dict=info.inputs_dict(call)).outputs[0])
            assert graph.outputs[0].name == f"{kind.lower()}_out"
        p.out(ops.dropout(t, seed, 0.0))
    values = p.run()
    for y, dx, share in ((*values[:2], 0.04), (*values[2:4], 0.25)):
        mask = y != 0
        np.testing.assert_allclose(y, np.where(mask, x / 0.75, 0), rtol=1e-6)
        np.testing.assert_allclose(dx, np.where(mask, 2 / 0.75, 0), rtol=1e-6)
        assert abs(mask.mean() - 0.75) < share  # four standard errors of 2000 and of 50 decisions
    rows = values[2] != 0
    assert np.all(rows == rows[:, :1]) and not np.all(rows)
    np.testing.assert_array_equal(values[4], x)


@pytest.mark.edge("29.25")
def test_one_seed_for_two_dropouts_is_one_mask():
    with OneProgram() as p:
        t, seed = p.of(np.ones((40, 40), np.float32)), seed_of(p, 3, 4)
        for s in (seed, seed, *ops.split_random_seed(seed)):
            p.out(ops.dropout(t, s, 0.5))
    first, second, *others = p.run()
    np.testing.assert_array_equal(first, second)
    for other in others:  # independent masks agree in half of 1600 places: eight standard errors
        assert abs(np.mean((first == 0) == (other == 0)) - 0.5) < 0.1


@pytest.mark.shows("popxl.ops.split_random_seed")
def test_seeds_split_into_seeds_that_differ():
    with OneProgram() as p:
        seed = seed_of(p, 5, 6)
        before = len(p.ir.main_graph.tensors)
        parts = ops.split_random_seed(seed, 3)
        assert len(p.ir.main_graph.tensors) == before + 6  # a seed and a constant for each
        assert op_types(p.ir.main_graph) == ["ModifyRandomSeed"] * 3 and parts[0].id == "modified_seed"
        for part in parts + ops.split_random_seed(seed) + (create_random_seed(seed_of(p, 5, 7), 0),):
            assert part.dtype is popxl.uint32 and part.shape == (2,)
            p.out(part)
        p.out(ops.random_uniform(parts[0], (8,)))
        p.out(ops.random_uniform(parts[1], (8,)))
    values = p.run()
    assert all(v[0] == 5 for v in values[:6])
    assert len({int(v[1]) for v in values[:3]}) == 3
    np.testing.assert_array_equal(values[:2], values[3:5])
    np.testing.assert_array_equal(values[1], values[5])  # (5, 6) and 1 is (5, 7) and 0
    assert not np.any(values[6] == values[7])


@pytest.mark.shows("popxl.ops.dropout")
@pytest.mark.shows("popxl.ops.split_random_seed")
def test_random_ops_refuse_what_does_not_fit():
    with OneProgram() as p:
        x, seed = p.of(np.ones((4, 3), np.float32)), seed_of(p, 1, 2)
        before = len(p.ir.main_graph.tensors)
        for bad in (x, p.of(np.array([1, 2], np.int32)), p.of(np.array([1, 2, 3], np.uint32))):
            with pytest.raises(ValueError, match="uint32"):
                ops.split_random_seed(bad)
        assert len(p.ir.main_graph.tensors) == before + 2
        for call, message in (
            (lambda: ops.shaped_dropout(x, seed, (2, 1), 0.5), r"\[2,1\]"),
            (lambda: ops.shaped_dropout(x, seed, (1, 1, 3), 0.5), r"\[1,1,3\]"),
            (lambda: ops.dropout(x, seed, 1.5), "p must be"),
            (lambda: ops.dropout(x, x, 0.5), "seed"),
            (lambda: ops.random_normal(seed, (2,), dtype=popxl.int32), "floating"),
        ):
            with pytest.raises(popart.popart_exception, match=message):
                call()

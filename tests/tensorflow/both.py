"""A program run twice, by plain TensorFlow and as a unit, from equal variables."""

import contextlib

import numpy as np
import tensorflow as tf
from ipu_tensorflow import scopes, unit

import ipu_core

v1 = tf.compat.v1


@contextlib.contextmanager
def on_ipu(index=0):
    with scopes.ipu_scope(f"/device:IPU:{index}"):
        yield


def values_of(session, graph):
    return {variable.op.name: session.run(variable) for variable in graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)}


def load(session, graph, values):
    for variable in graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES):
        variable.load(values[variable.op.name], session)


def plain(net, fed, start=None):
    """Results of one session.run for each tuple of `fed` arrays, and the variables before and after."""
    return _run(net, fed, start, lambda given: flat(net(*given)))


def ours(net, fed, start=None):
    def build(given):
        with on_ipu():
            return flat(unit.compile(net, given))

    return _run(net, fed, start, build)


def flat(results):
    return [item for item in tf.nest.flatten(results) if item is not None]


def _run(net, fed, start, build):
    graph = tf.Graph()
    with graph.as_default(), v1.Session() as session:
        v1.set_random_seed(1)  # initial values are the same in each run of a test
        given = [v1.placeholder(array.dtype, array.shape) for array in fed[0]]
        with v1.variable_scope("", use_resource=True):
            results = build(given)
        session.run(v1.global_variables_initializer())
        if start is not None:
            load(session, graph, start)
        before = values_of(session, graph)
        rows = []
        for arrays in fed:
            values = session.run(results, dict(zip(given, arrays)))
            rows.append([value for value in values if value is not None])
        return rows, before, values_of(session, graph)


def check(net, *fed, tolerance=1e-5):
    """`fed`: for each run a tuple of arrays. Equal results and variables."""
    theirs, before, after = plain(net, fed)
    got, _, state = ours(net, fed, before)
    assert list(state) == list(after)
    for mine, row in zip(got, theirs):
        assert len(mine) == len(row)
        for a, b in zip(mine, row):
            close(a, b, tolerance)
    for name in after:
        close(state[name], after[name], tolerance, name)
    return got, state


def close(a, b, tolerance, what=""):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape and a.dtype == b.dtype, (what, a.dtype, b.dtype, a.shape, b.shape)
    assert np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=tolerance), (what, a, b)


def some(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def text_of(data):
    """The program that records become."""
    return ipu_core._native.Unit(data, {}).text()

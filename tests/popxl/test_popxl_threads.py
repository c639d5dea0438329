"""Threads: each builds in a context of its own; a session that several threads enter serves them one after another."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import popxl
from popxl import ops
from popxl.context import get_current_context

LIMIT = 60  # seconds, for hangs


@pytest.mark.edge("29.16")
@pytest.mark.shows("popxl.context.get_current_context")
def test_the_current_graph_belongs_to_its_thread():
    """Two threads meet inside of graphs of two programs, and of different contexts."""
    meet = threading.Barrier(2, timeout=LIMIT)

    def build(number):
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence(), popxl.ipu(number), popxl.name_scope(f"thread_{number}"):
            meet.wait()
            assert popxl.gcg() is ir.main_graph
            x = popxl.variable(float(number), name="x")
            meet.wait()

            def body(x):
                meet.wait()
                with popxl.name_scope("inside"):
                    return x + 1

            graph = ir.create_graph(body, x)
            meet.wait()
            (y,) = ops.call_with_info(graph, x).outputs
            out = popxl.d2h_stream((), popxl.float32)
            ops.host_store(out, y)
            meet.wait()
            assert x.id == f"thread_{number}/x" and (x + 1).ipu == number
        with pytest.raises(RuntimeError, match="no current graph"):
            popxl.gcg()
        with popxl.Session(ir, "ipu_model") as session:
            return session.run()[out]

    with ThreadPoolExecutor(2) as pool:
        assert [float(y) for y in pool.map(build, (0, 1))] == [1.0, 2.0]


def test_a_thread_that_begins_inside_of_a_graph_has_no_current_graph(ir):
    def look():
        with pytest.raises(RuntimeError, match="no current graph"):
            popxl.gcg()
        return get_current_context().name_scopes

    with ir.main_graph, popxl.name_scope("outer"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(look).result(LIMIT) == []


def test_hooks_of_a_graph_see_the_ops_of_all_threads(ir):
    seen = []
    handle = ir.main_graph.register_op_created_hook(lambda op: seen.append(op.opType()))

    def build():
        with ir.main_graph:
            popxl.constant(1.0) + 1

    with ThreadPoolExecutor(1) as pool:
        pool.submit(build).result(LIMIT)
    ir.main_graph.remove_op_created_hook(handle)
    build()
    assert seen == ["Add"]


class Counter:
    """y = number of runs so far, of a weight that begins at 100."""

    def __init__(self):
        self.ir = popxl.Ir()
        with self.ir.main_graph, popxl.in_sequence():
            self.y = popxl.d2h_stream((), popxl.float32)
            self.w = popxl.variable(100.0)
            self.w += 1
            ops.host_store(self.y, self.w)


def test_nobody_runs_between_attaching_and_the_upload(monkeypatch):
    """While the first thread uploads, another one enters and runs: it waits."""
    program = Counter()
    session = popxl.Session(program.ir, "ipu_model")
    upload, others = session._pb_session.weightsFromHost, []

    def second():
        with session:
            others.append(float(session.run()[program.y]))

    thread = threading.Thread(target=second, daemon=True)

    def slow_upload():
        thread.start()
        thread.join(0.3)
        assert thread.is_alive() and not others
        upload()

    monkeypatch.setattr(session._pb_session, "weightsFromHost", slow_upload)
    with session:
        mine = float(session.run()[program.y])
        thread.join(LIMIT)
    assert sorted([mine, *others]) == [101.0, 102.0]
    assert session.get_tensor_data(program.w) == 102


def test_the_last_thread_to_leave_detaches():
    program = Counter()
    session = popxl.Session(program.ir, "ipu_model")
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with session:
            inside.set()
            assert leave.wait(LIMIT)
            return float(session.run()[program.y])

    with ThreadPoolExecutor(1) as pool:
        with session:
            later = pool.submit(stay)
            assert inside.wait(LIMIT)
            session.run()
        assert session.is_attached
        leave.set()
        assert later.result(LIMIT) == 102
    assert not session.is_attached and session.get_tensor_data(program.w) == 102


@pytest.mark.parametrize("rounds", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_no_run_of_four_threads_is_lost(rounds):
    """Slow: many rounds of what the tests above hold in one."""
    program = Counter()
    session = popxl.Session(program.ir, "ipu_model")
    seen = []

    def work():
        for _ in range(rounds):
            with session:
                seen.append(float(session.run()[program.y]))

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(work) for _ in range(4)]:
            future.result(LIMIT)
    assert sorted(seen) == [101.0 + i for i in range(4 * rounds)]
    assert session.get_tensor_data(program.w) == np.float32(100 + 4 * rounds)

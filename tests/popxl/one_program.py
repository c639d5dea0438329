"""Many ops in one program: tests of values build it once and look at all results of one run."""

from typing import Any, Callable
from collections.abc import Sequence

import numpy as np
import popxl
from popxl import ops


class OneProgram:
    """`with OneProgram() as p:` builds in the main graph; `p.out(t)` names a result, `p.run()` gives all of them."""

    def __init__(self) -> None:
        self.ir = popxl.Ir()
        self._streams: list[Any] = []

    def __enter__(self) -> "OneProgram":
        self._graph = self.ir.main_graph
        self._graph.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._graph.__exit__(*error)

    def of(self, data: Any, dtype: Any = None) -> Any:
        """A variable: nothing folds it away."""
        return popxl.variable(np.asarray(data), dtype)

    def out(self, t: Any) -> int:
        """The number of the result in what `run` gives."""
        stream = popxl.d2h_stream(t.shape, t.dtype, name=f"out_{len(self._streams)}")
        ops.host_store(stream, t)
        self._streams.append(stream)
        return len(self._streams) - 1

    def run(self, *entry: Any) -> list[np.ndarray]:
        with popxl.Session(self.ir, "ipu_model") as session:
            results = session.run()
        return [np.asarray(results[stream]) for stream in self._streams]


def values(ir: popxl.Ir, *tensors: Any) -> list[np.ndarray]:
    """Values of tensors of the main graph, after one run."""
    streams = []
    with ir.main_graph:
        for i, t in enumerate(tensors):
            streams.append(popxl.d2h_stream(t.shape, t.dtype, f"value_{i}"))
            ops.host_store(streams[-1], t)
    with popxl.Session(ir, "ipu_model") as session:
        outputs = session.run()
    return [np.asarray(outputs[s]) for s in streams]


def check(cases: Sequence[tuple[str, Callable[..., Any], Sequence[Any], Any]], rtol: float = 1e-5) -> None:
    """Each case: name, ops on tensors, their data, and the expected value or values. One program runs all."""
    with OneProgram() as program:
        places = []
        for _, function, data, _ in cases:
            result = function(*(program.of(array) for array in data))
            results = result if isinstance(result, (tuple, list)) else (result,)
            places.append([program.out(t) for t in results])
    values = program.run()
    for (name, _, _, expected), at in zip(cases, places):
        wanted = expected if isinstance(expected, (tuple, list)) else (expected,)
        for place, want in zip(at, wanted):
            got, want = values[place], np.asarray(want)
            assert got.shape == want.shape, (name, got.shape, want.shape)
            assert got.dtype == want.dtype, (name, got.dtype, want.dtype)
            bound = max(rtol, 2e-3) if want.dtype == np.float16 else rtol
            np.testing.assert_allclose(got, want, rtol=bound, atol=bound, err_msg=name)


def slopes(function: Callable[..., np.ndarray], data: Sequence[np.ndarray], seed: np.ndarray, which: int) -> np.ndarray:
    """Gradient of sum(seed * function(*data)) for data[which], by central differences in float64."""
    values = [np.asarray(d, np.float64) if np.asarray(d).dtype.kind == "f" else np.asarray(d) for d in data]
    base, step = values[which], 1e-6
    slope = np.zeros_like(base)
    for at in np.ndindex(base.shape):
        kept, ends = base[at], []
        for sign in (1, -1):
            base[at] = kept + sign * step
            ends.append(float(np.sum(seed * function(*values))))
        base[at] = kept
        slope[at] = (ends[0] - ends[1]) / (2 * step)
    return slope


def check_gradients(
    cases: Sequence[tuple[str, Callable[..., Any], Callable[..., np.ndarray], Sequence[Any]]], rtol: float = 2e-4
) -> None:
    """Each case: name, op on tensors, the same in NumPy, data. Gradients of all float arguments, by
    `popxl.transforms.autodiff` of a graph with that op, against differences."""
    rng = np.random.default_rng(3)
    wanted: list[tuple[str, int, np.ndarray]] = []
    with OneProgram() as program:
        for name, function, in_numpy, data in cases:
            arrays = [np.array(d) for d in data]
            inputs = [program.of(a) for a in arrays]
            graph = program.ir.create_graph(function, *inputs)
            floats = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
            info = popxl.transforms.autodiff(graph, grads_required=[graph.inputs[i] for i in floats])
            call = ops.call_with_info(graph, *inputs)
            output = call.outputs[0]
            seed = rng.uniform(0.5, 1.5, output.shape).astype(np.float32)
            activations: dict[Any, Any] = info.inputs_dict(call)
            gradients = ops.call(info.graph, popxl.constant(seed, output.dtype), inputs_dict=activations)
            gradients = gradients if isinstance(gradients, tuple) else (gradients,)
            for i, gradient in zip(floats, gradients):
                wanted.append((f"{name} argument {i}", program.out(gradient), slopes(in_numpy, data, seed, i)))
    values = program.run()
    for name, place, want in wanted:
        np.testing.assert_allclose(values[place], want, rtol=rtol, atol=rtol, err_msg=name)


def op_types(graph: Any) -> list[str]:
    """Types of the ops of a graph, in the order they were made."""
    return [op.opType() for op in graph._pb_graph.getOps()]

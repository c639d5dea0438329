"""Random tensors."""

from collections.abc import Iterable

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.dtypes import dtype as dtype_class
from popxl.dtypes import float32
from popxl.ops.utils import check_in_graph
from popxl.tensor import Tensor


def random_uniform(
    seed_tensor: Tensor, shape: Iterable[int], low: float = 0.0, high: float = 1.0, dtype: dtype_class = float32
) -> Tensor:
    """Uniform samples in [low, high). The same seed gives the same samples.

    Args:
        seed_tensor: (2,), uint32; vary it between uses, iterations and replicas.
        shape, dtype: of the result; dtype is floating.
        low, high: bounds.

    Raises:
        popart.popart_exception: the seed or the dtype does not fit.

    Example:
        >>> u = ops.random_uniform(seed, (2, 3), low=-1.0)
    """
    check_in_graph(_contexts.here.graph, seed_tensor=seed_tensor)
    attributes = {"shape": list(shape), "dataType": dtype._number, "low": float(low), "high": float(high)}
    return create("RandomUniform", {0: seed_tensor}, ("random_uniform_out",), attributes)[0]


def random_normal(
    seed_tensor: Tensor, shape: Iterable[int], mean: float = 0.0, std: float = 1.0, dtype: dtype_class = float32
) -> Tensor:
    """Samples of the normal distribution. The same seed gives the same samples.

    Args:
        seed_tensor: (2,), uint32; vary it between uses, iterations and replicas.
        shape, dtype: of the result; dtype is floating.
        mean, std: of the distribution.

    Raises:
        popart.popart_exception: the seed or the dtype does not fit.

    Example:
        >>> z = ops.random_normal(seed, (2, 3), std=0.02)
    """
    check_in_graph(_contexts.here.graph, seed_tensor=seed_tensor)
    attributes = {"shape": list(shape), "dataType": dtype._number, "mean": float(mean), "scale": float(std)}
    return create("RandomNormal", {0: seed_tensor}, ("random_normal_out",), attributes)[0]

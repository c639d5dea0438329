"""Layers that keep handles of the inputs they add to a graph."""

from typing import Any


class Module:
    """A layer: `build` makes its ops. Given to `Ir.create_graph`, it keeps on itself the inputs that `build` adds, so that
    calls can name them.

    Example:
        >>> class Linear(popxl.Module):
        ...     def build(self, x, width):
        ...         self.w = popxl.graph_input((x.shape[-1], width), x.dtype, "w")
        ...         return x @ self.w
        >>> layer = Linear()
        >>> g = ir.create_graph(layer, x, width=4)
        >>> (y,) = ops.call(g, x, inputs_dict={layer.w: w})
    """

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Makes the ops; returns None, a tensor or several. Raises NotImplementedError unless a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} has no build(): define it.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `build` in the current graph."""
        return self.build(*args, **kwargs)

"""Exceptions of popxl itself; what the compiler core finds is a `popart.popart_exception`."""


class UndefinedValue(Exception):
    """A property of a tensor that nothing decides yet: `Tensor.ipu`, `Tensor.tile_set`."""
